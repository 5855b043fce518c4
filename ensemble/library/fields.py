"""The server's end of the data path: simulations ask for parameters, and send fields."""

from __future__ import annotations

import json
import secrets
import selectors
import socket
from collections.abc import Callable, Iterator, Mapping
from hmac import compare_digest
from typing import Any, NamedTuple

import numpy as np

from ensemble.library.frames import Kind, Reader, encode, read_field
from ensemble.library.moments import Array
from ensemble.library.server import Server, Update
from native.errors import PeerProtocolError

VARIABLE = "YOD_ENSEMBLE_FIELDS"  # how simulations find it: address and token
HELLO_MAX_BYTES = 256
UNSENT_S = 30.0  # parameters are sent within this


class Field(NamedTuple):
    """A field of one simulation at one step.

    Attributes:
        values: shape (n,), float64.
    """

    simulation: int
    name: str
    step: int
    values: Array


class Fields:
    """Listens for the simulations of a study.

    A simulation that is run again sends its fields again; each is given once, by simulation,
    name and step, which rises. :attr:`taken` belongs into a checkpoint with what is made of them.

    Args:
        parameters: gives those of a simulation, by its number; JSON has to be able to say them.

    Attributes:
        taken: the next step of each (simulation, name).
        done: simulations that have sent everything.
    """

    def __init__(self, server: Server, parameters: Callable[[int], Mapping[str, Any]]) -> None:
        self.taken: dict[tuple[int, str], int] = {}
        self.done: set[int] = set()
        self._server = server
        self._parameters = parameters
        self._token = secrets.token_urlsafe(24)
        self._listener = socket.create_server(("", 0), backlog=128)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(server, selectors.EVENT_READ)
        port = self._listener.getsockname()[1]
        server.variable(VARIABLE, f"{server.host} {port} {self._token}")

    def events(self) -> Iterator[Field | Update]:
        """Yield fields, and states of clients, until all submitted clients have ended.

        What is in a connection when its client has ended is read first.
        """
        while self._server.unfinished or len(self._selector.get_map()) > 2:
            yield from self.poll(3600.0)

    def poll(self, timeout_s: float) -> Iterator[Field | Update]:
        """What has come; waits at most so long for something."""
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._server:
                yield from self._server.poll()
            else:
                yield from key.data.read()

    def close(self) -> None:
        """End all connections."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Simulation):
                key.data.close()
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it is gone already
            return
        sock.settimeout(UNSENT_S)
        self._selector.register(sock, selectors.EVENT_READ, _Simulation(self, sock))

    def _forget(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)
        sock.close()

    def _is_new(self, simulation: int, name: str, step: int) -> bool:
        key = simulation, name
        if step < self.taken.get(key, 0):
            return False
        self.taken[key] = step + 1
        return True


class _Simulation:
    """One connection."""

    def __init__(self, fields: Fields, sock: socket.socket) -> None:
        self._fields = fields
        self._sock = sock
        self._reader = Reader(HELLO_MAX_BYTES)
        self._number = -1  # it has not said hello

    def read(self) -> Iterator[Field]:
        """Fields that have come."""
        try:
            data = self._sock.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._reader.feed(data)
        try:
            while (frame := self._reader.next()) is not None:
                if frame.kind is Kind.HELLO:
                    self._greet(frame.simulation, frame.payload)
                elif frame.simulation != self._number:
                    raise PeerProtocolError("of another simulation")
                elif frame.kind is Kind.FIELD:
                    name, step, values = read_field(frame.payload)
                    if self._fields._is_new(self._number, name, step):
                        array = np.frombuffer(values, dtype="<f8").astype(np.float64, copy=False)
                        yield Field(self._number, name, step, array)
                elif frame.kind is Kind.DONE:
                    self._fields.done.add(self._number)
                    self._sock.sendall(encode(Kind.DONE, self._number))
        except (PeerProtocolError, OSError):
            self.close()

    def close(self) -> None:
        """End it."""
        self._fields._forget(self._sock)

    def _greet(self, simulation: int, token: bytes) -> None:
        if self._number >= 0 or not compare_digest(token, self._fields._token.encode()):
            raise PeerProtocolError("another token, or a second hello")
        self._number = simulation
        self._reader.max_bytes = Reader().max_bytes
        text = json.dumps(self._fields._parameters(simulation))
        self._sock.sendall(encode(Kind.PARAMETERS, simulation, text.encode()))
