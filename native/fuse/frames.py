"""Requests and replies of FUSE, version 7, as linux/fuse.h lays them out for this host's kernels.

Numbers have the order of the machine; all that we build for are little-endian. A request is a
head and its own fields; a reply is a head, and fields where there is no error.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct as Layout
from typing import NamedTuple

from native.errors import PeerProtocolError

ROOT_NODE = 1
DATA_MAX = 128 * 1024  # of one read or write
PAGE_BYTES = 4096

_IN_HEAD = Layout("<IIQQIIIHH")  # fuse_in_header
_OUT_HEAD = Layout("<IiQ")  # fuse_out_header
_UNIQUE = Layout("<Q")  # of both, at the same place
_UNIQUE_AT = 8
_COST_BYTES = 256  # of any request, beside its data and that of its reply


class Op(IntEnum):
    """What is asked (enum fuse_opcode)."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    ACCESS = 34
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    FALLOCATE = 43
    LSEEK = 46


_UNANSWERED = frozenset((Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT))


class Request(NamedTuple):
    """One request.

    Attributes:
        op: an :class:`Op`, or another number.
        unique: its own, which its reply has.
        node: what it is about.
        body: the fields behind the head.
    """

    op: int
    unique: int
    node: int
    body: memoryview


# -- requests ---------------------------------------------------------------


def request_of(frame: bytes) -> Request:
    """The head of a request, and the rest.

    Raises:
        PeerProtocolError: it is none.
    """
    if len(frame) < _IN_HEAD.size:
        raise PeerProtocolError(f"a request for remote files of {len(frame)} bytes")
    size, op, unique, node, *_ = _IN_HEAD.unpack_from(frame)
    if size != len(frame):
        raise PeerProtocolError(f"a request for remote files of {len(frame)} bytes says {size}")
    return Request(op, unique, node, memoryview(frame)[_IN_HEAD.size :])


def unique_of(frame: bytes) -> int:
    """The number of a request or a reply.

    Raises:
        PeerProtocolError: it is too short to have one.
    """
    if len(frame) < _OUT_HEAD.size:
        raise PeerProtocolError(f"a frame of remote files of {len(frame)} bytes")
    number: int = _UNIQUE.unpack_from(frame, _UNIQUE_AT)[0]
    return number


def cost_of(frame: bytes) -> int:
    """What a request and its reply take of a window, in bytes; 0: it has no reply.

    Raises:
        PeerProtocolError: it is none.
    """
    request = request_of(frame)
    if request.op in _UNANSWERED:
        return 0
    answer_bytes = 0
    if request.op in (Op.READ, Op.READDIR):
        answer_bytes = ReadIn.of(request.body).size
    return max(len(frame), answer_bytes) + _COST_BYTES


def _fields(layout: Layout, body: memoryview) -> tuple[int, ...]:
    if len(body) < layout.size:
        raise PeerProtocolError(f"a request for remote files is {len(body)} bytes, too short")
    return layout.unpack_from(body)


class InitIn(NamedTuple):
    """The kernel's version, and what it can do."""

    major: int
    minor: int
    flags: int

    @classmethod
    def of(cls, body: memoryview) -> InitIn:
        major, minor, _, low = _fields(_INIT_IN, body)
        high = 0
        if low & INIT_EXT:
            high = _fields(_INIT_IN_MORE, body)[4]
        return cls(major, minor, high << 32 | low)


class SetattrIn(NamedTuple):
    """Which attributes are to change."""

    valid: int
    handle: int
    size: int
    atime_ns: int
    mtime_ns: int
    mode: int
    uid: int
    gid: int

    @classmethod
    def of(cls, body: memoryview) -> SetattrIn:
        (
            valid,
            _,
            handle,
            size,
            _,
            atime,
            mtime,
            _,
            atime_ns,
            mtime_ns,
            _,
            mode,
            _,
            uid,
            gid,
            _,
        ) = _fields(_SETATTR_IN, body)
        second = 1_000_000_000
        times = _signed(atime) * second + atime_ns, _signed(mtime) * second + mtime_ns
        return cls(valid, handle, size, *times, mode, uid, gid)


class ReadIn(NamedTuple):
    """What of an open file or directory is to be read."""

    handle: int
    offset: int
    size: int

    @classmethod
    def of(cls, body: memoryview) -> ReadIn:
        handle, offset, size, *_ = _fields(_READ_IN, body)
        return cls(handle, offset, size)


class WriteIn(NamedTuple):
    """What is to be written to an open file."""

    handle: int
    offset: int
    data: memoryview

    @classmethod
    def of(cls, body: memoryview) -> WriteIn:
        handle, offset, size, *_ = _fields(_READ_IN, body)
        data = body[_READ_IN.size :]
        if len(data) != size:
            raise PeerProtocolError(f"{len(data)} bytes to write, said to be {size}")
        return cls(handle, offset, data)


class FallocateIn(NamedTuple):
    """Which part of an open file is to have room."""

    handle: int
    offset: int
    length: int
    mode: int

    @classmethod
    def of(cls, body: memoryview) -> FallocateIn:
        return cls(*_fields(_FALLOCATE_IN, body)[:4])


_INIT_IN = Layout("<IIII")
_INIT_IN_MORE = Layout("<IIIII")
_SETATTR_IN = Layout("<IIQQQQQQIIIIIIII")
_READ_IN = Layout("<QQIIQII")  # fuse_read_in and fuse_write_in
_FALLOCATE_IN = Layout("<QQQII")
_U32 = Layout("<I")
_U64 = Layout("<Q")
_TWO_U32 = Layout("<II")
_FOUR_U32 = Layout("<IIII")
_HANDLE_IN = Layout("<QI")  # fuse_fsync_in, fuse_release_in, fuse_flush_in: their beginnings
_GETATTR_IN = Layout("<IIQ")
_LSEEK_IN = Layout("<QQII")
_FORGET_ONE = Layout("<QQ")


def u32_of(body: memoryview) -> int:
    """The first number: flags of an open, a mask of rights."""
    return _fields(_U32, body)[0]


def u64_of(body: memoryview) -> int:
    """The first number: a handle, a count, another node."""
    return _fields(_U64, body)[0]


def handle_of(body: memoryview) -> tuple[int, int]:
    """A handle, and flags behind it."""
    handle, flags = _fields(_HANDLE_IN, body)
    return handle, flags


def seek_of(body: memoryview) -> tuple[int, int, int]:
    """A handle, an offset, and what it is from."""
    handle, offset, whence, _ = _fields(_LSEEK_IN, body)
    return handle, _signed(offset), whence


def forgets_of(body: memoryview) -> list[tuple[int, int]]:
    """Nodes of a batch, each with how many lookups of it are forgotten."""
    count = u32_of(body)
    rest = body[_TWO_U32.size :]
    if len(rest) < count * _FORGET_ONE.size:
        raise PeerProtocolError(f"{count} nodes to forget in {len(rest)} bytes")
    return [
        (node, lookups)
        for node, lookups in _FORGET_ONE.iter_unpack(rest[: count * _FORGET_ONE.size])
    ]


def strings_of(body: memoryview, count: int, skip_bytes: int = 0) -> list[bytes]:
    """NUL-ended strings behind fields of a fixed size.

    Raises:
        PeerProtocolError: there are not so many.
    """
    found = bytes(body[skip_bytes:]).split(b"\0")
    if len(found) != count + 1 or found[-1]:
        raise PeerProtocolError(f"a request for remote files has not {count} names")
    return found[:-1]


CREATE_IN_BYTES = _FOUR_U32.size  # flags, mode, umask, open_flags
MKNOD_IN_BYTES = _FOUR_U32.size  # mode, rdev, umask, padding
MKDIR_IN_BYTES = _TWO_U32.size  # mode, umask
RENAME_IN_BYTES = _U64.size  # the other directory
LINK_IN_BYTES = _U64.size  # the node that gets a name


def create_of(body: memoryview) -> tuple[int, int]:
    """Flags and mode of a file that is made and opened."""
    flags, mode, *_ = _fields(_FOUR_U32, body)
    return flags, mode


def mknod_of(body: memoryview) -> tuple[int, int]:
    """Mode and device."""
    mode, device, *_ = _fields(_FOUR_U32, body)
    return mode, device


# -- what the two agree on --------------------------------------------------

MAJOR, MINOR = 7, 39
INIT_EXT = 1 << 30
DIRECT_IO_ALLOW_MMAP = 1 << 36
_WANTED = (
    1 << 0  # ASYNC_READ
    | 1 << 3  # ATOMIC_O_TRUNC
    | 1 << 5  # BIG_WRITES
    | 1 << 12  # AUTO_INVAL_DATA
    | 1 << 18  # PARALLEL_DIROPS
    | 1 << 22  # MAX_PAGES
    | INIT_EXT
    | DIRECT_IO_ALLOW_MMAP
)
_INIT_OUT = Layout("<IIIIHHIIHHII24x")
FOPEN_DIRECT_IO = 1


def init_out(asked: InitIn) -> bytes:
    """What of that we use."""
    flags = asked.flags & _WANTED
    return _INIT_OUT.pack(
        MAJOR,
        min(asked.minor, MINOR),
        DATA_MAX,  # read ahead
        flags & 0xFFFFFFFF,
        0,  # requests in the background: the kernel's number
        0,
        DATA_MAX,
        1,  # times have nanoseconds
        DATA_MAX // PAGE_BYTES,
        0,
        flags >> 32,
        0,
    )


# -- replies ----------------------------------------------------------------


class Attributes(NamedTuple):
    """What a kernel knows of a file."""

    ino: int
    size: int
    blocks: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    links: int
    uid: int
    gid: int
    major: int
    minor: int
    block_bytes: int

    def pack(self) -> bytes:
        """As struct fuse_attr."""
        seconds, rests = zip(
            *(divmod(ns, 1_000_000_000) for ns in (self.atime_ns, self.mtime_ns, self.ctime_ns)),
            strict=True,
        )
        device = self.minor & 0xFF | self.major << 8 | (self.minor & ~0xFF) << 12
        sizes = self.ino, self.size, self.blocks
        owner = self.mode, min(self.links, 0xFFFFFFFF), self.uid, self.gid
        last = device & 0xFFFFFFFF, self.block_bytes
        return _ATTR.pack(*sizes, *seconds, *rests, *owner, *last)


_ATTR = Layout("<QQQqqqIIIIIIIII4x")
_ENTRY_HEAD = Layout("<QQQQII")  # nodeid, generation, and how long name and attributes hold
_ATTR_HEAD = Layout("<QII")
_OPEN_OUT = Layout("<QIi")
_WRITE_OUT = Layout("<II")
_STATFS = Layout("<QQQQQIII28x")
_DIRENT = Layout("<QQII")


def reply(unique: int, payload: bytes = b"") -> bytes:
    """A reply that is no error."""
    return _OUT_HEAD.pack(_OUT_HEAD.size + len(payload), 0, unique) + payload


def refusal(unique: int, number: int) -> bytes:
    """A reply with an errno."""
    return _OUT_HEAD.pack(_OUT_HEAD.size, -number, unique)


def entry_out(node: int, attributes: Attributes) -> bytes:
    """A node by its name. Both hold for no time: other nodes write there, too."""
    return _ENTRY_HEAD.pack(node, 0, 0, 0, 0, 0) + attributes.pack()


def attr_out(attributes: Attributes) -> bytes:
    """The attributes of a node, likewise."""
    return _ATTR_HEAD.pack(0, 0, 0) + attributes.pack()


def open_out(handle: int, flags: int = 0) -> bytes:
    """What is open now."""
    return _OPEN_OUT.pack(handle, flags, 0)


def write_out(count_bytes: int) -> bytes:
    """How much has been written."""
    return _WRITE_OUT.pack(count_bytes, 0)


def lseek_out(offset: int) -> bytes:
    """Where data or a hole begins."""
    return _U64.pack(offset)


def statfs_out(counts: tuple[int, int, int, int, int], block: int, names: int, unit: int) -> bytes:
    """The file system: blocks, free, available, files and free ones; sizes and longest name."""
    return _STATFS.pack(*counts, block, names, unit)


def dirent(ino: int, next_offset: int, kind: int, name: bytes) -> bytes:
    """One entry of a directory.

    Args:
        next_offset: of the entry behind it.
        kind: as in d_type.
    """
    packed = _DIRENT.pack(ino, next_offset, len(name), kind) + name
    return packed + bytes(-len(packed) % 8)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
