"""Batch jobs on the disk: what bebopd must know after a crash, and what users ask later.

The tables are in bebopd's own file. A job's script and environment are kept until it has ended.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence

from msgspec import convert, msgpack
from msgspec.structs import replace

from allocator.batch.job import (
    OUTCOMES_COUNT,
    TOKENS_COUNT,
    BatchJob,
    Earlier,
    Elements,
    Held,
    RecordBatchJob,
)
from allocator.jobs.charges import Charge
from allocator.records import Statement
from native.wire import codec
from native.wire.alloc import NodeSpec
from native.wire.base import NO_DEPENDENCY, NO_TERMS, Dependency, Element, State, Terms
from native.wire.batch import BY_FACTORS, SPANS_MAX, Row

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
    begins REAL,              -- unix time; NULL, 0: any time; so is deadline
    deadline REAL,
    queue TEXT,               -- NULL: none; so is account
    account TEXT,
    terms BLOB,               -- these and the like, encoded
    priority INTEGER,         -- an operator's; NULL: none
    given INTEGER,            -- slots that it has or had; NULL: as many as it asks for
    attempt INTEGER,          -- how often it was placed before; NULL: never
    array INTEGER,            -- that it is an element of; NULL: of none. Its task is that one's
    element INTEGER,
    elements BLOB,            -- of an array, encoded; NULL: it is none
    is_requeued INTEGER,      -- it is ended to wait again; NULL: no
    is_preempted INTEGER,     -- it is ended for another job; NULL: no
    failures INTEGER,         -- how often its nodes were why it was placed again; NULL: never
    lent_since REAL,          -- unix time from which it stands still for others; NULL: it does not
    lent_to TEXT,             -- for whom
    paused_s REAL             -- for how long it did before; NULL: never
);
CREATE INDEX IF NOT EXISTS batch_unfinished ON batch (job_id) WHERE ended = 0;
CREATE TABLE IF NOT EXISTS ended (  -- what decisions still ask of jobs that are in the history
    job_id INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    token BLOB NOT NULL,
    is_ok INTEGER NOT NULL,
    array INTEGER,            -- that it is an element of; NULL: of none
    element INTEGER
);
CREATE TABLE IF NOT EXISTS charges (  -- what users have used, for fair share
    account TEXT NOT NULL,
    uid INTEGER NOT NULL,
    slot_s REAL NOT NULL,
    at REAL NOT NULL,         -- unix time
    PRIMARY KEY (account, uid)
) WITHOUT ROWID;
"""
_INSERT = f"INTO batch VALUES ({', '.join('?' * 39)})"
_UPDATE = """
UPDATE batch SET time_s = ?, waits_for = ?, held = ?, terms = ?, priority = ?, given = ?,
    state = ?, reason = ?, nodes = ?, incarnation = ?, began = ?, ended = ?, exit_status = ?,
    signal = ?, is_cancelled = ?, attempt = ?, elements = ?, is_requeued = ?,
    is_preempted = ?, failures = ?, lent_since = ?, lent_to = ?, paused_s = ?,
    task = CASE WHEN ? THEN NULL ELSE task END
WHERE job_id = ?
"""
# Columns that files of earlier releases lack, in the order of the table.
MORE_COLUMNS = {
    "batch": {
        "waits_for": "BLOB",
        "is_exclusive": "INTEGER",
        "held": "INTEGER",
        "begins": "REAL",
        "deadline": "REAL",
        "queue": "TEXT",
        "account": "TEXT",
        "terms": "BLOB",
        "priority": "INTEGER",
        "given": "INTEGER",
        "attempt": "INTEGER",
        "array": "INTEGER",
        "element": "INTEGER",
        "elements": "BLOB",
        "is_requeued": "INTEGER",
        "is_preempted": "INTEGER",
        "failures": "INTEGER",
        "lent_since": "REAL",
        "lent_to": "TEXT",
        "paused_s": "REAL",
    },
    "ended": {"array": "INTEGER", "element": "INTEGER"},
}
_STATES = {State.SUSPENDED: State.RUNNING}  # of a job whose script runs
_CHARGE = """INSERT INTO charges VALUES (?, ?, ?, ?) ON CONFLICT (account, uid)
    DO UPDATE SET slot_s = excluded.slot_s, at = excluded.at WHERE excluded.at >= at"""
_ROW = """job_id, uid, owner, name, state, reason, coalesce(nullif(given, 0), slots), nodes,
    submitted, began, ended, time_s, exit_status, signal, coalesce(queue, ''),
    coalesce(account, ''), array, element"""


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
        together = _together(records).values()
        # With the end of a job what was used: so it is counted once.
        charges = [charged(each.job.charge) for each in together if each.job.charge is not None]
        self._write([*map(_statement, together), *charges])

    def charges(self) -> list[Charge]:
        """What users have used."""
        rows = self._query("SELECT account, uid, slot_s, at FROM charges ORDER BY account, uid", ())
        return [Charge(*row) for row in rows]

    def earlier(self) -> Earlier:
        """What an earlier bebopd has left."""
        ours = """token, spec, slots, waits_for, is_exclusive, held, begins, deadline, terms,
            priority, attempt, incarnation, is_cancelled, elements, is_requeued, is_preempted,
            failures, lent_since, lent_to, paused_s"""
        rows = self._query(f"SELECT {ours}, {_ROW} FROM batch WHERE ended = 0 ORDER BY job_id", ())
        last = """SELECT uid, token, job_id FROM batch WHERE token != x'' UNION
            SELECT uid, token, job_id FROM ended WHERE token != x'' ORDER BY job_id DESC LIMIT ?"""
        found = self._query(last, (TOKENS_COUNT,)).fetchall()[::-1]
        tokens = {(uid, token): job_id for uid, token, job_id in found}
        ended = """SELECT job_id, state = 'COMPLETED' FROM batch WHERE ended > 0
            UNION SELECT job_id, is_ok FROM ended ORDER BY job_id DESC LIMIT ?"""
        past = self._query(ended, (OUTCOMES_COUNT,)).fetchall()[::-1]
        outcomes = {job_id: bool(is_ok) for job_id, is_ok in past}
        return Earlier(tuple(_job(*row) for row in rows), tokens, outcomes, self._elements())

    def _elements(self) -> dict[int, dict[int, bool]]:
        """How elements have ended, by array and index."""
        found: dict[int, dict[int, bool]] = {}
        of_arrays = """SELECT array, element, state = 'COMPLETED' FROM batch
            WHERE array NOT NULL AND ended > 0
            UNION SELECT array, element, is_ok FROM ended WHERE array NOT NULL"""
        for array, index, is_ok in self._query(of_arrays, ()):
            found.setdefault(array, {})[index] = bool(is_ok)
        return found

    def task(self, job_id: int) -> bytes:
        """What a job runs, encoded; empty: it has ended."""
        select = "SELECT coalesce(array, job_id) FROM batch WHERE job_id = ?"
        row = self._query(f"SELECT task FROM batch WHERE job_id = ({select})", (job_id,)).fetchone()
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
            """INSERT OR REPLACE INTO ended
                SELECT job_id, uid, token, state = 'COMPLETED', array, element FROM batch
                WHERE job_id = ? AND ended > 0""",
            (job_id,),
        ),
        ("DELETE FROM batch WHERE job_id = ? AND ended > 0", (job_id,)),
    ]


def pruned() -> Statement:
    """Removes what no decision asks for any more; of arrays that have not ended all is kept."""
    kept = max(TOKENS_COUNT, OUTCOMES_COUNT)
    oldest = "(SELECT job_id FROM ended ORDER BY job_id DESC LIMIT 1 OFFSET ?)"
    old = f"coalesce(array, job_id) <= {oldest}"
    lives = "EXISTS (SELECT 1 FROM batch WHERE batch.job_id = ended.array AND batch.ended = 0)"
    return f"DELETE FROM ended WHERE {old} AND NOT {lives}", (kept,)


def charged(charge: Charge) -> Statement:
    """Keeps what a user has used."""
    return _CHARGE, (charge.account, charge.uid, charge.slot_s, charge.at)


def _together(records: Iterable[RecordBatchJob]) -> dict[int, RecordBatchJob]:
    """Each job once, by its id: elements with their array, an array with what is not written."""
    found: dict[int, RecordBatchJob] = {}
    arrays: dict[int, BatchJob] = {}
    for record in records:
        job = record.job
        if job.job_id not in found or record.task is not None:
            found[job.job_id] = record
        array = job.of or job
        arrays[array.job_id] = array
    for array in arrays.values():
        for job in (array, *array.unwritten.values()):
            found.setdefault(job.job_id, RecordBatchJob(job))
    return found


def _statement(record: RecordBatchJob) -> Statement:
    job = record.job
    nodes = json.dumps(job.nodes)
    elements = None if job.elements is None else msgpack.encode(job.elements)
    if record.task is None and job.element is None:
        place = (nodes, job.incarnation)
        state = (_state(job), job.reason)
        place_in_line = (codec.encode_part(job.terms), job.priority, job.given)
        waits = (codec.encode_part(job.after), int(job.held))
        changed = (job.time_s, *waits, *place_in_line, *state, *place, job.began, job.ended)
        is_over = job.ended > 0
        how = (job.exit_status, job.signal, job.is_cancelled, job.attempt)
        why = (job.is_requeued, job.is_preempted, job.failures, *_lent(job))
        return _UPDATE, (*changed, *how, elements, *why, is_over, job.job_id)
    first = (job.job_id, job.uid, job.owner, job.name, job.token, codec.encode_part(job.spec))
    second = (job.spec.slots, job.time_s, _state(job), job.reason, nodes, job.incarnation)
    third = (job.submitted, job.began, job.ended, job.exit_status, job.signal)
    fourth = (job.is_cancelled, record.task, codec.encode_part(job.after), job.is_exclusive)
    terms = (job.terms.queue, job.terms.account, codec.encode_part(job.terms))
    line = (int(job.held), job.begins, job.deadline, *terms, job.priority, job.given, job.attempt)
    of = (None, None) if job.element is None else (job.element.array, job.element.index)
    verb = "INSERT" if job.element is None else "INSERT OR REPLACE"  # it may be there already
    last = (*line, *of, elements, job.is_requeued, job.is_preempted, job.failures, *_lent(job))
    return f"{verb} {_INSERT}", (*first, *second, *third, *fourth, *last)


def _state(job: BatchJob) -> str:
    """SUSPENDED is one that its user or an operator has stopped."""
    is_for_others = job.stands_still and not job.is_suspended
    return (job.state if is_for_others else job.shown_state).value


def _lent(job: BatchJob) -> tuple[float | None, str | None, float | None]:
    return job.lent_since or None, job.lent_to or None, job.paused_s or None


def _job(
    token: bytes,
    spec: bytes,
    slots: int,
    waits_for: bytes | None,
    is_exclusive: int | None,
    held: int | None,
    begins: float | None,
    deadline: float | None,
    terms: bytes | None,
    priority: int | None,
    attempt: int | None,
    incarnation: int,
    is_cancelled: int,
    elements: bytes | None,
    is_requeued: int | None,
    is_preempted: int | None,
    failures: int | None,
    lent_since: float | None,
    lent_to: str | None,
    paused_s: float | None,
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
        begins=begins or 0.0,
        deadline=deadline or 0.0,
        terms=msgpack.decode(terms, type=Terms) if terms else NO_TERMS,
        priority=BY_FACTORS if priority is None else priority,
        given=0 if row.slots == slots else row.slots,
        attempt=attempt or 0,
        state=State.PENDING if elements else _STATES.get(row.state, row.state),
        is_suspended=row.state is State.SUSPENDED,
        reason=row.reason,
        nodes=convert(nodes, tuple[tuple[int, int], ...]),
        incarnation=incarnation,
        is_cancelled=bool(is_cancelled),
        is_requeued=bool(is_requeued),
        is_preempted=bool(is_preempted),
        failures=failures or 0,
        lent_since=lent_since or 0.0,
        lent_to=lent_to or "",
        paused_s=paused_s or 0.0,
        began=row.began,
        exit_status=row.exit_status,
        signal=row.signal,
        element=row.element,
        elements=msgpack.decode(elements, type=Elements) if elements else None,
    )


def _row(*columns: object) -> Row:
    before, nodes, after = columns[:7], columns[7], columns[8:14]
    queue, account, array, index = columns[14:]
    assert isinstance(nodes, str)
    spans = json.loads(nodes)
    count = sum(span[1] for span in spans)
    row = convert((*before, spans[:SPANS_MAX], count, *after), Row)
    element = None if array is None else convert((array, index), Element)
    return replace(row, queue=queue, account=account, element=element)
