"""A server: it asks the launcher for clients, hears how they are, and says when all is done."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple, Self

from ensemble import messages as m
from native.errors import PeerProtocolError, YodError

CONNECT_S = 30.0
_SCTP = 132


class State(Enum):
    """How a client is."""

    WAITING = 0
    RUNNING = 1
    TERMINATED = 2  # it has ended well
    FAILED = 3
    ERROR = 4  # it never ran

    @property
    def is_final(self) -> bool:
        """It runs no more."""
        return self.value >= State.TERMINATED.value


class Update(NamedTuple):
    """A client's new state."""

    client: int
    state: State


class LauncherLostError(YodError):
    """The launcher is gone, or has replaced this server: it has to end."""


class Server:
    """The server's end of the conversation with the launcher that has started it.

    Each call answers the launcher's pings. A server that computes for long calls :meth:`poll` now
    and then, or it is taken for dead.

    Args:
        environment: where the launcher has said how it is reached.

    Attributes:
        epoch: 1 for the first server of a study; each later one has a greater number.
        goes_on: this server replaces another one, and may go on from a checkpoint.
        is_tolerant: a server that is lost is replaced, and clients may fail.
        clients: the state of each client that was asked for and told of.

    Raises:
        LauncherLostError: nobody listens there, or another server is in our place.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        try:
            self._host = environment["MELISSA_LAUNCHER_HOST"]
            port = int(environment["MELISSA_LAUNCHER_PORT"])
            token = environment["YOD_ENSEMBLE_TOKEN"]
        except KeyError as error:
            raise LauncherLostError(
                f"{error.args[0]} is not set: yod-ensemble starts servers"
            ) from None
        self.epoch = int(environment["YOD_ENSEMBLE_EPOCH"])
        self.goes_on = environment.get("YOD_ENSEMBLE_FROM_CHECKPOINT") == "1"
        self.is_tolerant = environment.get("MELISSA_FAULT_TOLERANCE") != "OFF"
        self.clients: dict[int, State] = {}
        self._asked: set[int] = set()  # their ends have not been told
        self._framing = m.Framing()
        self._is_done = False
        protocol = environment.get("MELISSA_LAUNCHER_PROTOCOL", "TCP")
        try:
            self._sock = _connect(self._host, port, protocol)
        except OSError as error:
            raise LauncherLostError(
                f"no launcher at {self._host}:{port}: {error.strerror}"
            ) from None
        self._send(m.Hello(token))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def host(self) -> str:
        """This host's address, as the launcher's host sees it: for clients that connect."""
        return str(self._sock.getsockname()[0])

    @property
    def unfinished(self) -> int:
        """Clients that were asked for and have not ended."""
        return len(self._asked)

    def fileno(self) -> int:
        """Readable when there is something for :meth:`poll`."""
        return self._sock.fileno()

    def group_size(self, size: int) -> None:
        """From now on a client job has so many simulations."""
        self._send(m.GroupSize(size))

    def variable(self, name: str, value: str) -> None:
        """Clients that are asked for from now on have this in their environment."""
        self._send(m.Variable(name, value))

    def submit(self, first: int, count: int = 1) -> None:
        """Ask for clients with these ids in a row. An id may be used again after its end."""
        self._asked.update(range(first, first + count))
        self._send(m.JobSubmission(first, count))

    def cancel(self, client: int) -> None:
        """Have a client ended; its end is told."""
        self._send(m.JobCancellation(client))

    def finish(self) -> None:
        """The study is complete: clients that are left are cancelled, and this server ends."""
        if not self._is_done:
            self._is_done = True
            self._send(m.CompletionNotification())

    def poll(self, timeout_s: float = 0.0) -> list[Update]:
        """What clients have done; waits until there is something, at most so long.

        Raises:
            LauncherLostError: the launcher is gone, or does not want this server any more.
        """
        until = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, until - time.monotonic())
            ready, _, _ = select.select([self._sock], [], [], left_s)
            found = self._read() if ready else []
            if found or not left_s:
                return found

    def updates(self) -> Iterator[Update]:
        """What clients do, until all that were asked for have ended."""
        while self._asked:
            yield from self.poll(3600.0)

    def close(self) -> None:
        """Leave. A server that has not finished is replaced by another one."""
        self._sock.close()

    def _send(self, message: m.Message) -> None:
        try:
            self._sock.sendall(m.encode(self.epoch, message))
        except OSError as error:
            raise LauncherLostError(f"the launcher is gone: {error.strerror}") from None

    def _read(self) -> list[Update]:
        try:
            data = self._sock.recv(65536)
        except OSError as error:
            raise LauncherLostError(f"the launcher is gone: {error.strerror}") from None
        if not data:
            raise LauncherLostError("the launcher is gone")
        self._framing.feed(data)
        found: list[Update] = []
        while True:
            try:
                frame = self._framing.next()
            except PeerProtocolError as error:
                raise LauncherLostError(f"the launcher speaks otherwise: {error}") from None
            if frame is None:
                return found
            match frame.message:
                case m.Ping():
                    self._send(m.Ping())
                case m.Refused(text):
                    raise LauncherLostError(f"the launcher refuses this server: {text}")
                case m.JobUpdate(client, number):
                    state = State(number)
                    self.clients[client] = state
                    if state.is_final:
                        self._asked.discard(client)
                    found.append(Update(client, state))


def _connect(host: str, port: int, protocol: str) -> socket.socket:
    if protocol == "SCTP":
        family, _, _, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, socket.SOCK_STREAM, _SCTP)
        sock.settimeout(CONNECT_S)
        sock.connect(at)
    else:
        sock = socket.create_connection((host, port), CONNECT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.settimeout(CONNECT_S)
    return sock
