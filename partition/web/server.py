"""Serves the page, its changes and the metrics."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

from native.errors import UsageError
from native.limits import Limits
from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor
from native.text import shown
from native.wire.batch import Row
from native.wire.nodes import NodeEvent
from native.wire.status import NodeRow
from partition.web import metrics
from partition.web.address import Address
from partition.web.connection import Connection
from partition.web.exchange import Request
from partition.web.gate import Gate
from partition.web.page import Page
from partition.web.view import View

BACKLOG = 64
ACCEPTS_A_TURN = 1  # what it has sent is read before another one takes its place
PING_EVERY_S = 15.0  # to streams, so that a proxy keeps them and a browser that is gone is noticed
TEXT = "text/plain; charset=utf-8"


class Server:
    """A listener, its connections, and what they are shown.

    Args:
        on_begin: called once, when there is something to show.

    Attributes:
        address: where it listens.
    """

    def __init__(
        self, listener: socket.socket, reactor: Reactor, limits: Limits, gate: Gate, page: Page,
        view: View, on_begin: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.address = Address(*listener.getsockname()[:2])
        self._listener = listener
        self._reactor = reactor
        self._limits = limits
        self._gate = gate
        self._page = page
        self._view = view
        self._on_begin: Callable[[], None] | None = on_begin
        self._connections: dict[Connection, None] = {}  # the oldest first
        self._acceptor = Acceptor(reactor, listener, ACCEPTS_A_TURN, self._came)
        self._ping_timer = reactor.timer(self._ping)

    def close(self) -> None:
        """End all connections."""
        for connection in list(self._connections):
            connection.finish()
        self._acceptor.close()
        self._ping_timer.close()
        self._listener.close()

    # -- what is shown -----------------------------------------------------

    def changed(self, rows: Sequence[NodeRow], is_whole: bool) -> None:
        """New rows of bebopd's table."""
        self._broadcast(self._view.changed(rows, is_whole, time.time()))
        self._begin()

    def asked(self, jobs: Sequence[Row], events: Sequence[NodeEvent]) -> None:
        """Jobs and events."""
        told = self._view.asked(jobs, events, time.time())
        if told is not None:
            self._broadcast(told)

    def lost(self, text: str) -> None:
        """bebopd is out of reach."""
        if text != self._view.lost_text:
            self._broadcast(self._view.lost(text, time.time()))
        self._begin()

    def _begin(self) -> None:
        if self._on_begin is not None:
            self._on_begin()
            self._on_begin = None

    def _broadcast(self, data: bytes) -> None:
        for connection in self._streams():
            connection.send(_event(data))

    def _streams(self) -> list[Connection]:
        return [each for each in self._connections if each.is_stream]

    def _ping(self) -> None:
        for connection in self._streams():
            connection.send(b":\n\n")
        if self._streams():
            self._ping_timer.set(self._reactor.monotonic() + PING_EVERY_S)

    # -- connections -------------------------------------------------------

    def _came(self, fd: int, peer: object) -> None:
        sock = socket.socket(fileno=fd)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self._connections) >= self._limits.web_clients_count:
            self._make_room()
        if len(self._connections) >= self._limits.web_clients_count:
            sock.close()
            return
        connection = Connection(sock, self._reactor, self._limits, self._asked, self._ended)
        self._connections[connection] = None

    def _make_room(self) -> None:
        """Whoever has shown no token gives way, the oldest first."""
        for connection in self._connections:
            if not connection.is_stream:
                connection.close()
                return

    def _ended(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def _asked(self, connection: Connection, request: Request) -> None:
        is_head = request.method == "HEAD"
        if text := self._gate.why_not(request.host, request.token, request.authorization):
            connection.answer(403, TEXT, f"{text}\n".encode(), is_head=is_head)
        elif request.method not in ("GET", "HEAD"):
            connection.answer(405, TEXT, b"only GET and HEAD\n", ("Allow", "GET, HEAD"))
        elif request.path == "/":
            policy = ("Content-Security-Policy", self._page.policy)
            kind = "text/html; charset=utf-8"
            connection.answer(200, kind, self._page.data, policy, is_head=is_head)
        elif request.path == "/metrics":
            connection.answer(200, metrics.CONTENT_TYPE, self._metrics(), is_head=is_head)
        elif request.path == "/events" and not is_head:
            connection.stream(request.takes_gzip)
            connection.send(_event(self._view.whole(time.time())))
            if self._ping_timer.at is None:
                self._ping_timer.set(self._reactor.monotonic() + PING_EVERY_S)
        else:
            connection.answer(404, TEXT, b"there are /, /events and /metrics\n", is_head=is_head)

    def _metrics(self) -> bytes:
        view = self._view
        return metrics.text(
            view.rows.values(),
            view.jobs,
            is_up=not view.lost_text,
            changed_at=view.changed_at,
            clients=len(self._streams()),
            release=version("yod"),
        ).encode()


def listen(address: Address) -> socket.socket:
    """A socket that listens there.

    Raises:
        UsageError: the host is not known, or the address is another program's.
    """
    try:
        family, kind, _, _, at = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(at)
            sock.listen(BACKLOG)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        where = f"{shown(address.host)}:{address.port}"
        raise UsageError(f"--web: cannot listen at {where}: {error.strerror}") from None
    return sock


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"
