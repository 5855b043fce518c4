"""What has been: jobs and steps that are over, what happened to them and to nodes.

An SQLite file beside the ledger's. No decision reads it or waits for it. Each row is keyed by
what it is about, and writing it again changes nothing: so a batch job's row is written here
first and taken from the ledger afterwards, and a bebopd that is killed in between does both
again. Of each kind the last rows are kept.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import convert
from msgspec.structs import replace

from allocator.batch.job import Viewer
from allocator.host import site_logs
from allocator.records import LedgerError, Statement
from native.limits import Limits
from native.wire.base import Element
from native.wire.batch import NO_STEP, SPANS_MAX, Happened, Row
from native.wire.nodes import NodeEvent, NodeEventKind

NAME = "history.sqlite"
PRUNED_EVERY_COUNT = 10_000  # statements

_SCHEMA = """
CREATE TABLE IF NOT EXISTS past (
    number INTEGER PRIMARY KEY,  -- the order in which rows were written
    job_id INTEGER NOT NULL,
    step INTEGER NOT NULL,       -- -1: the job itself
    uid INTEGER NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    is_batch INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    slots INTEGER NOT NULL,
    nodes TEXT NOT NULL,         -- JSON list of first numbers and counts
    node_count INTEGER NOT NULL,
    submitted REAL NOT NULL,     -- unix time; so are began and ended
    began REAL NOT NULL,
    ended REAL NOT NULL,
    time_s REAL NOT NULL,
    exit_status INTEGER NOT NULL,
    signal INTEGER NOT NULL,
    slot_s REAL NOT NULL,        -- of a step; of a job the table held says it
    queue TEXT,                  -- NULL: none; so is account
    account TEXT,
    array INTEGER,               -- that it is an element of; NULL: of none
    element INTEGER,
    UNIQUE (job_id, step)
);
CREATE INDEX IF NOT EXISTS past_jobs ON past (job_id) WHERE step = -1;
CREATE INDEX IF NOT EXISTS past_of_uid ON past (uid, job_id) WHERE step = -1;
CREATE TABLE IF NOT EXISTS held (
    job_id INTEGER NOT NULL,
    freed REAL NOT NULL,         -- unix time; a job that was started again has several
    slot_s REAL NOT NULL,
    PRIMARY KEY (job_id, freed)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY,
    job_id INTEGER NOT NULL,
    at REAL NOT NULL,            -- unix time
    text TEXT NOT NULL,
    UNIQUE (job_id, at, text)
);
CREATE TABLE IF NOT EXISTS node_events (
    number INTEGER PRIMARY KEY,
    node INTEGER NOT NULL,
    name TEXT NOT NULL,
    at REAL NOT NULL,            -- unix time
    kind TEXT NOT NULL,
    who TEXT NOT NULL,           -- the operator; empty: none
    text TEXT NOT NULL,
    UNIQUE (node, at, kind)
);
"""
_INSERT = f"INTO past VALUES (NULL, {', '.join('?' * 22)})"
_ROW = """past.job_id, uid, owner, name, state, reason, slots, nodes, node_count, submitted,
    began, ended, time_s, exit_status, signal, step,
    slot_s + (SELECT total(held.slot_s) FROM held WHERE held.job_id = past.job_id AND step = -1),
    0.0, 0.0, 0.0, coalesce(queue, ''), coalesce(account, ''), array, element"""
# That files of earlier releases lack.
_MORE_COLUMNS = {"queue": "TEXT", "account": "TEXT", "array": "INTEGER", "element": "INTEGER"}


class History:
    """The file. Its methods wait for the disk.

    Args:
        path: the file, which is made where there is none.
        user_log: where the site's logs are written; None: there are none.

    Raises:
        LedgerError: it cannot be read or written.
    """

    def __init__(self, path: Path, limits: Limits, user_log: Path | None = None) -> None:
        self._path = path
        self._limits = limits
        self._written = 0  # statements since rows were removed
        try:
            # One thread uses it at a time: the one that opens it, then that of the history.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(f"BEGIN; {_SCHEMA} COMMIT")
            there = {row[1] for row in self._db.execute("PRAGMA table_info(past)")}
            for name, kind in _MORE_COLUMNS.items():
                if name not in there:
                    self._db.execute(f"ALTER TABLE past ADD COLUMN {name} {kind}")
            self._prune()
            self._logs = self._site_logs(user_log) if user_log is not None else None
        except sqlite3.Error as error:
            raise LedgerError(f"{path}: {error}") from None

    def write(self, statements: Sequence[Statement]) -> None:
        """Write these, all or none, and wait for the disk.

        Raises:
            LedgerError: the disk refuses.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for statement, values in statements:
                self._db.execute(statement, values)
            self._written += len(statements)
            if self._written >= PRUNED_EVERY_COUNT:
                self._prune()
                self._written = 0
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise LedgerError(f"{self._path}: {error}") from None

    def write_logs(self) -> None:
        """Write what is not in the site's logs yet.

        Raises:
            LedgerError: that is impossible; it is tried again the next time.
        """
        if self._logs is None:
            return
        try:
            self._logs.catch_up()
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise LedgerError(f"{self._path}: {error}") from None

    def _site_logs(self, user_log: Path) -> site_logs.SiteLogs:
        self._db.executescript(f"BEGIN; {site_logs.SCHEMA} COMMIT")
        return site_logs.SiteLogs(user_log, self._db, self._rows_above)

    def _rows_above(self, number: int, count: int) -> list[tuple[int, Row]]:
        select = f"SELECT number, {_ROW} FROM past WHERE number > ? ORDER BY number LIMIT ?"
        return [(each[0], _row(*each[1:])) for each in self._query(select, (number, count))]

    def rows(self, job_ids: Iterable[int], viewer: Viewer) -> list[Row]:
        """The rows of these jobs, without their steps, ids ascending."""
        ids = tuple(job_ids)
        seen, uids = _seen(viewer)
        places = ", ".join("?" * len(ids))
        where = f"step = -1 AND past.job_id IN ({places}) AND {seen} ORDER BY past.job_id"
        return self._rows(where, (*ids, *uids))

    def with_steps(
        self, job_ids: Sequence[int], step: int, count: int, viewer: Viewer
    ) -> list[Row]:
        """The rows of these jobs and the last of their steps, or of one step, ascending."""
        seen, uids = _seen(viewer)
        places = ", ".join("?" * len(job_ids))
        only = "" if step == NO_STEP else f"AND step = {int(step)}"
        where = f"past.job_id IN ({places}) AND {seen} {only}"
        order = "ORDER BY step = -1 DESC, past.job_id DESC, step DESC LIMIT ?"
        found = self._rows(f"{where} {order}", (*job_ids, *uids, count))
        return sorted(found, key=lambda row: (row.job_id, row.step))

    def last(self, count: int, viewer: Viewer) -> list[Row]:
        """The last jobs, without their steps, ids ascending."""
        seen, uids = _seen(viewer)
        where = f"step = -1 AND {seen} ORDER BY past.job_id DESC LIMIT ?"
        return self._rows(where, (*uids, count))[::-1]

    def events(self, job_id: int, viewer: Viewer | None) -> list[Happened]:
        """What has happened to a job, the oldest first.

        Args:
            viewer: None: somebody who may see it.
        """
        if viewer is not None and viewer.uid is not None and not self.rows((job_id,), viewer):
            return []
        select = "SELECT at, text FROM events WHERE job_id = ? ORDER BY number"
        return [Happened(at, text) for at, text in self._query(select, (job_id,))]

    def node_events(self, nodes: Sequence[int], count: int) -> list[NodeEvent]:
        """What has happened to these nodes last, the oldest first; without any: to all."""
        places = ", ".join("?" * len(nodes))
        where = f"WHERE node IN ({places})" if nodes else ""
        select = f"""SELECT node, name, at, kind, who, text FROM node_events {where}
            ORDER BY number DESC LIMIT ?"""
        found = self._query(select, (*nodes, count)).fetchall()[::-1]
        return [
            NodeEvent(node, name, at, NodeEventKind(kind), who, text)
            for node, name, at, kind, who, text in found
        ]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _prune(self) -> None:
        """Remove all but the last rows of each kind."""
        limits = self._limits
        job = "(SELECT coalesce(max(job_id), 0) - ? FROM past WHERE step = -1)"
        jobs = (limits.history_count,)
        self._db.execute(f"DELETE FROM held WHERE job_id <= {job}", jobs)
        self._db.execute(f"DELETE FROM past WHERE job_id <= {job}", jobs)
        for table, which, count in (
            ("past", "step >= 0", limits.history_steps_count),
            ("events", "1", limits.history_events_count),
            ("node_events", "1", limits.history_events_count),
        ):
            last = f"(SELECT coalesce(max(number), 0) - ? FROM {table})"
            self._db.execute(f"DELETE FROM {table} WHERE number <= {last} AND {which}", (count,))

    def _rows(self, where: str, values: Sequence[object]) -> list[Row]:
        return [_row(*row) for row in self._query(f"SELECT {_ROW} FROM past WHERE {where}", values)]

    def _query(self, statement: str, values: Sequence[object]) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise LedgerError(f"{self._path}: {error}") from None


def final(row: Row, *, is_batch: bool) -> Statement:
    """Adds the final row of a job or a step.

    That of a batch job is the ledger's, and may be written again; of another one the first
    that was written stays.
    """
    return f"INSERT OR {'REPLACE' if is_batch else 'IGNORE'} {_INSERT}", (
        row.job_id,
        row.step,
        row.uid,
        row.owner,
        row.name,
        is_batch,
        row.state.value,
        row.reason,
        row.slots,
        json.dumps(row.nodes),
        row.node_count,
        row.submitted,
        row.began,
        row.ended,
        row.time_s,
        row.exit_status,
        row.signal,
        row.slot_s if row.step != NO_STEP else 0.0,
        row.queue,
        row.account,
        None if row.element is None else row.element.array,
        None if row.element is None else row.element.index,
    )


def without_steps(job_id: int) -> Statement:
    """Removes the rows of a job's steps."""
    return "DELETE FROM past WHERE job_id = ? AND step >= 0", (job_id,)


def held(job_id: int, freed: float, slot_s: float) -> Statement:
    """Adds what a job has held, when its last slot is free."""
    return "INSERT OR IGNORE INTO held VALUES (?, ?, ?)", (job_id, freed, slot_s)


def event(job_id: int, at: float, text: str) -> Statement:
    """Adds a line to what has happened to a job."""
    return "INSERT OR IGNORE INTO events VALUES (NULL, ?, ?, ?)", (job_id, at, text)


def node_event(each: NodeEvent) -> Statement:
    """Adds something that has happened to a node."""
    values = (each.node, each.name, each.at, each.kind.value, each.by, each.text)
    return "INSERT OR IGNORE INTO node_events VALUES (NULL, ?, ?, ?, ?, ?, ?)", values


def _seen(viewer: Viewer) -> tuple[str, tuple[int, ...]]:
    """The condition of a query for what somebody may see, and its values."""
    if viewer.uid is None:
        return "1", ()
    return ("(uid = ? OR is_batch)" if viewer.sees_batch else "uid = ?"), (viewer.uid,)


def _row(*columns: object) -> Row:
    nodes = columns[7]
    assert isinstance(nodes, str)
    *others, array, index = columns[8:]
    element = None if array is None else convert((array, index), Element)
    row = convert((*columns[:7], json.loads(nodes)[:SPANS_MAX], *others), Row)
    return replace(row, element=element)
