"""Conversation `pmix` as the server speaks it: plain classes, and MessagePack by hand.

The job's ranks wait for the server's start, and the import of msgspec would take longer than
the rest of it. :mod:`native.wire.pmix` describes the messages and checks what the PCT
receives; a test holds the two to the same bytes. This reader trusts the PCT.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, dataclass_transform
else:

    def dataclass_transform(**_options: object) -> object:
        """For type checkers."""
        return lambda decorated: decorated


MESSAGE_MAX_BYTES = 64 << 20
TEXT_MAX = 4096  # characters; native.wire.base has it for who can import that


class NonsenseError(Exception):
    """A message or a value is malformed or out of turn."""


@dataclass_transform(frozen_default=True)
class Record:
    """Named values, in the order of the class's annotations."""

    tag: ClassVar[str] = ""  # messages have one
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        names = [name for name in cls.__annotations__ if name not in Record.__annotations__]
        cls.__match_args__ = tuple(names)  # type: ignore[misc]

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = self.__dict__
        fields.update(zip(self.__match_args__, values, strict=False))
        fields.update(named)
        for name in self.__match_args__:
            if name not in fields:
                fields[name] = getattr(type(self), name)  # its default

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self.values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.values()}"

    def values(self) -> tuple[Any, ...]:
        """The values of the fields, in order."""
        return tuple([self.__dict__[name] for name in self.__match_args__])


class KeyValue(Record):
    """One pair."""

    key: bytes
    value: bytes


class NamedProcess(Record):
    """One process as PMIx names it; rank -1: all of the namespace."""

    nspace: str
    rank: int


class TableRow(Record):
    """A rank of this node; process 0: it has not been started."""

    process: NamedProcess
    unix_pid: int
    program: bytes


class SpawnCommand(Record):
    """One program of a spawn."""

    program: bytes
    arguments: tuple[bytes, ...]
    count: int
    directory: bytes
    environment: tuple[bytes, ...]
    hosts: tuple[bytes, ...]


PMIX, CONNECT, DISCONNECT = "pmix", "connect", "disconnect"  # kinds of Enter


# -- from the PCT ---------------------------------------------------------


class Begin(Record):
    tag = "begin"
    libraries: tuple[bytes, ...]
    is_only: bool
    server: str
    host: str
    uid: int
    gid: int
    directory: bytes = b""


class AddWorld(Record):
    tag = "add_world"
    serial: int
    nspace: str
    job_id: str
    nodes: tuple[str, ...]
    node_of: tuple[int, ...]
    application_of: tuple[int, ...]
    local_ranks: tuple[int, ...]
    universe_size: int
    first_rank: int
    parent: NamedProcess | None


class FenceDone(Record):
    tag = "fence_done"
    serial: int
    status: int
    data: bytes


class Answer(Record):
    tag = "answer"
    serial: int
    status: int
    pairs: tuple[KeyValue, ...]
    nspace: str = ""


class GetModex(Record):
    tag = "get_modex"
    serial: int
    process: NamedProcess


class Table(Record):
    tag = "table"
    serial: int
    rows: tuple[TableRow, ...]


class Ended(Record):
    tag = "ended"
    process: NamedProcess
    wait_status: int
    is_failure: bool
    is_local: bool


class End(Record):
    tag = "end"


# -- from the server ------------------------------------------------------


class Ready(Record):
    tag = "ready"
    library: bytes
    version: str


class Unavailable(Record):
    tag = "unavailable"
    text: str


class Added(Record):
    tag = "added"
    serial: int
    status: int
    environments: tuple[tuple[bytes, ...], ...]
    text: str = ""


class Joined(Record):
    tag = "joined"
    process: NamedProcess


class Left(Record):
    tag = "left"
    process: NamedProcess


class Enter(Record):
    tag = "enter"
    serial: int
    kind: str
    processes: tuple[NamedProcess, ...]
    data: bytes


class GetRemote(Record):
    tag = "get_remote"
    serial: int
    process: NamedProcess


class ModexData(Record):
    tag = "modex_data"
    serial: int
    status: int
    data: bytes


class PublishNames(Record):
    tag = "publish"
    serial: int
    process: NamedProcess
    pairs: tuple[KeyValue, ...]
    is_read_once: bool


class LookupNames(Record):
    tag = "lookup"
    serial: int
    keys: tuple[bytes, ...]
    is_waiting: bool


class UnpublishNames(Record):
    tag = "unpublish"
    serial: int
    keys: tuple[bytes, ...]


class SpawnPrograms(Record):
    tag = "spawn"
    serial: int
    process: NamedProcess
    commands: tuple[SpawnCommand, ...]


class GetTable(Record):
    tag = "get_table"
    serial: int
    nspaces: tuple[str, ...]


class AbortJob(Record):
    tag = "abort"
    serial: int
    process: NamedProcess
    status: int
    text: str


FROM_PCT = (Begin, AddWorld, FenceDone, Answer, GetModex, Table, Ended, End)
_BY_TAG: dict[object, type[Record]] = {message.tag: message for message in FROM_PCT}
_PARTS: dict[type[Record], dict[str, Any]] = {  # fields that are records, or arrays of them
    AddWorld: {"parent": NamedProcess},
    Answer: {"pairs": [KeyValue]},
    GetModex: {"process": NamedProcess},
    Table: {"rows": [TableRow]},
    TableRow: {"process": NamedProcess},
    Ended: {"process": NamedProcess},
}


# -- MessagePack ----------------------------------------------------------


def encode(message: Record) -> bytes:
    """A message with its length in front, as sent over the socket."""
    out = bytearray(4)
    _write(out, message)
    out[:4] = (len(out) - 4).to_bytes(4, "little")
    return bytes(out)


def _write(out: bytearray, value: object) -> None:
    if isinstance(value, Record):
        values = value.values()
        _write(out, (value.tag, *values) if value.tag else values)
    elif isinstance(value, tuple):
        _write_head(out, len(value), 0x90, 16, (None, 0xDC, 0xDD))
        for item in value:
            _write(out, item)
    elif isinstance(value, bytes):
        _write_head(out, len(value), 0, 0, (0xC4, 0xC5, 0xC6))
        out += value
    elif isinstance(value, str):
        data = value.encode(errors="replace")
        _write_head(out, len(data), 0xA0, 32, (0xD9, 0xDA, 0xDB))
        out += data
    elif isinstance(value, bool):
        out.append(0xC3 if value else 0xC2)
    elif isinstance(value, int):
        if -32 <= value < 128:
            out.append(value & 0xFF)
        else:
            out += struct.pack(">Bq", 0xD3, value)
    else:
        assert value is None
        out.append(0xC0)


def _write_head(
    out: bytearray, length: int, short: int, short_limit: int, codes: tuple[int | None, int, int]
) -> None:
    if length < short_limit:
        out.append(short | length)
    elif length < 1 << 8 and codes[0] is not None:
        out += struct.pack(">BB", codes[0], length)
    elif length < 1 << 16:
        out += struct.pack(">BH", codes[1], length)
    else:
        out += struct.pack(">BI", codes[2], length)


def take(buffer: bytearray) -> Record | None:
    """Remove one whole message from the front of a buffer; None: it is not complete yet.

    Raises:
        NonsenseError: it is too long, or malformed.
    """
    if len(buffer) < 4:
        return None
    end = 4 + int.from_bytes(buffer[:4], "little")
    if end > 4 + MESSAGE_MAX_BYTES:
        raise NonsenseError(f"pmix: a message of {end - 4} bytes, at most {MESSAGE_MAX_BYTES}")
    if len(buffer) < end:
        return None
    data = bytes(buffer[4:end])
    del buffer[:end]
    try:
        value, length = _read(data, 0)
        message = _BY_TAG[value[0]]
        if length != len(data):
            raise ValueError("it goes on behind its end")
        return _record(message, value[1:])
    except (IndexError, KeyError, TypeError, ValueError, struct.error, RecursionError) as error:
        raise NonsenseError(f"pmix: not a message: {error}") from None


def _record(kind: type[Record], values: tuple[Any, ...]) -> Record:
    if len(values) != len(kind.__match_args__):
        raise ValueError(f"{kind.__name__} of {len(values)} fields")
    fields = dict(zip(kind.__match_args__, values, strict=True))
    for name, part in _PARTS.get(kind, {}).items():
        if isinstance(part, list):
            fields[name] = tuple(_record(part[0], item) for item in fields[name])
        elif fields[name] is not None:
            fields[name] = _record(part, fields[name])
    return kind(**fields)


_NUMBERS = {
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
_LENGTHS = {  # bytes of the length, and what it is the length of
    0xC4: (1, bytes),
    0xC5: (2, bytes),
    0xC6: (4, bytes),
    0xD9: (1, str),
    0xDA: (2, str),
    0xDB: (4, str),
    0xDC: (2, tuple),
    0xDD: (4, tuple),
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def _read(data: bytes, at: int) -> tuple[Any, int]:
    """The value that begins at an offset, and the offset of its end."""
    code = data[at]
    at += 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 0x100, at
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code in _NUMBERS:
        number = _NUMBERS[code]
        return number.unpack_from(data, at)[0], at + number.size
    if 0x90 <= code < 0xA0:
        kind: type = tuple
        length = code & 15
    elif 0xA0 <= code < 0xC0:
        kind, length = str, code & 31
    else:
        width, kind = _LENGTHS[code]
        length = int.from_bytes(data[at : at + width], "big")
        at += width
    if kind is tuple:
        items = []
        for _ in range(length):
            item, at = _read(data, at)
            items.append(item)
        return tuple(items), at
    if at + length > len(data):
        raise ValueError("it ends early")
    content = data[at : at + length]
    return (content if kind is bytes else content.decode()), at + length
