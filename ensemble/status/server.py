"""Serves the status of a study, to those with the token: /, /events, /jobs, /jobs/UID, /metrics."""

from __future__ import annotations

import socket
import time

from msgspec import json

from ensemble.machine import job as j
from ensemble.status.view import View
from native.limits import Limits
from native.loop.accepting import Acceptor
from native.loop.reactor import Reactor
from partition.web.connection import Connection
from partition.web.exchange import Request
from partition.web.gate import Gate
from partition.web.metrics import CONTENT_TYPE
from partition.web.page import Page

ACCEPTS_A_TURN = 1  # what it has sent is read before another one takes its place
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
TELL_EVERY_S = 0.25  # browsers are told of changes
PING_EVERY_S = 15.0


class Status:
    """A listener, its connections, and what they are shown.

    Args:
        listener: does not block.
    """

    def __init__(
        self,
        listener: socket.socket,
        reactor: Reactor,
        limits: Limits,
        gate: Gate,
        page: Page,
        view: View,
    ) -> None:
        self._listener = listener
        self._reactor = reactor
        self._limits = limits
        self._gate = gate
        self._page = page
        self._view = view
        self._connections: dict[Connection, None] = {}
        self._acceptor = Acceptor(reactor, listener, ACCEPTS_A_TURN, self._came)
        self._timer = reactor.timer(self._tell)
        self._is_changed = False

    def take(self, actions: list[j.Action]) -> None:
        """The machine has decided something."""
        self._view.take(actions, time.time())
        self._is_changed = True
        if self._streams():
            self._tell_in(TELL_EVERY_S)

    def close(self) -> None:
        """End all connections."""
        self._tell()
        for connection in list(self._connections):
            connection.finish()
        self._acceptor.close()
        self._timer.close()
        self._listener.close()

    def _streams(self) -> list[Connection]:
        return [each for each in self._connections if each.is_stream]

    def _tell_in(self, wait_s: float) -> None:
        at = self._reactor.monotonic() + wait_s
        if self._timer.at is None or self._timer.at > at:
            self._timer.set(at)

    def _tell(self) -> None:
        streams = self._streams()
        if not streams:
            return
        data = self._event() if self._is_changed else b":\n\n"
        self._is_changed = False
        for connection in streams:
            connection.send(data)
        self._tell_in(PING_EVERY_S)

    def _event(self) -> bytes:
        return b"data: " + json.encode(self._view.summary(time.time())) + b"\n\n"

    def _came(self, fd: int, peer: object) -> None:
        sock = socket.socket(fileno=fd)
        sock.setblocking(False)
        if len(self._connections) >= self._limits.web_clients_count:
            first = next((c for c in self._connections if not c.is_stream), None)
            if first is None:
                sock.close()
                return
            first.close()
        connection = Connection(sock, self._reactor, self._limits, self._asked, self._ended)
        self._connections[connection] = None

    def _ended(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def _asked(self, connection: Connection, request: Request) -> None:
        is_head = request.method == "HEAD"
        if text := self._gate.why_not(request.host, request.token, request.authorization):
            connection.answer(403, TEXT, f"{text}\n".encode(), is_head=is_head)
            return
        if request.method not in ("GET", "HEAD"):
            connection.answer(405, TEXT, b"only GET and HEAD\n", ("Allow", "GET, HEAD"))
            return
        path, _, uid = request.path.rstrip("/").partition("/jobs/")
        if request.path == "/":
            policy = ("Content-Security-Policy", self._page.policy)
            kind = "text/html; charset=utf-8"
            connection.answer(200, kind, self._page.data, policy, is_head=is_head)
        elif request.path == "/metrics":
            connection.answer(200, CONTENT_TYPE, self._view.metrics().encode(), is_head=is_head)
        elif path == "/jobs" and not uid:
            connection.answer(200, JSON, json.encode(self._view.jobs()), is_head=is_head)
        elif not path and uid.isdecimal() and (row := self._view.job(int(uid[:20]))) is not None:
            connection.answer(200, JSON, json.encode(row), is_head=is_head)
        elif request.path == "/events" and not is_head:
            connection.stream(request.takes_gzip)
            connection.send(self._event())
            self._tell_in(PING_EVERY_S)
        else:
            text = "there are /, /jobs, /jobs/UID, /events and /metrics\n"
            connection.answer(404, TEXT, text.encode(), is_head=is_head)
