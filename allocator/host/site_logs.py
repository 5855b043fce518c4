"""The logs of a site, in Cplant's form: the user log, and the node usage log of each day.

Both are made from the rows of the history, one line for each job and each step that is over. The
history says which rows are in the files, and how long the files were then. So a bebopd that is
killed at any point comes back to it: what a file has beyond that is cut off, and written again.
Only bebopd writes there; a file that was moved away is begun anew.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from allocator.records import LedgerError
from native.nodelist import format_spans
from native.text import shown
from native.wire.base import State
from native.wire.batch import NO_STEP, Row

ROWS_EACH_TIME = 1000
MARKS_MAX = 16  # files of earlier days whose length is known

SCHEMA = """
CREATE TABLE IF NOT EXISTS log_until (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL      -- of the last row that is in the logs
);
CREATE TABLE IF NOT EXISTS logged (  -- a batch job's row may be written again, with another number
    job_id INTEGER NOT NULL,
    step INTEGER NOT NULL,
    PRIMARY KEY (job_id, step)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log_files (
    path TEXT PRIMARY KEY,
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,       -- in bytes, with all rows that are logged
    at REAL NOT NULL             -- unix time
);
"""


class SiteLogs:
    """The files beside a user log.

    Args:
        path: of the user log; those of node usage are ``run.log.MM-DD-YY`` beside it.
        db: the history, which has the tables of ``SCHEMA``.
        rows_above: reads rows above a number, so many, with their numbers.
    """

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        rows_above: Callable[[int, int], Sequence[tuple[int, Row]]],
    ) -> None:
        self._path = path
        self._db = db
        self._rows_above = rows_above
        last = "(SELECT coalesce(max(number), 0) FROM past)"
        self._db.execute(f"INSERT OR IGNORE INTO log_until VALUES (1, {last})")

    def catch_up(self) -> None:
        """Write the lines of all rows that are not in the logs.

        Raises:
            LedgerError: a file cannot be written; its lines are written the next time.
        """
        while found := self._rows_above(self._until(), ROWS_EACH_TIME):
            rows = [row for _, row in found if not self._is_logged(row)]
            lines: dict[str, list[str]] = {}
            for row in rows:
                lines.setdefault(str(self._path), []).append(user_line(row))
                day = time.strftime("%m-%d-%y", time.localtime(row.ended))
                run_log = str(self._path.parent / f"run.log.{day}")
                lines.setdefault(run_log, []).append(usage_line(row))
            marks = [self._append(path, each) for path, each in lines.items()]
            self._note(found[-1][0], rows, marks)

    def _until(self) -> int:
        return int(self._db.execute("SELECT number FROM log_until").fetchone()[0])

    def _is_logged(self, row: Row) -> bool:
        where = "SELECT 1 FROM logged WHERE job_id = ? AND step = ?"
        return self._db.execute(where, (row.job_id, row.step)).fetchone() is not None

    def _append(self, path: str, lines: Iterable[str]) -> tuple[str, int, int, float]:
        """Add lines to a file behind what is known to be whole; its mark from then on."""
        select = "SELECT inode, size FROM log_files WHERE path = ?"
        known = self._db.execute(select, (path,)).fetchone()
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(path, flags, 0o600)
            try:
                status = os.fstat(fd)
                if known is None or known[0] != status.st_ino or known[1] > status.st_size:
                    # A new file. What is added to it has to be known as that.
                    self._mark((path, status.st_ino, status.st_size, time.time()))
                elif known[1] < status.st_size:
                    os.ftruncate(fd, known[1])
                data = "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")
                while data:
                    data = data[os.write(fd, data) :]
                os.fsync(fd)
                return path, status.st_ino, os.fstat(fd).st_size, time.time()
            finally:
                os.close(fd)
        except OSError as error:
            raise LedgerError(f"{shown(path)}: {error.strerror}") from None

    def _mark(self, mark: tuple[str, int, int, float]) -> None:
        self._db.execute("INSERT OR REPLACE INTO log_files VALUES (?, ?, ?, ?)", mark)

    def _note(
        self, number: int, rows: Iterable[Row], marks: Iterable[tuple[str, int, int, float]]
    ) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for row in rows:
            self._db.execute("INSERT OR IGNORE INTO logged VALUES (?, ?)", (row.job_id, row.step))
        for mark in marks:
            self._mark(mark)
        old = "SELECT path FROM log_files ORDER BY at DESC LIMIT -1 OFFSET ?"
        self._db.execute(f"DELETE FROM log_files WHERE path IN ({old})", (MARKS_MAX,))
        past = "SELECT 1 FROM past WHERE past.job_id = logged.job_id AND past.step = logged.step"
        if number % ROWS_EACH_TIME == 0:
            self._db.execute(f"DELETE FROM logged WHERE NOT EXISTS ({past})")
        self._db.execute("UPDATE log_until SET number = ?", (number,))
        self._db.execute("COMMIT")


def user_line(row: Row) -> str:
    """``start end elapsed nodes user program, Cplant #job , node-list[, errors]``."""
    parts = [
        _date(row.began),
        _date(row.ended),
        _elapsed(row.ended - row.began),
        f"{row.node_count:04d}",
        shown(row.owner),
        f"{shown(row.name) or '-'},",
        f"Cplant #{_id(row)} ,",
        _nodes(row),
    ]
    return " ".join(parts) + "".join(f", {each}" for each in _errors(row))


def usage_line(row: Row) -> str:
    """How it ended, the user, the first node, start, end, program, nodes, their list, the job."""
    first = str(row.nodes[0][0]) if row.nodes else "-"
    fields = [
        _ended_how(row),
        shown(row.owner),
        first,
        _date(row.began),
        _date(row.ended),
        shown(row.name) or "-",
        str(row.node_count),
        _nodes(row),
        "",  # of PBS
        _id(row),
    ]
    return "|".join(each.replace("|", "/") for each in fields)


def _ended_how(row: Row) -> str:
    if row.state is not State.CANCELLED:
        return "Finished"
    words = row.reason.replace(",", " ").split()
    by = words[words.index("by") + 1] if "by" in words[:-1] else row.owner
    return "Killed" if by == row.owner else "Aborted"


def _errors(row: Row) -> list[str]:
    if row.state is State.COMPLETED:
        return []
    end = f"signal {row.signal}" if row.signal else f"exit status {row.exit_status}"
    reason = " ".join(shown(row.reason).split())
    has_end = row.signal or row.exit_status
    return [row.state.value, *([end] if has_end else []), *([reason] if reason else [])]


def _nodes(row: Row) -> str:
    text = format_spans(row.nodes) or "-"
    more = row.node_count - sum(count for _, count in row.nodes)
    return f"{text} and {more} more" if more > 0 and row.nodes else text


def _id(row: Row) -> str:
    return str(row.job_id) if row.step == NO_STEP else f"{row.job_id}.{row.step}"


def _date(unix_s: float) -> str:
    if unix_s <= 0.0:
        return "-"
    return time.strftime("%m/%d/%Y %H:%M:%S", time.localtime(unix_s))


def _elapsed(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
