"""Whether a terminal is ours: only its foreground may read it, or change its modes.

A shell's ``fg`` says nothing to a job that runs: it gives the job the terminal, and sends SIGCONT
only where the job was stopped (bash, zsh). Nor does the kernel tell. But each line that is typed,
and whatever the terminal shows, is an edge of its readiness, in the background, too. So yod asks
at each edge whose the terminal is, and does nothing in between. What was typed behind ``fg`` before
the shell had done it makes no further edge: where an edge finds that nobody has read what there is,
yod asks once more, when the shell must have done it.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from native.loop.reactor import Reactor, Watch

LOOK_AGAIN_S = 0.1  # native/client/input.c has it, too


def is_in_background(fd: int) -> bool:
    """We are in the background of a terminal; of one that has hung up nobody is."""
    try:
        return os.tcgetpgrp(fd) != os.getpgrp()
    except OSError:
        return False


class Foreground:
    """Calls once when we have come to the foreground of a terminal.

    Args:
        has_shown: look also when the terminal has shown something, as a shell's echo of ``fg``;
            else when a line was typed.
    """

    def __init__(
        self, reactor: Reactor, fd: int, on_come: Callable[[], None], *, has_shown: bool
    ) -> None:
        self._fd = fd
        self._on_come = on_come
        self._reactor = reactor
        self._timer = reactor.timer(self._look_again)
        self._watch: Watch = reactor.watch_edges(fd, self._look, has_room=has_shown)

    def close(self) -> None:
        """Look no more."""
        self._watch.close()
        self._timer.close()

    def _look(self) -> None:
        if self._is_ours():
            self._come()
        elif select.select([self._fd], [], [], 0)[0]:
            self._timer.set(self._reactor.monotonic() + LOOK_AGAIN_S)

    def _look_again(self) -> None:
        if self._is_ours():
            self._come()

    def _is_ours(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # it has hung up, which SIGHUP tells whom it concerns
            return False

    def _come(self) -> None:
        self.close()
        self._on_come()
