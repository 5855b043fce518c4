"""Values of the Portals interface: options, kinds, limits and events as Python types.

Names are those of portals4.h without their prefix, numbers are the same; a test holds
the two together. Pure: nothing here touches C.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from msgspec import Struct

ANY = 0xFFFFFFFF  # nid, pid, rank, uid or index: any
SIZE_MAX = 0xFFFFFFFFFFFFFFFF


class NiOption(IntFlag):
    """Options of an interface: one of each pair (PTL_NI_...)."""

    MATCHING = 1 << 0
    NO_MATCHING = 1 << 1
    LOGICAL = 1 << 2
    PHYSICAL = 1 << 3


class Feature(IntFlag):
    """What an interface can do beyond its limits (PTL_...)."""

    TARGET_BIND_INACCESSIBLE = 1 << 0
    TOTAL_DATA_ORDERING = 1 << 1
    COHERENT_ATOMICS = 1 << 2


class PtOption(IntFlag):
    """Options of a portal table entry (PTL_PT_...)."""

    ONLY_USE_ONCE = 1 << 0
    ONLY_TRUNCATE = 1 << 1
    FLOWCTRL = 1 << 2
    ALLOC_DISABLED = 1 << 3
    MATCH_UNORDERED = 1 << 4


class MdOption(IntFlag):
    """Options of a memory descriptor (PTL_MD_...). PTL_IOVEC is set for a list of buffers."""

    EVENT_SUCCESS_DISABLE = 1 << 1
    EVENT_CT_SEND = 1 << 2
    EVENT_CT_REPLY = 1 << 3
    EVENT_CT_ACK = 1 << 4
    EVENT_CT_BYTES = 1 << 5
    UNORDERED = 1 << 6
    VOLATILE = 1 << 7
    EVENT_SEND_DISABLE = 1 << 8
    UNRELIABLE = 1 << 9


class LeOption(IntFlag):
    """Options of a list entry (PTL_LE_...). PTL_IOVEC is set for a list of buffers."""

    OP_PUT = 1 << 1
    OP_GET = 1 << 2
    USE_ONCE = 1 << 3
    ACK_DISABLE = 1 << 4
    EVENT_COMM_DISABLE = 1 << 5
    EVENT_FLOWCTRL_DISABLE = 1 << 6
    EVENT_SUCCESS_DISABLE = 1 << 7
    EVENT_OVER_DISABLE = 1 << 8
    EVENT_LINK_DISABLE = 1 << 9
    EVENT_UNLINK_DISABLE = 1 << 10
    EVENT_CT_COMM = 1 << 11
    EVENT_CT_OVERFLOW = 1 << 12
    EVENT_CT_BYTES = 1 << 13
    UNEXPECTED_HDR_DISABLE = 1 << 14
    IS_ACCESSIBLE = 1 << 15


class MeOption(IntFlag):
    """Options of a match entry (PTL_ME_...): those of a list entry, and more."""

    OP_PUT = 1 << 1
    OP_GET = 1 << 2
    USE_ONCE = 1 << 3
    ACK_DISABLE = 1 << 4
    EVENT_COMM_DISABLE = 1 << 5
    EVENT_FLOWCTRL_DISABLE = 1 << 6
    EVENT_SUCCESS_DISABLE = 1 << 7
    EVENT_OVER_DISABLE = 1 << 8
    EVENT_LINK_DISABLE = 1 << 9
    EVENT_UNLINK_DISABLE = 1 << 10
    EVENT_CT_COMM = 1 << 11
    EVENT_CT_OVERFLOW = 1 << 12
    EVENT_CT_BYTES = 1 << 13
    UNEXPECTED_HDR_DISABLE = 1 << 14
    IS_ACCESSIBLE = 1 << 15
    MANAGE_LOCAL = 1 << 17
    NO_TRUNCATE = 1 << 18
    MAY_ALIGN = 1 << 19
    LOCAL_INC_UH_RLENGTH = 1 << 20


class ListKind(IntEnum):
    """Which list of a portal table entry (PTL_...)."""

    PRIORITY_LIST = 0
    OVERFLOW_LIST = 1


class SearchOp(IntEnum):
    """What a search does with what it finds (PTL_...)."""

    SEARCH_ONLY = 0
    SEARCH_DELETE = 1


class AckReq(IntEnum):
    """Which acknowledgement a put or atomic asks for (PTL_...).

    ACK_REQ needs a queue at the descriptor, CT_ACK_REQ and OC_ACK_REQ a counter.
    """

    NO_ACK_REQ = 0
    ACK_REQ = 1
    CT_ACK_REQ = 2
    OC_ACK_REQ = 3


class StatusRegister(IntEnum):
    """Counts of an interface (PTL_SR_...)."""

    DROP_COUNT = 0
    PERMISSION_VIOLATIONS = 1
    OPERATION_VIOLATIONS = 2


class EventKind(IntEnum):
    """Kinds of event (PTL_EVENT_...)."""

    GET = 0
    GET_OVERFLOW = 1
    PUT = 2
    PUT_OVERFLOW = 3
    ATOMIC = 4
    ATOMIC_OVERFLOW = 5
    FETCH_ATOMIC = 6
    FETCH_ATOMIC_OVERFLOW = 7
    REPLY = 8
    SEND = 9
    ACK = 10
    PT_DISABLED = 11
    LINK = 12
    AUTO_UNLINK = 13
    AUTO_FREE = 14
    SEARCH = 15


class NiFail(IntEnum):
    """How an operation ended (PTL_NI_...)."""

    OK = 0
    UNDELIVERABLE = 1
    DROPPED = 2
    PT_DISABLED = 3
    PERM_VIOLATION = 4
    OP_VIOLATION = 5
    NO_MATCH = 6
    SEGV = 7


class AtomicOp(IntEnum):
    """Atomic operations (PTL_...); docs/PORTALS.md says which go with which type."""

    MIN = 0
    MAX = 1
    SUM = 2
    PROD = 3
    LOR = 4
    LAND = 5
    BOR = 6
    BAND = 7
    LXOR = 8
    BXOR = 9
    SWAP = 10
    CSWAP = 11
    CSWAP_NE = 12
    CSWAP_LE = 13
    CSWAP_LT = 14
    CSWAP_GE = 15
    CSWAP_GT = 16
    MSWAP = 17

    @property
    def needs_operand(self) -> bool:
        """Does a swap of this kind take an operand?"""
        return self > AtomicOp.SWAP


class Datatype(IntEnum):
    """Types of the elements of an atomic operation (PTL_...)."""

    INT8_T = 0
    UINT8_T = 1
    INT16_T = 2
    UINT16_T = 3
    INT32_T = 4
    UINT32_T = 5
    FLOAT = 6
    FLOAT_COMPLEX = 7
    INT64_T = 8
    UINT64_T = 9
    DOUBLE = 10
    DOUBLE_COMPLEX = 11
    LONG_DOUBLE = 12
    LONG_DOUBLE_COMPLEX = 13

    @classmethod
    def of(cls, thing: Any) -> Self:
        """The type of a numpy dtype, or of the elements of an array or other buffer.

        Raises:
            TypeError: it has none of these types, or not this machine's byte order.
        """
        if isinstance(thing, cls):
            return thing
        if hasattr(thing, "itemsize") and hasattr(thing, "isnative"):  # a numpy dtype
            sort, itemsize, is_native = thing.kind, thing.itemsize, thing.isnative
        else:
            view = memoryview(thing)
            code = view.format.removeprefix("@")
            sort, itemsize, is_native = _SORTS.get(code, ""), view.itemsize, True
        name = _NAMES.get((sort, itemsize)) if is_native else None
        if name is None:
            raise TypeError(f"{thing!r:.80} has no elements that atomic operations work on")
        return cls[name]


_SORTS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys("bhilqn", "i"),
        **dict.fromkeys("BHILQN", "u"),
        **dict.fromkeys("fdg", "f"),
        **dict.fromkeys(("Zf", "Zd", "Zg", "F", "D", "G"), "c"),
    }
)
_NAMES: Mapping[tuple[str, int], str] = MappingProxyType(
    {
        ("i", 1): "INT8_T",
        ("u", 1): "UINT8_T",
        ("i", 2): "INT16_T",
        ("u", 2): "UINT16_T",
        ("i", 4): "INT32_T",
        ("u", 4): "UINT32_T",
        ("i", 8): "INT64_T",
        ("u", 8): "UINT64_T",
        ("f", 4): "FLOAT",
        ("f", 8): "DOUBLE",
        ("f", 16): "LONG_DOUBLE",
        ("c", 8): "FLOAT_COMPLEX",
        ("c", 16): "DOUBLE_COMPLEX",
        ("c", 32): "LONG_DOUBLE_COMPLEX",
    }
)


class Process(NamedTuple):
    """A physical id. On logical interfaces a process is its rank, an int."""

    nid: int
    pid: int


class Count(NamedTuple):
    """Value of a counting event."""

    success: int
    failure: int = 0


class Limits(Struct, frozen=True):
    """Limits of an interface, the fields of ``ptl_ni_limits_t``.

    As a wish, 0 means the default. Sizes are bytes.
    """

    max_entries: int = 0
    max_unexpected_headers: int = 0
    max_mds: int = 0
    max_cts: int = 0
    max_eqs: int = 0
    max_pt_index: int = 0
    max_iovecs: int = 0
    max_list_size: int = 0
    max_triggered_ops: int = 0
    max_msg_size: int = 0
    max_atomic_size: int = 0
    max_fetch_atomic_size: int = 0
    max_waw_ordered_size: int = 0
    max_war_ordered_size: int = 0
    max_volatile_size: int = 0
    features: Feature = Feature(0)


class Event(Struct, frozen=True, dict=False, eq=False):
    """What has happened, as an event queue tells it.

    Attributes:
        kind: which fields mean something follows from it, as in the specification.
        ni_fail: how the operation ended.
        user_ptr: the object given to the operation, entry or search; None: none was.
        initiator: a :class:`Process`, on logical interfaces a rank. In SEND, ACK and
            REPLY the target's.
        rlength, mlength: bytes asked for, and bytes moved.
        remote_offset: in the target's memory, bytes.
        match_bits, hdr_data, uid, pt_index: of the operation.
        list_kind: that the entry is or was in.
        operation, datatype: of an atomic operation; else the first of each.
        start: address of the first byte at the target; 0: none.
        is_after_loss: the queue was full: events before this one are lost.
        entry: the entry whose memory has the bytes, or that was linked or unlinked;
            of an OVERFLOW event that of the overflow list. None: not a target's event.
    """

    kind: EventKind
    ni_fail: NiFail
    user_ptr: Any
    initiator: Process | int
    rlength: int
    mlength: int
    remote_offset: int
    match_bits: int
    hdr_data: int
    uid: int
    pt_index: int
    list_kind: ListKind
    operation: AtomicOp
    datatype: Datatype
    start: int
    is_after_loss: bool
    entry: Any

    @property
    def data(self) -> memoryview:
        """The bytes at the target, where they lie; a copy where pieces have them.

        For PUT, GET, ATOMIC, FETCH_ATOMIC and their OVERFLOW forms.

        Raises:
            ValueError: not such an event, or the entry's memory has moved since.
        """
        if self.kind > EventKind.FETCH_ATOMIC_OVERFLOW:
            raise ValueError(f"no bytes come with a {self.kind.name} event")
        if self.mlength == 0:
            return memoryview(b"")
        if self.entry is None:
            raise ValueError("the entry of these bytes is closed")
        found: memoryview = self.entry.bytes_at(self.start, self.mlength)
        return found
