"""Structures of libpmix as bytes: copied from it, and built for it.

The layouts are those of LP64 machines, the same in libpmix 4 and 5:

===================  ====  ==================================================
pmix_proc_t           260  nspace[256], u32 rank
pmix_value_t           32  u16 type, at 8 a union of 24 bytes
pmix_info_t           552  key[512], u32 flags, at 520 the value
pmix_pdata_t          808  the process, at 260 key[512], at 776 the value
pmix_app_t             56  cmd, argv, env, cwd, int maxprocs, info, size_t ninfo
pmix_data_array_t      24  u16 type, size_t size, pointer
pmix_query_t           24  keys, infos, size_t ninfos
pmix_proc_info_t      296  the process, at 264 host, program, int pid, exit code, u8 state
===================  ====  ==================================================

Structures for the library are built in buffers that a :class:`Memory` keeps. Structures from
the library are copied before the upcall returns.
"""

from __future__ import annotations

import struct
from ctypes import addressof, create_string_buffer, string_at

from pct.pmix_server.keys import RANK_VALID, RANK_WILDCARD, Info, ProcessTable, Type
from pct.pmix_server.plain import NamedProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from ctypes import Array, c_char

    Buffer = Array[c_char]

PROC_BYTES = 260
INFO_BYTES = 552
APP_BYTES = 56
QUERY_BYTES = 24
_PROC = struct.Struct("=256sI")
_INFO = struct.Struct("=512sI4xH6x24s")
_PDATA = struct.Struct("=256sI512s4xH6x24s")
_APP = struct.Struct("=QQQQi4xQQ")
_ARRAY = struct.Struct("=H6xQQ")
_QUERY = struct.Struct("=QQQ")
_PROC_INFO = struct.Struct("=260s4xQQiiB7x")
_POINTER = struct.Struct("=Q")
_OBJECT = struct.Struct("=QQ")
_ENVAR = struct.Struct("=QQc7x")
_NUMBERS = {
    Type.BOOL: struct.Struct("=B"),
    Type.BYTE: struct.Struct("=B"),
    Type.SIZE: struct.Struct("=Q"),
    Type.PID: struct.Struct("=i"),
    Type.INT: struct.Struct("=i"),
    Type.INT8: struct.Struct("=b"),
    Type.INT16: struct.Struct("=h"),
    Type.INT32: struct.Struct("=i"),
    Type.INT64: struct.Struct("=q"),
    Type.UINT: struct.Struct("=I"),
    Type.UINT8: struct.Struct("=B"),
    Type.UINT16: struct.Struct("=H"),
    Type.UINT32: struct.Struct("=I"),
    Type.UINT64: struct.Struct("=Q"),
    Type.STATUS: struct.Struct("=i"),
    Type.PERSIST: struct.Struct("=B"),
    Type.DATA_RANGE: struct.Struct("=B"),
    Type.PROC_RANK: struct.Struct("=I"),
}
_PLAIN = frozenset(
    {*_NUMBERS, Type.UNDEF, Type.FLOAT, Type.DOUBLE, Type.TIMEVAL, Type.TIME}
)  # without pointers: the union's bytes are all of it
_POINTED = frozenset({Type.STRING, Type.BYTE_OBJECT, Type.COMPRESSED_STRING})

# -- from the library -----------------------------------------------------


def text_of(data: bytes) -> bytes:
    """The bytes before the first zero."""
    return data.partition(b"\0")[0]


def pointer_at(address: int) -> int:
    """The pointer at this offset."""
    return int(_POINTER.unpack(string_at(address, 8))[0])


def processes_at(address: int | None, count: int) -> tuple[NamedProcess, ...]:
    """Copy an array of pmix_proc_t."""
    if not address or not count:
        return ()
    return tuple(
        NamedProcess(text_of(nspace).decode(errors="replace"), rank if rank < RANK_VALID else -1)
        for nspace, rank in _PROC.iter_unpack(string_at(address, count * PROC_BYTES))
    )


def process_at(address: int | None) -> NamedProcess:
    """Copy one pmix_proc_t; the pointer must not be NULL."""
    return processes_at(address, 1)[0]


class Value:
    """A pmix_value_t, copied.

    Attributes:
        type: its number; it may be one that :class:`Type` does not have.
        data: its union, or what that points to. None: of a type that is not copied.
    """

    def __init__(self, kind: int, union: bytes) -> None:
        self.type = kind
        self.data: bytes | None = None
        if kind in _PLAIN:
            self.data = union
        elif kind == Type.STRING:
            self.data = string_at(address) if (address := _POINTER.unpack(union[:8])[0]) else b""
        elif kind in _POINTED:
            address, size = _OBJECT.unpack(union[:16])
            self.data = string_at(address, size) if address else b""
        elif kind == Type.ENVAR:
            name, value, _separator = _ENVAR.unpack(union)
            self.data = string_at(name) + b"=" + (string_at(value) if value else b"")

    def number(self, default: int) -> int:
        """The value if it is a number, else the default."""
        if self.data is None or self.type not in _NUMBERS:
            return default
        return int(_NUMBERS[self.type].unpack_from(self.data)[0])


def infos_at(address: int | None, count: int) -> list[tuple[bytes, Value]]:
    """Copy an array of pmix_info_t."""
    if not address or not count:
        return []
    return [
        (text_of(key), Value(kind, union))
        for key, _flags, kind, union in _INFO.iter_unpack(string_at(address, count * INFO_BYTES))
    ]


def strings_at(address: int | None) -> tuple[bytes, ...]:
    """Copy an array of strings that ends with NULL."""
    strings: list[bytes] = []
    if address:
        while pointer := pointer_at(address + 8 * len(strings)):
            strings.append(string_at(pointer))
    return tuple(strings)


class Application:
    """A pmix_app_t, copied."""

    def __init__(self, fields: Sequence[int]) -> None:
        command, argv, env, directory, self.count, infos, info_count = fields
        self.command = string_at(command) if command else b""
        self.arguments = strings_at(argv)
        self.environment = strings_at(env)
        self.directory = string_at(directory) if directory else b""
        self.infos = infos_at(infos, info_count)


def applications_at(address: int | None, count: int) -> list[Application]:
    """Copy an array of pmix_app_t."""
    if not address or not count:
        return []
    return [Application(f) for f in _APP.iter_unpack(string_at(address, count * APP_BYTES))]


def queries_at(
    address: int | None, count: int
) -> list[tuple[tuple[bytes, ...], dict[bytes, Value]]]:
    """Copy an array of pmix_query_t: keys and qualifiers of each."""
    if not address or not count:
        return []
    return [
        (strings_at(keys), dict(infos_at(infos, info_count)))
        for keys, infos, info_count in _QUERY.iter_unpack(string_at(address, count * QUERY_BYTES))
    ]


# -- to the library -------------------------------------------------------


class Memory:
    """Buffers for the library; they live as long as this object."""

    def __init__(self) -> None:
        self._kept: list[Buffer] = []

    def copy(self, data: bytes) -> int:
        """Address of a copy, with a zero behind it."""
        self._kept.append(buffer := create_string_buffer(data, len(data) + 1))
        return addressof(buffer)

    def infos(self, infos: Sequence[Info]) -> tuple[int | None, int]:
        """Address and length of an array of pmix_info_t."""
        if not infos:
            return None, 0
        return self.copy(b"".join(self._info(info) for info in infos)), len(infos)

    def _info(self, info: Info) -> bytes:
        return _INFO.pack(info.key, 0, info.type, self._union(info))

    def _union(self, info: Info) -> bytes:
        value = info.value
        if isinstance(value, int):
            return _NUMBERS[info.type].pack(value)
        if isinstance(value, NamedProcess):
            return _POINTER.pack(self.copy(process_bytes(value)))
        if isinstance(value, ProcessTable):
            return _POINTER.pack(self.copy(self._process_table(value)))
        if isinstance(value, tuple):
            return _POINTER.pack(self.copy(self._array(value)))
        if info.type == Type.STRING:
            return _POINTER.pack(self.copy(value))
        return _OBJECT.pack(self.copy(value), len(value))

    def _array(self, values: tuple[Info, ...] | tuple[NamedProcess, ...]) -> bytes:
        if values and isinstance(values[0], NamedProcess):
            data = b"".join(process_bytes(one) for one in values if isinstance(one, NamedProcess))
            return _ARRAY.pack(Type.PROC, len(values), self.copy(data))
        address, count = self.infos([one for one in values if isinstance(one, Info)])
        return _ARRAY.pack(Type.INFO, count, address or 0)

    def _process_table(self, table: ProcessTable) -> bytes:
        data = b"".join(
            _PROC_INFO.pack(
                process_bytes(one.process),
                self.copy(one.host),
                self.copy(one.program),
                one.unix_pid,
                one.exit_code,
                one.state,
            )
            for one in table.processes
        )
        return _ARRAY.pack(Type.PROC_INFO, len(table.processes), self.copy(data))

    def pdata(
        self, found: Iterable[tuple[bytes, NamedProcess, int, bytes]]
    ) -> tuple[int | None, int]:
        """Address and length of an array of pmix_pdata_t.

        Args:
            found: key, publisher, type and data of each, as in :class:`Value`.
        """
        parts = []
        for key, process, kind, data in found:
            if kind == Type.STRING:
                data = _POINTER.pack(self.copy(data))
            elif kind in _POINTED:
                data = _OBJECT.pack(self.copy(data), len(data))
            nspace, rank = _PROC.unpack(process_bytes(process))
            parts.append(_PDATA.pack(nspace, rank, key, kind, data))
        if not parts:
            return None, 0
        return self.copy(b"".join(parts)), len(parts)


def process_bytes(process: NamedProcess) -> bytes:
    """A pmix_proc_t."""
    rank = process.rank if process.rank >= 0 else RANK_WILDCARD
    return _PROC.pack(process.nspace.encode(), rank)
