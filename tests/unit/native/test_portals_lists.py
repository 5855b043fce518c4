"""The target's lists and portal table, on each kind of interface, over TCP."""

from __future__ import annotations

import pytest

from native.portals import (
    ANY,
    AckReq,
    EventKind,
    LeOption,
    Limits,
    ListKind,
    MatchEntry,
    MemoryDescriptor,
    MeOption,
    NiFail,
    PortalTableEntry,
    PrivateInterface,
    PtlError,
    PtOption,
    Rc,
    SearchOp,
    StatusRegister,
)
from tests.support.portals_ends import Pair

QUIET = LeOption.OP_PUT | LeOption.OP_GET | LeOption.EVENT_LINK_DISABLE


def test_what_comes_early_is_told_to_who_is_appended(ends: Pair) -> None:
    overflow = bytearray(64)
    pt = ends.b.table_entry()
    ends.b.entry(pt, overflow, list_kind=ListKind.OVERFLOW_LIST, user_ptr="overflow")
    descriptor = MemoryDescriptor(ends.a.ni, b"early", ends.a.queue)
    descriptor.put(ends.target, pt.index, ack=AckReq.ACK_REQ, remote_offset=8)
    ends.event(ends.a, EventKind.ACK)
    options = QUIET | LeOption.USE_ONCE
    ends.b.entry(pt, bytearray(16), options=options, user_ptr="late")
    event = ends.event(ends.b, EventKind.PUT_OVERFLOW)
    assert event.user_ptr == "late"
    assert event.data == b"early"
    assert event.entry.user_ptr == "overflow"
    assert event.remote_offset == 8


def test_a_search_looks_and_takes_away(ends: Pair) -> None:
    pt = ends.b.table_entry()
    ends.b.entry(pt, bytearray(64), list_kind=ListKind.OVERFLOW_LIST)
    pt.search(user_ptr="nothing yet")
    event = ends.event(ends.b, EventKind.SEARCH)
    assert (event.ni_fail, event.user_ptr) == (NiFail.NO_MATCH, "nothing yet")
    descriptor = MemoryDescriptor(ends.a.ni, b"early", ends.a.queue)
    descriptor.put(ends.target, pt.index, ack=AckReq.ACK_REQ)
    ends.event(ends.a, EventKind.ACK)
    pt.search(user_ptr="look", length=5)
    event = ends.event(ends.b, EventKind.SEARCH)
    assert (event.ni_fail, event.user_ptr, event.mlength) == (NiFail.OK, "look", 5)
    pt.search(SearchOp.SEARCH_DELETE, user_ptr="take")
    event = ends.event(ends.b, EventKind.PUT_OVERFLOW)
    assert (event.user_ptr, event.data) == ("take", b"early")
    pt.search(SearchOp.SEARCH_DELETE)
    assert ends.event(ends.b, EventKind.SEARCH).ni_fail is NiFail.NO_MATCH


def test_an_entry_used_once_is_closed_by_its_last_event(ends: Pair) -> None:
    there = bytearray(4)
    pt = ends.b.table_entry()
    entry = ends.b.entry(pt, there, options=QUIET | LeOption.USE_ONCE, user_ptr="once")
    descriptor = MemoryDescriptor(ends.a.ni, b"abcd", ends.a.queue)
    descriptor.put(ends.target, pt.index)
    put, unlinked = ends.events(ends.b, EventKind.PUT, EventKind.AUTO_UNLINK)
    assert (put.user_ptr, unlinked.user_ptr) == ("once", "once")
    assert entry.is_closed and put.data == b"abcd"
    there.clear()  # its memory is free to move
    with pytest.raises(ValueError, match="moved"):
        assert put.data
    entry.close()


def test_matching_chooses_by_bits_and_id(matching: Pair) -> None:
    pt = matching.b.table_entry()
    mine = matching.a.ni.phys_id()
    first = MatchEntry(pt, bytearray(4), 0x10, ignore_bits=0xF, match_id=(mine.nid, ANY))
    other = MatchEntry(pt, bytearray(4), 0x10, ignore_bits=~0 & 0xFF, match_id=(1, 1))
    last = MatchEntry(pt, bytearray(4), ignore_bits=2**64 - 1)
    descriptor = MemoryDescriptor(matching.a.ni, b"abc")
    for bits in (0x1F, 0x20):
        descriptor.put(matching.target, pt.index, bits)
    events = matching.events(matching.b, EventKind.PUT, EventKind.PUT)
    assert [event.entry for event in events] == [first, last]
    assert [event.match_bits for event in events] == [0x1F, 0x20]
    assert not other.is_closed


def test_a_managed_entry_fills_up_and_is_freed(matching: Pair) -> None:
    memory = bytearray(8)
    options = MeOption.OP_PUT | MeOption.MANAGE_LOCAL | MeOption.EVENT_LINK_DISABLE
    pt = matching.b.table_entry()
    entry = MatchEntry(
        pt,
        memory,
        options=options | MeOption.UNEXPECTED_HDR_DISABLE,
        min_free=3,
        list_kind=ListKind.OVERFLOW_LIST,
    )
    descriptor = MemoryDescriptor(matching.a.ni, b"abc")
    for _ in range(2):
        descriptor.put(matching.target, pt.index)
    matching.events(matching.b, EventKind.AUTO_UNLINK, EventKind.AUTO_FREE)
    assert memory == b"abcabc\0\0"
    assert entry.is_closed


def test_a_table_entry_can_be_disabled_and_enabled(ends: Pair) -> None:
    pt = ends.b.table_entry(PtOption.ALLOC_DISABLED)
    ends.b.entry(pt, bytearray(4))
    descriptor = MemoryDescriptor(ends.a.ni, b"abc", ends.a.queue)
    put = {"ack": AckReq.ACK_REQ}
    descriptor.put(ends.target, pt.index, **put)
    assert ends.event(ends.a, EventKind.ACK).ni_fail is NiFail.PT_DISABLED
    pt.enable()
    descriptor.put(ends.target, pt.index, **put)
    assert ends.event(ends.a, EventKind.ACK).ni_fail is NiFail.OK
    pt.disable()
    descriptor.put(ends.target, pt.index, **put)
    assert ends.event(ends.a, EventKind.ACK).ni_fail is NiFail.PT_DISABLED


def test_table_entries_are_given_lowest_first_until_all_are_used() -> None:
    with PrivateInterface(listen=None, limits=Limits(max_pt_index=2)) as ni:
        assert PortalTableEntry(ni, index=1).index == 1
        assert [PortalTableEntry(ni).index for _ in range(2)] == [0, 2]
        with pytest.raises(PtlError) as caught:
            PortalTableEntry(ni)
        assert caught.value.rc is Rc.PTL_PT_FULL


def test_refused_operations_are_counted_by_the_interface(ends: Pair) -> None:
    pt = ends.b.table_entry()
    ends.b.entry(pt, bytearray(4), options=LeOption.OP_GET)
    descriptor = MemoryDescriptor(ends.a.ni, b"abc", ends.a.queue)
    descriptor.put(ends.target, pt.index, ack=AckReq.ACK_REQ)
    assert ends.event(ends.a, EventKind.ACK).ni_fail is NiFail.OP_VIOLATION
    assert ends.b.ni.status(StatusRegister.OPERATION_VIOLATIONS) == 1
    assert ends.b.ni.status(StatusRegister.PERMISSION_VIOLATIONS) == 0
