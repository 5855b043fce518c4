"""What daemons need of the transport: messages, objects and events. Small, quick to import.

Daemons of one user and host meet at a Unix socket, with the keys that TCP asks for.

The whole of Portals is :mod:`native.portals`; both stand on :mod:`native.transport.raw`.

An object is closed by ``close()`` or ``with``; what is used after that raises
``ValueError`` and never reaches C with a stale pointer. Closing an interface
closes its slabs. One thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from native._native import ffi, lib
from native.transport.raw import (
    KEY_BYTES,
    NO_LISTEN,
    Object,
    check,
    in_range,
    made,
    private_config,
)

EVENT_BATCH = 128  # most events taken by one call
QUEUE_EVENTS = 1024  # messages that wait to be decoded
MESSAGES = 0  # the portal table entry that messages go to
MESSAGE_MAX_BYTES: int = lib.PTLX_MESSAGE_MAX_BYTES
UINT32_MAX = 0xFFFFFFFF
# A page of it that no message reaches costs nothing.
_uncleared = ffi.new_allocator(should_clear_after_alloc=False)
CREDENTIAL_MAX_BYTES: int = lib.PTLX_CREDENTIAL_MAX_BYTES


class Key(IntEnum):
    """Kinds of key."""

    NONE = lib.PTLX_KEY_NONE
    PARTITION = lib.PTLX_KEY_PARTITION
    USER = lib.PTLX_KEY_USER
    JOB = lib.PTLX_KEY_JOB
    LOCAL = lib.PTLX_KEY_LOCAL
    MUNGE = lib.PTLX_KEY_MUNGE


def _process(nid: int, pid: int) -> Any:
    if not (0 <= nid <= UINT32_MAX and 0 <= pid <= UINT32_MAX):
        raise ValueError(f"nid {nid}, pid {pid}: not 32-bit numbers")
    process = ffi.new("ptl_process_t *")
    process.phys.nid = nid
    process.phys.pid = pid
    return process


class NetworkInterface(Object):
    """One end of the transport: its address, peers, messages, objects and their events.

    Args:
        listen_nid: IPv4 address to listen at, as a number.
        listen_pid: port, 0: any free one; NO_LISTEN: do not listen.
        listen_fd: a socket that listens already; 0: there is none.
        advertise_nid: what peers dial; 0: listen_nid.
        unix_path: path to listen at as well.
        partition_key: 32 bytes; None: this end does not hold it.
        uid: told to peers that hold the partition's key.
        connect_timeout_ms, handshake_timeout_ms, liveness_ms, idle_ms, max_unproven,
            max_unproven_each, max_connections_each, max_unread_each, sending_bytes,
            ack_delay_ms, versions, wants_answers: as ``struct ptlx_config`` in
            portals4_ext.h; 0: the default.
    """

    _what = "network interface"

    @in_range
    def __init__(
        self,
        *,
        listen_nid: int = 0,
        listen_pid: int = NO_LISTEN,
        listen_fd: int = 0,
        advertise_nid: int = 0,
        unix_path: bytes | None = None,
        partition_key: bytes | None = None,
        uid: int = 0,
        connect_timeout_ms: int = 0,
        handshake_timeout_ms: int = 0,
        liveness_ms: int = 0,
        idle_ms: int = 0,
        max_unproven: int = 0,
        max_unproven_each: int = 0,
        max_connections_each: int = 0,
        max_unread_each: int = 0,
        sending_bytes: int = 0,
        ack_delay_ms: int = 0,
        versions: tuple[int, int] = (0, 0),
        wants_answers: bool = False,
    ) -> None:
        super().__init__()
        config, _held = private_config(
            unix_path,
            partition_key,
            listen_nid=listen_nid,
            listen_pid=listen_pid,
            listen_fd=listen_fd,
            advertise_nid=advertise_nid,
            uid=uid,
            connect_timeout_ms=connect_timeout_ms,
            handshake_timeout_ms=handshake_timeout_ms,
            liveness_ms=liveness_ms,
            idle_ms=idle_ms,
            max_unproven=max_unproven,
            max_unproven_each=max_unproven_each,
            max_connections_each=max_connections_each,
            max_unread_each=max_unread_each,
            sending_bytes=sending_bytes,
            ack_delay_ms=ack_delay_ms,
            wants_answers=wants_answers,
            is_local=True,  # a Unix socket costs less than TCP; memory is for ranks
            no_memory=True,
            needs_key=True,
            version_min=versions[0],
            version_max=versions[1],
        )
        self._slabs: list[Slab] = []  # closed with this
        check(lib.PtlInit(), "PtlInit")
        try:
            self._handle = made("PtlxNIInit", config)
        except BaseException:
            lib.PtlFini()
            raise
        self._queue = made("PtlEQAlloc", self._handle, QUEUE_EVENTS)
        check(lib.PtlxNotify(self._handle, self._queue), "PtlxNotify")
        self._events = ffi.new("struct ptlx_event[]", EVENT_BATCH)
        self._count = ffi.new("int *")
        self._counters = ffi.new("struct ptlx_counters *")

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

    def events(self, room: int = EVENT_BATCH) -> tuple[Any, int]:
        """Drive progress and take a batch of events.

        Args:
            room: how many at most, from 1 to EVENT_BATCH.

        Returns:
            An array of ``struct ptlx_event`` and how many of them are new. The
            array is used again by the next call.
        """
        rc = lib.PtlxEvents(self.handle, self._queue, self._events, room, self._count)
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

    @in_range
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

    def hold_keys(self, keys: Sequence[bytes]) -> None:
        """Hold these keys of the partition from now on; see PtlxPartitionKeys."""
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        check(lib.PtlxPartitionKeys(self.handle, b"".join(keys), len(keys)), "PtlxPartitionKeys")

    def use_credential(self, credential: bytes) -> None:
        """The credential that goes with keys of kind MUNGE."""
        check(lib.PtlxUseCredential(self.handle, credential, len(credential)), "PtlxUseCredential")

    def take_credentials(self) -> None:
        """Take credentials from now on: an event for each."""
        check(lib.PtlxTakeCredentials(self.handle), "PtlxTakeCredentials")

    def credential(self, ticket: int) -> bytes | None:
        """The credential of a ticket; None: who sent it is gone."""
        length = ffi.new("size_t *", CREDENTIAL_MAX_BYTES)
        copy = ffi.new("uint8_t[]", CREDENTIAL_MAX_BYTES)
        if lib.PtlxCredential(self.handle, ticket, copy, length):
            return None
        return bytes(buffer(copy, length[0]))

    def accept_credential(self, ticket: int, uid: int, secret: bytes) -> None:
        """It is this user's."""
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(secret)}")
        rc = lib.PtlxAnswerCredential(self.handle, ticket, uid, secret, 0)
        check(rc, "PtlxAnswerCredential")

    def refuse_credential(self, ticket: int, code: int) -> None:
        """It proves nobody; a code of m4 says why."""
        rc = lib.PtlxAnswerCredential(self.handle, ticket, 0, ffi.NULL, code)
        check(rc, "PtlxAnswerCredential")

    @in_range
    def set_address(self, nid: int, address: bytes | None) -> None:
        """An entry of the address table: "/path" or "[ipv6]:port"; None removes it."""
        text = ffi.new("char[]", address) if address is not None else ffi.NULL
        check(lib.PtlxSetAddress(self.handle, nid, text), "PtlxSetAddress")

    @in_range
    def disconnect(self, nid: int, pid: int) -> None:
        """Flush to one peer, then end the connection."""
        check(lib.PtlxDisconnect(self.handle, nid, pid), "PtlxDisconnect")

    @in_range
    def part(self, nid: int, pid: int) -> None:
        """Close the connection to one daemon if it needs it no more than this end does."""
        check(lib.PtlxPart(self.handle, nid, pid), "PtlxPart")

    @in_range
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

    @in_range
    def cancel(self, match_bits: int) -> None:
        """Forget an object."""
        check(lib.PtlxCancel(self.handle, match_bits), "PtlxCancel")

    def counters(self) -> dict[str, int]:
        """Traffic so far; the fields of ``struct ptlx_counters``."""
        check(lib.PtlxCounters(self.handle, self._counters), "PtlxCounters")
        return {name: getattr(self._counters, name) for name in dir(self._counters)}

    def connections(self) -> int:
        """Connections, with those that have not ended at both ends."""
        check(lib.PtlxCounters(self.handle, self._counters), "PtlxCounters")
        return int(self._counters.connections)

    def receive_messages(self) -> None:
        """Let peers put messages here: allocate portal table entry 0.

        When its slabs or the queue are full it turns itself off, and peers wait.
        """
        found = ffi.new("uint32_t *")
        options = lib.PTL_PT_FLOWCTRL
        rc = lib.PtlPTAlloc(self.handle, options, self._queue, MESSAGES, found)
        check(rc, "PtlPTAlloc")

    def turn_on(self) -> None:
        """Let messages in again."""
        check(lib.PtlPTEnable(self.handle, MESSAGES), "PtlPTEnable")

    def close(self, flush_ms: int = 2000) -> None:
        """Flush, tell the peers, free everything."""
        if not self._handle:
            return
        for slab in self._slabs:
            slab._handle = 0
        handle, self._handle = self._handle, 0
        lib.PtlxNIFini(handle, flush_ms)
        lib.PtlFini()
        for slab in self._slabs:
            slab._memory = None
        self._slabs.clear()


class Slab(Object):
    """Memory that messages land in, one after the other.

    A locally managed match entry of the overflow list, which takes every message. It
    unlinks itself when less than the largest message fits, and is free once all that is
    in it has been read; then it can be linked again.

    Args:
        interface: where it is linked; :meth:`NetworkInterface.receive_messages` comes first.
        size: bytes.
        number: comes back in every event as ``user_ptr``; not 0.
        min_free: it unlinks itself when fewer bytes are left.
    """

    _what = "slab"

    @in_range
    def __init__(self, interface: NetworkInterface, size: int, number: int, min_free: int) -> None:
        super().__init__()
        self._memory = _uncleared("char[]", size)
        self._interface = interface
        self._me = me = ffi.new("ptl_me_t *")
        me.start = self._memory
        me.length = size
        me.uid = lib.PTL_UID_ANY
        me.match_id.phys.nid = lib.PTL_NID_ANY
        me.match_id.phys.pid = lib.PTL_PID_ANY
        me.ignore_bits = (1 << 64) - 1
        me.min_free = min_free
        me.ct_handle = lib.PTL_CT_NONE
        me.options = (
            lib.PTL_ME_OP_PUT
            | lib.PTL_ME_EVENT_LINK_DISABLE
            | lib.PTL_ME_MANAGE_LOCAL
            | lib.PTL_ME_UNEXPECTED_HDR_DISABLE
            | lib.PTL_ME_NO_TRUNCATE
        )
        self._number = ffi.cast("void *", number)
        self.append()
        interface._slabs.append(self)

    def append(self) -> None:
        """Link it, again after it has unlinked itself and is free."""
        self._handle = made(
            "PtlMEAppend",
            self._interface.handle,
            MESSAGES,
            self._me,
            lib.PTL_OVERFLOW_LIST,
            self._number,
        )

    def close(self) -> None:
        """Unlink it. Raises InUseError while a message lands in it."""
        if self._handle:
            check(lib.PtlMEUnlink(self._handle), "PtlMEUnlink")
            self._interface._slabs.remove(self)
            self._handle = 0


buffer = ffi.buffer  # (pointer, length): the bytes of an event


def number_of(event: Any) -> int:
    """The number of the slab that an event is about; see :class:`Slab`."""
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
