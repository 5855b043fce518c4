"""libpmix, loaded at run time: its calls, and its structures as bytes.

Nothing of it is needed to build or install us. The layouts are those of LP64
machines, the same in libpmix 4 and 5:

===================  ====  ==================================================
pmix_proc_t           260  nspace[256], u32 rank
pmix_value_t           32  u16 type, at 8 a union of 24 bytes
pmix_info_t           552  key[512], u32 flags, at 520 the value
pmix_pdata_t          808  the process, at 260 key[512], at 776 the value
pmix_app_t             56  cmd, argv, env, cwd, int maxprocs, info, size_t ninfo
pmix_data_array_t      24  u16 type, size_t size, pointer
===================  ====  ==================================================

What goes to the library is built in buffers that a :class:`Memory` keeps; what
comes from it is copied before the upcall returns.
"""

from __future__ import annotations

import os
import struct
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    RTLD_GLOBAL,
    Array,
    addressof,
    byref,
    c_char,
    c_char_p,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint32,
    c_void_p,
    create_string_buffer,
    string_at,
)

from pct.pmix_keys import RANGE_SESSION, RANK_VALID, RANK_WILDCARD, Code, Info, Type
from pct.pmix_plain import NamedProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Buffer = Array[c_char]

FILE_NAME = b"libpmix.so.2"
MAJOR_MIN = 4

PROC_BYTES = 260
INFO_BYTES = 552
PDATA_BYTES = 808
APP_BYTES = 56
MODULE_POINTERS = 64  # the library's module has 28 (4.2) or more; the others stay NULL

_PROC = struct.Struct("=256sI")
_INFO = struct.Struct("=512sI4xH6x24s")
_PDATA = struct.Struct("=256sI512s4xH6x24s")
_APP = struct.Struct("=QQQQi4xQQ")
_ARRAY = struct.Struct("=H6xQQ")
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

# -- functions that the library calls, and those that it wants called ------

OpDone = CFUNCTYPE(None, c_int, c_void_p)
ModexDone = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)
SpawnDone = CFUNCTYPE(None, c_int, c_char_p, c_void_p)
LookupDone = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p)
InfoDone = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)
Release = CFUNCTYPE(None, c_void_p)
LogLine = CFUNCTYPE(None, c_int, c_char_p)
ModexResponse = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p)

_P, _Z = c_void_p, c_size_t
# Place in pmix_server_module_t and arguments of each upcall.
UPCALLS = {
    "client_finalized": (1, CFUNCTYPE(c_int, _P, _P, _P, _P)),
    "abort": (2, CFUNCTYPE(c_int, _P, _P, c_int, c_char_p, _P, _Z, _P, _P)),
    "fence_nb": (3, CFUNCTYPE(c_int, _P, _Z, _P, _Z, _P, _Z, _P, _P)),
    "direct_modex": (4, CFUNCTYPE(c_int, _P, _P, _Z, _P, _P)),
    "publish": (5, CFUNCTYPE(c_int, _P, _P, _Z, _P, _P)),
    "lookup": (6, CFUNCTYPE(c_int, _P, _P, _P, _Z, _P, _P)),
    "unpublish": (7, CFUNCTYPE(c_int, _P, _P, _P, _Z, _P, _P)),
    "spawn": (8, CFUNCTYPE(c_int, _P, _P, _Z, _P, _Z, _P, _P)),
    "connect": (9, CFUNCTYPE(c_int, _P, _Z, _P, _Z, _P, _P)),
    "disconnect": (10, CFUNCTYPE(c_int, _P, _Z, _P, _Z, _P, _P)),
    "register_events": (11, CFUNCTYPE(c_int, _P, _Z, _P, _Z, _P, _P)),
    "deregister_events": (12, CFUNCTYPE(c_int, _P, _Z, _P, _P)),
    "job_control": (19, CFUNCTYPE(c_int, _P, _P, _Z, _P, _Z, _P, _P)),
    "group": (25, CFUNCTYPE(c_int, c_int, c_char_p, _P, _Z, _P, _Z, _P, _P)),
    "client_connected2": (27, CFUNCTYPE(c_int, _P, _P, _P, _Z, _P, _P)),
}


class LibraryError(Exception):
    """There is no usable libpmix, or a call of it has failed."""


# -- from the library -----------------------------------------------------


def text_of(data: bytes) -> bytes:
    """What stands before the first zero."""
    return data.partition(b"\0")[0]


def processes_at(address: int | None, count: int) -> tuple[NamedProcess, ...]:
    """Copy an array of pmix_proc_t."""
    if not address or not count:
        return ()
    return tuple(
        NamedProcess(text_of(nspace).decode(errors="replace"), rank if rank < RANK_VALID else -1)
        for nspace, rank in _PROC.iter_unpack(string_at(address, count * PROC_BYTES))
    )


def process_at(address: int | None) -> NamedProcess:
    """Copy one pmix_proc_t, which must be there."""
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
        """The value, where it is a number."""
        if self.data is None or self.type not in _NUMBERS:
            return default
        return int(_NUMBERS[self.type].unpack_from(self.data)[0])

    def is_true(self) -> bool:
        """As PMIX_INFO_TRUE reads flags; a key without value is one."""
        if self.type == Type.UNDEF:
            return True
        if self.type == Type.STRING:
            return (self.data or b"").strip().lower()[:1] in (b"", b"y", b"t", b"1")
        return self.number(0) != 0


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
        while pointer := _POINTER.unpack(string_at(address + 8 * len(strings), 8))[0]:
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


# -- the library ----------------------------------------------------------


def load(libraries: Iterable[bytes], is_only: bool) -> Library:
    """The first libpmix that can be used.

    Args:
        libraries: files, or directories that have it, to try first.
        is_only: do not try the system's behind them.

    Raises:
        LibraryError: none of them; the text says what is wrong with each.
    """
    wrong = []
    for path in _candidates(libraries, is_only):
        try:
            return Library(path)
        except (OSError, AttributeError, LibraryError) as error:
            text = str(error)
            name = os.fsdecode(path)
            wrong.append(text if text.startswith(name) else f"{name}: {text}")
    raise LibraryError("no usable libpmix: " + "; ".join(wrong or ["none was named"]))


def _candidates(libraries: Iterable[bytes], is_only: bool) -> list[bytes]:
    paths = []
    for path in libraries:
        paths += _in_directory(path) if os.path.isdir(path) else [path]
    if not is_only:
        paths.append(FILE_NAME)
        machine = os.uname().machine.encode()  # Debian keeps it where the loader does not look
        paths.append(b"/usr/lib/%s-linux-gnu/pmix2/lib/%s" % (machine, FILE_NAME))
    return paths


def _in_directory(directory: bytes) -> list[bytes]:
    below = [
        os.path.join(directory, *parts, FILE_NAME)
        for parts in ((), (b"openmpi",), (b"lib",), (b"lib", b"openmpi"), (b"lib64",))
    ]
    return [path for path in below if os.path.exists(path)] or below[:1]


class Library:
    """The calls of one libpmix.

    Attributes:
        path: as it was found.
        version: as the library says it.

    Raises:
        OSError: it cannot be loaded.
        AttributeError: it lacks a call.
        LibraryError: it is too old.
    """

    def __init__(self, path: bytes) -> None:
        self.path = path
        self._library = library = CDLL(os.fsdecode(path), mode=RTLD_GLOBAL)
        library.PMIx_Get_version.restype = c_char_p
        self.version = library.PMIx_Get_version().decode(errors="replace")
        if _major(self.version) < MAJOR_MIN:
            raise LibraryError(f"{self.version!r}, at least version {MAJOR_MIN} is needed")
        self._init = _declare(library.PMIx_server_init, _P, _P, _Z)
        self._finalize = _declare(library.PMIx_server_finalize)
        self._regex = _declare(library.PMIx_generate_regex, c_char_p, POINTER(c_void_p))
        self._ppn = _declare(library.PMIx_generate_ppn, c_char_p, POINTER(c_void_p))
        self._register_nspace = _declare(
            library.PMIx_server_register_nspace, c_char_p, c_int, _P, _Z, _P, _P
        )
        self._deregister_nspace = _declare(
            library.PMIx_server_deregister_nspace, c_char_p, _P, _P, restype=None
        )
        self._register_client = _declare(
            library.PMIx_server_register_client, c_char_p, c_uint32, c_uint32, _P, _P, _P
        )
        self._deregister_client = _declare(
            library.PMIx_server_deregister_client, c_char_p, _P, _P, restype=None
        )
        self._setup_fork = _declare(library.PMIx_server_setup_fork, c_char_p, POINTER(c_void_p))
        self._dmodex_request = _declare(
            library.PMIx_server_dmodex_request, c_char_p, ModexResponse, _P
        )
        self._notify = _declare(library.PMIx_Notify_event, c_int, c_char_p, c_ubyte, _P, _Z, _P, _P)
        self._free = _declare(library.free, _P, restype=None)  # libc's: what the library uses
        self._functions: list[Any] = []  # what the library may call, for as long as it lives
        self._silence_libevent()
        self._module = (c_void_p * MODULE_POINTERS)()

    def _silence_libevent(self) -> None:
        """It warns about each client that was killed, on standard error."""
        self._functions.append(take := LogLine(lambda severity, text: None))
        try:
            self._library.event_set_log_callback(take)
        except AttributeError:  # it is linked to another event library
            return

    def start(self, upcalls: dict[str, Callable[..., int]], infos: Sequence[Info]) -> None:
        """Initialise the server.

        Args:
            upcalls: by the names in UPCALLS. They are called by a thread of the library.

        Raises:
            LibraryError: it fails.
        """
        for name, upcall in upcalls.items():
            place, prototype = UPCALLS[name]
            self._functions.append(function := prototype(upcall))
            self._module[place] = _pointer_of(function)
        memory = Memory()
        _check(self._init(byref(self._module), *memory.infos(infos)), "PMIx_server_init")

    def finalize(self) -> None:
        """End the server; clients lose their connection."""
        self._finalize()

    def node_map(self, nodes: bytes) -> bytes:
        """Names with commas, as the library abbreviates them."""
        return self._string(self._regex, nodes, "PMIx_generate_regex")

    def process_map(self, ranks: bytes) -> bytes:
        """Ranks with commas, nodes with semicolons, as the library abbreviates them."""
        return self._string(self._ppn, ranks, "PMIx_generate_ppn")

    def _string(self, function: Any, text: bytes, name: str) -> bytes:
        address = c_void_p()
        _check(function(text, byref(address)), name)
        value = string_at(address.value or 0)
        self._free(address)
        return value

    def register_nspace(self, nspace: str, local_count: int, infos: Sequence[Info]) -> None:
        """Make a namespace known; returns when it is.

        Raises:
            LibraryError: it fails.
        """
        memory = Memory()
        rc = self._register_nspace(nspace.encode(), local_count, *memory.infos(infos), None, None)
        _check(rc, "PMIx_server_register_nspace")

    def register_client(self, process: NamedProcess, uid: int, gid: int) -> None:
        """Let a process connect.

        Raises:
            LibraryError: it fails.
        """
        rc = self._register_client(process_bytes(process), uid, gid, None, None, None)
        _check(rc, "PMIx_server_register_client")

    def environment(self, process: NamedProcess) -> tuple[bytes, ...]:
        """What the library wants in a process's environment, NAME=value.

        Raises:
            LibraryError: it fails.
        """
        array = c_void_p()
        _check(self._setup_fork(process_bytes(process), byref(array)), "PMIx_server_setup_fork")
        strings = strings_at(array.value)
        for i in range(len(strings)):
            self._free(_POINTER.unpack(string_at((array.value or 0) + 8 * i, 8))[0])
        self._free(array)
        return strings

    def deregister_client(self, process: NamedProcess) -> None:
        """Forget a process; returns when it is forgotten."""
        self._deregister_client(process_bytes(process), None, None)

    def deregister_nspace(self, nspace: str) -> None:
        """Forget a namespace; returns when it is forgotten."""
        self._deregister_nspace(nspace.encode(), None, None)

    def request_modex(self, process: NamedProcess, response: Any, token: int) -> int:
        """Ask for what a local process has put; ``response`` is called with the token."""
        return int(self._dmodex_request(process_bytes(process), response, token))

    def notify(self, code: int, source: NamedProcess, infos: Sequence[Info]) -> int:
        """Tell local clients of an event; returns when it has been passed on."""
        memory = Memory()
        return int(
            self._notify(
                code, process_bytes(source), RANGE_SESSION, *memory.infos(infos), None, None
            )
        )

    def free(self, address: int | None) -> None:
        """Give back what the library has allocated for us."""
        self._free(address)


def _major(version: str) -> int:
    """Of "OpenPMIx 5.0.11, ..." the 5; 0 when there is none."""
    for word in version.replace("v", " ").split():
        number = word.partition(".")[0]
        if number.isdigit():
            return int(number)
    return 0


def _declare(function: Any, *arguments: Any, restype: Any = c_int) -> Any:
    function.argtypes = arguments
    function.restype = restype
    return function


def _pointer_of(function: Any) -> int:
    return int.from_bytes(string_at(addressof(function), 8), "little")


def _check(rc: int, call: str) -> None:
    if rc not in (Code.SUCCESS, Code.OPERATION_SUCCEEDED):
        raise LibraryError(f"{call}: status {rc}")
