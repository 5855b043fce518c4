"""Connections of a listener, some a turn, also where no descriptor is left."""

from __future__ import annotations

import _socket  # see pct.host.keeper
import errno
import os
from collections.abc import Callable, Iterator
from typing import Any


class Acceptor:
    """Takes connections when the listener is readable.

    One for which no descriptor is left is taken with a descriptor kept for that, and closed: else
    the listener would stay readable, and the loop would spin.

    Args:
        listener: it does not block; whoever has made it closes it.
        turn_max: connections that are taken at once.
        on_closed: told the address of one that was closed.
    """

    def __init__(
        self,
        listener: _socket.socket,
        turn_max: int,
        on_closed: Callable[[Any], None] = lambda peer: None,
    ) -> None:
        self._listener = listener
        self._turn_max = turn_max
        self._on_closed = on_closed
        self._spare_fd = _open_spare()

    def close(self) -> None:
        """Give back what is kept. Twice is harmless."""
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
            self._spare_fd = -1

    def accept(self) -> Iterator[tuple[int, Any]]:
        """The descriptors and addresses of those that have come, as they are asked for.

        It ends when the listener is closed meanwhile.
        """
        for _ in range(self._turn_max):
            if self._listener.fileno() < 0:
                return
            try:
                found = self._listener._accept()  # type: ignore[attr-defined]
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._close_one()
                return  # else that one has gone again
            yield found

    def _close_one(self) -> None:
        self.close()
        try:
            fd, peer = self._listener._accept()  # type: ignore[attr-defined]
        except OSError:
            pass
        else:
            os.close(fd)
            self._on_closed(peer)
        self._spare_fd = _open_spare()


def _open_spare() -> int:
    """A descriptor; -1: none is left in the system, either."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
