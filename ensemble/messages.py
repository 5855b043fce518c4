"""The messages between launcher and server, and their bytes: docs/ensemble.md.

A frame is ``u32 length | u8 version | u8 type | u32 epoch | payload``, big-endian; the length
counts what is behind it.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from native.errors import PeerProtocolError

VERSION = 1
MESSAGE_MAX_BYTES = 64 * 1024  # a frame behind its length
HELLO_MAX_BYTES = 256  # the first one
COUNT_MAX = (1 << 32) - 1
_HEAD = struct.Struct(">BBI")
_LENGTH = struct.Struct(">I")
_TWO = struct.Struct(">II")
_STATE = struct.Struct(">IB")
_STATES = 5  # values of JobState


class Hello(Struct, frozen=True):
    """The server's first message: it is the one that the launcher has started."""

    token: str


class Refused(Struct, frozen=True):
    """The launcher does not listen to this server, and closes the connection."""

    text: str


class Ping(Struct, frozen=True):
    """The sender lives; both send it, the server at the latest as an answer."""


class GroupSize(Struct, frozen=True):
    """From now on a client job has so many simulations."""

    size: int


class JobSubmission(Struct, frozen=True):
    """The server asks for client jobs with these ids in a row."""

    first: int
    count: int


class JobCancellation(Struct, frozen=True):
    """The server needs a client no more."""

    client: int


class CompletionNotification(Struct, frozen=True):
    """The study is over; the server ends by itself."""


class JobUpdate(Struct, frozen=True):
    """The launcher tells of a client's new state, each change once.

    Attributes:
        state: a value of :class:`ensemble.machine.job.JobState`.
    """

    client: int
    state: int


class Variable(Struct, frozen=True):
    """Client jobs have this in their environment from now on."""

    name: str
    value: str


Message = (
    Hello
    | Refused
    | Ping
    | GroupSize
    | JobSubmission
    | JobCancellation
    | CompletionNotification
    | JobUpdate
    | Variable
)
_TYPES: tuple[type[Message], ...] = (
    Hello,
    Refused,
    Ping,
    GroupSize,
    JobSubmission,
    JobCancellation,
    CompletionNotification,
    JobUpdate,
    Variable,
)
_NUMBERS = {kind: number for number, kind in enumerate(_TYPES, 1)}


class Frame(Struct, frozen=True):
    """One message with its sender's epoch."""

    epoch: int
    message: Message


def encode(epoch: int, message: Message) -> bytes:
    """One frame with its length."""
    data = _HEAD.pack(VERSION, _NUMBERS[type(message)], epoch) + _payload(message)
    return _LENGTH.pack(len(data)) + data


def _payload(message: Message) -> bytes:
    match message:
        case Hello(text) | Refused(text):
            return text.encode()
        case GroupSize(number) | JobCancellation(number):
            return _LENGTH.pack(number)
        case JobSubmission(first, count):
            return _TWO.pack(first, count)
        case JobUpdate(client, state):
            return _STATE.pack(client, state)
        case Variable(name, value):
            return f"{name}={value}".encode()
        case Ping() | CompletionNotification():
            return b""
    raise AssertionError(f"no bytes for {message!r}")


def frame_bytes(data: bytes | bytearray) -> int:
    """How long the first frame is, with its length."""
    (length,) = _LENGTH.unpack_from(data)
    return _LENGTH.size + int(length)


def decode(data: bytes) -> Frame:
    """The message of one frame, without its length.

    Raises:
        PeerProtocolError: too short, another version, an unknown type, a payload that is not its.
    """
    if len(data) < _HEAD.size:
        raise PeerProtocolError(f"a frame of {len(data)} bytes")
    version, number, epoch = _HEAD.unpack_from(data)
    if version != VERSION:
        raise PeerProtocolError(f"version {version} of the protocol; this is {VERSION}")
    if not 1 <= number <= len(_TYPES):
        raise PeerProtocolError(f"a message of the unknown type {number}")
    kind = _TYPES[number - 1]
    try:
        return Frame(epoch, _message(kind, data[_HEAD.size :]))
    except (struct.error, ValueError) as error:
        raise PeerProtocolError(f"{kind.__name__}: {error}") from None


def _message(kind: type[Message], data: bytes) -> Message:
    if kind in (Hello, Refused):
        return kind(data.decode())
    if kind in (Ping, CompletionNotification):
        if data:
            raise ValueError(f"{len(data)} bytes too many")
        return kind()
    if kind is GroupSize or kind is JobCancellation:
        (number,) = _LENGTH.unpack(data)
        if kind is JobCancellation:
            return JobCancellation(number)
        return GroupSize(_from_1(number))
    if kind is JobSubmission:
        first, count = _TWO.unpack(data)
        if first + _from_1(count) > COUNT_MAX:
            raise ValueError(f"{count} ids from {first}: too many")
        return JobSubmission(first, count)
    if kind is JobUpdate:
        client, state = _STATE.unpack(data)
        if state >= _STATES:
            raise ValueError(f"no state {state}")
        return JobUpdate(client, state)
    name, mark, value = data.decode().partition("=")
    if not name.isidentifier() or not mark or "\0" in value:
        raise ValueError("no name and value of a variable")
    return Variable(name, value)


def _from_1(number: int) -> int:
    if not number:
        raise ValueError("0, must be at least 1")
    return number


class Bodies:
    """Takes what is behind lengths out of a stream: several in one piece, one in several pieces.

    Attributes:
        max_bytes: of a body, until it is set to another number.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what one read gave."""
        self._data += data

    def body(self) -> bytes | None:
        """The next one; None: it is not whole.

        Raises:
            PeerProtocolError: it is longer than it may be.
        """
        if len(self._data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._data)
        if length > self.max_bytes:
            raise PeerProtocolError(f"a message of {length} bytes; at most {self.max_bytes}")
        end = _LENGTH.size + length
        if len(self._data) < end:
            return None
        body = bytes(memoryview(self._data)[_LENGTH.size : end])
        del self._data[:end]
        return body


class Framing(Bodies):
    """Takes frames of launcher and server out of a stream."""

    def __init__(self, max_bytes: int = MESSAGE_MAX_BYTES) -> None:
        super().__init__(max_bytes)

    def next(self) -> Frame | None:
        """The next message; None: it is not whole.

        Raises:
            PeerProtocolError: it is none, or longer than it may be.
        """
        body = self.body()
        return None if body is None else decode(body)
