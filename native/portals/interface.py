"""Interfaces, and the library as a whole; see :mod:`native.portals`."""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from native._native import ffi, lib
from native.portals.state import State, ni_handle_of
from native.portals.values import ANY, Feature, Limits, NiOption, Process, StatusRegister
from native.transport.raw import NO_LISTEN, Object, check, in_range, private_config

_IFACE_DEFAULT = 0

_lock = threading.Lock()  # of the interfaces and of the count below
_inits = 0  # init() without fini()


def init() -> None:
    """Count a user of the library (PtlInit); interfaces do so themselves.

    Keeps an :func:`abort` in force between two interfaces.

    Raises:
        PtlError: PTL_FAIL, in a forked child.
    """
    global _inits
    with _lock:
        check(lib.PtlInit(), "PtlInit")
        _inits += 1


def fini() -> None:
    """Take an :func:`init` back (PtlFini). Raises ValueError when there was none."""
    global _inits
    with _lock:
        if _inits == 0:
            raise ValueError("fini without init")
        _inits -= 1
        lib.PtlFini()


def abort() -> None:
    """End all present and later waits and polls of this process (PtlAbort).

    They raise PtlError with PTL_ABORTED until the last interface is closed.
    """
    lib.PtlAbort()


def atomic_sync() -> None:
    """Make the results of atomic operations visible to this process's loads (PtlAtomicSync)."""
    check(lib.PtlAtomicSync(), "PtlAtomicSync")


STATES: dict[int, State] = {}  # by handle: one that is not closed lives on


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_after_fork)


class Interface(Object):
    """One of the four interfaces of this process (PtlNIInit).

    They share one id. Opening one twice gives another name for the same: what was made
    from it lives until the last one is closed. One that is never closed lives as
    long as the process.

    Args:
        options: one of MATCHING and NO_MATCHING, and one of LOGICAL and PHYSICAL.
        pid: port to listen at; ANY: that of the rank, or any.
        limits: what is wished for; None: the defaults.

    Raises:
        InUseError: the port is taken, or the process has another pid.
        PtlError: the system refused, or (PTL_FAIL) this is a forked child.
    """

    _what = "interface"

    @in_range
    def __init__(
        self,
        options: NiOption = NiOption.MATCHING | NiOption.PHYSICAL,
        *,
        pid: int = ANY,
        limits: Limits | None = None,
    ) -> None:
        super().__init__()
        self._open(
            options,
            limits,
            lambda *made: check(lib.PtlNIInit(_IFACE_DEFAULT, options, pid, *made), "PtlNIInit"),
        )

    def _open(
        self, options: int, limits: Limits | None, make: Callable[[Any, Any, Any], None]
    ) -> None:
        wished = ffi.new("ptl_ni_limits_t *") if limits is not None else ffi.NULL
        if limits is not None:
            for name in Limits.__struct_fields__:
                setattr(wished, name, getattr(limits, name))
        actual = ffi.new("ptl_ni_limits_t *")
        handle = ffi.new("uint32_t *")
        with _lock:
            check(lib.PtlInit(), "PtlInit")
            try:
                make(wished, actual, handle)
            except BaseException:
                lib.PtlFini()
                raise
            granted = {name: getattr(actual, name) for name in Limits.__struct_fields__}
            granted["features"] = Feature(granted["features"])
            self._handle = handle[0]
            self._state = STATES.get(self._handle) or State(
                self._handle, options, Limits(**granted)
            )
            self._state.users += 1
            STATES[self._handle] = self._state

    @property
    def limits(self) -> Limits:
        """What was granted."""
        return self._state.limits

    @property
    def is_logical(self) -> bool:
        """Are processes named by rank?"""
        return self._state.is_logical

    @property
    def is_matching(self) -> bool:
        """Are operations matched to entries by bits and id?"""
        return self._state.is_matching

    def ni_handle(self) -> int:
        """The handle of C (PtlNIHandle)."""
        return ni_handle_of(self.handle)

    def is_same(self, other: Object) -> bool:
        """Do both name the same object of C (PtlHandleIsEqual)?"""
        return bool(lib.PtlHandleIsEqual(self.handle, other.handle))

    @in_range
    def status(self, register: StatusRegister) -> int:
        """A count of what went wrong here (PtlNIStatus)."""
        value = ffi.new("int *")
        check(lib.PtlNIStatus(self.handle, StatusRegister(register), value), "PtlNIStatus")
        return int(value[0])

    def id(self) -> Process | int:
        """This process's rank on a logical interface, ANY without a map; else its
        physical id (PtlGetId)."""
        process = ffi.new("ptl_process_t *")
        check(lib.PtlGetId(self.handle, process), "PtlGetId")
        return self._state.process_of(process)

    def phys_id(self) -> Process:
        """This process's physical id (PtlGetPhysId)."""
        process = ffi.new("ptl_process_t *")
        check(lib.PtlGetPhysId(self.handle, process), "PtlGetPhysId")
        return Process(process.phys.nid, process.phys.pid)

    def uid(self) -> int:
        """The user that this process proves to be (PtlGetUid)."""
        uid = ffi.new("uint32_t *")
        check(lib.PtlGetUid(self.handle, uid), "PtlGetUid")
        return int(uid[0])

    @in_range
    def set_map(self, processes: Sequence[tuple[int, int]]) -> None:
        """Say which process each rank is (PtlSetMap); of a logical interface only.

        Raises:
            ValueError: not logical, empty, or an id that names no process.
        """
        array = ffi.new("ptl_process_t[]", len(processes))
        for place, (nid, pid) in zip(array, processes, strict=True):
            place.phys.nid, place.phys.pid = nid, pid
        check(lib.PtlSetMap(self.handle, len(processes), array), "PtlSetMap")

    def get_map(self) -> list[Process]:
        """Which process each rank is (PtlGetMap).

        Raises:
            ValueError: the interface is not logical.
            NoSpaceError: there is no map yet.
        """
        size = ffi.new("uint64_t *")
        check(lib.PtlGetMap(self.handle, 0, ffi.NULL, size), "PtlGetMap")
        room = int(size[0])
        array = ffi.new("ptl_process_t[]", room)
        check(lib.PtlGetMap(self.handle, room, array, size), "PtlGetMap")
        found = min(room, int(size[0]))
        return [Process(array[i].phys.nid, array[i].phys.pid) for i in range(found)]

    @contextmanager
    def bundle(self) -> Iterator[None]:
        """Operations within may be sent together (PtlStartBundle, PtlEndBundle)."""
        check(lib.PtlStartBundle(self.handle), "PtlStartBundle")
        try:
            yield
        finally:
            check(lib.PtlEndBundle(self.handle), "PtlEndBundle")

    def close(self) -> None:
        """Free all that is left, when it is the last of this interface (PtlNIFini).

        What has been sent is delivered first, for at most two seconds.
        """
        if not self._handle:
            return
        handle, self._handle = self._handle, 0
        with _lock:
            state = self._state
            state.users -= 1
            if state.users == 0:
                STATES.pop(handle, None)
                for part in list(state.parts):
                    part._handle = 0
            if not state.is_foreign():
                self._fini(handle)
            if state.users == 0:
                state.ended()
            if not state.is_foreign():
                lib.PtlFini()

    def _fini(self, handle: int) -> None:
        lib.PtlNIFini(handle)


class PrivateInterface(Interface):
    """An interface with an address and a key of its own; several live in one process.

    Ends of one process make progress only in their own calls: let each have some.

    Args:
        options: as for :class:`Interface`.
        listen: "HOST:PORT" with an IPv4 address, port 0: any; None: do not listen.
        unix_path: path of a Unix socket to listen at as well.
        partition_key: 32 bytes that both ends hold; None: none.
        is_local: share memory with processes of this user and host, which need no key.
        uid: told to peers that hold the key.
        limits: what is wished for; None: the defaults.
        flush_ms: how long closing may take to deliver what has been sent.

    Raises:
        InUseError: the address is taken.
        PtlError: the system refused.
    """

    @in_range
    def __init__(
        self,
        options: NiOption = NiOption.MATCHING | NiOption.PHYSICAL,
        *,
        listen: str | None = "127.0.0.1:0",
        unix_path: bytes | None = None,
        partition_key: bytes | None = None,
        is_local: bool = False,
        uid: int = 0,
        limits: Limits | None = None,
        flush_ms: int = 2000,
    ) -> None:
        Object.__init__(self)
        nid, port = (0, NO_LISTEN) if listen is None else _nid_and_port(listen)
        config, _held = private_config(
            unix_path, partition_key, listen_nid=nid, listen_pid=port, uid=uid, is_local=is_local
        )
        self._flush_ms = flush_ms
        self._open(
            options,
            limits,
            lambda *made: check(lib.PtlxNIInitKind(config, options, *made), "PtlxNIInitKind"),
        )

    def fileno(self) -> int:
        """A descriptor that is readable while there is something to do here."""
        fd = ffi.new("int *")
        check(lib.PtlxFd(self.handle, fd), "PtlxFd")
        return int(fd[0])

    def _fini(self, handle: int) -> None:
        lib.PtlxNIFini(handle, self._flush_ms)


def _nid_and_port(listen: str) -> tuple[int, int]:
    host, _, port = listen.rpartition(":")
    return int(ipaddress.IPv4Address(host)), int(port)


def state_of(interface: Interface) -> State:
    """Where an object is to be made. Raises ValueError: the interface is closed."""
    if not isinstance(interface, Interface):
        raise TypeError(f"{interface!r:.80} is no Interface")
    interface.handle  # noqa: B018  raises when it is closed
    return interface._state
