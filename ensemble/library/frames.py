"""Frames between simulations and the server of a study: parameters one way, fields the other.

``u32 length | u8 version | u8 type | u32 simulation | payload``, big-endian but for the values of a
field; the length counts what is behind it.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from ensemble.messages import Bodies
from native.errors import PeerProtocolError

VERSION = 1
FRAME_MAX_BYTES = 256 * 1024 * 1024
_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">BBI")
_FIELD = struct.Struct(">IB")


class Kind(IntEnum):
    """Types of frames."""

    HELLO = 1  # of a simulation; payload: the token
    PARAMETERS = 2  # of the server; payload: JSON
    FIELD = 3  # u32 step, u8 length of the name, the name, values as little-endian float64
    DONE = 4  # of a simulation: all has been sent; the server answers with the same


class Frame(NamedTuple):
    """One frame."""

    kind: Kind
    simulation: int
    payload: bytes


def encode(kind: Kind, simulation: int, payload: bytes = b"") -> bytes:
    """A frame with its length."""
    return _LENGTH.pack(_HEAD.size + len(payload)) + _HEAD.pack(VERSION, kind, simulation) + payload


def field(name: str, step: int, values: bytes) -> bytes:
    """The payload of a field."""
    text = name.encode()
    return _FIELD.pack(step, len(text)) + text + values


def read_field(payload: bytes) -> tuple[str, int, bytes]:
    """Name, step and values.

    Raises:
        PeerProtocolError: it is no field.
    """
    try:
        step, length = _FIELD.unpack_from(payload)
        name = payload[_FIELD.size : _FIELD.size + length].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise PeerProtocolError(f"a field: {error}") from None
    values = payload[_FIELD.size + length :]
    if not values or len(values) % 8:
        raise PeerProtocolError(f"a field of {len(values)} bytes")
    return name, step, values


class Reader(Bodies):
    """Takes frames of simulations out of a stream."""

    def __init__(self, max_bytes: int = FRAME_MAX_BYTES) -> None:
        super().__init__(max_bytes)

    def next(self) -> Frame | None:
        """The next frame; None: it is not whole.

        Raises:
            PeerProtocolError: it is none, or too long.
        """
        body = self.body()
        if body is None:
            return None
        if len(body) < _HEAD.size:
            raise PeerProtocolError(f"a frame of {len(body)} bytes")
        version, number, simulation = _HEAD.unpack_from(body)
        if version != VERSION or number not in Kind._value2member_map_:
            raise PeerProtocolError(f"version {version}, type {number}")
        return Frame(Kind(number), simulation, body[_HEAD.size :])
