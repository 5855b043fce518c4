"""Conversation `job`: a command, and a launch that has an id; JOB.md specifies it.

One packet is one JSON object. The launch speaks first.
"""

from __future__ import annotations

from typing import Annotated, TypeVar, Union

from msgspec import DecodeError, Meta, Struct, json

from native.errors import PeerProtocolError
from native.wire.base import (
    U63,
    Count,
    Name,
    Rank,
    Seconds,
    SignalNumber,
    State,
    Text,
    Uid,
    clipped,
)

VERSION = 1
REQUEST_MAX_BYTES = 1024
REPLY_MAX_BYTES = 80 * 1024  # three texts of TEXT_MAX, of six bytes for a character that is escaped
STACKS_MAX_BYTES = 32 * 1024
OUTPUT_MAX_BYTES = 32 * 1024  # of ranks, in one packet; in JSON they are base64
RANGES_MAX = 32  # of ranks that one command follows: they fit a request

UnixPid = Annotated[int, Meta(ge=0, lt=1 << 31)]


# -- from the launch --------------------------------------------------------


class Reply(Struct, frozen=True, tag_field="reply"):
    """Base of what the launch says."""


class Hello(Reply, frozen=True, tag="hello"):
    """First packet of a connection."""

    version: Annotated[int, Meta(ge=1, le=1 << 16)]
    id: Name


class Shown(Reply, frozen=True, tag="shown"):
    """Answers :class:`Show`.

    Attributes:
        name: the programs, as the user named them.
        ranks: how many, spawned ones included.
        nodes: how many.
        where: the node, or the nodes' numbers.
        partition: its address, or ``embedded``.
        began: unix time at which nodes were granted.
        elapsed_s: since the application began; 0: it has not.
        unix_pid: of the process that runs the launch.
        time_s: how long an allocation may last; 0: any time. None: it is none, or its time
            cannot be changed here.
        is_saved_whole: a script, which is written down with its steps.
    """

    id: Name
    name: Text
    uid: Uid
    state: State
    ranks: Count
    nodes: Count
    where: Text
    partition: Text
    began: Seconds
    elapsed_s: Seconds
    unix_pid: UnixPid
    time_s: Seconds | None = None
    is_saved_whole: bool = False


class Accepted(Reply, frozen=True, tag="accepted"):
    """Answers what asks for something to be done: it has been begun."""


class Refused(Reply, frozen=True, tag="refused"):
    """The request is not carried out; the text says why."""

    text: Text


class Ended(Reply, frozen=True, tag="ended"):
    """Answers :class:`Wait`: the launch is over."""

    state: State
    exit_status: Annotated[int, Meta(ge=0, le=255)]


class Checkpointed(Reply, frozen=True, tag="checkpointed"):
    """Answers :class:`Checkpoint`: it is whole, and has this path, as a shell shows it."""

    path: Text


class Stacks(Reply, frozen=True, tag="stacks"):
    """Answers :class:`Look`, once for each node.

    Attributes:
        node: its name; empty: the text is about all.
        stacks: one tree of stacks (yod/launch/stacks/tree.py).
        text: why there is none, or what is missing; empty: it is whole.
        left: nodes that have not answered yet; 0: this is the last answer.
    """

    node: Text
    stacks: Annotated[str, Meta(max_length=STACKS_MAX_BYTES)]
    text: Text
    left: Count


class Output(Reply, frozen=True, tag="output"):
    """Answers :class:`Follow`, for each piece of output, until the launch is over.

    Attributes:
        dropped_bytes: of the ranks that are followed, since the last packet: the command has
            not read them.
    """

    rank: Rank
    stream: Annotated[int, Meta(ge=1, le=2)]
    data: Annotated[bytes, Meta(max_length=OUTPUT_MAX_BYTES)]
    dropped_bytes: U63 = 0


# -- from the command -------------------------------------------------------


class Request(Struct, frozen=True, tag_field="request"):
    """Base of what a command asks."""


class Show(Request, frozen=True, tag="show"):
    """What the job is, and what it does now."""


class Signal(Request, frozen=True, tag="signal"):
    """Pass a signal to every rank."""

    number: SignalNumber


class Cancel(Request, frozen=True, tag="cancel"):
    """End the job, as an interrupt of the user's does."""


class Suspend(Request, frozen=True, tag="suspend"):
    """Stop every process of every rank; no effect on a job that is suspended."""


class Resume(Request, frozen=True, tag="resume"):
    """Continue them; no effect on a job that runs."""


class LimitTime(Request, frozen=True, tag="limit_time"):
    """Let an allocation last so long from its beginning; 0: any time."""

    time_s: Seconds


class Checkpoint(Request, frozen=True, tag="checkpoint"):
    """Write the ranks down, and answer when that is done.

    Attributes:
        ends: the job ends behind it.
        is_trial: only say whether it could be done.
    """

    ends: bool = False
    is_trial: bool = False


class Look(Request, frozen=True, tag="look"):
    """Say where the ranks are: their stacks, merged on each node."""


class Follow(Request, frozen=True, tag="follow"):
    """Show what ranks write from now on.

    Attributes:
        ranks: first and last of each range.
    """

    ranks: Annotated[tuple[tuple[Rank, Rank], ...], Meta(min_length=1, max_length=RANGES_MAX)]


class Wait(Request, frozen=True, tag="wait"):
    """Answer when the job has ended."""


ANY_REPLY = Union[  # noqa: UP007
    Hello, Shown, Accepted, Refused, Ended, Checkpointed, Stacks, Output
]
ANY_REQUEST = Union[  # noqa: UP007
    Show, Signal, Cancel, Suspend, Resume, LimitTime, Wait, Checkpoint, Look, Follow
]

_replies = json.Decoder(ANY_REPLY)
_requests = json.Decoder(ANY_REQUEST)
_T = TypeVar("_T")


def encode(packet: Reply | Request) -> bytes:
    """The bytes of one packet."""
    return json.encode(packet)


def decode_reply(data: bytes) -> Reply:
    """What a launch has said.

    Raises:
        PeerProtocolError: too long, no JSON, unknown, a field of the wrong type or range.
    """
    reply: Reply = _decoded(data, _replies, REPLY_MAX_BYTES)
    return reply


def decode_request(data: bytes) -> Request:
    """What a command has asked; raises as :func:`decode_reply`."""
    request: Request = _decoded(data, _requests, REQUEST_MAX_BYTES)
    return request


def sayable(text: str) -> str:
    """A text that a packet can carry: not too long, and whole characters only."""
    return clipped(text.encode(errors="replace").decode())


def _decoded(data: bytes, decoder: json.Decoder[_T], most_bytes: int) -> _T:
    if len(data) > most_bytes:
        raise PeerProtocolError(f"packet of {len(data)} bytes, at most {most_bytes}")
    try:
        return decoder.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerProtocolError(f"no packet of this conversation: {error}") from None
