"""A PCT's own cgroup, where the PCT is allowed to make one (cgroup v2).

Every process that a PCT starts is created in its cgroup. When the PCT and a job's keeper
are killed at the same moment, no process of ours knows the job's processes any more, but
the cgroup still holds them. The next PCT that starts on this host, or ``yodctl down``, kills
all processes in a cgroup whose PCT is gone. A living PCT holds a lock on its cgroup's
directory.
"""

from __future__ import annotations

import os
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock

PREFIX = "yod-pct-"
ENTER_TRIES = 3


class Cgroup:
    """The cgroup this process has moved into; :meth:`leave` moves back."""

    def __init__(self, path: str, parent: str, lock: int) -> None:
        self._path = path
        self._parent = parent
        self._lock = lock

    @classmethod
    def enter(cls) -> Cgroup | None:
        """Make a cgroup below our own and move into it; None: that is not allowed here."""
        parent = own_path()
        if parent is None:
            return None
        sweep(parent)
        for _ in range(ENTER_TRIES):
            if (own := cls._try(parent)) is not None:
                return own
        return None

    @classmethod
    def _try(cls, parent: str) -> Cgroup | None:
        # The name is random: containers that share a kernel may have the same process ids.
        path = os.path.join(parent, PREFIX + os.urandom(6).hex())
        lock = -1
        try:
            os.mkdir(path)
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            flock(lock, LOCK_EX | LOCK_NB)  # another PCT may be sweeping
            _write(os.path.join(path, "cgroup.procs"), "0")
        except OSError:
            if lock >= 0:
                os.close(lock)
            with suppress(OSError):
                os.rmdir(path)
            return None
        return cls(path, parent, lock)

    def leave(self) -> None:
        """Move back and remove the cgroup. It stays if a process is left in it."""
        try:
            _write(os.path.join(self._parent, "cgroup.procs"), "0")
            os.rmdir(self._path)
        except OSError:
            pass
        os.close(self._lock)


def own_path() -> str | None:
    """The directory of this process's cgroup v2; None: there is no such file system."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as own:
            inside = [line[3:].strip() for line in own if line.startswith("0::")]
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            points = [line.split()[4] for line in mounts if " - cgroup2 " in line]
    except OSError:
        return None
    return os.path.normpath(points[0] + inside[0]) if points and inside else None


def sweep(parent: str) -> int:
    """Kill the processes that PCTs have left in their cgroups when they ended.

    Args:
        parent: the cgroup directory that holds theirs.

    Returns:
        How many cgroups of such PCTs there were.
    """
    found = 0
    try:
        names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
    except OSError:
        return 0
    for name in names:
        path = os.path.join(parent, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            flock(fd, LOCK_EX | LOCK_NB)
            found += 1
            _write(os.path.join(path, "cgroup.kill"), "1")
            os.rmdir(path)
        except OSError:  # in use, or not empty yet: the next one removes it
            pass
        finally:
            os.close(fd)
    return found


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
