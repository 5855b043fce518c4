"""The most memory that programs have had while a test ran."""

from __future__ import annotations

import os
import re
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.daemons import Daemons
from tests.support.leaks import descendants
from tests.support.partition import Partition
from tests.support.wait import read_until, wait_until

GROWN_BYTES = 32 << 20  # of a process at most; far less than what the ranks of these tests write
# A line is cut in two when its rank gets no processor for half a second: on a loaded machine.
PATIENT = {"YOD_LINE_QUIET_S": "60", "YOD_LINE_HOLD_S": "60"}
_RESET_PEAK = "5"  # as proc(5) has it for clear_refs


class Memory:
    """By how much yod and what carries its launches have grown since they were first looked at.

    Args:
        partition: whose daemons are looked at, and the launch server that it has.
        yod_pid: the process of yod.

    Attributes:
        grown: bytes, by program: ``yod``, ``pct 0``, ``launch server``.
    """

    def __init__(self, partition: Partition, yod_pid: int) -> None:
        self._unix_pids = {"yod": yod_pid}
        if isinstance(partition, Daemons):
            self._unix_pids |= {f"pct {n}": pct.unix_pid for n, pct in enumerate(partition.pcts)}
        if partition.launch_server is not None:
            self._unix_pids["launch server"] = partition.launch_server.daemon.unix_pid
        self.grown = dict.fromkeys(self._unix_pids, 0)
        for unix_pid in self._unix_pids.values():
            Path(f"/proc/{unix_pid}/clear_refs").write_text(_RESET_PEAK)
        self._first = {name: _bytes(pid, "VmRSS") for name, pid in self._unix_pids.items()}

    def look(self) -> None:
        """Take the peaks of now: that of yod is gone when it has ended."""
        for name, unix_pid in self._unix_pids.items():
            grown = _bytes(unix_pid, "VmHWM") - self._first[name]
            self.grown[name] = max(self.grown[name], grown)

    def read(self, stream: int) -> Iterator[bytes]:
        """All that comes from a descriptor; looks each time."""
        while data := os.read(stream, 1 << 20):
            self.look()
            yield data


def read_slowly(partition: Partition, yod: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """All that comes behind the first ``up``, slowly: from when ranks wait for a reader.

    Raises:
        AssertionError: yod, the launch server or a PCT has grown by what it has not passed on.
    """
    assert yod.stdout is not None
    stream = yod.stdout.fileno()
    yield read_until(stream, b"up\n")
    memory = Memory(partition, yod.pid)
    wait_until(lambda: _ranks_wait(stream), what="a rank that waits for room")
    yield from memory.read(stream)
    assert max(memory.grown.values()) < GROWN_BYTES, memory.grown


def _ranks_wait(stream: int) -> bool:
    """Whether the pipe that yod writes to is full, and a rank waits for room in its own."""
    return _is_full(stream) and any(map(_waits_for_room, descendants(os.getpid())))


def _is_full(stream: int) -> bool:
    """Whether a pipe, of which this is the end to read from, takes no more."""
    writing = os.open(f"/proc/self/fd/{stream}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        return not select.select([], [writing], [], 0)[1]
    finally:
        os.close(writing)


def _waits_for_room(unix_pid: int) -> bool:
    try:
        return "pipe_write" in Path(f"/proc/{unix_pid}/wchan").read_text()
    except OSError:
        return False  # it has ended


def _bytes(unix_pid: int, name: str) -> int:
    """0: the process has ended."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path(f"/proc/{unix_pid}/status").read_text(), re.M)
    return int(found[1]) << 10 if found else 0
