"""Messages between a client and the agent of a pilot: MessagePack, each behind its length.

Both are processes of one user and one release. A message carries as many tasks as there are to
carry; a turn of a loop makes one of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar

from msgspec import Meta, MsgspecError, Struct, msgpack

from native.errors import PeerProtocolError
from native.frames import framed

MESSAGE_BYTES_MAX = 1 << 30
SEALED_BYTES_MAX = 64  # what one BLAKE2b gives
_PART_BYTES = 64 << 20  # of calls or values in one message, beside the last one


class NodeTold(Struct, array_like=True, frozen=True):
    """A node of the pilot, as the client shows it."""

    name: str
    cores: int
    gpus: int
    mem_mb: int


class Order(Struct, array_like=True, frozen=True):
    """A task for the agent.

    Attributes:
        description: what has been given, with plain values.
        payload: a packed call, for tasks that are functions.
        is_led: a call of a raptor whose master is a program, which may come later than the call.
    """

    uid: str
    description: dict[str, Any]
    payload: bytes = b""
    is_led: bool = False


class Tasks(Struct, tag="tasks", array_like=True, frozen=True):
    """Client: run these."""

    orders: list[Order]


class Cancel(Struct, tag="cancel", array_like=True, frozen=True):
    """Client: these are not wanted any more."""

    uids: list[str]


class GiveBack(Struct, tag="give back", array_like=True, frozen=True):
    """Client: those that have not begun are to be another pilot's; none named: all."""

    uids: list[str]


class AskWhy(Struct, tag="ask why", array_like=True, frozen=True):
    """Client: why does a task stand where it does?"""

    uid: str


class End(Struct, tag="end", array_like=True, frozen=True):
    """Client: end all tasks, then the pilot."""


class Hello(Struct, tag="hello", array_like=True, frozen=True):
    """Client: a new one of the session, to which all is told again."""

    session_uid: str


class Stop(Struct, tag="stop", array_like=True, frozen=True):
    """Client: a raptor takes no more calls, and is done."""

    uid: str


class Register(Struct, tag="register", array_like=True, frozen=True):
    """Client: a service that is no task here is ready; tasks that name it are told the text."""

    uid: str
    text: str


class Ask(Struct, tag="ask", array_like=True, frozen=True):
    """Client: answer, so that I know that you have not stopped."""


class Time(Struct, tag="time", array_like=True, frozen=True):
    """Client: the time of day there, in seconds since the epoch."""

    at: float


FromClient = Tasks | Cancel | GiveBack | AskWhy | End | Hello | Stop | Register | Ask | Time


class Up(Struct, tag="up", array_like=True, frozen=True):
    """Agent: the pilot is active."""

    pilot_uid: str
    unix_pid: int
    nodes: list[NodeTold]


class Reached(Struct, tag="reached", array_like=True, frozen=True):
    """Agent: tasks have reached a state."""

    state: str
    uids: list[str]


class Over(Struct, array_like=True, frozen=True):
    """How a task has ended.

    Attributes:
        slots: (node, cores, GPUs) of each rank.
    """

    uid: str
    state: str
    exit_code: int | None = None
    reason: str = ""
    stdout: str = ""
    stderr: str = ""
    value: bytes = b""
    exception: str = ""
    exception_detail: str = ""
    slots: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []


class Ended(Struct, tag="ended", array_like=True, frozen=True):
    """Agent: tasks are over, but for what the client is to bring."""

    tasks: list[Over]


class Returned(Struct, tag="returned", array_like=True, frozen=True):
    """Agent: these have not begun, and never will here."""

    uids: list[str]


class Why(Struct, tag="why", array_like=True, frozen=True):
    """Agent: the answer; empty: the task is not here."""

    uid: str
    text: str


class PilotOver(Struct, tag="pilot over", array_like=True, frozen=True):
    """Agent: its last word, and also the first one where it cannot be active."""

    state: str
    reason: str
    pilot_uid: str


class Info(Struct, tag="info", array_like=True, frozen=True):
    """Agent: what a service has said of itself when it became ready."""

    uid: str
    text: str


class Open(Struct, tag="open", array_like=True, frozen=True):
    """Job of a batch system: its nodes, which do not see the session's directory, are up.

    Attributes:
        address: of their partition.
        salt, sealed: its key, which only who has the key of the connection can read.
    """

    pilot_uid: str
    address: str
    salt: bytes
    sealed: Annotated[bytes, Meta(min_length=1, max_length=SEALED_BYTES_MAX)]


class NotOpen(Struct, tag="not open", array_like=True, frozen=True):
    """Likewise: they cannot be used."""

    pilot_uid: str
    reason: str


class Here(Struct, tag="here", array_like=True, frozen=True):
    """Agent: the word."""


class AskTime(Struct, tag="ask time", array_like=True, frozen=True):
    """Agent, before it says anything else: what is the time there?"""


_OfAgents = Up | Reached | Ended | Returned | Why | Info | PilotOver | Here | AskTime
FromAgent = _OfAgents | Open | NotOpen

T = TypeVar("T")

_encoder = msgpack.Encoder()
_from_client: msgpack.Decoder[FromClient] = msgpack.Decoder(FromClient)
_from_agent: msgpack.Decoder[FromAgent] = msgpack.Decoder(FromAgent)


def frame(message: FromClient | FromAgent) -> bytes:
    """A message behind its length."""
    return framed(_encoder.encode(message))


def order_bytes(order: Order) -> int:
    """What makes an order long."""
    return len(order.payload)


def over_bytes(over: Over) -> int:
    """What makes the end of a task long."""
    return len(over.value) + len(over.exception_detail)


def parts(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Items in lists, each of which fits a message; mostly there is one."""
    part: list[T] = []
    total = 0
    for item in items:
        part.append(item)
        total += size(item)
        if total >= _PART_BYTES:
            yield part
            part, total = [], 0
    if part:
        yield part


def decode_client(body: bytes) -> FromClient:
    """What a client says.

    Raises:
        PeerProtocolError: it is no such message.
    """
    try:
        return _from_client.decode(body)
    except MsgspecError as error:
        raise PeerProtocolError(f"a client's message: {error}") from None


def decode_agent(body: bytes) -> FromAgent:
    """What an agent says.

    Raises:
        PeerProtocolError: it is no such message.
    """
    try:
        return _from_agent.decode(body)
    except MsgspecError as error:
        raise PeerProtocolError(f"an agent's message: {error}") from None
