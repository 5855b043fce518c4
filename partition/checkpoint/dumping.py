"""The saver of one node where CRIU writes the ranks down: they need not know of it.

Each rank runs below an ``init`` of its own, the only child of the process that the PCT knows
as the rank (``native/init``). That process was told which ``criu`` is to be used, and has the
streams that the rank was given.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import subprocess
from collections.abc import Sequence

from partition.checkpoint import criu, files
from partition.checkpoint.collecting import NotSavedError, given, record, say

STREAMS = "streams"  # the pipes that were the rank's standard streams
_FD_COUNT = 3
_LINE_BYTES = 1 << 16
_CRIU_WORD = 1  # of yod-init's words


def dump(
    place: int, ranks: Sequence[int], unix_pids: Sequence[int], directory: str, collecting: str
) -> int:
    """Have CRIU write the ranks down, one after another.

    Args:
        unix_pids: of the ranks.

    Returns:
        The bytes in their files.

    Raises:
        NotSavedError: one could not be written; the text names it.
        OSError: a file cannot be written or read.
    """
    here = os.path.join(directory, collecting)
    os.makedirs(here, exist_ok=True)
    paths = {rank: os.path.join(here, files.rank_directory(rank)) for rank in ranks}
    for path in paths.values():
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
    given()
    say("ready")
    with _Dumps(paths, dict(zip(ranks, unix_pids, strict=True))) as dumps:
        dumps.run()
    found, size = record(place, ranks, here)
    files.write(os.path.join(here, files.node_file(place)), found)
    files.sync_directory(here)
    return size


class _Dumps:
    """The dumps of a node's ranks, one at a time on a host.

    For a moment CRIU makes a directory in that of a tree's first process, by a name that is the
    same for all, so two dumps there would meet. A lock on it keeps them apart.
    """

    def __init__(self, paths: dict[int, str], unix_pids: dict[int, int]) -> None:
        self._paths = paths
        self._unix_pids = unix_pids
        self._left = sorted(paths)
        self._running: dict[int, tuple[int, subprocess.Popen[bytes]]] = {}  # by pidfd
        self._poll = select.poll()
        self._told = b""
        self._trouble = ""
        self._lock = -1

    def __enter__(self) -> _Dumps:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in list(self._running):
            self._forget(fd)

    def run(self) -> None:
        """Return when all are written, or one cannot be."""
        self._poll.register(0, select.POLLIN)
        while self._running or (self._left and not self._trouble):
            if not self._running:
                self._begin(self._left.pop(0))
            for fd, _ in self._poll.poll() if self._running else ():
                if fd == 0:
                    self._hear()
                else:
                    self._ended(*self._forget(fd))
        if self._trouble:
            raise NotSavedError(self._trouble)

    def _begin(self, rank: int) -> None:
        unix_pid, path = self._unix_pids[rank], self._paths[rank]
        try:
            words = _words(unix_pid)
            init = _child(unix_pid)
            lines = _streams(unix_pid)
        except (FileNotFoundError, ProcessLookupError, IndexError):
            self._trouble = self._trouble or f"rank {rank} has ended while it was written down"
            return
        self._lock = os.open(f"/proc/{init}/cwd", os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # the PCT ends this process if it waits too long
        with open(os.path.join(path, STREAMS), "w", encoding="utf-8") as file:
            file.write(lines)
        command = criu.dump_command(words[_CRIU_WORD], init, path)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        fd = os.pidfd_open(process.pid)
        self._poll.register(fd, select.POLLIN)
        self._running[fd] = (rank, process)

    def _forget(self, fd: int) -> tuple[int, subprocess.Popen[bytes]]:
        self._poll.unregister(fd)
        os.close(fd)
        os.close(self._lock)
        return self._running.pop(fd)

    def _ended(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        if process.wait() and not self._trouble:
            why = criu.why(os.path.join(self._paths[rank], criu.DUMP_LOG))
            self._trouble = f"rank {rank}: criu cannot write it down: {why}"

    def _hear(self) -> None:
        data = os.read(0, _LINE_BYTES)
        if not data:
            raise NotSavedError("the pct of its node has gone")
        *lines, self._told = (self._told + data).split(b"\n")
        if b"over" in lines:
            late = sorted(rank for rank, _ in self._running.values()) or self._left
            raise NotSavedError(f"rank {late[0]} is not written down in time")


def _words(unix_pid: int) -> list[str]:
    with open(f"/proc/{unix_pid}/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")]


def _child(unix_pid: int) -> int:
    with open(f"/proc/{unix_pid}/task/{unix_pid}/children", encoding="ascii") as file:
        return int(file.read().split()[0])


def _streams(unix_pid: int) -> str:
    """A line for each standard stream that is a pipe, and each pipe once."""
    names: dict[str, int] = {}
    for fd in range(_FD_COUNT):
        name = os.readlink(f"/proc/{unix_pid}/fd/{fd}")
        if name.startswith("pipe:"):
            names.setdefault(name, fd)
    return "".join(f"{fd} {name}\n" for name, fd in names.items())
