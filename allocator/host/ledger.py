"""What bebopd keeps on disk: job ids that are used, names of nodes, jobs that are not over.

One SQLite file in the state directory. Reserving a block of ids waits for the disk, and so do
orders of operators and batch jobs: who has the answer may rely on it. Everything else is
collected and written together later, so that no grant waits for it.

What is over goes into the history (:mod:`allocator.host.history`), a file of its own, and is
removed here when it is there.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import msgpack
from msgspec.structs import astuple

from allocator.batch.job import Viewer
from allocator.host import batch_records, history, older
from allocator.host.aside import AtOnce
from allocator.host.batch_records import BatchRecords
from allocator.host.history import History
from allocator.jobs import ids
from allocator.jobs.charges import Charge
from allocator.nodes.orders import Change, Drain, Orders, Reservation, Restart
from allocator.records import History as Readable
from allocator.records import LedgerError, Statement
from native.limits import Limits
from native.text import plural, shown
from native.wire import codec
from native.wire.batch import Row
from native.wire.nodes import NodeEvent
from native.wire.status import Portion

WAITING_MAX = 100_000  # statements for a history whose disk refuses, or is too slow
PRUNED_EVERY_COUNT = 1000  # jobs that are moved to the history
T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ids (one INTEGER PRIMARY KEY CHECK (one = 1), used_below INTEGER);
CREATE TABLE IF NOT EXISTS nodes (name TEXT PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS open_jobs (  -- that have slots, and are no batch jobs
    job_id INTEGER PRIMARY KEY,
    row BLOB NOT NULL         -- encoded
);
CREATE TABLE IF NOT EXISTS drains (
    node INTEGER PRIMARY KEY,
    reason TEXT NOT NULL,
    operator TEXT NOT NULL,
    since REAL NOT NULL       -- unix time
);
CREATE TABLE IF NOT EXISTS reservations (
    node INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    owner TEXT NOT NULL,
    reason TEXT NOT NULL,
    operator TEXT NOT NULL,
    since REAL NOT NULL,      -- unix time
    start REAL NOT NULL DEFAULT 0,
    end REAL NOT NULL DEFAULT 0,
    others TEXT NOT NULL DEFAULT ''  -- uids of the other users
);
CREATE TABLE IF NOT EXISTS portions (
    node INTEGER PRIMARY KEY,
    portion TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS restarts (
    node INTEGER PRIMARY KEY,
    operator TEXT NOT NULL,
    since REAL NOT NULL,
    incarnation INTEGER NOT NULL,
    is_forced INTEGER NOT NULL
);
"""


class Worker(Protocol):
    """Does what waits for the disk of the history."""

    def give(self, work: Callable[[], T], then: Callable[[T | LedgerError], None]) -> None:
        """Have a piece of work done; ``then`` is called with its result."""

    def close(self) -> None:
        """Wait for the end of what was given."""


class Ledger:
    """The records of one partition. Only one bebopd can have them open.

    Attributes:
        batch: the batch jobs.
        on_waiting: called when more waits; with an error, or empty.
    """

    def __init__(
        self,
        directory: Path,
        limits: Limits | None = None,
        worker: Worker | None = None,
        user_log: Path | None = None,
    ) -> None:
        """Open the ledger of a state directory, which is made where its parent is there.

        Args:
            worker: does the work of the history; None: it is done at once.
            user_log: the site's log of jobs that are over; None: there is none.

        Raises:
            LedgerError: another bebopd has it, or it cannot be read or written.
        """
        self._path = directory / "bebopd.sqlite"
        self._waiting: list[Statement] = []
        self._past: list[Statement] = []  # for the history
        self._moved: list[Statement] = []  # for us, when these are there
        self._pending = 0  # statements that the worker has
        self._lost = 0
        self._moves = 0
        self._worker = worker or AtOnce()
        self.on_waiting: Callable[[str], None] = lambda error: None
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(directory / "bebopd.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LedgerError(f"{shown(str(directory))}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise LedgerError(
                f"{shown(str(directory))}: another bebopd keeps its records here"
            ) from None
        try:
            self._history = History(directory / history.NAME, limits or Limits(), user_log)
        except LedgerError:
            os.close(self._lock)
            raise
        try:
            self._db = _opened(self._path)
        except sqlite3.Error as error:
            self._history.close()
            os.close(self._lock)
            raise LedgerError(f"{shown(str(self._path))}: {error}") from None
        self.batch = BatchRecords(self._query, self._write_through)
        self._take_over()

    def _take_over(self) -> None:
        """Move to the history what an earlier bebopd has left here, of whatever release."""
        for row in self.batch.ended():
            self.batch_ended(row)
        over = older.moved(self._db)
        self._past += over.past
        self._moved += over.removed
        self._history.write(self._past)
        self._write([*over.kept, *self._moved, batch_records.pruned()])
        self._past, self._moved = [], []
        ids = [row.job_id for row in self.open_jobs()]
        done = self._history.rows(ids, Viewer(None)) if ids else []
        self._write([_removed(row.job_id) for row in done])
        self._history.write_logs()

    def first_job_id(self) -> int:
        """The first id of a block that nobody has used, now reserved."""
        row = self._query("SELECT used_below FROM ids").fetchone()
        first = int(row[0]) if row else 1
        self.reserve(first + ids.BLOCK)
        return first

    def reserve(self, end: int) -> None:
        """Note on the disk that ids below ``end`` are used.

        Raises:
            LedgerError: the disk refuses. No further id may be given out.
        """
        try:
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("INSERT OR REPLACE INTO ids VALUES (1, ?)", (end,))
            self._db.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as error:
            raise LedgerError(f"{self._path}: {error}") from None

    def keep_orders(self, changes: Sequence[Change]) -> None:
        """Write all orders for these nodes at once; with them what was collected.

        Raises:
            LedgerError: the disk refuses; the orders of before are kept.
        """
        statements: list[Statement] = []
        for node, orders in changes:
            for table in ("drains", "restarts", "reservations", "portions"):
                statements.append((f"DELETE FROM {table} WHERE node = ?", (node,)))
            if (drain := orders.drain) is not None:
                row: tuple[object, ...] = (node, drain.reason, drain.by, drain.since)
                statements.append(("INSERT INTO drains VALUES (?, ?, ?, ?)", row))
            if (restart := orders.restart) is not None:
                row = (node, restart.by, restart.since, restart.incarnation, restart.is_forced)
                statements.append(("INSERT INTO restarts VALUES (?, ?, ?, ?, ?)", row))
            if orders.portion is not None:
                row = (node, orders.portion.value)
                statements.append(("INSERT INTO portions VALUES (?, ?)", row))
            if (kept := orders.reservation) is not None:
                row = (node, *astuple(kept)[:-1], " ".join(map(str, kept.others)))
                values = ", ".join("?" * len(row))
                statements.append((f"INSERT INTO reservations VALUES ({values})", row))
        # The node's name goes with its number: a name that was forgotten may get another one.
        self._write_through([*self._waiting, *statements])
        self._waiting.clear()

    def orders(self) -> dict[int, Orders]:
        """The orders for each node that has any."""
        drains = {row[0]: Drain(*row[1:]) for row in self._query("SELECT * FROM drains")}
        restarts = {
            node: Restart(by, since, incarnation, bool(is_forced))
            for node, by, since, incarnation, is_forced in self._query("SELECT * FROM restarts")
        }
        portions = {row[0]: Portion(row[1]) for row in self._query("SELECT * FROM portions")}
        kept = {
            node: Reservation(
                uid, owner, reason, by, since, start, end, tuple(map(int, others.split()))
            )
            for node, uid, owner, reason, by, since, start, end, others in self._query(
                "SELECT * FROM reservations"
            )
        }
        return {
            node: Orders(drains.get(node), restarts.get(node), kept.get(node), portions.get(node))
            for node in drains | restarts | kept | portions
        }

    def names(self) -> dict[str, int]:
        """Number by node name."""
        return dict(self._query("SELECT name, number FROM nodes"))

    def remember_node(self, name: str, number: int) -> None:
        """Keep the number of a name."""
        self._collect("INSERT OR REPLACE INTO nodes VALUES (?, ?)", (name, number))

    def open_jobs(self) -> list[Row]:
        """The jobs that are no batch jobs and have no final row, ids ascending."""
        rows = self._query("SELECT row FROM open_jobs ORDER BY job_id")
        return [msgpack.decode(row[0], type=Row) for row in rows]

    def job_granted(self, row: Row) -> None:
        """Record the beginning of a job that is no batch job."""
        insert = "INSERT OR REPLACE INTO open_jobs VALUES (?, ?)"
        self._collect(insert, (row.job_id, codec.encode_part(row)))

    def job_ended(self, row: Row) -> None:
        """Record the final row of such a job."""
        self._add(history.final(row, is_batch=False), _removed(row.job_id))

    def charged(self, charge: Charge) -> None:
        """Keep what a user has used."""
        self._collect(*batch_records.charged(charge))

    def steps_ended(self, rows: Iterable[Row]) -> None:
        """Record the final rows of steps."""
        for row in rows:
            self._add(history.final(row, is_batch=False))

    def steps_forgotten(self, job_id: int) -> None:
        """Remove the rows of a job's steps: it begins anew."""
        self._add(history.without_steps(job_id))

    def batch_ended(self, row: Row) -> None:
        """A batch job has its final row on the disk, and goes into the history."""
        self._add(history.final(row, is_batch=True), *batch_records.moved(row.job_id))
        self._moves += 1
        if self._moves % PRUNED_EVERY_COUNT == 0:
            self._moved.append(batch_records.pruned())

    def slots_held(self, job_id: int, slot_s: float, unix_s: float) -> None:
        """Record what a job has held: it holds no slot any more."""
        self._add(history.held(job_id, unix_s, slot_s))

    def happened(self, job_id: int, text: str, unix_s: float) -> None:
        """Keep a line of a job's history."""
        self._add(history.event(job_id, unix_s, text))

    def node_happened(self, event: NodeEvent) -> None:
        """Keep what has happened to a node."""
        self._add(history.node_event(event))

    def past(self, ask: Callable[[Readable], T], then: Callable[[T | LedgerError], None]) -> None:
        """Ask the history, of which everything that was recorded is part; ``then`` is called."""
        self._hand_over()
        self._worker.give(lambda: ask(self._history), then)

    @property
    def has_waiting(self) -> bool:
        """Whether :meth:`flush` has something to write."""
        return bool(self._waiting or self._past)

    def flush(self) -> None:
        """Write what was collected, and have the history written.

        Raises:
            LedgerError: the disk refuses; what was collected is kept.
        """
        self._hand_over()
        if self._waiting:
            self._write(self._waiting)
            self._waiting.clear()

    def close(self) -> None:
        """Write what was collected, and release the lock."""
        try:
            self._hand_over()
            self._worker.close()
            self.flush()
            self._history.write_logs()  # of what the worker has written last
        finally:
            self._db.close()
            self._history.close()
            os.close(self._lock)

    def _add(self, statement: Statement, *moved: Statement) -> None:
        """Something for the history, and what is then removed here."""
        if self._pending + len(self._past) >= WAITING_MAX and not moved:
            self._lost += 1
            return
        self._past.append(statement)
        self._moved += moved

    def _hand_over(self) -> None:
        """Give the worker what is for the history."""
        if not self._past:
            return
        past, self._past = self._past, []
        moved, self._moved = self._moved, []
        self._pending += len(past)

        def written(result: LedgerError | None) -> None:
            self._pending -= len(past)
            if isinstance(result, LedgerError):
                self._past[:0], self._moved[:0] = past, moved
                self.on_waiting(f"{result}{self._lost_text()}")
                return
            if moved:
                self._waiting += moved
                self.on_waiting("")
            self._worker.give(self._history.write_logs, logged)

        def logged(result: LedgerError | None) -> None:
            if isinstance(result, LedgerError):
                self.on_waiting(f"lines of the site's logs: {result}")

        self._worker.give(lambda: self._history.write(past), written)

    def _lost_text(self) -> str:
        return f"; {plural(self._lost, 'line')} of history lost" if self._lost else ""

    def _write(self, statements: Sequence[Statement]) -> None:
        """Commit these statements, all or none."""
        try:
            self._db.execute("BEGIN")
            for statement, values in statements:
                self._db.execute(statement, values)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise LedgerError(f"{self._path}: {error}") from None

    def _write_through(self, statements: Sequence[Statement]) -> None:
        """The same, and wait for the disk."""
        self._query("PRAGMA synchronous = FULL")
        try:
            self._write(statements)
        finally:
            self._query("PRAGMA synchronous = NORMAL")

    def _query(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise LedgerError(f"{self._path}: {error}") from None

    def _collect(self, statement: str, values: Sequence[object]) -> None:
        self._waiting.append((statement, values))


_MORE_COLUMNS = {  # that older files have not
    "reservations": {
        "start": "REAL NOT NULL DEFAULT 0",
        "end": "REAL NOT NULL DEFAULT 0",
        "others": "TEXT NOT NULL DEFAULT ''",
    }
}


def _removed(job_id: int) -> Statement:
    return "DELETE FROM open_jobs WHERE job_id = ?", (job_id,)


def _opened(path: Path) -> sqlite3.Connection:
    """The records in a file, which is made where there is none.

    Raises:
        sqlite3.Error: it is not a database of ours, or cannot be written.
    """
    records = sqlite3.connect(path, isolation_level=None)
    try:
        records.execute("PRAGMA journal_mode = WAL")
        records.execute("PRAGMA synchronous = NORMAL")
        records.executescript(_SCHEMA + batch_records.SCHEMA)
        for table, columns in (batch_records.MORE_COLUMNS | _MORE_COLUMNS).items():
            there = {row[1] for row in records.execute(f"PRAGMA table_info({table})")}
            for name, kind in columns.items():
                if name not in there:
                    records.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
    except sqlite3.Error:
        records.close()
        raise
    return records
