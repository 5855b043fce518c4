"""Connections of a listener, some a turn, also where no descriptor is left."""

from __future__ import annotations

import _socket  # see pct.host.keeper
import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from native.loop.reactor import Reactor

if TYPE_CHECKING:
    import socket

PAUSE_S = 0.1  # before one that rests looks again
_NONE_IS_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Takes the connections that come to a listener.

    One for which no descriptor is left is taken with a descriptor kept for that, and closed. Where
    others have taken that one, too, the listener is not looked at for ``PAUSE_S``, and who has come
    waits: else it would stay readable, and the loop would spin.

    Args:
        listener: it does not block; whoever has made it closes it, after :meth:`close`.
        turn_max: connections that are taken at once.
        on_come: takes the descriptor and the address of one.
        on_closed: told the address of one that was closed.
    """

    def __init__(
        self,
        reactor: Reactor,
        listener: _socket.socket | socket.socket,
        turn_max: int,
        on_come: Callable[[int, Any], None],
        on_closed: Callable[[Any], None] = lambda peer: None,
    ) -> None:
        self._reactor = reactor
        self._listener = listener
        self._turn_max = turn_max
        self._on_come = on_come
        self._on_closed = on_closed
        self._spare_fd = _open_spare()
        self._is_closed = False
        self._timer = reactor.timer(self._go_on)
        self._watch = reactor.watch(listener.fileno(), self._accept)

    def close(self) -> None:
        """Take no more. Twice is harmless."""
        if not self._is_closed:
            self._is_closed = True
            self._watch.close()
            self._timer.close()
            self._on_come, self._on_closed = _close, _nobody
            if self._spare_fd >= 0:
                os.close(self._spare_fd)

    def _accept(self) -> None:
        for _ in range(self._turn_max):
            if self._is_closed:  # by one that has been taken
                return
            try:
                fd, peer = self._listener._accept()  # type: ignore[union-attr]
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NONE_IS_LEFT and not self._close_one():
                    self._watch.set(None, None)
                    self._timer.set(self._reactor.monotonic() + PAUSE_S)
                    return
                continue  # else that one has gone again: accept(2), "Error handling"
            self._on_come(fd, peer)

    def _go_on(self) -> None:
        self._watch.set(self._accept, None)

    def _close_one(self) -> bool:
        """Close a connection for which no descriptor is left; False: it waits."""
        if self._spare_fd < 0:
            self._spare_fd = _open_spare()
        if self._spare_fd < 0:
            return False
        os.close(self._spare_fd)
        try:
            fd, peer = self._listener._accept()  # type: ignore[union-attr]
        except OSError:
            peer = None
        else:
            os.close(fd)
        self._spare_fd = _open_spare()
        if peer is not None:
            self._on_closed(peer)
        return True


def _close(fd: int, peer: object) -> None:
    """Nobody takes a connection behind the end."""
    os.close(fd)


def _nobody(peer: object) -> None:
    """Nor hears of one."""


def _open_spare() -> int:
    """A descriptor; -1: none is left in the system, either."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
