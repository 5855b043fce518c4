"""The process that the shell waits for, where yod may be left: native/client/standin.h."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from native.host import process

WORD_MAX_BYTES = 4096  # what a pipe takes at once
LEFT_STATUS = 0  # the exit status of a yod that has been left


class StandIn:
    """The process that stands in for yod.

    Args:
        fd: becomes this object's.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def end(self, text: str) -> None:
        """Let it say a text, and end; this process goes on."""
        process.outlive_parent()
        word = bytes((LEFT_STATUS,)) + text.encode(errors="surrogateescape")
        with suppress(OSError):  # it has ended
            os.write(self._fd, word[:WORD_MAX_BYTES])
        self.close()

    def close(self) -> None:
        """Say nothing: it ends as this process ends."""
        os.close(self._fd)


def leave_terminal() -> None:
    """Have no terminal any more, nor hold one or a pipe open that somebody waits for."""
    with suppress(PermissionError):  # the leader of a group stays where it is
        os.setsid()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in range(3):
        with suppress(OSError):
            if not stat.S_ISREG(os.fstat(stream).st_mode):
                os.dup2(null, stream)
    os.close(null)
