"""Messages between an agent and programs that submit tasks to it: MessagePack behind a length.

Such a program has said :class:`yod.pilot.wire.calls.Lead` first.
"""

from __future__ import annotations

from msgspec import MsgspecError, Struct, msgpack

from native.errors import PeerProtocolError
from native.frames import framed
from yod.pilot.wire.messages import Order, Over


class Submit(Struct, tag="submit", array_like=True, frozen=True):
    """Program: run these."""

    orders: list[Order]


class Chosen(Struct, tag="chosen", array_like=True, frozen=True):
    """Master: of what it was asked about, this is to be run.

    Attributes:
        refused: those that are not, and why.
    """

    uids: list[str]
    refused: dict[str, str] = {}


class Finish(Struct, tag="finish", array_like=True, frozen=True):
    """Master: its raptor takes no more calls, and its workers end."""


FromProgram = Submit | Chosen | Finish


class Asked(Struct, tag="asked", array_like=True, frozen=True):
    """To a master: others have given these calls to its raptor. Their code stays there."""

    orders: list[Order]


class Results(Struct, tag="results", array_like=True, frozen=True):
    """To a program: these are over, which it has submitted or chosen."""

    tasks: list[Over]


class Joined(Struct, tag="joined", array_like=True, frozen=True):
    """To a master: a rank of this worker is there."""

    worker: str


class Stop(Struct, tag="stop", array_like=True, frozen=True):
    """To a master: the application wants it to end."""


ToProgram = Asked | Results | Joined | Stop

_encoder = msgpack.Encoder()
_from_program: msgpack.Decoder[FromProgram] = msgpack.Decoder(FromProgram)
_to_program: msgpack.Decoder[ToProgram] = msgpack.Decoder(ToProgram)


def frame(message: FromProgram | ToProgram) -> bytes:
    """A message behind its length."""
    return framed(_encoder.encode(message))


def decode_program(body: bytes) -> FromProgram:
    """What a program says.

    Raises:
        PeerProtocolError: it is no such message.
    """
    try:
        return _from_program.decode(body)
    except MsgspecError as error:
        raise PeerProtocolError(f"a message of a task's program: {error}") from None


def decode_agent(body: bytes) -> ToProgram:
    """What the agent says.

    Raises:
        PeerProtocolError: it is no such message.
    """
    try:
        return _to_program.decode(body)
    except MsgspecError as error:
        raise PeerProtocolError(f"an agent's message to a program: {error}") from None
