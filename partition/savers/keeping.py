"""What an owner keeps on a node before it is drained: their directory, and their share of it.

In the owner's directory each job has one of its own on each node, which its saver locks while it
works there. What jobs have left there that ended before it was drained gives way when the share is
needed for another checkpoint.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from contextlib import suppress
from types import TracebackType

from native.text import shown
from partition.checkpoint import files
from partition.checkpoint.collecting import NotSavedError

_MODE = 0o700
_SETTLED_S = 60.0  # nobody locks what is kept between the savers that fill it and that drain it


class Share:
    """The directory of one job on this node, locked, in that of its owner.

    Args:
        directory: the owner's.
        name: of the job's in it.
        most_bytes: of all that the owner keeps here.

    Raises:
        NotSavedError: the directory is somebody else's, or the share is used up.
        OSError: it cannot be made.
    """

    def __init__(self, directory: str, name: str, most_bytes: int) -> None:
        demand_own(directory)
        self._directory = directory
        self._name = name
        about = os.statvfs(directory)
        self._most_bytes = min(most_bytes, about.f_blocks * about.f_frsize // 2)
        self._path = os.path.join(directory, name)
        shutil.rmtree(self._path, ignore_errors=True)  # what an attempt before has left
        if self._others() > self._most_bytes // 2:
            self._drop_left()
        if (used := self._others()) >= self._most_bytes:
            raise NotSavedError(self._no_room(used))
        os.mkdir(self._path, _MODE)
        self._lock = locked(self._path)

    def demand_room(self, size: int) -> None:
        """What the job keeps here has to fit.

        Raises:
            NotSavedError: it does not.
        """
        if size + self._others() > self._most_bytes:
            self._drop_left()
        if (used := size + self._others()) > self._most_bytes:
            raise NotSavedError(self._no_room(used))

    def __enter__(self) -> Share:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            shutil.rmtree(self._path, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Let others work on it."""
        os.close(self._lock)

    def _no_room(self, used: int) -> str:
        return (
            f"{shown(self._directory)}: {used / 1e6:.1f} MB of yours would be kept here, at most"
            f" {self._most_bytes / 1e6:.1f} MB are (YOD_CHECKPOINT_LOCAL_BYTES, and half of the"
            " file system)"
        )

    def _others(self) -> int:
        """Bytes of the owner's other jobs."""
        return sum(map(_size_of, self._paths()))

    def _drop_left(self) -> None:
        """Remove directories of jobs that have ended before they were drained."""
        before = time.time() - _SETTLED_S
        for path in self._paths():
            with suppress(BlockingIOError, FileNotFoundError):
                lock = locked(path)
                try:
                    if os.fstat(lock).st_mtime < before:
                        shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(lock)

    def _paths(self) -> list[str]:
        names = sorted(os.listdir(self._directory))
        own = (name for name in names if name.startswith(files.COLLECTING) and name != self._name)
        return [os.path.join(self._directory, name) for name in own]


def demand_own(directory: str) -> None:
    """Make the owner's directory, or see that it is theirs: anybody may write to the one above.

    Raises:
        NotSavedError: it is somebody else's.
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        os.mkdir(directory, _MODE)
    about = os.lstat(directory)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise NotSavedError(f"{shown(directory)}: not a directory of yours")


def locked(path: str) -> int:
    """A descriptor of a directory that only this process works on.

    Raises:
        BlockingIOError: another one does.
        OSError: it is not there.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise
    return fd


def _size_of(path: str) -> int:
    total = 0
    for below, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(below, name)).st_size
    return total
