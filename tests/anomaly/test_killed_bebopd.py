"""A bebopd that is killed at any write of its records comes back true.

Its files are as the disk has them at that moment: what was committed is there, what was not is not.
"""

from __future__ import annotations

import itertools
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from allocator.batch.job import BatchJob, RecordBatchJob, Viewer
from allocator.host import site_logs
from allocator.host.ledger import Ledger
from allocator.jobs.accounting import row_of
from allocator.nodes.orders import Drain, Orders
from native.wire.alloc import NodeSpec
from native.wire.base import State
from native.wire.batch import Row

ALL = Viewer(None)
JOBS = (1, 2)
LATE = 4
ORDERED = dict.fromkeys((0, 1), Orders(Drain("fan", "olive", 100.0)))
STEP = (2, 1)
BATCH = 3


class Killed(BaseException):
    """The process ends here."""


class Fuse:
    """Kills at the n-th write. What is on its way out of a dead process writes nothing more."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.has_blown = False

    def burn(self) -> None:
        self.left -= 1
        if self.left <= 0:
            self.has_blown = True
            raise Killed


class Database:
    """A connection, each of whose statements is a write."""

    def __init__(self, real: sqlite3.Connection, fuse: Fuse) -> None:
        self._real = real
        self._fuse = fuse

    def execute(self, *words: Any) -> sqlite3.Cursor:
        self._fuse.burn()
        return self._real.execute(*words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class System:
    """What the logs ask of the system; a write that kills has written a part."""

    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse

    def write(self, fd: int, data: bytes) -> int:
        if self._fuse.left == 1:
            os.write(fd, data[: len(data) // 2])
        self._fuse.burn()
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        self._fuse.burn()

    def ftruncate(self, fd: int, size: int) -> None:
        self._fuse.burn()
        os.ftruncate(fd, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def row(job_id: int, step: int = -1) -> Row:
    began = row_of(job_id, 1000, "alice", "a.out", 4, None, 100.0, 101.0)
    return replace(began, step=step, state=State.COMPLETED, ended=111.0)


def opened(place: Path, fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The records of a bebopd that begins; its first job id has been reserved."""
    ledger = Ledger(place / "state", user_log=place / "userlog")
    ledger._db = Database(ledger._db, fuse)  # type: ignore[assignment]
    history = ledger._history
    history._db = Database(history._db, fuse)  # type: ignore[assignment]
    assert history._logs is not None
    history._logs._db = history._db
    monkeypatch.setattr(site_logs, "os", System(fuse))
    return ledger


def killed(ledger: Ledger) -> None:
    """Nothing is flushed, and nothing is rolled back but by the next one that opens the files."""
    ledger._db.close()
    ledger._history.close()
    with suppress(OSError):  # it was at its end
        os.close(ledger._lock)


class Promises:
    """What a bebopd has answered, because it was on the disk.

    Attributes:
        over: jobs.
        first_job_id: an id that may have been given to a job.
        placed: how often the batch job was placed before, and how often its nodes were why.
    """

    def __init__(self) -> None:
        self.over: set[int] = set()
        self.first_job_id = 0
        self.placed = (0, 0)
        self.orders: dict[int, Orders] = {}


def life(ledger: Ledger, promises: Promises) -> None:
    """What a bebopd writes in its life."""
    promised = promises.over
    promises.first_job_id = ledger.first_job_id()
    ledger.remember_node("n0", 0)
    ledger.keep_orders(list(ORDERED.items()))
    promises.orders = ORDERED
    batch = BatchJob(BATCH, 1000, "alice", "job.sh", b"%016d" % BATCH, NodeSpec(2), 0.0, 100.0)
    ledger.batch.keep([RecordBatchJob(batch, b"task")])
    for job_id in JOBS:
        ledger.job_granted(row(job_id))
    ledger.flush()
    ledger.job_ended(row(JOBS[0]))
    ledger.slots_held(JOBS[0], 40.0, 111.0)
    ledger.flush()
    promised.add(JOBS[0])
    batch.attempt, batch.failures = 2, 1  # its nodes were lost
    ledger.batch.keep([RecordBatchJob(batch)])
    promises.placed = (2, 1)
    ledger.steps_ended([row(*STEP)])
    ledger.job_ended(row(JOBS[1]))
    batch.state, batch.ended = State.COMPLETED, 120.0
    ledger.batch.keep([RecordBatchJob(batch)])
    promised.add(BATCH)
    ledger.batch_ended(batch.row())
    ledger.flush()
    promised |= {*JOBS}
    ledger.job_granted(row(LATE))
    ledger.flush()


def ids(path: Path, pattern: str) -> list[str]:
    return re.findall(pattern, path.read_text(), re.MULTILINE) if path.exists() else []


def demand_true(place: Path, promises: Promises) -> None:
    """The records as the next bebopd finds them, and leaves them."""
    ledger = Ledger(place / "state", user_log=place / "userlog")
    assert ledger.first_job_id() > promises.first_job_id, "an id is used twice"
    assert ledger.orders() in (promises.orders, ORDERED), "an order is lost, or half there"
    assert not ledger.orders() or ledger.names() == {"n0": 0}
    waits = [(job.attempt, job.failures) for job in ledger.batch.earlier().jobs]
    assert not waits or waits[0] in ((2, 1), promises.placed), "an attempt is made twice"
    still_open = {each.job_id for each in ledger.open_jobs()}
    past = {each.job_id for each in ledger._history.rows((*JOBS, BATCH, LATE), ALL)}
    assert not still_open & past, "a job is over, and is not"
    assert promises.over <= past, "what was on the disk is lost"
    for job_id in still_open:  # its end is told, or found out
        ledger.job_ended(row(job_id))
    ledger.close()
    ledger = Ledger(place / "state", user_log=place / "userlog")
    assert not ledger.open_jobs()
    rows = ledger._history.with_steps((*JOBS, BATCH, LATE), -1, 100, ALL)
    expected = sorted(
        str(each.job_id) if each.step < 0 else f"{each.job_id}.{each.step}" for each in rows
    )
    ledger.close()
    lines = (place / "userlog").read_text().splitlines() if expected else []
    assert sorted(ids(place / "userlog", r"Cplant #([0-9.]+) ,")) == expected
    assert len(lines) == len(expected)
    for run_log in place.glob("run.log.*"):
        assert all(line.count("|") == 9 for line in run_log.read_text().splitlines())
    used = [each for run_log in place.glob("run.log.*") for each in ids(run_log, r"([0-9.]+)$")]
    assert sorted(used) == expected


@pytest.fixture
def ram() -> Iterator[Path]:
    """A directory whose disk is not waited for."""
    with tempfile.TemporaryDirectory(prefix="test-of-yod-", dir="/dev/shm") as name:
        yield Path(name)


def test_a_bebopd_killed_at_any_write_comes_back_true(
    ram: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in itertools.count(1):
        place = ram / str(number)
        place.mkdir()
        fuse, promises = Fuse(number), Promises()
        with monkeypatch.context() as patched:
            ledger = opened(place, fuse, patched)
            try:
                life(ledger, promises)
                ledger.close()
            except Killed:
                killed(ledger)
        demand_true(place, promises)
        if not fuse.has_blown:
            break
    assert number > 40
