"""The only door between messages and bytes."""

from __future__ import annotations

from _blake2 import blake2b
from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar, Union

from msgspec import DecodeError, Raw, Struct, msgpack

from native.errors import PeerProtocolError
from native.wire.base import ARGUMENTS_MAX, MESSAGE_MAX_BYTES, Message

if TYPE_CHECKING:
    from native.wire.alloc import Credential
    from native.wire.load import Arguments
    from native.wire.placed import JobNodes

# What the kinds of messages begin with, before a dot.
CONVERSATIONS = (
    *("alloc", "attach", "batch", "checkpoint", "group"),
    *("io", "load", "node", "pmi", "status"),
)

# What decoding raises; a deep nesting in elements that nobody reads is one of them.
NONSENSE = (DecodeError, UnicodeDecodeError, RecursionError)

_encoder = msgpack.Encoder()

_P = TypeVar("_P", bound=Struct)
_PIECE_BYTES = MESSAGE_MAX_BYTES - 1024  # of the parts of one message, beside its other fields


class _Head(Struct, array_like=True):
    """What all messages begin with; decoding passes over the rest."""

    kind: str


_head = msgpack.Decoder(_Head)
_decoders: dict[str, msgpack.Decoder[Message]] = {}  # of the kinds that were heard


def _module(conversation: str) -> ModuleType:
    """Where its messages are. Most processes take part in a few conversations only."""
    match conversation:
        case "alloc":
            from native.wire import alloc

            return alloc
        case "attach":
            from native.wire import attach

            return attach
        case "batch":
            from native.wire import batch

            return batch
        case "checkpoint" | "group":
            from native.wire import group

            return group
        case "io":
            from native.wire import io

            return io
        case "load":
            from native.wire import load

            return load
        case "node":
            from native.wire import nodes

            return nodes
        case "pmi":
            from native.wire import pmi

            return pmi
        case "status":
            from native.wire import status

            return status
    raise AssertionError(conversation)


@cache
def _messages(conversation: str) -> dict[str, type[Message]]:
    """The messages of a conversation, by their kinds."""
    found = {}
    for thing in vars(_module(conversation)).values():
        if isinstance(thing, type) and issubclass(thing, Message):
            kind = str(thing.__struct_config__.tag)
            if kind.startswith(f"{conversation}."):
                found[kind] = thing
    return found


def every_message() -> tuple[type[Message], ...]:
    """All that there are."""
    return tuple(each for name in CONVERSATIONS for each in _messages(name).values())


def _decoder(kind: str) -> msgpack.Decoder[Message]:
    """The decoder of a kind, made when it is first heard: that takes time."""
    conversation = kind.partition(".")[0]
    known = _messages(conversation) if conversation in CONVERSATIONS else {}
    if kind not in known:
        return _any_decoder()
    _decoders[kind] = decoder = msgpack.Decoder(known[kind])
    return decoder


@cache
def _any_decoder() -> msgpack.Decoder[Message]:
    """That of all kinds, which tells what a wrong one is."""
    return msgpack.Decoder(Union[every_message()])  # noqa: UP007


def encode(message: Message) -> bytes:
    """The bytes of one message.

    Raises:
        ValueError: more than MESSAGE_MAX_BYTES; our own mistake.
    """
    data = _encoder.encode(message)
    if len(data) > MESSAGE_MAX_BYTES:
        raise ValueError(
            f"{type(message).__name__} of {len(data)} bytes exceeds {MESSAGE_MAX_BYTES}"
        )
    return data


def decode(data: bytes | memoryview) -> Message:
    """One message from one frame.

    Raises:
        PeerProtocolError: too long, not MessagePack, unknown kind, a field of
            the wrong type or out of range.
    """
    if len(data) > MESSAGE_MAX_BYTES:
        raise PeerProtocolError(f"message of {len(data)} bytes, at most {MESSAGE_MAX_BYTES}")
    try:
        kind = _head.decode(data).kind
        return (_decoders.get(kind) or _decoder(kind)).decode(data)
    except NONSENSE as error:
        raise PeerProtocolError(f"not a message: {error}") from None


def why_refused(message: Message) -> str:
    """Why no peer would take a message; empty: they do.

    For one that is made of what others have said: constructing it checks less.
    """
    try:
        decode(encode(message))
    except (ValueError, PeerProtocolError) as error:
        return str(error)
    return ""


def encode_part(part: Struct) -> bytes:
    """The bytes of a struct that is no message: a credential, an arguments object."""
    return _encoder.encode(part)


def pieces(parts: Sequence[_P], most: int) -> Iterator[tuple[tuple[_P, ...], bool]]:
    """A long answer in messages: what fits into each, and whether it is the last.

    Args:
        most: parts of one message.
    """
    piece: list[_P] = []
    room = _PIECE_BYTES
    for part in parts:
        size = len(_encoder.encode(part))
        if piece and (size > room or len(piece) == most):
            yield tuple(piece), False
            piece, room = [], _PIECE_BYTES
        piece.append(part)
        room -= size
    yield tuple(piece), True


@cache
def _credential_decoder() -> msgpack.Decoder[Credential]:
    from native.wire.alloc import Credential

    return msgpack.Decoder(Credential)


def nodes_digest(nodes: JobNodes) -> bytes:
    """BLAKE2b-256 of the nodes of a grant as they are encoded."""
    return blake2b(_encoder.encode(nodes), digest_size=32).digest()


def decode_credential(data: bytes) -> Credential:
    """A credential whose MAC has been checked.

    Raises:
        PeerProtocolError: not a credential.
    """
    try:
        return _credential_decoder().decode(data)
    except NONSENSE as error:
        raise PeerProtocolError(f"not a credential: {error}") from None


class _MemberWords(Struct, array_like=True):
    """A member, of which only the number of words is read."""

    size: int
    object_index: int
    words: Raw

    @property
    def count(self) -> int:
        """What the array's head says."""
        head = bytes(memoryview(self.words)[:5])
        if head[:1] == b"\xdd":
            return int.from_bytes(head[1:])
        return int.from_bytes(head[1:3]) if head[:1] == b"\xdc" else head[0] & 0xF


class _Words(Struct, array_like=True):
    members: tuple[_MemberWords, ...]


def decode_arguments(data: bytes) -> Arguments:
    """Members and environment that came as an object.

    Decoding takes as long as there are words, and a word may be a byte or two: they are
    counted before, which is ten times as quick.

    Raises:
        PeerProtocolError: not an arguments object, or more words than ARGUMENTS_MAX.
    """
    from native.wire.load import Arguments

    try:
        count = sum(member.count for member in msgpack.decode(data, type=_Words).members)
        if count > ARGUMENTS_MAX:
            raise PeerProtocolError(f"arguments of {count} words, at most {ARGUMENTS_MAX}")
        return msgpack.decode(data, type=Arguments)
    except NONSENSE as error:
        raise PeerProtocolError(f"not an arguments object: {error}") from None
