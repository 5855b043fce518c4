"""Shared memory of killed jobs goes; that of the jobs beside them stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from native.loop import slices
from pct.host import leftovers
from tests.support.leaks import descendants
from tests.support.mpi import Mpi
from tests.support.wait import LIMIT_S, read_until, wait_for_exit

pytestmark = pytest.mark.mpi

SIZE = 2


@pytest.fixture
def mpi(every_mpi: Mpi) -> Mpi:
    """All five: what each leaves has names of its own."""
    return every_mpi


def segments_of(unix_pids: Iterable[int]) -> set[str]:
    """Files in /dev/shm that processes have mapped and that have a name."""
    found: set[str] = set()
    for unix_pid in unix_pids:
        maps = Path(f"/proc/{unix_pid}/maps").read_text()
        found.update(re.findall(r"/dev/shm/\S+$", maps, re.MULTILINE))
    return {path for path in found if os.path.exists(path)}


def command_of(unix_pid: int) -> bytes:
    """Its words, each ended by a null character."""
    return Path(f"/proc/{unix_pid}/cmdline").read_bytes()


class Run:
    """Two ranks of a library under its own launcher, beyond MPI_Init, waiting for a line."""

    def __init__(self, mpi: Mpi, directory: str) -> None:
        environment = {**os.environ, **mpi.library.launcher_env, **mpi.program_env}
        environment["TMPDIR"] = directory
        self.process = subprocess.Popen(
            mpi.own_launch(SIZE, *mpi.program, "wait"),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        read_until(self.process.stdout.fileno(), b"up", times=SIZE)
        self.unix_pids = {self.process.pid, *descendants(self.process.pid)}

    def segments(self) -> set[str]:
        """Files in /dev/shm that it has mapped and that have a name."""
        return segments_of(self.unix_pids)

    def kill(self) -> None:
        # The launcher first: it would tidy up.
        for unix_pid in (self.process.pid, *self.unix_pids):
            try:
                os.kill(unix_pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for unix_pid in self.unix_pids:
            wait_for_exit(unix_pid)
        self.close()

    def go_on(self) -> int:
        """Give it its line; its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        status = self.process.wait(timeout=LIMIT_S)  # Intel's can die of an early end of file
        self.close()
        return status

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=LIMIT_S)
        self.process.stdout.close()


@pytest.fixture
def runs(mpi: Mpi) -> Iterator[list[Run]]:
    """Two of a library."""
    since = time.time()
    # A launcher that is killed leaves its session's directory.
    with tempfile.TemporaryDirectory() as directory:
        runs = [Run(mpi, directory), Run(mpi, directory)]
        yield runs
        for run in runs:
            if run.process.returncode is None:
                run.kill()
    slices.run(leftovers.remove(os.getuid(), since))


def test_what_a_killed_job_leaves_is_removed_and_its_neighbour_keeps_its_own(runs):
    killed, living = runs
    since = time.time() - 60.0
    left = killed.segments() - living.segments()
    kept = living.segments()
    killed.kill()
    removed = {f"/dev/shm/{name}" for name in slices.run(leftovers.remove(os.getuid(), since))}
    assert not kept & removed
    assert not any(map(os.path.exists, left))
    assert all(map(os.path.exists, kept))
    assert living.go_on() == 0


def test_yod_leaves_no_shared_memory_of_ranks_that_are_killed(embedded, mpi):
    yod = embedded.start_yod("-sz", str(SIZE), *mpi.program, "up", env=mpi.program_env)
    read_until(yod.stdout.fileno(), b"up", times=SIZE)
    ranks = {pid for pid in descendants(yod.pid) if b"\0up\0" in command_of(pid)}
    assert len(ranks) == SIZE
    left = segments_of(ranks)
    for unix_pid in ranks:
        os.kill(unix_pid, signal.SIGKILL)
    _, errors = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == 128 + signal.SIGKILL, errors
    assert not any(map(os.path.exists, left))
