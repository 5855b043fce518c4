"""What daemons need of the transport, over the raw binding: little, and quick to import.

The whole of Portals is :mod:`native.portals`; these two import ``native._native``.

An object is closed by ``close()`` or ``with``; what is used after that raises
``ValueError`` and never reaches C with a stale pointer. Closing an interface
closes all that was made from it. One thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ParamSpec, Self, TypeVar

from native._native import ffi, lib

EVENT_BATCH = 128  # most events taken by one call
KEY_BYTES = 32
MESSAGE_MAX_BYTES: int = lib.PTLX_MESSAGE_MAX_BYTES
UINT32_MAX = 0xFFFFFFFF


class Rc(IntEnum):
    """What a Ptl call returns; the values of ``enum ptl_err``."""

    PTL_OK = 0
    PTL_ARG_INVALID = 1
    PTL_CT_NONE_REACHED = 2
    PTL_EQ_DROPPED = 3
    PTL_EQ_EMPTY = 4
    PTL_FAIL = 5
    PTL_IN_USE = 6
    PTL_INTERRUPTED = 7
    PTL_LIST_TOO_LONG = 8
    PTL_NO_INIT = 9
    PTL_NO_SPACE = 10
    PTL_PID_IN_USE = 11
    PTL_PT_FULL = 12
    PTL_PT_EQ_NEEDED = 13
    PTL_PT_IN_USE = 14
    PTL_ABORTED = 15
    PTL_IGNORED = 16


class PtlError(Exception):
    """A transport call did not return PTL_OK.

    Attributes:
        rc: the result code.
        call: name of the call that returned it.
        errno: why the system refused, for PTL_FAIL and PTL_PID_IN_USE; else 0.
        reason: why, for users: the system's word where it refused.
    """

    def __init__(self, rc: Rc, call: str, errno: int = 0) -> None:
        self.rc = rc
        self.call = call
        self.errno = errno
        self.reason = os.strerror(errno) if errno else rc.name
        text = ffi.string(lib.PtlxErrorText(rc)).decode()
        super().__init__(f"{call}: {rc.name}: {text}" + (f" (errno {errno})" if errno else ""))


class NoSpaceError(PtlError):
    """No room: a full table, or memory."""


class InUseError(PtlError):
    """The address, entry or object is in use."""


_BY_CODE: dict[Rc, type[PtlError]] = {
    Rc.PTL_NO_SPACE: NoSpaceError,
    Rc.PTL_PID_IN_USE: InUseError,
    Rc.PTL_IN_USE: InUseError,
    Rc.PTL_PT_IN_USE: InUseError,
}


def check(rc: int, call: str) -> None:
    """Raise the exception for ``rc``; return quietly on PTL_OK.

    Raises:
        ValueError: PTL_ARG_INVALID, the caller's mistake.
        PtlError: every other code.
    """
    if rc == 0:
        return
    if rc == Rc.PTL_ARG_INVALID:
        raise ValueError(f"{call}: an argument is invalid")
    code = Rc(rc)
    errno = ffi.errno if code in (Rc.PTL_FAIL, Rc.PTL_PID_IN_USE) else 0
    raise _BY_CODE.get(code, PtlError)(code, call, errno)


class EventKind(IntEnum):
    """Kinds of event that Python meets."""

    PUT = lib.PTL_EVENT_PUT
    SEND = lib.PTL_EVENT_SEND
    ACK = lib.PTL_EVENT_ACK
    PT_DISABLED = lib.PTL_EVENT_PT_DISABLED
    LINK = lib.PTL_EVENT_LINK
    AUTO_UNLINK = lib.PTL_EVENT_AUTO_UNLINK
    AUTO_FREE = lib.PTL_EVENT_AUTO_FREE
    PEER_LOST = lib.PTLX_EVENT_PEER_LOST
    OBJECT_ARRIVED = lib.PTLX_EVENT_OBJECT_ARRIVED
    OBJECT_SENT = lib.PTLX_EVENT_OBJECT_SENT
    OBJECT_FAILED = lib.PTLX_EVENT_OBJECT_FAILED
    PEER_LEFT = lib.PTLX_EVENT_PEER_LEFT


class Key(IntEnum):
    """Kinds of key."""

    NONE = lib.PTLX_KEY_NONE
    PARTITION = lib.PTLX_KEY_PARTITION
    USER = lib.PTLX_KEY_USER
    JOB = lib.PTLX_KEY_JOB
    LOCAL = lib.PTLX_KEY_LOCAL


NO_LISTEN: int = lib.PTLX_NO_LISTEN


P = ParamSpec("P")
Result = TypeVar("Result")


def _in_range(call: Callable[P, Result]) -> Callable[P, Result]:
    """Numbers that C's types do not hold raise ValueError, like all other misuse."""

    def checked(*args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            return call(*args, **kwargs)
        except OverflowError as error:
            raise ValueError(f"{call.__qualname__}: {error}") from None

    checked.__doc__ = call.__doc__
    return checked


class _Object:
    """Something with a handle; 0, PTL_INVALID_HANDLE, once it is closed."""

    _what = "object"

    def __init__(self) -> None:
        self._handle = 0

    @property
    def handle(self) -> int:
        """The handle for C. Raises ValueError when the object is closed."""
        if not self._handle:
            raise ValueError(f"{self._what} is closed")
        return self._handle

    @property
    def is_closed(self) -> bool:
        """Has it been closed, by itself or with its interface?"""
        return not self._handle

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _handle_of(part: _Object | None, none: int) -> int:
    return none if part is None else part.handle


def _process(nid: int, pid: int) -> Any:
    if not (0 <= nid <= UINT32_MAX and 0 <= pid <= UINT32_MAX):
        raise ValueError(f"nid {nid}, pid {pid}: not 32-bit numbers")
    process = ffi.new("ptl_process_t *")
    process.phys.nid = nid
    process.phys.pid = pid
    return process


class NetworkInterface(_Object):
    """One end of the transport: its address, peers and progress.

    Args:
        listen_nid: IPv4 address to listen at, as a number.
        listen_pid: port, 0: any free one; NO_LISTEN: do not listen.
        advertise_nid: what peers dial; 0: listen_nid.
        unix_path: path to listen at as well.
        partition_key: 32 bytes; None: this end does not hold it.
        uid: told to peers that hold the partition's key.
        connect_timeout_ms, handshake_timeout_ms, liveness_ms, max_unproven, max_unproven_each,
            sending_bytes, ack_delay_ms, versions, wants_answers: as ``struct ptlx_config`` in
            portals4_ext.h; 0: the default.
    """

    _what = "network interface"

    @_in_range
    def __init__(
        self,
        *,
        listen_nid: int = 0,
        listen_pid: int = NO_LISTEN,
        advertise_nid: int = 0,
        unix_path: bytes | None = None,
        partition_key: bytes | None = None,
        uid: int = 0,
        connect_timeout_ms: int = 0,
        handshake_timeout_ms: int = 0,
        liveness_ms: int = 0,
        max_unproven: int = 0,
        max_unproven_each: int = 0,
        sending_bytes: int = 0,
        ack_delay_ms: int = 0,
        versions: tuple[int, int] = (0, 0),
        wants_answers: bool = False,
    ) -> None:
        super().__init__()
        if partition_key is not None and len(partition_key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(partition_key)}")
        self._parts: list[_Object] = []  # made from this, closed with it
        config = ffi.new("struct ptlx_config *")
        config.listen_nid = listen_nid
        config.listen_pid = listen_pid
        config.advertise_nid = advertise_nid
        config.uid = uid
        path = ffi.new("char[]", unix_path) if unix_path is not None else ffi.NULL
        key = ffi.new("uint8_t[]", partition_key) if partition_key is not None else ffi.NULL
        config.unix_path = path
        config.partition_key = key
        config.connect_timeout_ms = connect_timeout_ms
        config.handshake_timeout_ms = handshake_timeout_ms
        config.liveness_ms = liveness_ms
        config.max_unproven = max_unproven
        config.max_unproven_each = max_unproven_each
        config.sending_bytes = sending_bytes
        config.ack_delay_ms = ack_delay_ms
        config.wants_answers = wants_answers
        config.version_min, config.version_max = versions
        handle = ffi.new("uint32_t *")
        check(lib.PtlInit(), "PtlInit")
        try:
            check(lib.PtlxNIInit(config, handle), "PtlxNIInit")
        except BaseException:
            lib.PtlFini()
            raise
        self._handle = handle[0]
        self._events = ffi.new("struct ptlx_event[]", EVENT_BATCH)
        self._count = ffi.new("int *")

    def id(self) -> tuple[int, int]:
        """Own nid and pid."""
        process = ffi.new("ptl_process_t *")
        check(lib.PtlGetPhysId(self.handle, process), "PtlGetPhysId")
        return process.phys.nid, process.phys.pid

    def fileno(self) -> int:
        """Readable while there is something to do; see PtlxFd."""
        fd = ffi.new("int *")
        check(lib.PtlxFd(self.handle, fd), "PtlxFd")
        return int(fd[0])

    def notify(self, queue: EventQueue | None) -> None:
        """Events about peers and objects go to this queue."""
        check(lib.PtlxNotify(self.handle, _handle_of(queue, lib.PTL_EQ_NONE)), "PtlxNotify")

    def events(self, queue: EventQueue) -> tuple[Any, int]:
        """Drive progress and take a batch of events.

        Returns:
            An array of ``struct ptlx_event`` and how many of them are new. The
            array is used again by the next call.
        """
        rc = lib.PtlxEvents(self.handle, queue.handle, self._events, EVENT_BATCH, self._count)
        if rc:
            check(rc, "PtlxEvents")
        return self._events, self._count[0]

    def send(self, nid: int, pid: int, data: bytes) -> None:
        """Put a copy of a message to portal table entry 0 of the target."""
        try:
            rc = lib.PtlxSend(self._handle, nid, pid, data, len(data))
        except OverflowError as error:
            raise ValueError(f"nid {nid}, pid {pid}: {error}") from None
        if rc:
            self.handle  # noqa: B018  of a closed interface: another text
            check(rc, "PtlxSend")

    @_in_range
    def use_key(
        self,
        target: tuple[int, int],
        kind: Key,
        secret: bytes = b"",
        *,
        uid: int = 0,
        job_id: int = 0,
        expires: int = 0,
    ) -> None:
        """The key to dial a target with, or every target (nid 0xffffffff)."""
        if kind not in (Key.NONE, Key.LOCAL) and len(secret) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(secret)}")
        key = ffi.new("struct ptlx_key *")
        key.kind = kind
        key.uid = uid
        key.job_id = job_id
        key.expires = expires
        ffi.memmove(key.secret, secret, len(secret))
        check(lib.PtlxUseKey(self.handle, _process(*target)[0], key), "PtlxUseKey")

    @_in_range
    def set_address(self, nid: int, address: bytes | None) -> None:
        """An entry of the address table: "/path" or "[ipv6]:port"; None removes it."""
        text = ffi.new("char[]", address) if address is not None else ffi.NULL
        check(lib.PtlxSetAddress(self.handle, nid, text), "PtlxSetAddress")

    @_in_range
    def disconnect(self, nid: int, pid: int) -> None:
        """Flush to one peer, then end the connection."""
        check(lib.PtlxDisconnect(self.handle, nid, pid), "PtlxDisconnect")

    @_in_range
    def forward(
        self,
        match_bits: int,
        job_id: int,
        fd: int,
        size: int,
        chunk_bytes: int,
        children: list[tuple[int, int]],
        *,
        is_source: bool,
    ) -> None:
        """Arm an object; see PtlxForward."""
        array = ffi.new("ptl_process_t[]", len(children))
        for place, (nid, pid) in zip(array, children, strict=True):
            place.phys.nid = nid
            place.phys.pid = pid
        new = ffi.new("struct ptlx_object *")
        new.match_bits = match_bits
        new.job_id = job_id
        new.size = size
        new.chunk_bytes = chunk_bytes
        new.children = array
        new.n_children = len(children)
        new.fd = fd
        new.is_source = is_source
        check(lib.PtlxForward(self.handle, new), "PtlxForward")

    @_in_range
    def cancel(self, match_bits: int) -> None:
        """Forget an object."""
        check(lib.PtlxCancel(self.handle, match_bits), "PtlxCancel")

    def counters(self) -> dict[str, int]:
        """Traffic so far; the fields of ``struct ptlx_counters``."""
        counters = ffi.new("struct ptlx_counters *")
        check(lib.PtlxCounters(self.handle, counters), "PtlxCounters")
        return {name: getattr(counters, name) for name in dir(counters)}

    @_in_range
    def pt_alloc(self, index: int, queue: EventQueue | None, *, flow_control: bool = False) -> int:
        """Allocate a portal table entry; its index."""
        found = ffi.new("uint32_t *")
        options = lib.PTL_PT_FLOWCTRL if flow_control else 0
        queue_handle = _handle_of(queue, lib.PTL_EQ_NONE)
        rc = lib.PtlPTAlloc(self.handle, options, queue_handle, index, found)
        check(rc, "PtlPTAlloc")
        return int(found[0])

    @_in_range
    def pt_enable(self, index: int) -> None:
        """Let operations in again."""
        check(lib.PtlPTEnable(self.handle, index), "PtlPTEnable")

    @_in_range
    def pt_disable(self, index: int) -> None:
        """Refuse operations until it is enabled."""
        check(lib.PtlPTDisable(self.handle, index), "PtlPTDisable")

    def close(self, flush_ms: int = 2000) -> None:
        """Flush, tell the peers, free everything."""
        if not self._handle:
            return
        for part in self._parts:
            part._handle = 0
        self._parts.clear()
        handle, self._handle = self._handle, 0
        lib.PtlxNIFini(handle, flush_ms)
        lib.PtlFini()


class EventQueue(_Object):
    """A ring of completion events of one interface."""

    _what = "event queue"

    @_in_range
    def __init__(self, interface: NetworkInterface, count: int) -> None:
        super().__init__()
        handle = ffi.new("uint32_t *")
        check(lib.PtlEQAlloc(interface.handle, count, handle), "PtlEQAlloc")
        self._handle = handle[0]
        self._interface = interface
        interface._parts.append(self)

    def close(self) -> None:
        """Free it; entries and descriptors that post to it post nowhere then."""
        if self._handle:
            check(lib.PtlEQFree(self._handle), "PtlEQFree")
            self._interface._parts.remove(self)
            self._handle = 0


class CountingEvent(_Object):
    """Counts successes and failures; releases triggered operations."""

    _what = "counting event"

    def __init__(self, interface: NetworkInterface) -> None:
        super().__init__()
        handle = ffi.new("uint32_t *")
        check(lib.PtlCTAlloc(interface.handle, handle), "PtlCTAlloc")
        self._handle = handle[0]
        self._interface = interface
        interface._parts.append(self)

    def get(self) -> tuple[int, int]:
        """Successes and failures so far."""
        event = ffi.new("ptl_ct_event_t *")
        check(lib.PtlCTGet(self.handle, event), "PtlCTGet")
        return event.success, event.failure

    @_in_range
    def increment(self, success: int = 1, failure: int = 0) -> None:
        """Add to it; releases what has reached its threshold."""
        event = ffi.new("ptl_ct_event_t *", {"success": success, "failure": failure})
        check(lib.PtlCTInc(self.handle, event[0]), "PtlCTInc")

    def close(self) -> None:
        """Free it; triggered operations that wait are discarded, nothing counts in it."""
        if self._handle:
            check(lib.PtlCTFree(self._handle), "PtlCTFree")
            self._interface._parts.remove(self)
            self._handle = 0


class MemoryDescriptor(_Object):
    """The initiator's memory; referenced until it is closed."""

    _what = "memory descriptor"

    @_in_range
    def __init__(
        self,
        interface: NetworkInterface,
        memory: bytes | bytearray | memoryview,
        queue: EventQueue | None = None,
        counter: CountingEvent | None = None,
        *,
        options: int = 0,
    ) -> None:
        super().__init__()
        self._memory = ffi.from_buffer(memory)
        md = ffi.new("ptl_md_t *")
        md.start = self._memory
        md.length = len(self._memory)
        md.options = options
        md.eq_handle = _handle_of(queue, lib.PTL_EQ_NONE)
        md.ct_handle = _handle_of(counter, lib.PTL_CT_NONE)
        handle = ffi.new("uint32_t *")
        check(lib.PtlMDBind(interface.handle, md, handle), "PtlMDBind")
        self._handle = handle[0]
        self._interface = interface
        interface._parts.append(self)

    @_in_range
    def put(
        self,
        target: tuple[int, int],
        index: int,
        match_bits: int,
        *,
        offset: int = 0,
        length: int | None = None,
        remote_offset: int = 0,
        hdr_data: int = 0,
        ack: bool = True,
        trigger: CountingEvent | None = None,
        threshold: int = 0,
    ) -> None:
        """Put bytes to a target, at once or when ``trigger`` reaches ``threshold``."""
        size = len(self._memory) - offset if length is None else length
        if min(size, offset, remote_offset, index, match_bits, hdr_data, threshold) < 0:
            raise ValueError("a negative offset, length, index or number")
        wanted = lib.PTL_ACK_REQ if ack else lib.PTL_NO_ACK_REQ
        head = (self.handle, offset, size, wanted, _process(*target)[0], index, match_bits)
        tail = (remote_offset, ffi.NULL, hdr_data)
        if trigger is None:
            check(lib.PtlPut(*head, *tail), "PtlPut")
        else:
            check(lib.PtlTriggeredPut(*head, *tail, trigger.handle, threshold), "PtlTriggeredPut")

    def close(self) -> None:
        """Release it. Raises InUseError while an operation uses it."""
        if self._handle:
            check(lib.PtlMDRelease(self._handle), "PtlMDRelease")
            self._interface._parts.remove(self)
            self._handle = 0
            ffi.release(self._memory)


class MatchEntry(_Object):
    """Memory that arriving operations are matched to; this object owns it.

    Args:
        interface: where it is linked.
        index: of the portal table entry.
        size: bytes.
        number: comes back in every event as ``user_ptr``; not 0.
        match_bits, ignore_bits: which operations match.
        min_free: 0: the initiator says where in the entry its bytes go. Else they
            go one after the other, and the entry unlinks itself when less is left;
            such an entry is in the overflow list.
        counter: counts what arrives.
    """

    _what = "match entry"

    @_in_range
    def __init__(
        self,
        interface: NetworkInterface,
        index: int,
        size: int,
        number: int,
        *,
        match_bits: int = 0,
        ignore_bits: int = 0,
        min_free: int = 0,
        counter: CountingEvent | None = None,
        options: int = 0,
    ) -> None:
        super().__init__()
        self._memory = ffi.new("char[]", size)
        self._interface = interface
        self._index = index
        self._me = me = ffi.new("ptl_me_t *")
        me.start = self._memory
        me.length = size
        me.uid = lib.PTL_UID_ANY
        me.match_id.phys.nid = lib.PTL_NID_ANY
        me.match_id.phys.pid = lib.PTL_PID_ANY
        me.match_bits = match_bits
        me.ignore_bits = ignore_bits
        me.min_free = min_free
        me.ct_handle = _handle_of(counter, lib.PTL_CT_NONE)
        me.options = options | lib.PTL_ME_OP_PUT | lib.PTL_ME_EVENT_LINK_DISABLE
        self._list = lib.PTL_PRIORITY_LIST
        if min_free:
            me.options |= lib.PTL_ME_MANAGE_LOCAL | lib.PTL_ME_UNEXPECTED_HDR_DISABLE
            me.options |= lib.PTL_ME_NO_TRUNCATE
            self._list = lib.PTL_OVERFLOW_LIST
        if counter:
            me.options |= lib.PTL_ME_EVENT_CT_COMM
        self._number = ffi.cast("void *", number)
        self.append()
        interface._parts.append(self)

    def append(self) -> None:
        """Link it, again after it has unlinked itself and is free."""
        handle = ffi.new("uint32_t *")
        rc = lib.PtlMEAppend(
            self._interface.handle, self._index, self._me, self._list, self._number, handle
        )
        check(rc, "PtlMEAppend")
        self._handle = handle[0]

    def memory(self) -> memoryview:
        """The memory itself."""
        return memoryview(ffi.buffer(self._memory))

    def close(self) -> None:
        """Unlink it. Raises InUseError while an operation on it is under way."""
        if self._handle:
            check(lib.PtlMEUnlink(self._handle), "PtlMEUnlink")
            self._interface._parts.remove(self)
            self._handle = 0


buffer = ffi.buffer  # (pointer, length): the bytes of an event


def number_of(event: Any) -> int:
    """The number of the entry that an event is about; see :class:`MatchEntry`."""
    return int(ffi.cast("uintptr_t", event.user_ptr))


def mac(key: bytes, person: str, data: bytes) -> bytes:
    """MAC as the C computes it; ``native.auth.mac`` is the same."""
    out = ffi.new("uint8_t[32]")
    lib.PtlxMac(ffi.from_buffer(key), person.encode(), data, len(data), out)
    return bytes(out)


def digest(data: bytes) -> bytes:
    """BLAKE2b-256 as the C computes it."""
    out = ffi.new("uint8_t[32]")
    lib.PtlxHash(data, len(data), out)
    return bytes(out)
