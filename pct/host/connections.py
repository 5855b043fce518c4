"""The PMI connections of one job on a node: of its ranks, and of agents of launchers inside.

A client connects to the job's listener (PMI_PORT), or has inherited a socket from the keeper
(PMI_FD). Each connection has a number. The bytes that arrive are events for the job's machine.
"""

from __future__ import annotations

import _socket
import os
from collections.abc import Callable

from native.loop.reactor import Reactor
from native.machine import Event
from native.wire.base import DATA_MAX
from pct import pmi_events
from pct.account import Account, Charge, OverLimit
from pct.host.pmi_port import CONNECTIONS_PER_RANK, PmiPort


class Connections:
    """The connections of one job.

    Args:
        handle: takes the events.
        say: takes a line for the log.
        account: charged for the bytes that clients have not read yet.
    """

    def __init__(
        self,
        job_id: int,
        reactor: Reactor,
        handle: Callable[[Event], None],
        say: Callable[[str], None],
        account: Account,
    ) -> None:
        self._job_id = job_id
        self._reactor = reactor
        self._handle = handle
        self._say = say
        self._account = account
        self._port: PmiPort | None = None
        self._sockets: dict[int, ClientSocket] = {}
        self._leaving: dict[int, ClientSocket] = {}  # to be closed when all is written
        self._by_port: set[int] = set()
        self._last = 0

    def listen(self, uid: int, ranks: int, connections: int) -> bytes:
        """Open the listener.

        Args:
            uid: whose processes may connect.
            ranks: of the job on this node.
            connections: how many are accepted at least. Few ranks may spawn many.

        Returns:
            Its address; empty: no listener can be opened.
        """
        try:
            self._port = PmiPort(
                self._reactor,
                uid,
                max(connections, ranks * CONNECTIONS_PER_RANK),
                lambda fd: self.add(fd, None),
                self._say,
            )
        except OSError as error:
            self._say(f"PMI_PORT cannot be offered: {error.strerror}")
            return b""
        return self._port.address.encode()

    def add(self, fd: int, rank: int | None) -> None:
        """Take over a connection, of a rank where that is known."""
        self._last = number = self._last + 1
        os.set_blocking(fd, False)

        def on_data(data: bytes) -> None:
            if data:
                self._handle(pmi_events.PmiReceived(self._job_id, number, data))
            else:
                self._forget(number)
                self._handle(pmi_events.PmiClosed(self._job_id, number))

        if rank is None:
            self._by_port.add(number)
        self._sockets[number] = ClientSocket(self._reactor, fd, on_data, Charge(self._account))
        self._handle(pmi_events.PmiConnected(self._job_id, number, rank))

    def reply(self, number: int, data: bytes) -> None:
        """Write to a connection, if it is still there."""
        if (socket := self._sockets.get(number)) is None:
            return
        try:
            socket.send(data)
        except OverLimit:
            socket.close()
            self._forget(number)
            self._handle(pmi_events.PmiClosed(self._job_id, number))

    def hang_up(self, number: int) -> None:
        """Close a connection when everything has been written."""
        if (socket := self._sockets.pop(number, None)) is not None:
            self._leaving[number] = socket
            socket.hang_up(lambda: self._forget(number))

    def close(self) -> None:
        """Close everything."""
        if self._port is not None:
            self._port.close()
            self._port = None
        for socket in (*self._sockets.values(), *self._leaving.values()):
            socket.close()
        self._sockets.clear()
        self._leaving.clear()

    def _forget(self, number: int) -> None:
        self._sockets.pop(number, None)
        self._leaving.pop(number, None)
        if number in self._by_port and self._port is not None:
            self._by_port.discard(number)
            self._port.ended()


class ClientSocket:
    """A client's stream socket. ``on_data(b"")`` is called when the client has hung up.

    Args:
        charge: for the bytes that the client has not read yet.
        is_patient: read nothing while bytes wait to be written. So a client that does not
            read costs no more than the answers to its last requests.
    """

    def __init__(
        self,
        reactor: Reactor,
        fd: int,
        on_data: Callable[[bytes], None],
        charge: Charge,
        *,
        is_patient: bool = True,
    ) -> None:
        self._fd = fd
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fd)
        self._charge = charge
        self._on_data = on_data
        self._is_patient = is_patient
        self._is_closing = False
        self._on_closed: Callable[[], None] | None = None
        self._unsent = bytearray()
        self._watch = reactor.watch(fd, self._readable)

    def send(self, data: bytes) -> None:
        """Write now, or when the client reads.

        Raises:
            OverLimit: too many bytes wait already. The caller must close the socket.
        """
        if self._fd < 0:
            return
        is_waiting = bool(self._unsent)
        self._unsent += data
        if not is_waiting:
            self._writable()
        if self._fd >= 0:
            self._charge.set(len(self._unsent))

    def hang_up(self, on_closed: Callable[[], None] = lambda: None) -> None:
        """Close it when all has been written, then call ``on_closed``."""
        self._is_closing = True
        self._on_closed = on_closed
        if not self._unsent:
            self.close()

    def close(self) -> None:
        """Close it now."""
        if self._fd >= 0:
            self._watch.close()
            self._socket.close()
            self._fd = -1
            self._unsent.clear()
            self._charge.clear()
            if (on_closed := self._on_closed) is not None:
                self._on_closed = None
                on_closed()

    def take_rest(self) -> None:
        """Read what a client has sent that has ended."""
        while self._fd >= 0 and self._read():
            pass

    def _readable(self) -> None:
        self._read()

    def _read(self) -> bool:
        """Read once; False: nothing has been sent."""
        try:
            data = self._socket.recv(DATA_MAX, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:  # reset, or no connection
            data = b""
        if not data:
            self.close()
        if not self._is_closing:
            self._on_data(data)
        return True

    def _writable(self) -> None:
        try:
            while self._unsent:
                count = self._socket.send(self._unsent, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
                del self._unsent[:count]
        except BlockingIOError:
            pass
        except OSError:  # reset, or no connection
            self.close()
            if not self._is_closing:
                self._on_data(b"")
            return
        if len(self._unsent) < self._charge.held_bytes:
            self._charge.set(len(self._unsent))
        if self._unsent:
            self._watch.set(None if self._is_patient else self._readable, self._writable)
        elif self._is_closing:
            self.close()
        elif self._watch.on_writable is not None:
            self._watch.set(self._readable, None)
