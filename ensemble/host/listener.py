"""Where servers connect: the listener, and connections that have proven themselves or not."""

from __future__ import annotations

import socket
from collections.abc import Callable
from hmac import compare_digest

from ensemble import messages as m
from ensemble.machine import job as j
from native.errors import PeerProtocolError, UsageError
from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor

BACKLOG = 16
ACCEPTS_A_TURN = 1  # what it has sent is read before another one takes its place
READ_BYTES = 64 * 1024
WRITE_BYTES = 64 * 1024  # of so much some leaves before the end of a turn
HELLO_S = 5.0  # a connection says hello within this
CONNECTIONS_MAX = 32
UNSENT_MAX_BYTES = 4 * 1024 * 1024  # a server that reads nothing is given up then
FRAMES_A_TURN = 256
_KINDS = {"tcp": socket.IPPROTO_TCP, "sctp": getattr(socket, "IPPROTO_SCTP", 132)}


def listen(host: str, port: int, protocol: str, key: str = "bind") -> tuple[socket.socket, str]:
    """A listener, and the protocol that it speaks.

    Args:
        key: of the configuration, for messages.
        protocol: ``tcp``, ``sctp``, or ``auto``: SCTP where the kernel has it.

    Raises:
        UsageError: the address is taken or not this host's, or the kernel has no SCTP.
    """
    names = ("sctp", "tcp") if protocol == "auto" else (protocol,)
    for name in names:
        try:
            family, _, _, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            sock = socket.socket(family, socket.SOCK_STREAM, _KINDS[name])
        except socket.gaierror as error:
            raise UsageError(f"{key}: {host}: {error.strerror}") from None
        except UnicodeError:
            raise UsageError(f"{key}: {host}: no name of a host") from None
        except OSError as error:
            if name == names[-1]:
                raise UsageError(
                    f"protocol: {name}: {error.strerror}; `tcp` is everywhere"
                ) from None
            continue
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(at)
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            raise UsageError(f"{key}: cannot listen at {host}:{port}: {error.strerror}") from None
        sock.setblocking(False)
        return sock, name
    raise AssertionError("no protocol")


class Listener:
    """The listener and its connections, by their descriptors.

    Args:
        token: that a hello must have.
        on_event: takes what happens, as events of the machine.
    """

    def __init__(
        self, sock: socket.socket, token: str, reactor: Reactor, on_event: Callable[[j.Event], None]
    ) -> None:
        self._sock = sock
        self.token = token.encode()
        self.reactor = reactor
        self.on_event = on_event
        self.connections: dict[int, Connection] = {}
        # SCTP keeps what one call sends apart; a connection of it has the listener's protocol.
        self.keeps_apart = sock.proto == _KINDS["sctp"] or sock.type == socket.SOCK_SEQPACKET
        self._acceptor = Acceptor(reactor, sock, ACCEPTS_A_TURN, self._came)

    def send(self, connection: int, epoch: int, message: m.Message) -> None:
        """Send a message; a connection that is no more takes none."""
        if (found := self.connections.get(connection)) is not None:
            found.send(m.encode(epoch, message))

    def refuse(self, connection: int, text: str) -> None:
        """Close a connection, which is told why."""
        if (found := self.connections.get(connection)) is not None:
            if text:
                found.send(m.encode(0, m.Refused(text)))
            found.close()

    def close(self) -> None:
        """Close all."""
        for connection in list(self.connections.values()):
            connection.close()
        self._acceptor.close()
        self._sock.close()

    def _came(self, fd: int, peer: object) -> None:
        sock = socket.socket(fileno=fd)
        if len(self.connections) >= CONNECTIONS_MAX:
            first = next((c for c in self.connections.values() if not c.is_proven), None)
            if first is None:
                sock.close()
                return
            first.close()
        sock.setblocking(False)
        self.connections[sock.fileno()] = Connection(sock, self)


class Connection:
    """One connection from its first byte to its end.

    Attributes:
        is_proven: it has said hello, with the token.
    """

    def __init__(self, sock: socket.socket, listener: Listener) -> None:
        self.is_proven = False
        self._sock = sock
        self._listener = listener
        self._fd = sock.fileno()
        self._framing = m.Framing(m.HELLO_MAX_BYTES)
        self._out = bytearray()
        self._is_asked = False
        self._watch = listener.reactor.watch(self._fd, self._readable)
        self._timer = listener.reactor.timer(self.close)
        self._timer.set(listener.reactor.monotonic() + HELLO_S)

    def send(self, data: bytes) -> None:
        """Send bytes at the end of this turn, with what else is said in it."""
        if len(self._out) + len(data) > UNSENT_MAX_BYTES:
            self._lose("it does not read what it is told")
            return
        self._out += data
        if len(self._out) >= WRITE_BYTES:
            self._write()
        elif not self._is_asked:
            self._is_asked = True
            self._listener.reactor.call_soon(self._write)

    def close(self) -> None:
        """End it; nobody is told. What has been said leaves, if there is room.

        Calling twice is harmless.
        """
        if self._fd >= 0:
            self._write()
            del self._listener.connections[self._fd]
            self._fd = -1
            self._watch.close()
            self._timer.close()
            self._sock.close()

    def _lose(self, text: str) -> None:
        fd, was_proven = self._fd, self.is_proven
        self.close()
        if was_proven and fd >= 0:
            self._listener.on_event(j.ConnectionClosed(fd, text))

    def _readable(self) -> None:
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(f"has lost its connection: {error.strerror}")
            return
        if not data:
            self._lose("has closed its connection")
            return
        self._framing.feed(data)
        self._watch.set(None, self._write if self._out else None)
        self._take()

    def _take(self) -> None:
        """Take what is whole, some of it a turn."""
        for _ in range(FRAMES_A_TURN):
            if self._fd < 0:
                return
            try:
                frame = self._framing.next()
                if frame is not None:
                    self._heard(frame)
            except PeerProtocolError as error:
                self._lose(f"has sent what is no message: {error}")
                return
            if frame is None:
                if self._fd >= 0:
                    self._watch.set(self._readable, self._write if self._out else None)
                return
        self._listener.reactor.call_soon(self._take)

    def _heard(self, frame: m.Frame) -> None:
        if self.is_proven:
            self._listener.on_event(j.Received(self._fd, frame.epoch, frame.message))
            return
        message = frame.message
        if not isinstance(message, m.Hello):
            raise PeerProtocolError("a message before hello")
        if not compare_digest(message.token.encode(), self._listener.token):
            self.send(m.encode(0, m.Refused("another token")))
            self.close()
            return
        self.is_proven = True
        self._timer.set(None)
        self._framing.max_bytes = m.MESSAGE_MAX_BYTES
        self._listener.on_event(j.ServerConnected(self._fd, frame.epoch))

    def _write(self) -> None:
        self._is_asked = False
        if self._fd < 0:
            return
        try:
            while self._out:
                del self._out[: self._sock.send(self._piece())]
        except BlockingIOError:
            pass
        except OSError:  # reading tells how it ended
            self._out.clear()
        self._watch.set(self._watch.on_readable, self._write if self._out else None)

    def _piece(self) -> bytearray:
        """What one call sends: all, or one frame where messages are kept apart."""
        return self._out[: m.frame_bytes(self._out)] if self._listener.keeps_apart else self._out
