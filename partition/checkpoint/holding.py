"""Ranks that wait, once they are saved, until what they have written is known.

A rank waits for the lock of a file in its directory, which the saver has: whatever becomes of the
saver, the rank goes on. The saver tells its PCT that the rank is saved, and gives the lock back
when the PCT says that the rank is marked.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

HELD = ".held"
_MARKED = b"marked "


class Holding:
    """The ranks of a node that are held, by their locks.

    Attributes:
        waiting: ranks of which the PCT has been told, and has not answered.
    """

    def __init__(self) -> None:
        self._locks: dict[int, tuple[int, str]] = {}  # by rank: a descriptor, and its path
        self.waiting: set[int] = set()

    def add(self, rank: int, directory: str) -> None:
        """A rank is to be saved in this directory.

        Raises:
            OSError: there can be no lock.
        """
        path = os.path.join(directory, HELD)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._locks[rank] = fd, path
        fcntl.flock(fd, fcntl.LOCK_EX)

    def saved(self, rank: int) -> bool:
        """Whether the PCT is to be told that a rank has been saved: once."""
        if rank not in self._locks or rank in self.waiting:
            return False
        self.waiting.add(rank)
        return True

    def hear(self, line: bytes) -> bool:
        """Take what the PCT says, if it is about a rank that is held."""
        if not line.startswith(_MARKED):
            return False
        self.release(int(line.removeprefix(_MARKED)))
        return True

    def release(self, rank: int) -> None:
        """Let a rank go on. Nothing of it stays in the checkpoint."""
        self.waiting.discard(rank)
        if rank in self._locks:
            fd, path = self._locks.pop(rank)
            with suppress(FileNotFoundError):
                os.unlink(path)
            os.close(fd)

    def close(self) -> None:
        """Let all go on."""
        for rank in list(self._locks):
            self.release(rank)
