"""Conversation `pmix`: a PCT and the PMIx server of one job on its node.

The server (:mod:`pct.pmix_server.server`) is a process of the job's user; they talk over a
stream socket. Each message is u32 length, little-endian, and a MessagePack array as
in :mod:`native.wire.base`. Namespaces are ours: the PCT names them in AddWorld.

Down, from the PCT: Begin, AddWorld, FenceDone, Answer, GetModex, Table, Ended, End.
Up: Ready or Unavailable, Added, Joined, Left, Enter, GetRemote, ModexData, PublishNames,
LookupNames, UnpublishNames, SpawnPrograms, GetTable, AbortJob.

A request that is answered carries a serial chosen by who asks; the answer repeats
it. ``status`` is a PMIx status: 0 is success, errors are negative.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, TypeVar, Union

from msgspec import DecodeError, Meta, Struct, msgpack

from native.errors import PeerProtocolError
from native.wire.base import (
    NODE_MAX,
    PATH_MAX,
    SIZE_MAX,
    U32,
    Name,
    Part,
    Rank,
    Text,
    demand_no_nul,
)
from native.wire.pmi import FenceKind, KeyValue, SpawnCommand, Status

MESSAGE_MAX_BYTES = 64 << 20  # fences carry the data of a whole job
NSPACE_MAX = 255
NSPACES_MAX = 1024  # in one question

Nspace = Annotated[str, Meta(max_length=NSPACE_MAX)]


class PmixMessage(Struct, frozen=True, array_like=True, tag_field="message"):
    """Base of all messages of this conversation."""


class NamedProcess(Part, frozen=True):
    """One process as PMIx names it.

    Attributes:
        rank: -1: all of the namespace.
    """

    nspace: Nspace
    rank: Annotated[int, Meta(ge=-1, lt=SIZE_MAX)]


class TableRow(Part, frozen=True):
    """A rank of this node.

    Attributes:
        unix_pid: 0: it has not been started.
        program: as yod named it.
    """

    process: NamedProcess
    unix_pid: Annotated[int, Meta(ge=0, lt=1 << 31)]
    program: Annotated[bytes, Meta(max_length=PATH_MAX)]


# -- from the PCT ---------------------------------------------------------


class Begin(PmixMessage, frozen=True, tag="begin"):
    """First message: load libpmix and initialise the server.

    Attributes:
        libraries: paths of libpmix to try in this order; then the system's.
        is_only: try these alone (the user named one).
        server: the server's own name, unique on the host.
        host: this node's name in the maps.
        uid, gid: whose clients may connect.
        directory: for the server's files, made for it; the PCT removes it afterwards.
    """

    libraries: tuple[Annotated[bytes, Meta(max_length=PATH_MAX)], ...]
    is_only: bool
    server: Nspace
    host: Name
    uid: U32
    gid: U32
    directory: Annotated[bytes, Meta(max_length=PATH_MAX)] = b""


class AddWorld(PmixMessage, frozen=True, tag="add_world"):
    """Register a namespace; answered by Added.

    Attributes:
        nodes: names of the nodes that have ranks of it, in the order of the job's places.
        node_of: for each rank, its index in ``nodes``.
        application_of: for each rank, the number of its program.
        local_ranks: the ranks on this node, ascending; may be none.
        first_rank: rank of the job of the namespace's rank 0.
        parent: who spawned it, or None.
    """

    serial: U32
    nspace: Nspace
    job_id: str
    nodes: tuple[Name, ...]
    node_of: tuple[Annotated[int, Meta(ge=0, le=NODE_MAX)], ...]
    application_of: tuple[Annotated[int, Meta(ge=0, le=SIZE_MAX)], ...]
    local_ranks: tuple[Rank, ...]
    universe_size: U32
    first_rank: Rank
    parent: NamedProcess | None


class FenceDone(PmixMessage, frozen=True, tag="fence_done"):
    """The answer to Enter: everybody is in; everybody's data, in the order of the places."""

    serial: U32
    status: Status
    data: bytes


class Answer(PmixMessage, frozen=True, tag="answer"):
    """The answer to a request about names, spawning, or another node's data.

    Attributes:
        pairs: of LookupNames: what was found. Of GetRemote: one pair, the data as its value.
        nspace: of SpawnPrograms: the new namespace.
    """

    serial: U32
    status: Status
    pairs: tuple[KeyValue, ...]
    nspace: Nspace = ""


class GetModex(PmixMessage, frozen=True, tag="get_modex"):
    """Another node wants what a rank of this node has put; answered by ModexData.

    It waits for the rank to commit.
    """

    serial: U32
    process: NamedProcess


class Table(PmixMessage, frozen=True, tag="table"):
    """The answer to GetTable: the ranks of this node."""

    serial: U32
    rows: tuple[TableRow, ...]


class Ended(PmixMessage, frozen=True, tag="ended"):
    """A rank anywhere in the job has ended.

    Attributes:
        is_failure: tell clients who asked to be told.
        is_local: its registration on this node can go.
    """

    process: NamedProcess
    wait_status: U32
    is_failure: bool
    is_local: bool


class End(PmixMessage, frozen=True, tag="end"):
    """The job is over: finalise, remove every file, exit. End of file means the same."""


# -- from the server ------------------------------------------------------


class Ready(PmixMessage, frozen=True, tag="ready"):
    """The server is up.

    Attributes:
        library: path of the libpmix in use.
        version: as the library says it.
    """

    library: Annotated[bytes, Meta(max_length=PATH_MAX)]
    version: Text


class Unavailable(PmixMessage, frozen=True, tag="unavailable"):
    """There is no usable libpmix here, or it fails; one line says what was tried."""

    text: Text


class Added(PmixMessage, frozen=True, tag="added"):
    """The namespace is registered.

    Attributes:
        status: 0, or why not.
        environments: for each local rank, NAME=value for its environment.
    """

    serial: U32
    status: Status
    environments: tuple[tuple[bytes, ...], ...]
    text: Text = ""

    def __post_init__(self) -> None:
        for environment in self.environments:
            demand_no_nul(*environment)


class Joined(PmixMessage, frozen=True, tag="joined"):
    """A local client has connected (initialised)."""

    process: NamedProcess


class Left(PmixMessage, frozen=True, tag="left"):
    """A local client has finalised."""

    process: NamedProcess


class Enter(PmixMessage, frozen=True, tag="enter"):
    """Every local participant is in a fence, connect or disconnect; answered by FenceDone.

    Attributes:
        kind: PMIX, CONNECT or DISCONNECT.
        processes: the participants of the whole job, ascending by namespace and rank.
        data: this node's.
    """

    serial: U32
    kind: FenceKind
    processes: Annotated[tuple[NamedProcess, ...], Meta(min_length=1)]
    data: bytes


class GetRemote(PmixMessage, frozen=True, tag="get_remote"):
    """A local client wants what a rank of another node has put; answered by Answer."""

    serial: U32
    process: NamedProcess


class ModexData(PmixMessage, frozen=True, tag="modex_data"):
    """The answer to GetModex."""

    serial: U32
    status: Status
    data: bytes


class PublishNames(PmixMessage, frozen=True, tag="publish"):
    """A client publishes; values are opaque to everybody but servers."""

    serial: U32
    process: NamedProcess
    pairs: tuple[KeyValue, ...]
    is_read_once: bool


class LookupNames(PmixMessage, frozen=True, tag="lookup"):
    """A client looks names up.

    Attributes:
        is_waiting: it waits until all are published.
    """

    serial: U32
    keys: tuple[bytes, ...]
    is_waiting: bool


class UnpublishNames(PmixMessage, frozen=True, tag="unpublish"):
    """A client takes names back."""

    serial: U32
    keys: tuple[bytes, ...]


class SpawnPrograms(PmixMessage, frozen=True, tag="spawn"):
    """A client starts more processes."""

    serial: U32
    process: NamedProcess
    commands: tuple[SpawnCommand, ...]


class GetTable(PmixMessage, frozen=True, tag="get_table"):
    """A client asks which processes there are; answered by Table."""

    serial: U32
    nspaces: Annotated[tuple[Nspace, ...], Meta(min_length=1, max_length=NSPACES_MAX)]


class AbortJob(PmixMessage, frozen=True, tag="abort"):
    """A client asks for the job's end; answered when the root has heard of it."""

    serial: U32
    process: NamedProcess
    status: Status
    text: Text


FromPct = Union[  # noqa: UP007
    Begin, AddWorld, FenceDone, Answer, GetModex, Table, Ended, End
]
FromServer = Union[  # noqa: UP007
    Ready,
    Unavailable,
    Added,
    Joined,
    Left,
    Enter,
    GetRemote,
    ModexData,
    PublishNames,
    LookupNames,
    UnpublishNames,
    SpawnPrograms,
    GetTable,
    AbortJob,
]

Decoded = TypeVar("Decoded")
_encoder = msgpack.Encoder()


@cache
def _pct_decoder() -> msgpack.Decoder[FromPct]:
    return msgpack.Decoder(FromPct)


@cache
def _server_decoder() -> msgpack.Decoder[FromServer]:
    return msgpack.Decoder(FromServer)


def encode(message: PmixMessage) -> bytes:
    """Length and message, as they go over the socket."""
    data = _encoder.encode(message)
    return len(data).to_bytes(4, "little") + data


def take(buffer: bytearray) -> bytes | None:
    """Take one whole message off a buffer's front; None: there is none yet.

    Raises:
        PeerProtocolError: longer than any message is.
    """
    if len(buffer) < 4:
        return None
    length = int.from_bytes(buffer[:4], "little")
    if length > MESSAGE_MAX_BYTES:
        raise PeerProtocolError(f"pmix: a message of {length} bytes, at most {MESSAGE_MAX_BYTES}")
    if len(buffer) < 4 + length:
        return None
    data = bytes(buffer[4 : 4 + length])
    del buffer[: 4 + length]
    return data


def decode_from_pct(data: bytes) -> FromPct:
    """A message, as the server reads it.

    Raises:
        PeerProtocolError: not a message.
    """
    return _decode(_pct_decoder(), data)


def decode_from_server(data: bytes) -> FromServer:
    """A message, as the PCT reads it.

    Raises:
        PeerProtocolError: not a message.
    """
    return _decode(_server_decoder(), data)


def _decode(decoder: msgpack.Decoder[Decoded], data: bytes) -> Decoded:
    try:
        return decoder.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerProtocolError(f"pmix: not a message: {error}") from None
