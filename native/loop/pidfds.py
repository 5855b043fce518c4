"""Children that tell of their end by a descriptor each, and not by SIGCHLD."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native.loop.reactor import Reactor, Timer, Watch

_AGAIN_S = 1.0  # when there was no descriptor for a child


class Pidfds:
    """Watches children.

    Args:
        on_end: called with the process id of a child that can be reaped.
    """

    def __init__(self, reactor: Reactor, on_end: Callable[[int], None]) -> None:
        self._reactor = reactor
        self._on_end = on_end
        self._watches: dict[int, Watch] = {}
        self._waiting: list[int] = []  # children without a descriptor
        self._timer: Timer | None = None

    def watch(self, unix_pid: int) -> None:
        """Tell when a child has ended, later also where no descriptor is left now."""
        try:
            fd = os.pidfd_open(unix_pid)
        except ProcessLookupError:  # somebody has reaped it
            self._reactor.call_soon(partial(self._on_end, unix_pid))
        except OSError:
            self._waiting.append(unix_pid)
            if self._timer is None:
                self._timer = self._reactor.timer(self._again)
            self._timer.set(self._reactor.monotonic() + _AGAIN_S)
        else:
            call = partial(self._ended, unix_pid)
            self._watches[unix_pid] = self._reactor.watch(fd, call)

    def rest(self, unix_pid: int, is_resting: bool) -> None:
        """Do not tell of a child's end, nor wake up for it, until it is told to go on."""
        if (watch := self._watches.get(unix_pid)) is not None:
            watch.set(None if is_resting else partial(self._ended, unix_pid), None)

    def close(self) -> None:
        """Watch none any more."""
        for unix_pid in list(self._watches):
            self._forget(unix_pid)

    def _ended(self, unix_pid: int) -> None:
        self._forget(unix_pid)
        self._on_end(unix_pid)

    def _forget(self, unix_pid: int) -> None:
        watch = self._watches.pop(unix_pid)
        fd = watch.fd
        watch.close()
        os.close(fd)

    def _again(self) -> None:
        waiting, self._waiting = self._waiting, []
        for unix_pid in waiting:
            self.watch(unix_pid)
