"""The process that the shell waits for, where yod may be left: native/client/standin.h."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from native.host import process

VARIABLE = "YOD_STAND_IN"
WORD_MAX_BYTES = 4096  # what a pipe takes at once
LEFT_STATUS = 0  # the exit status of a yod that has been left


def taken() -> int:
    """The descriptor that our environment names, which names it no more; -1: none."""
    text = os.environ.pop(VARIABLE, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 8):
        return -1
    fd = int(text)
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return -1
        os.set_inheritable(fd, False)
    except OSError:
        return -1
    return fd


class StandIn:
    """The process that stands in for yod.

    Args:
        fd: becomes this object's.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def of(cls, fd: int) -> StandIn | None:
        """The one behind a descriptor; None: there is none."""
        return None if fd < 0 else cls(fd)

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
