"""Batch jobs on the disk: what bebopd must know after a crash, and what users ask later.

The tables are in bebopd's own file. A job's script and environment are kept until it has ended.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence

from msgspec import convert, msgpack

from allocator.batch.job import (
    OUTCOMES_COUNT,
    TOKENS_COUNT,
    BatchJob,
    Earlier,
    Held,
    RecordBatchJob,
)
from allocator.records import Statement
from native.wire import codec
from native.wire.alloc import NodeSpec
from native.wire.base import NO_DEPENDENCY, Dependency, State
from native.wire.batch import SPANS_MAX, Row

SCHEMA = """
CREATE TABLE IF NOT EXISTS batch (
    job_id INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    token BLOB NOT NULL,
    spec BLOB NOT NULL,       -- what it asks for, encoded
    slots INTEGER NOT NULL,
    time_s REAL NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    nodes TEXT NOT NULL,      -- JSON list of first numbers and counts, the broker's first
    incarnation INTEGER NOT NULL,
    submitted REAL NOT NULL,  -- unix time; so are began and ended, 0: not yet
    began REAL NOT NULL,
    ended REAL NOT NULL,
    exit_status INTEGER NOT NULL,
    signal INTEGER NOT NULL,
    is_cancelled INTEGER NOT NULL,
    task BLOB,                -- NULL: it has ended
    waits_for BLOB,           -- the jobs that it waits for, encoded
    is_exclusive INTEGER,     -- whole nodes; NULL: no
    held INTEGER,             -- kept from the line: 1 by its user, 2 by an operator; NULL: no
    attempt INTEGER           -- how often it was placed before; NULL: never
);
CREATE INDEX IF NOT EXISTS batch_unfinished ON batch (job_id) WHERE ended = 0;
CREATE TABLE IF NOT EXISTS ended (  -- what decisions still ask of jobs that are in the history
    job_id INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    token BLOB NOT NULL,
    is_ok INTEGER NOT NULL
);
"""
_INSERT = f"INSERT INTO batch VALUES ({', '.join('?' * 23)})"
_UPDATE = """
UPDATE batch SET time_s = ?, held = ?, state = ?, reason = ?, nodes = ?, incarnation = ?, began = ?,
    ended = ?, exit_status = ?, signal = ?, is_cancelled = ?, attempt = ?,
    task = CASE WHEN ? THEN NULL ELSE task END
WHERE job_id = ?
"""
# Columns that files of earlier releases lack, in the order of the table.
MORE_COLUMNS = {
    "batch": {
        "waits_for": "BLOB",
        "is_exclusive": "INTEGER",
        "held": "INTEGER",
        "attempt": "INTEGER",
    }
}
_ROW = """job_id, uid, owner, name, state, reason, slots, nodes, submitted, began, ended,
    time_s, exit_status, signal"""


class BatchRecords:
    """The batch jobs of one partition.

    Args:
        query: gives the rows of a statement; raises LedgerError.
        write: commits statements, all or none, and waits for the disk; raises LedgerError.
    """

    def __init__(
        self,
        query: Callable[[str, Sequence[object]], sqlite3.Cursor],
        write: Callable[[Sequence[Statement]], None],
    ) -> None:
        self._query = query
        self._write = write

    def keep(self, records: Iterable[RecordBatchJob]) -> None:
        """Write jobs as they are now, all or none, and wait for the disk.

        Raises:
            LedgerError: the disk refuses.
        """
        self._write([_statement(record) for record in records])

    def earlier(self) -> Earlier:
        """What an earlier bebopd has left."""
        ours = "token, spec, waits_for, is_exclusive, held, attempt, incarnation, is_cancelled"
        rows = self._query(f"SELECT {ours}, {_ROW} FROM batch WHERE ended = 0", ())
        last = """SELECT uid, token, job_id FROM batch UNION SELECT uid, token, job_id FROM ended
            ORDER BY job_id DESC LIMIT ?"""
        found = self._query(last, (TOKENS_COUNT,)).fetchall()[::-1]
        tokens = {(uid, token): job_id for uid, token, job_id in found}
        ended = """SELECT job_id, state = 'COMPLETED' FROM batch WHERE ended > 0
            UNION SELECT job_id, is_ok FROM ended ORDER BY job_id DESC LIMIT ?"""
        past = self._query(ended, (OUTCOMES_COUNT,)).fetchall()[::-1]
        outcomes = {job_id: bool(is_ok) for job_id, is_ok in past}
        return Earlier(tuple(_job(*row) for row in rows), tokens, outcomes)

    def task(self, job_id: int) -> bytes:
        """What a job runs, encoded; empty: it has ended."""
        row = self._query("SELECT task FROM batch WHERE job_id = ?", (job_id,)).fetchone()
        return bytes(row[0]) if row and row[0] is not None else b""

    def rows(self, job_ids: Sequence[int]) -> list[Row]:
        """Those of these jobs that are on record, ids ascending."""
        places = ", ".join("?" * len(job_ids))
        select = f"SELECT {_ROW} FROM batch WHERE job_id IN ({places}) ORDER BY job_id"
        return [_row(*row) for row in self._query(select, job_ids)]

    def ended(self) -> list[Row]:
        """The jobs that have ended and are to be in the history, ids ascending."""
        select = f"SELECT {_ROW} FROM batch WHERE ended > 0 ORDER BY job_id"
        return [_row(*row) for row in self._query(select, ())]


def moved(job_id: int) -> list[Statement]:
    """Removes a job that has ended: the history has it."""
    return [
        (
            """INSERT OR REPLACE INTO ended SELECT job_id, uid, token, state = 'COMPLETED'
                FROM batch WHERE job_id = ? AND ended > 0""",
            (job_id,),
        ),
        ("DELETE FROM batch WHERE job_id = ? AND ended > 0", (job_id,)),
    ]


def pruned() -> Statement:
    """Removes what no decision asks for any more."""
    kept = max(TOKENS_COUNT, OUTCOMES_COUNT)
    oldest = "(SELECT job_id FROM ended ORDER BY job_id DESC LIMIT 1 OFFSET ?)"
    return f"DELETE FROM ended WHERE job_id <= {oldest}", (kept,)


def _statement(record: RecordBatchJob) -> Statement:
    job = record.job
    nodes = json.dumps(job.nodes)
    if record.task is None:
        place = (nodes, job.incarnation)
        state = (job.shown_state.value, job.reason)
        changed = (job.time_s, int(job.held), *state, *place, job.began, job.ended)
        is_over = job.ended > 0
        how = (job.exit_status, job.signal, job.is_cancelled, job.attempt)
        last = (*how, is_over, job.job_id)
        return _UPDATE, (*changed, *last)
    first = (job.job_id, job.uid, job.owner, job.name, job.token, codec.encode_part(job.spec))
    second = (job.spec.slots, job.time_s, job.state.value, job.reason, nodes, job.incarnation)
    third = (job.submitted, job.began, job.ended, job.exit_status, job.signal)
    fourth = (job.is_cancelled, record.task, codec.encode_part(job.after), job.is_exclusive)
    return _INSERT, (*first, *second, *third, *fourth, int(job.held), job.attempt)


def _job(
    token: bytes,
    spec: bytes,
    waits_for: bytes | None,
    is_exclusive: int | None,
    held: int | None,
    attempt: int | None,
    incarnation: int,
    is_cancelled: int,
    *columns: object,
) -> BatchJob:
    nodes = json.loads(str(columns[7]))
    row = _row(*columns)
    return BatchJob(
        job_id=row.job_id,
        uid=row.uid,
        owner=row.owner,
        name=row.name,
        token=token,
        spec=msgpack.decode(spec, type=NodeSpec),
        time_s=row.time_s,
        submitted=row.submitted,
        after=msgpack.decode(waits_for, type=Dependency) if waits_for else NO_DEPENDENCY,
        is_exclusive=bool(is_exclusive),
        held=Held(held or 0),
        attempt=attempt or 0,
        state=State.RUNNING if row.state is State.SUSPENDED else row.state,
        is_suspended=row.state is State.SUSPENDED,
        reason=row.reason,
        nodes=convert(nodes, tuple[tuple[int, int], ...]),
        incarnation=incarnation,
        is_cancelled=bool(is_cancelled),
        began=row.began,
        exit_status=row.exit_status,
        signal=row.signal,
    )


def _row(*columns: object) -> Row:
    *before, nodes, submitted, began, ended, time_s, exit_status, signal = columns
    assert isinstance(nodes, str)
    after = (submitted, began, ended, time_s, exit_status, signal)
    spans = json.loads(nodes)
    count = sum(span[1] for span in spans)
    return convert((*before, spans[:SPANS_MAX], count, *after), Row)
