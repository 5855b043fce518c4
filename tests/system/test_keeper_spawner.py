"""A keeper goes on when the spawners that make its ranks wait for a file that hangs."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from native.wire.keeper import ExecFailed, Hold, KeeperEmpty, RankEnded, RankStarted
from tests.support.keeper_job import Job, make_spec
from tests.support.keeper_programs import needs_root
from tests.support.wait import wait_for_exit, wait_until

RANKS = 20  # several batches

pytestmark = needs_root  # who is not root looks each directory up before anything is made


def children(unix_pid: int) -> list[int]:
    return [
        int(word) for word in Path(f"/proc/{unix_pid}/task/{unix_pid}/children").read_text().split()
    ]


@contextmanager
def job_in_a_directory_that_hangs(directory: Path, ranks: int = RANKS) -> Iterator[Job]:
    """Nobody answers the kernel what is in the directory of the ranks."""
    devices: list[int] = []
    spec = make_spec(("/bin/true",), ranks=ranks, cwd=str(directory))
    spec = replace(spec, remote=(os.fsencode(directory),))
    with Job(spec, on_mount=lambda number, device: devices.append(device)) as job:
        try:
            job.run_until(lambda: bool(devices), "the mount")
            yield job
        finally:
            os.close(devices[0])


def spawners(job: Job) -> list[int]:
    """All that the keeper has made: no rank has a process before its directory is seen."""
    return wait_until(lambda: children(job.keeper.unix_pid), what="a spawner")


def has_taken_all_commands(job: Job) -> bool:
    waiting = fcntl.ioctl(job.keeper._control.fileno(), termios.TIOCOUTQ, bytes(4))
    return struct.unpack("i", waiting) == (0,)


def test_a_directory_that_hangs_holds_up_no_end(tmp_path: Path) -> None:
    with job_in_a_directory_that_hangs(tmp_path) as job:
        made = spawners(job)
        job.keeper.end()
        job.wait_empty()
        for unix_pid in (*made, job.keeper.unix_pid):
            wait_for_exit(unix_pid)
        assert not job.of(RankStarted, RankEnded)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_directory_that_hangs_keeps_no_rank_alive(tmp_path: Path, number: signal.Signals) -> None:
    ranks = 100  # more than are made at a time
    with job_in_a_directory_that_hangs(tmp_path, ranks) as job:
        spawners(job)
        job.keeper.signal(number)
        ended = job.wait_ended()
        assert len(job.of(RankStarted)) == ranks
        assert [end.wait_status for end in ended] == [number] * ranks
        assert all(end.was_signalled for end in ended)


def test_ranks_whose_spawner_was_killed_are_made_and_get_the_signals_that_came_before(
    tmp_path: Path,
) -> None:
    with job_in_a_directory_that_hangs(tmp_path, ranks=2) as job:
        (spawner,) = spawners(job)
        job.keeper.signal(signal.SIGUSR1)
        wait_until(lambda: has_taken_all_commands(job))
        assert not job.of(RankStarted)
        os.kill(spawner, signal.SIGKILL)
        ended = job.wait_ended()
        assert len(job.of(RankStarted)) == 2
        assert [end.wait_status for end in ended] == [signal.SIGUSR1] * 2


def test_a_spawner_that_waits_dies_with_its_keeper(tmp_path: Path) -> None:
    with job_in_a_directory_that_hangs(tmp_path) as job:
        made = spawners(job)
        os.kill(job.keeper.unix_pid, signal.SIGKILL)
        for unix_pid in (*made, job.keeper.unix_pid):
            wait_for_exit(unix_pid)


def test_spawners_take_no_process_that_a_rank_needs() -> None:
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (RANKS + 1, before[1]))  # and the keeper
    try:
        job = Job(make_spec(("/bin/true",), ranks=RANKS, uid=4243, gid=4243, cwd="/"))
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, before)
    with job:
        job.wait_held()
        assert not job.of(ExecFailed)


def test_ranks_of_many_programs_are_made_together() -> None:
    others = [("/bin/echo", f"{number}") for number in range(1, RANKS)]
    with Job(make_spec(("/bin/echo", "0"), others=tuple(others))) as job:
        job.run()
        assert [job.text(rank) for rank in range(RANKS)] == [f"{rank}\n" for rank in range(RANKS)]


@pytest.mark.parametrize("hold", [Hold.AUTO, Hold.TRACE])
def test_each_rank_is_the_keepers_child_whoever_made_it(hold: Hold) -> None:
    with Job(make_spec(("/bin/true",), ranks=RANKS, hold=hold)) as job:
        job.wait_held()
        ranks = [event.unix_pid for event in job.events if isinstance(event, RankStarted)]
        assert set(children(job.keeper.unix_pid)) >= set(ranks)
        job.run()
        assert job.of(KeeperEmpty)
