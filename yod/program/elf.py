"""The headers of an ELF file: its loader, the libraries that it needs, its own name.

The caller gives the bytes. A file that is damaged, truncated or of another format is not
an error: there is no result. Source: System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from msgspec import Struct

HEADERS_MAX = 512  # program headers; real files have about ten
DYNAMIC_MAX_BYTES = 64 * 1024
STRING_MAX_BYTES = 4096
STRINGS_MAX_BYTES = 1 << 20  # of a program's table of names; a larger one is not searched
OFFSET_MAX = (1 << 63) - 1  # the largest offset of pread

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_STRSZ = 0, 1, 5, 10
_DT_SONAME, _DT_RPATH, _DT_RUNPATH = 14, 15, 29

# Functions of the C library that start a program or load a library.
_REACHING = tuple(
    b"\0%s\0" % name
    for name in b"""dlopen dlmopen execl execle execlp execv execve execveat execvp execvpe fexecve
    posix_spawn posix_spawnp popen system syscall wordexp""".split()
)

Read = Callable[[int, int], bytes]  # (count, offset) as pread


class Elf(Struct, frozen=True):
    """One file.

    Attributes:
        kind: class, byte order and machine; the same for all files of a process.
        interpreter: its loader; empty: a library, or statically linked.
        needed: names of the libraries that it needs directly.
        name: its SONAME; empty: it has none.
        search: directories of its RUNPATH, else of its RPATH; ``$ORIGIN`` is not replaced.
        reaches_out: it may start a program or load a library while it runs. False: it
            imports no function that does.
    """

    kind: tuple[int, int, int]
    interpreter: str
    needed: tuple[str, ...]
    name: str
    search: tuple[str, ...]
    reaches_out: bool


class _Layout(Struct, frozen=True):
    """Sizes and orders that depend on a file's class."""

    header: str
    segment: str
    entry: str


_LAYOUTS = {
    1: _Layout("HHIIIIIHHH", "IIIIIIII", "II"),
    2: _Layout("HHIQQQIHHH", "IIQQQQQQ", "QQ"),
}


class _Segment(Struct, frozen=True):
    kind: int
    offset: int
    address: int
    file_bytes: int


def parse(read: Read) -> Elf | None:
    """Read a file's headers.

    Args:
        read: as pread: at most ``count`` bytes at ``offset``; fewer at the end.

    Returns:
        None: no ELF file, or a damaged one.
    """
    try:
        return _parse(read)
    except struct.error:
        return None


def _parse(read: Read) -> Elf | None:
    start = read(64, 0)
    if len(start) < 16 or start[:4] != b"\x7fELF" or start[5] not in (1, 2):
        return None
    layout = _LAYOUTS.get(start[4])
    if layout is None:
        return None
    order = "<" if start[5] == 1 else ">"
    fields = struct.unpack_from(order + layout.header, start, 16)
    machine, segments_at, each_bytes, count = fields[1], fields[4], fields[8], fields[9]
    if each_bytes != struct.calcsize(order + layout.segment) or count > HEADERS_MAX:
        return None
    table = _at(read, count * each_bytes, segments_at)
    if len(table) != count * each_bytes:
        return None
    segments = list(_segments(table, order + layout.segment, is_64_bit=start[4] == 2))
    interpreter, entries = "", []
    for segment in segments:
        if segment.kind == _PT_INTERP:
            most_bytes = min(segment.file_bytes, STRING_MAX_BYTES)
            interpreter = _text(_at(read, most_bytes, segment.offset))
        elif segment.kind == _PT_DYNAMIC:
            data = _at(read, min(segment.file_bytes, DYNAMIC_MAX_BYTES), segment.offset)
            entries = list(_entries(data, order + layout.entry))
    strings_at = next((value for tag, value in entries if tag == _DT_STRTAB), 0)
    strings_offset = _offset_of(strings_at, segments)

    def texts(wanted: int) -> list[str]:
        if strings_offset is None:
            return []
        return [
            _text(_at(read, STRING_MAX_BYTES, strings_offset + value))
            for tag, value in entries
            if tag == wanted
        ]

    size = next((value for tag, value in entries if tag == _DT_STRSZ), 0)
    reaches_out = True
    if strings_offset is not None and 0 < size <= STRINGS_MAX_BYTES:
        names = _at(read, size, strings_offset)
        reaches_out = len(names) < size or any(name in names for name in _REACHING)
    search = texts(_DT_RUNPATH) or texts(_DT_RPATH)
    return Elf(
        kind=(start[4], start[5], machine),
        interpreter=interpreter,
        needed=tuple(texts(_DT_NEEDED)),
        name="".join(texts(_DT_SONAME)[:1]),
        search=tuple(entry for text in search for entry in text.split(":") if entry),
        reaches_out=reaches_out,
    )


def _segments(table: bytes, form: str, is_64_bit: bool) -> Iterator[_Segment]:
    for fields in struct.iter_unpack(form, table):
        if is_64_bit:
            kind, _, offset, address, _, file_bytes, _, _ = fields
        else:
            kind, offset, address, _, file_bytes, _, _, _ = fields
        yield _Segment(kind, offset, address, file_bytes)


def _entries(data: bytes, form: str) -> Iterator[tuple[int, int]]:
    """The dynamic section up to its end mark."""
    whole = len(data) // struct.calcsize(form) * struct.calcsize(form)
    for tag, value in struct.iter_unpack(form, data[:whole]):
        if tag == _DT_NULL:
            return
        yield tag, value


def _offset_of(address: int, segments: list[_Segment]) -> int | None:
    """The offset in the file of an address in the loaded image."""
    for segment in segments:
        if segment.kind == _PT_LOAD and 0 <= address - segment.address < segment.file_bytes:
            return address - segment.address + segment.offset
    return None


def _at(read: Read, count: int, offset: int) -> bytes:
    return read(count, offset) if offset <= OFFSET_MAX else b""


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="surrogateescape")
