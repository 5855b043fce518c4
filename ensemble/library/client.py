"""A simulation's end of the data path: it gets its parameters, and sends fields to the server."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ensemble.library.frames import Frame, Kind, Reader, encode, field
from native.errors import PeerProtocolError, YodError

CONNECT_S = 30.0
ANSWER_S = 600.0  # the server may be busy with what others have sent


class Client:
    """One simulation of a client job; leaving its ``with`` block without an error says that all
    has been sent.

    Attributes:
        simulation: its number: that of its job times the group's size, and its place there.
        parameters: what the server has chosen for it.

    Raises:
        YodError: the server does not answer.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.simulation = _number(environment)
        try:
            host, port, token = environment["YOD_ENSEMBLE_FIELDS"].split()
        except (KeyError, ValueError):
            raise YodError("YOD_ENSEMBLE_FIELDS is not set: the server takes no fields") from None
        try:
            self._sock = socket.create_connection((host, int(port)), CONNECT_S)
        except OSError as error:
            raise YodError(f"no server at {host}:{port}: {error}") from None
        self._sock.settimeout(ANSWER_S)
        self._reader = Reader()
        self._send(Kind.HELLO, token.encode())
        self.parameters: dict[str, Any] = json.loads(self._next(Kind.PARAMETERS).payload)

    def send(self, name: str, step: int, values: ArrayLike) -> None:
        """Send a field; its shape does not travel."""
        data = np.ascontiguousarray(values, dtype="<f8").tobytes()
        self._send(Kind.FIELD, field(name, step, data))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._send(Kind.DONE)
                self._next(Kind.DONE)
        finally:
            self._sock.close()

    def _send(self, kind: Kind, payload: bytes = b"") -> None:
        try:
            self._sock.sendall(encode(kind, self.simulation, payload))
        except OSError as error:
            raise YodError(f"the server is gone: {error}") from None

    def _next(self, kind: Kind) -> Frame:
        try:
            while (frame := self._reader.next()) is None:
                if not (data := self._sock.recv(65536)):
                    raise YodError("the server is gone, or does not know this simulation")
                self._reader.feed(data)
        except (OSError, PeerProtocolError) as error:
            raise YodError(f"the server is gone: {error}") from None
        if frame.kind is not kind:
            raise YodError(f"the server says {frame.kind.name}, not {kind.name}")
        return frame


def _number(environment: Mapping[str, str]) -> int:
    """Of this process's simulation: its place is told, or follows from its rank."""
    client = int(environment.get("MELISSA_CLIENT_ID", "0"))
    size = int(environment.get("YOD_GROUP_SIZE", "1"))
    if "YOD_SIMULATION" in environment:
        place = int(environment["YOD_SIMULATION"])
    else:
        rank, ranks = int(environment.get("YOD_RANK", "0")), int(environment.get("YOD_SIZE", "1"))
        place = rank * size // ranks
    return client * size + place
