"""The clock of a partition's host is set by hours while jobs run: nothing ends early, or stays."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from native.duration import written
from tests.support.batch import Jobs
from tests.support.partition import BIN, finish
from tests.support.wait import read_until, wait_until

(LIBRARY,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
SOON = {"YOD_OVERTIME_S": "0.5", "YOD_KILL_WAIT_S": "0.5", "YOD_HEARTBEAT_S": "1"}
LIMITS_S = (5, 20, 80)  # of a job; the later ones on a slow host
STAY = ("sh", "-c", "echo up; exec sleep 600")


class Clock:
    """The wall clock of the processes that have :attr:`environment`; the monotonic one is real."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",  # else processes step one after the other
            "NO_FAKE_STAT": "1",  # Python finds its modules by the times of directories
            "DONT_FAKE_MONOTONIC": "1",
        }

    def clear(self, unix_pids: Iterable[int]) -> None:
        """Remove what the library leaves of a process that was begun by another program."""
        for unix_pid in unix_pids:
            for name in ("faketime_shm_", "sem.faketime_sem_"):
                Path(f"/dev/shm/{name}{unix_pid}").unlink(missing_ok=True)

    def set(self, hours: int) -> None:
        """Be so far from the real time."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{hours:+}h\n")
        new.rename(self._file)  # it is read at each look at the clock


@pytest.fixture
def clock(tmp_path) -> Clock:
    return Clock(tmp_path / "clock")


@pytest.fixture
def own(start_local, tmp_path, clock) -> Iterator[Jobs]:
    """Two nodes of two slots on a host whose clock is set."""
    partition = start_local(2, slots=2, env={**SOON, **clock.environment})
    jobs = Jobs(partition, tmp_path)
    yield jobs
    jobs.close()
    clock.clear(daemon.unix_pid for daemon in (partition.bebopd, *partition.pcts))


def started(own: Jobs, *words: str):
    yod = own.partition.start_yod(*words, *STAY)
    read_until(yod.stdout.fileno(), b"up\n")
    return yod


def limited(own: Jobs):
    """A job that runs, and its limit in seconds."""
    for limit_s in LIMITS_S:
        yod = own.partition.start_yod("-time", written(limit_s), *STAY)
        if yod.stdout.read(len(b"up\n")):
            return yod, limit_s
        finish(yod)
    raise AssertionError(f"no launch within {LIMITS_S[-1]} s")


def doctor(own: Jobs) -> str:
    return finish(own.partition.start_command(BIN / "yodctl", "doctor")).out


@pytest.mark.long  # each look at the clock reads a file
def test_limits_hold_by_the_monotonic_clock_when_the_clock_is_set(own, clock):
    partition = own.partition
    batch_job = own.submit("-sz", "1", "-time", "1:00:00", "--wrap", "echo up > said; sleep 600")
    own.said.until("up\n")
    stays = started(own, "-time", "1:00:00")
    began = time.monotonic()
    overdue, limit_s = limited(own)
    overdue.send_signal(signal.SIGSTOP)  # so that bebopd has to end it
    for hours, said in ((5, "18000 s behind bebopd's"), (-10, "36000 s ahead of bebopd's")):
        clock.set(hours)
        assert said in doctor(own)
        assert partition.yod("echo", "hi") == (0, "hi\n", "")
        assert own.row(batch_job)["state"] == "RUNNING"
    wait_until(lambda: partition.pingd().count(":free:") >= 1)
    assert time.monotonic() - began >= limit_s
    overdue.send_signal(signal.SIGCONT)
    assert finish(overdue).status != 0

    assert own.row(batch_job)["state"] == "RUNNING"
    assert stays.poll() is None
    stays.send_signal(signal.SIGTERM)
    assert finish(stays).status == -signal.SIGTERM
    assert own.yodjob("cancel", batch_job).status == 0
    own.wait(batch_job)
    assert own.row(batch_job)["state"] == "CANCELLED"
    wait_until(lambda: partition.states() == ["free"] * 2)
    assert partition.bebopd.is_alive and all(pct.is_alive for pct in partition.pcts)
