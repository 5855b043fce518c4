"""The clients of one job on a node: ranks that speak PMI, agents of launchers inside.

They come by the job's listener (PMI_PORT) or by the socket that a keeper gave them
(PMI_FD). Each connection has a number; what is said goes to the job's machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from native.machine import Event
from native.reactor import Reactor
from pct import events
from pct.pmi_port import PmiPort
from pct.streams import ClientSocket

RANKS_MIN = 256  # for whose connections there is room, however few the ranks: they may spawn


class Clients:
    """Connections of one job.

    Args:
        handle: takes the events.
        say: takes a line for the log.
    """

    def __init__(
        self,
        job_id: int,
        reactor: Reactor,
        handle: Callable[[Event], None],
        say: Callable[[str], None],
    ) -> None:
        self._job_id = job_id
        self._reactor = reactor
        self._handle = handle
        self._say = say
        self._port: PmiPort | None = None
        self._sockets: dict[int, ClientSocket] = {}
        self._by_port: set[int] = set()
        self._last = 0

    def listen(self, uid: int, ranks: int) -> bytes:
        """Open the listener.

        Args:
            uid: whose processes may connect.
            ranks: of the job on this node.

        Returns:
            Its address; empty: there can be none here.
        """
        try:
            self._port = PmiPort(
                self._reactor,
                uid,
                max(ranks, RANKS_MIN),
                lambda fd: self.add(fd, None),
                self._say,
            )
        except OSError as error:
            self._say(f"PMI_PORT cannot be offered: {error.strerror}")
            return b""
        return self._port.address.encode()

    def add(self, fd: int, rank: int | None) -> None:
        """A connection; ``rank``: whose it is, where that is known."""
        self._last = number = self._last + 1
        os.set_blocking(fd, False)

        def on_data(data: bytes) -> None:
            if data:
                self._handle(events.PmiReceived(self._job_id, number, data))
            else:
                self._forget(number)
                self._handle(events.PmiClosed(self._job_id, number))

        if rank is None:
            self._by_port.add(number)
        self._sockets[number] = ClientSocket(self._reactor, fd, on_data)
        self._handle(events.PmiConnected(self._job_id, number, rank))

    def reply(self, number: int, data: bytes) -> None:
        """Write to a connection, if it is still there."""
        if (socket := self._sockets.get(number)) is not None:
            socket.send(data)

    def hang_up(self, number: int) -> None:
        """Close a connection behind what is to be written."""
        if (socket := self._sockets.get(number)) is not None:
            self._forget(number)
            socket.hang_up()

    def close(self) -> None:
        """Close everything."""
        if self._port is not None:
            self._port.close()
        for socket in self._sockets.values():
            socket.close()
        self._sockets.clear()

    def _forget(self, number: int) -> None:
        self._sockets.pop(number, None)
        if number in self._by_port and self._port is not None:
            self._by_port.discard(number)
            self._port.ended()
