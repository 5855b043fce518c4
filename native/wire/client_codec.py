"""Packets of the conversation `client`, in :mod:`native.wire.client`; CLIENT.md specifies them."""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as struct_error

from msgspec import Struct

from native.errors import PeerProtocolError
from native.wire.base import PATH_MAX, TEXT_MAX
from native.wire.client import (
    DATA_MAX,
    INVOCATION_MAX_BYTES,
    LEAVE_TEXT_MAX_BYTES,
    LIMITS_MAX,
    MAGIC,
    NAMESPACES,
    OUTPUT_WINDOW_BYTES,
    OWN_LINE_MAX_BYTES,
    PACKET_MAX_BYTES,
    RELEASE_BYTES,
    STRINGS_MAX,
    TOLD_SIGNALS,
    UNLIMITED,
    VERSION,
    Append,
    Appended,
    AppendFlag,
    ClientKind,
    Cold,
    Continue,
    Ended,
    Exit,
    ExitFlag,
    FromClient,
    FromServer,
    Gift,
    Give,
    Given,
    Hello,
    Input,
    KillOrphans,
    Leave,
    Left,
    OrphansKilled,
    Output,
    OutputFailed,
    Ping,
    Pong,
    Read,
    Request,
    ServerKind,
    Signal,
    Start,
    Started,
    StartFlag,
    Stdio,
    Suspend,
    Times,
    Written,
)

_ALL_ONES = (1 << 64) - 1
_HEAD = Layout("<II")
_U32 = Layout("<I")
_I32 = Layout("<i")
_EXIT = Layout("<iI")
_HELLO = Layout(f"<IIII8Q{RELEASE_BYTES}s")
_REQUEST = Layout("<IIQIII")
_LIMIT = Layout("<IQ")


def descriptors(message: FromServer | FromClient) -> int:
    """How many descriptors come with this message; a packet with another number is refused."""
    match message:
        case Start(_, has_portals):
            return 2 + has_portals
        case Request():
            return 2
        case Given(_, Gift.PIPE):
            return 1
    return 0


def encode(message: FromServer | FromClient) -> bytes:
    """The packet of a message.

    Raises:
        ValueError: a field is out of range.
    """
    try:
        packet = _encode(message)
    except struct_error as error:
        raise ValueError(f"{message!r}: {error}") from None
    if len(packet) > PACKET_MAX_BYTES:
        raise ValueError(f"a packet of {len(packet)} bytes, at most {PACKET_MAX_BYTES}")
    return packet


def _encode(message: FromServer | FromClient) -> bytes:
    # Those that a launch has most of come first.
    match message:
        case Output(stream, data):
            return _HEAD.pack(ServerKind.OUTPUT, stream) + data
        case Written(stream, count_bytes):
            return _with_u32(ClientKind.WRITTEN, stream, count_bytes)
        case Read(count_bytes):
            return _HEAD.pack(ServerKind.READ, count_bytes)
        case Start(keeper, has_portals):
            return _with_u32(ServerKind.START, keeper, StartFlag.PORTALS * has_portals)
        case Continue(keeper):
            return _HEAD.pack(ServerKind.CONTINUE, keeper)
        case KillOrphans(token):
            return _HEAD.pack(ServerKind.KILL_ORPHANS, token)
        case Append(token, path, data, flags):
            if b"\0" in path:
                raise ValueError(f"a NUL in the path {path!r}")
            return _with_u32(ServerKind.APPEND, token, flags) + path + b"\0" + data
        case Exit(status, drops):
            return _HEAD.pack(ServerKind.EXIT, 0) + _EXIT.pack(status, ExitFlag.DROP * drops)
        case Hello(unix_pid, press_ms, liveness_ms, namespaces, root, release):
            fields = (MAGIC, unix_pid, press_ms, liveness_ms, *namespaces, *root, release)
            return _HEAD.pack(ServerKind.HELLO, VERSION) + _HELLO.pack(*fields)
        case Times(press_ms, liveness_ms):
            return _with_u32(ServerKind.TIMES, press_ms, liveness_ms)
        case Cold(reason, is_launch):
            text = reason.encode(errors="backslashreplace")[:TEXT_MAX]
            return _HEAD.pack(ServerKind.COLD, not is_launch) + text
        case Leave(text):
            data = text.encode(errors="surrogateescape")[:LEAVE_TEXT_MAX_BYTES]
            return _HEAD.pack(ServerKind.LEAVE, 0) + data
        case Give(stream):
            return _HEAD.pack(ServerKind.GIVE, stream)
        case Suspend():
            return _HEAD.pack(ServerKind.SUSPEND, 0)
        case Pong():
            return _HEAD.pack(ServerKind.PONG, 0)
        case Request():
            return _encode_request(message)
        case Input(data, is_gone):
            return _HEAD.pack(ClientKind.INPUT, is_gone) + data
        case Signal(number):
            return _HEAD.pack(ClientKind.SIGNAL, number)
        case OutputFailed(stream, errno):
            return _with_u32(ClientKind.OUTPUT_FAILED, stream, errno)
        case Started(keeper, unix_pid, errno):
            return _HEAD.pack(ClientKind.STARTED, keeper) + _I32.pack(unix_pid or -errno)
        case Ended(keeper, wait_status):
            return _HEAD.pack(ClientKind.ENDED, keeper) + _I32.pack(wait_status)
        case OrphansKilled(token):
            return _HEAD.pack(ClientKind.ORPHANS_KILLED, token)
        case Appended(token, errno):
            return _with_u32(ClientKind.APPENDED, token, errno)
        case Left(streams):
            return _HEAD.pack(ClientKind.LEFT, sum({1 << stream - 1 for stream in streams}))
        case Given(stream, gift):
            return _with_u32(ClientKind.GIVEN, stream, gift)
        case Ping():
            return _HEAD.pack(ClientKind.PING, 0)


def _with_u32(kind: int, value: int, more: int) -> bytes:
    return _HEAD.pack(kind, value) + _U32.pack(more)


def _encode_request(request: Request) -> bytes:
    ignored = sum({1 << number - 1 for number in request.ignored_signals})
    counts = (request.arguments, request.variables, len(request.limits))
    head = _REQUEST.pack(request.umask, request.stdio, ignored, *counts)
    limits = [
        _LIMIT.pack(resource, _ALL_ONES if soft == UNLIMITED else soft)
        for resource, soft in request.limits
    ]
    return b"".join((_HEAD.pack(ClientKind.REQUEST, VERSION), head, *limits))


def encode_strings(
    arguments: tuple[bytes, ...], variables: tuple[bytes, ...], directory: bytes
) -> bytes:
    """The contents of the memfd of a REQUEST.

    Raises:
        ValueError: a string holds a NUL.
    """
    strings = (*arguments, *variables, directory)
    data = b"\0".join((*strings, b""))
    if data.count(b"\0") != len(strings):
        raise ValueError("an argument, variable or path holds a NUL byte")
    return data


class Strings(Struct, frozen=True):
    """What the memfd of a REQUEST holds.

    Attributes:
        arguments: the command line; the name comes first.
        variables: "NAME=value" each, as the client was given them.
        directory: the current one; empty: it does not exist any more, or cannot be read.
    """

    arguments: tuple[bytes, ...]
    variables: tuple[bytes, ...]
    directory: bytes


def decode_strings(data: bytes, arguments: int, variables: int) -> Strings:
    """Read the memfd of a REQUEST.

    Args:
        arguments, variables: how many the packet says that there are.

    Raises:
        PeerProtocolError: it is too long, or does not hold the strings that the packet counts.
    """
    strings = tuple(data[:-1].split(b"\0"))
    first, last = arguments, arguments + variables
    if len(data) > INVOCATION_MAX_BYTES or data[-1:] != b"\0" or len(strings) != last + 1:
        raise PeerProtocolError("client: the strings of a request are not those that it counts")
    if len(strings[last]) > PATH_MAX:
        raise PeerProtocolError("client: the path of a directory is too long")
    return Strings(strings[:first], strings[first:last], strings[last])


def decode_from_client(packet: bytes) -> FromClient:
    """A packet that a launch server received.

    Raises:
        PeerProtocolError: no client writes it.
    """
    kind, value, payload = _split(packet)
    try:
        match kind:
            case ClientKind.WRITTEN:
                count_bytes = _u32(payload)
                _demand(1 <= count_bytes <= OUTPUT_WINDOW_BYTES + OWN_LINE_MAX_BYTES)
                return Written(_stream(value), count_bytes)
            case ClientKind.INPUT:
                _demand(value <= (not payload) and len(payload) <= DATA_MAX)
                return Input(payload, value == 1)
            case ClientKind.SIGNAL:
                _demand(value in TOLD_SIGNALS and not payload)
                return Signal(value)
            case ClientKind.STARTED:
                pid = _i32(payload)
                _demand(value > 0 and -4096 < pid != 0)
                return Started(value, max(pid, 0), max(-pid, 0))
            case ClientKind.ENDED:
                _demand(value > 0)
                return Ended(value, _i32(payload))
            case ClientKind.PING:
                _demand(value == 0 and not payload)
                return Ping()
            case ClientKind.LEFT:
                _demand(value < 4 and not payload)
                return Left(tuple(stream for stream in (1, 2) if value >> stream - 1 & 1))
            case ClientKind.GIVEN:
                return Given(_stream(value), Gift(_u32(payload)))
            case ClientKind.OUTPUT_FAILED:
                return OutputFailed(_stream(value), _errno(_u32(payload), 1))
            case ClientKind.ORPHANS_KILLED:
                _demand(not payload)
                return OrphansKilled(value)
            case ClientKind.APPENDED:
                return Appended(value, _errno(_u32(payload), 0))
            case ClientKind.REQUEST:
                _demand(value == VERSION)
                return _decode_request(payload)
    except ValueError:
        raise _refusal("client", kind, packet) from None
    raise _refusal("client", kind, packet)


def _decode_request(payload: bytes) -> Request:
    _demand(len(payload) >= _REQUEST.size)
    umask, stdio, ignored, arguments, variables, limits = _REQUEST.unpack_from(payload)
    rest = payload[_REQUEST.size :]
    _demand(umask <= 0o777 and stdio < 512 and limits <= LIMITS_MAX)
    _demand(1 <= arguments <= STRINGS_MAX and variables <= STRINGS_MAX)
    _demand(len(rest) == limits * _LIMIT.size)
    return Request(
        umask,
        Stdio(stdio),
        tuple(number for number in range(1, 65) if ignored >> number - 1 & 1),
        arguments,
        variables,
        tuple(
            (resource, UNLIMITED if soft == _ALL_ONES else soft)
            for resource, soft in _LIMIT.iter_unpack(rest)
        ),
    )


def decode_from_server(packet: bytes) -> FromServer:
    """A packet that a client received.

    Raises:
        PeerProtocolError: no launch server writes it.
    """
    kind, value, payload = _split(packet)
    try:
        match kind:
            case ServerKind.OUTPUT:
                _demand(1 <= len(payload) <= DATA_MAX)
                return Output(_stream(value), payload)
            case ServerKind.READ:
                _demand(value > 0 and not payload)
                return Read(value)
            case ServerKind.START:
                flags = _u32(payload)
                _demand(value > 0 and flags <= StartFlag.PORTALS)
                return Start(value, bool(flags))
            case ServerKind.CONTINUE:
                _demand(value > 0 and not payload)
                return Continue(value)
            case ServerKind.KILL_ORPHANS:
                _demand(not payload)
                return KillOrphans(value)
            case ServerKind.APPEND:
                return _decode_append(value, payload)
            case ServerKind.EXIT:
                _demand(value == 0 and len(payload) == _EXIT.size)
                status, drops = _EXIT.unpack(payload)
                _demand(-64 <= status <= 255 and drops <= ExitFlag.DROP)
                return Exit(status, bool(drops))
            case ServerKind.HELLO:
                _demand(value == VERSION and len(payload) == _HELLO.size)
                return _decode_hello(payload)
            case ServerKind.TIMES:
                liveness_ms = _u32(payload)
                _demand(liveness_ms > 0)
                return Times(value, liveness_ms)
            case ServerKind.COLD:
                _demand(value <= 1 and len(payload) <= TEXT_MAX)
                return Cold(payload.decode(errors="backslashreplace"), is_launch=value == 0)
            case ServerKind.LEAVE:
                _demand(value == 0 and len(payload) <= LEAVE_TEXT_MAX_BYTES)
                return Leave(payload.decode(errors="surrogateescape"))
            case ServerKind.GIVE:
                _demand(not payload)
                return Give(_stream(value))
            case ServerKind.SUSPEND:
                _demand(value == 0 and not payload)
                return Suspend()
            case ServerKind.PONG:
                _demand(value == 0 and not payload)
                return Pong()
    except ValueError:
        raise _refusal("launch server", kind, packet) from None
    raise _refusal("launch server", kind, packet)


def _decode_hello(payload: bytes) -> Hello:
    magic, unix_pid, press_ms, liveness_ms, *inodes, release = _HELLO.unpack(payload)
    _demand(magic == MAGIC and 0 < unix_pid < 1 << 31 and liveness_ms > 0)
    namespaces = tuple(inodes[: len(NAMESPACES)])
    return Hello(unix_pid, press_ms, liveness_ms, namespaces, (inodes[-2], inodes[-1]), release)


def _decode_append(token: int, payload: bytes) -> Append:
    _demand(len(payload) > _U32.size)
    flags = _u32(payload[: _U32.size])
    path, nul, data = payload[_U32.size :].partition(b"\0")
    _demand(flags < 8 and nul != b"" and 0 < len(path) < PATH_MAX)
    return Append(token, path, data, AppendFlag(flags))


def _split(packet: bytes) -> tuple[int, int, bytes]:
    if not _HEAD.size <= len(packet) <= PACKET_MAX_BYTES:
        raise PeerProtocolError(f"client: a packet of {len(packet)} bytes")
    kind, value = _HEAD.unpack_from(packet)
    return kind, value, packet[_HEAD.size :]


def _refusal(peer: str, kind: int, packet: bytes) -> PeerProtocolError:
    return PeerProtocolError(f"{peer}: a packet that is none: kind {kind}, {len(packet)} bytes")


def _demand(is_so: bool) -> None:
    if not is_so:
        raise ValueError


def _u32(payload: bytes) -> int:
    _demand(len(payload) == _U32.size)
    return int.from_bytes(payload, "little")


def _i32(payload: bytes) -> int:
    _demand(len(payload) == _I32.size)
    return int.from_bytes(payload, "little", signed=True)


def _stream(number: int) -> int:
    _demand(number in (1, 2))
    return number


def _errno(number: int, least: int) -> int:
    _demand(least <= number < 4096)
    return number
