"""The user's terminal while it stands for that of a rank: keys as they are typed.

Its modes are changed only in the foreground, where it is ours, and are as they were whenever it
is not.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable
from typing import Any

from native.machine import Event
from native.wire.group import Window
from yod.host.escape import Asked
from yod.launch.events import Interrupted, Resized, StopAsked

_LINES_MAX = (1 << 15) - 1


def size_of(fd: int) -> Window:
    """The size of a terminal."""
    rows, columns, _, _ = struct.unpack("4H", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
    return Window(min(rows, _LINES_MAX), min(columns, _LINES_MAX))


def _raw(modes: list[Any]) -> list[Any]:
    """As cfmakeraw(3); Python has it since 3.12."""
    reads, writes, line, local, *others = modes
    reads &= ~(termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP)
    reads &= ~(termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON)
    writes &= ~termios.OPOST
    line = line & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    local &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    return [reads, writes, line, local, *others]


class RawMode:
    """The modes and the size of one terminal.

    Args:
        handle: takes what the user asks of the launch, and each size.
    """

    def __init__(self, fd: int, handle: Callable[[Event], None]) -> None:
        self._fd = fd
        self._handle = handle
        self._before: list[Any] | None = None  # its modes; None: they are not changed

    @property
    def is_on(self) -> bool:
        """It is raw."""
        return self._before is not None

    def begin(self) -> None:
        """Be raw from now on, or again; a terminal in the background is left alone."""
        try:
            if os.tcgetpgrp(self._fd) != os.getpgrp():
                return
            modes = termios.tcgetattr(self._fd)
            if self._before is None:
                self._before = list(modes)
            termios.tcsetattr(self._fd, termios.TCSADRAIN, _raw(modes))
        except (OSError, termios.error):  # it has gone, which is told by its end
            return
        self.resized()

    def end(self) -> None:
        """Be as before; twice is harmless."""
        before, self._before = self._before, None
        try:
            if before is not None and os.tcgetpgrp(self._fd) == os.getpgrp():
                termios.tcsetattr(self._fd, termios.TCSADRAIN, before)
        except (OSError, termios.error):  # likewise
            pass

    def resized(self) -> None:
        """Tell its size."""
        try:
            size = size_of(self._fd)
        except OSError:  # likewise
            return
        self._handle(Resized(size))

    def asked(self, asked: Asked) -> None:
        """The user has typed something for yod."""
        if asked is Asked.END:
            self._handle(Interrupted(signal.SIGINT))
        elif asked is Asked.STOP:
            self._handle(StopAsked())
