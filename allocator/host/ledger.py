"""What bebopd keeps on disk: job ids that are used, names of nodes, past jobs.

One SQLite file in the state directory. Reserving a block of ids waits for the disk, and so do
orders of operators: who has the answer may rely on it.
Everything else is collected and written together later, so that no grant waits for it;
a crash loses a few lines of history.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from allocator.host import batch_records
from allocator.host.batch_records import BatchRecords
from allocator.jobs import ids
from allocator.nodes.orders import Change, Drain, Orders, Restart
from allocator.records import LedgerError
from native.nodelist import named_nodes
from native.text import shown

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ids (one INTEGER PRIMARY KEY CHECK (one = 1), used_below INTEGER);
CREATE TABLE IF NOT EXISTS nodes (name TEXT PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
    job_id INTEGER PRIMARY KEY,
    uid INTEGER NOT NULL,
    program TEXT NOT NULL,
    batch_job TEXT NOT NULL,
    size INTEGER NOT NULL,
    nodes TEXT NOT NULL,      -- JSON list of numbers, in rank order
    granted REAL NOT NULL,    -- unix time
    ended REAL,
    outcome TEXT
);
CREATE TABLE IF NOT EXISTS drains (
    node INTEGER PRIMARY KEY,
    reason TEXT NOT NULL,
    operator TEXT NOT NULL,
    since REAL NOT NULL       -- unix time
);
CREATE TABLE IF NOT EXISTS restarts (
    node INTEGER PRIMARY KEY,
    operator TEXT NOT NULL,
    since REAL NOT NULL,
    incarnation INTEGER NOT NULL,
    is_forced INTEGER NOT NULL
);
"""


class Ledger:
    """The records of one partition. Only one bebopd can have them open.

    Attributes:
        batch: the batch jobs.
    """

    def __init__(self, directory: Path, history_count: int = 100_000) -> None:
        """Open the ledger of a state directory, which is made where its parent is there.

        Args:
            history_count: past jobs to keep; older ones are removed.

        Raises:
            LedgerError: another bebopd has it, or it cannot be read or written.
        """
        self._path = directory / "bebopd.sqlite"
        self._waiting: list[tuple[str, Sequence[object]]] = []
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
            self._db = _opened(self._path)
        except sqlite3.Error as error:
            os.close(self._lock)
            raise LedgerError(f"{shown(str(self._path))}: {error}") from None
        self.batch = BatchRecords(self._query, self._write_through)
        self._write(batch_records.pruned(history_count))

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
        statements: list[tuple[str, Sequence[object]]] = []
        for node, orders in changes:
            statements.append(("DELETE FROM drains WHERE node = ?", (node,)))
            statements.append(("DELETE FROM restarts WHERE node = ?", (node,)))
            if (drain := orders.drain) is not None:
                row: tuple[object, ...] = (node, drain.reason, drain.by, drain.since)
                statements.append(("INSERT INTO drains VALUES (?, ?, ?, ?)", row))
            if (restart := orders.restart) is not None:
                row = (node, restart.by, restart.since, restart.incarnation, restart.is_forced)
                statements.append(("INSERT INTO restarts VALUES (?, ?, ?, ?, ?)", row))
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
        return {node: Orders(drains.get(node), restarts.get(node)) for node in drains | restarts}

    def names(self) -> dict[str, int]:
        """Number by node name."""
        return dict(self._query("SELECT name, number FROM nodes"))

    def remember_node(self, name: str, number: int) -> None:
        """Keep the number of a name."""
        self._collect("INSERT OR REPLACE INTO nodes VALUES (?, ?)", name, number)

    def job_granted(
        self,
        job_id: int,
        uid: int,
        program: str,
        batch_job: str,
        size: int,
        nodes: Sequence[int],
        unix_s: float,
    ) -> None:
        """Record the beginning of a job."""
        self._collect(
            "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)",
            *(job_id, uid, program, batch_job, size, json.dumps(list(nodes)), unix_s),
        )
        slots = "1 slot" if size == 1 else f"{size} slots"
        self.happened(job_id, f"granted: {slots} on {named_nodes(nodes)}", unix_s)

    def job_ended(self, job_id: int, outcome: str, unix_s: float) -> None:
        """Record the end of a job: it holds no slot any more."""
        self._collect(
            "UPDATE jobs SET ended = ?, outcome = ? WHERE job_id = ?", unix_s, outcome, job_id
        )
        self.happened(job_id, f"its slots are free: {outcome}", unix_s)

    def happened(self, job_id: int, text: str, unix_s: float) -> None:
        """Keep a line of a job's history."""
        self._waiting.append(batch_records.event(job_id, unix_s, text))

    def jobs(self) -> list[dict[str, Any]]:
        """Every job on record, oldest first."""
        self.flush()
        cursor = self._query("SELECT * FROM jobs ORDER BY job_id")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    @property
    def has_waiting(self) -> bool:
        """Whether :meth:`flush` has something to write."""
        return bool(self._waiting)

    def flush(self) -> None:
        """Write what was collected.

        Raises:
            LedgerError: the disk refuses; what was collected is kept.
        """
        if self._waiting:
            self._write(self._waiting)
            self._waiting.clear()

    def close(self) -> None:
        """Write what was collected, and release the lock."""
        try:
            self.flush()
        finally:
            self._db.close()
            os.close(self._lock)

    def _write(self, statements: Sequence[tuple[str, Sequence[object]]]) -> None:
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

    def _write_through(self, statements: Sequence[tuple[str, Sequence[object]]]) -> None:
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

    def _collect(self, statement: str, *values: object) -> None:
        self._waiting.append((statement, values))


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
        for table, columns in batch_records.MORE_COLUMNS.items():
            there = {row[1] for row in records.execute(f"PRAGMA table_info({table})")}
            for name, kind in columns.items():
                if name not in there:
                    records.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
    except sqlite3.Error:
        records.close()
        raise
    return records
