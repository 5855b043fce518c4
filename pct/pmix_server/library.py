"""libpmix, loaded at run time: its calls, and the functions that it calls.

yod is built and installed without it. Its structures are in :mod:`pct.pmix_server.memory`.
"""

from __future__ import annotations

import os
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    RTLD_GLOBAL,
    addressof,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint32,
    c_void_p,
    string_at,
)

from pct.pmix_server.keys import RANGE_SESSION, Code
from pct.pmix_server.memory import Memory, pointer_at, process_bytes, strings_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from pct.pmix_server.keys import Info
    from pct.pmix_server.plain import NamedProcess

FILE_NAME = b"libpmix.so.2"
MAJOR_MIN = 4
MODULE_POINTERS = 64  # the library's module has 28 (4.2) or more; the others stay NULL

OpDone = CFUNCTYPE(None, c_int, c_void_p)
ModexDone = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)
SpawnDone = CFUNCTYPE(None, c_int, c_char_p, c_void_p)
LookupDone = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p)
InfoDone = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)
ToolDone = CFUNCTYPE(None, c_int, c_void_p, c_void_p)
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
    "query": (15, CFUNCTYPE(c_int, _P, _P, _Z, _P, _P)),
    "tool_connected": (16, CFUNCTYPE(None, _P, _Z, _P, _P)),
    "job_control": (19, CFUNCTYPE(c_int, _P, _P, _Z, _P, _Z, _P, _P)),
    "group": (25, CFUNCTYPE(c_int, c_int, c_char_p, _P, _Z, _P, _Z, _P, _P)),
    "client_connected2": (27, CFUNCTYPE(c_int, _P, _P, _P, _Z, _P, _P)),
}


class LibraryError(Exception):
    """There is no usable libpmix, or a call of it has failed."""


def load(libraries: Iterable[bytes], is_only: bool) -> Library:
    """The first libpmix that can be used.

    Args:
        libraries: files, or directories that have it, to try first.
        is_only: do not try the system's libraries after these.

    Raises:
        LibraryError: none can be used; the text gives the reason for each.
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
        version: the library's own text.

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
        """Stop libevent's warnings on standard error about clients that were killed."""
        self._functions.append(take := LogLine(lambda severity, text: None))
        try:
            self._library.event_set_log_callback(take)
        except AttributeError:  # it is linked to another event library
            return

    def start(self, upcalls: dict[str, Callable[..., int | None]], infos: Sequence[Info]) -> None:
        """Initialise the server.

        Args:
            upcalls: by the names in UPCALLS. They are called by a thread of the library.

        Raises:
            LibraryError: it fails.
        """
        for name, upcall in upcalls.items():
            place, prototype = UPCALLS[name]
            self._functions.append(function := prototype(upcall))
            self._module[place] = pointer_at(addressof(function))
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
        """The library's variables for a process's environment, as NAME=value.

        Raises:
            LibraryError: it fails.
        """
        array = c_void_p()
        _check(self._setup_fork(process_bytes(process), byref(array)), "PMIx_server_setup_fork")
        strings = strings_at(array.value)
        for i in range(len(strings)):
            self._free(pointer_at((array.value or 0) + 8 * i))
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
    """The 5 of "OpenPMIx 5.0.11, ..."; 0 when there is no number."""
    for word in version.replace("v", " ").split():
        number = word.partition(".")[0]
        if number.isdigit():
            return int(number)
    return 0


def _declare(function: Any, *arguments: Any, restype: Any = c_int) -> Any:
    function.argtypes = arguments
    function.restype = restype
    return function


def _check(rc: int, call: str) -> None:
    if rc not in (Code.SUCCESS, Code.OPERATION_SUCCEEDED):
        raise LibraryError(f"{call}: status {rc}")
