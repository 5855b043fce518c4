"""The requests of a rank's PMI client, in either version of the protocol."""

from __future__ import annotations

from msgspec import Struct

from native.wire.pmi import KeyValue, SpawnCommand

KVSNAME_MAX = 256  # bytes of a key space's name
KEYLEN_MAX = 64  # bytes of a key
VALLEN_MAX = 4096  # bytes of a value, and of a published port
SERVICE_MAX = 1024  # bytes of a published name
_INT32_MAX = (1 << 31) - 1


class PmiError(Exception):
    """The client broke the protocol; the text says how. The conversation is over."""


class Identity(Struct, frozen=True):
    """What a client learns about itself.

    Attributes:
        rank, size: of its world.
        application: number of its program in the world.
        key_space: name of the world's key-value space.
        is_spawned: by another world.
        mapping: value of ``PMI_process_mapping``; empty: there is none.
    """

    rank: int
    size: int
    application: int
    key_space: bytes
    is_spawned: bool
    mapping: bytes


class Request(Struct, frozen=True):
    """Base of all requests.

    Attributes:
        thread: the client's name for the request, which the answer repeats.
    """

    thread: bytes = b""


class Joined(Request, frozen=True):
    """The client has initialised. Needs no answer."""


class Put(Request, frozen=True, kw_only=True):
    """Put a pair into the world's space. Answer by ``stored``."""

    key: bytes
    value: bytes


class Get(Request, frozen=True, kw_only=True):
    """Answer by ``found``."""

    key: bytes


class Fence(Request, frozen=True, kw_only=True):
    """The client is in the barrier. Answer by ``fenced``."""


class PutNode(Request, frozen=True, kw_only=True):
    """Put a pair for the ranks of its node. Answer by ``stored``."""

    key: bytes
    value: bytes


class GetNode(Request, frozen=True, kw_only=True):
    """Answer by ``found``: at once, or, if ``is_waiting``, when there is a value."""

    key: bytes
    is_waiting: bool


class Publish(Request, frozen=True, kw_only=True):
    """Answer by ``published``."""

    name: bytes
    port: bytes


class Lookup(Request, frozen=True, kw_only=True):
    """Answer by ``looked_up``."""

    name: bytes


class Unpublish(Request, frozen=True, kw_only=True):
    """Answer by ``unpublished``."""

    name: bytes


class SpawnMultiple(Request, frozen=True, kw_only=True):
    """Start another world. Answer by ``spawned``."""

    commands: tuple[SpawnCommand, ...]
    pairs: tuple[KeyValue, ...]


class Left(Request, frozen=True):
    """The client has finalised, and has its answer. It may initialise again."""


class Abort(Request, frozen=True, kw_only=True):
    """End the job. No answer."""

    exit_code: int
    text: str


class Heard(Struct, frozen=True):
    """The effects of one line or frame.

    Attributes:
        answer: for the client, now; empty: none, or later.
        request: for the node.
        answers_as: the command that the later answer belongs to; empty: no later answer.
    """

    answer: bytes = b""
    request: Request | None = None
    answers_as: bytes = b""


def key_fault(key: bytes | None) -> str:
    """The reason to refuse a key; empty: it is accepted."""
    return "" if key and len(key) <= KEYLEN_MAX else "invalid_key"


def pair_fault(key: bytes | None, value: bytes | None) -> str:
    """The reason to refuse a pair; empty: it is accepted."""
    if fault := key_fault(key):
        return fault
    if value is None:
        return "no_value"
    return "value_too_long" if len(value) > VALLEN_MAX else ""


def service_fault(name: bytes | None) -> str:
    """The reason to refuse the name of a service; empty: it is accepted."""
    return "" if name and len(name) <= SERVICE_MAX else "invalid_service"


def number(text: bytes | None) -> int | None:
    """A decimal number within 32 bits, or None."""
    if text is None or len(text) > 11 or not text.removeprefix(b"-").isdigit():
        return None
    value = int(text)
    return value if -_INT32_MAX - 1 <= value <= _INT32_MAX else None


def abort(thread: bytes, exit_code: bytes | None, text: bytes) -> Abort:
    """A client's request to end the job; a malformed exit code counts as 1."""
    code = number(exit_code)
    printable = text[:1024].decode(errors="backslashreplace")
    return Abort(thread, exit_code=1 if code is None else code, text=printable)
