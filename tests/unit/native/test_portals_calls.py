"""Each call of the interface from Python, on each kind of interface, over TCP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from native.portals import (
    ANY,
    AckReq,
    AtomicOp,
    Count,
    CountingEvent,
    Datatype,
    EventKind,
    EventQueue,
    Feature,
    Interface,
    LeOption,
    Limits,
    ListEntry,
    ListKind,
    MatchEntry,
    MdOption,
    MemoryDescriptor,
    MeOption,
    NiFail,
    NiOption,
    NoSpaceError,
    PortalTableEntry,
    PrivateInterface,
    Process,
    PtlError,
    PtOption,
    Rc,
    SearchOp,
    StatusRegister,
    atomic_sync,
    fini,
    init,
    poll_counters,
    poll_queues,
)
from tests.support.portals_ends import KINDS, Pair, kinds_of, name_of, pair
from tests.support.wait import LIMIT_S

BOTH = LeOption.OP_PUT | LeOption.OP_GET
QUIET = BOTH | LeOption.EVENT_LINK_DISABLE


@pytest.fixture(params=KINDS, ids=name_of)
def ends(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with pair(request.param) as made:
        yield made


@pytest.fixture
def matching() -> Iterator[Pair]:
    with pair() as made:
        yield made


# ---- data movement ----


def test_a_put_moves_a_numpy_array_into_another(ends: Pair) -> None:
    there, here = np.zeros((4, 5)), np.arange(20.0).reshape(4, 5)
    pt = ends.b.table_entry()
    ends.b.entry(pt, there, user_ptr="entry")
    mine = object()
    with MemoryDescriptor(ends.a.ni, here, ends.a.queue) as descriptor:
        descriptor.put(ends.target, pt.index, ack=AckReq.ACK_REQ, user_ptr=mine, hdr_data=2**64 - 1)
        send, ack = ends.events(ends.a, EventKind.SEND, EventKind.ACK)
    put = ends.event(ends.b, EventKind.PUT)
    assert (there == here).all()
    assert (send.user_ptr, ack.user_ptr) == (mine, mine)
    assert (ack.mlength, ack.remote_offset, ack.ni_fail) == (160, 0, NiFail.OK)
    assert (put.rlength, put.mlength, put.remote_offset, put.hdr_data) == (160, 160, 0, 2**64 - 1)
    assert put.user_ptr == "entry"
    assert put.initiator == ends.a.ni.id()
    assert (put.pt_index, put.list_kind) == (pt.index, ListKind.PRIORITY_LIST)
    assert put.data == here.tobytes()
    assert not put.is_after_loss


def test_a_put_of_a_part_lands_at_an_offset(ends: Pair) -> None:
    there = bytearray(12)
    pt = ends.b.table_entry()
    ends.b.entry(pt, there)
    descriptor = MemoryDescriptor(ends.a.ni, b"hello world")
    descriptor.put(ends.target, pt.index, offset=6, length=5, remote_offset=3)
    put = ends.event(ends.b, EventKind.PUT)
    assert there == b"\0\0\0world\0\0\0\0"
    assert put.data == b"world"
    assert put.remote_offset == 3


def test_a_get_moves_bytes_here(ends: Pair) -> None:
    there, here = np.arange(10, dtype="i4"), np.zeros(4, "i4")
    pt = ends.b.table_entry()
    ends.b.entry(pt, there)
    descriptor = MemoryDescriptor(ends.a.ni, here, ends.a.queue)
    descriptor.get(ends.target, pt.index, offset=4, length=12, remote_offset=20, user_ptr=7)
    reply = ends.event(ends.a, EventKind.REPLY)
    assert list(here) == [0, 5, 6, 7]
    assert (reply.user_ptr, reply.mlength, reply.remote_offset) == (7, 12, 20)
    got = ends.event(ends.b, EventKind.GET)
    assert got.data == there[5:8].tobytes()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float32", "float64"])
def test_an_atomic_adds_elements(matching: Pair, dtype: str) -> None:
    there, here = np.arange(5).astype(dtype), np.array([1, 2, 3, 4, 5], dtype)
    expected = there + here
    pt = matching.b.table_entry()
    matching.b.entry(pt, there)
    descriptor = MemoryDescriptor(matching.a.ni, here, matching.a.queue)
    descriptor.atomic(matching.target, pt.index, AtomicOp.SUM, ack=AckReq.ACK_REQ)
    matching.event(matching.a, EventKind.ACK)
    atomic = matching.event(matching.b, EventKind.ATOMIC)
    atomic_sync()
    assert (there == expected).all()
    assert (atomic.operation, atomic.datatype) == (AtomicOp.SUM, Datatype.of(there))


def test_a_fetch_atomic_gives_what_was_there(ends: Pair) -> None:
    there, here, old = np.array([5, 6, 7]), np.array([1, 10, 100]), np.zeros(3, "i8")
    pt = ends.b.table_entry()
    ends.b.entry(pt, there)
    data = MemoryDescriptor(ends.a.ni, here, ends.a.queue)
    reply = MemoryDescriptor(ends.a.ni, old, ends.a.queue)
    reply.fetch_atomic(data, ends.target, pt.index, AtomicOp.PROD, np.dtype("i8"), user_ptr="mine")
    events = ends.events(ends.a, EventKind.SEND, EventKind.REPLY)
    assert [event.user_ptr for event in events] == ["mine", "mine"]
    assert list(old) == [5, 6, 7] and list(there) == [5, 60, 700]
    assert ends.event(ends.b, EventKind.FETCH_ATOMIC).operation is AtomicOp.PROD


@pytest.mark.parametrize(
    ("operation", "operand", "result"),
    [
        (AtomicOp.SWAP, None, 9),
        (AtomicOp.CSWAP, 5, 9),
        (AtomicOp.CSWAP, 6, 5),
        (AtomicOp.CSWAP_NE, 6, 9),
        (AtomicOp.CSWAP_LT, 6, 5),
        (AtomicOp.CSWAP_GE, np.int32(5), 9),
        (AtomicOp.MSWAP, 8, 13),
    ],
)
def test_a_swap_replaces_what_was_there(
    matching: Pair, operation: AtomicOp, operand: Any, result: int
) -> None:
    there, here, old = np.array([5], "i4"), np.array([9], "i4"), np.zeros(1, "i4")
    pt = matching.b.table_entry()
    matching.b.entry(pt, there)
    data = MemoryDescriptor(matching.a.ni, here)
    reply = MemoryDescriptor(matching.a.ni, old, matching.a.queue)
    reply.swap(data, matching.target, pt.index, operation, operand)
    matching.event(matching.a, EventKind.REPLY)
    assert (there[0], old[0]) == (result, 5)


def test_an_operand_may_be_a_real_or_complex_number(matching: Pair) -> None:
    for value in (1.5, 2 - 3j):
        there, here = np.array([value]), np.array([4 * value])
        old = np.zeros_like(there)
        pt = matching.b.table_entry()
        matching.b.entry(pt, there)
        data = MemoryDescriptor(matching.a.ni, here)
        reply = MemoryDescriptor(matching.a.ni, old, matching.a.queue)
        reply.swap(data, matching.target, pt.index, AtomicOp.CSWAP, value)
        matching.event(matching.a, EventKind.REPLY)
        assert there[0] == 4 * value and old[0] == value


def test_a_list_of_buffers_is_an_io_vector(ends: Pair) -> None:
    pieces = [bytearray(3), np.zeros(2, "u1"), bytearray(0), bytearray(6)]
    pt = ends.b.table_entry()
    ends.b.entry(pt, pieces)
    source = [b"ab", bytearray(b"cdefg"), memoryview(b"hijk")]
    descriptor = MemoryDescriptor(ends.a.ni, source, ends.a.queue)
    assert descriptor.size_bytes == 11
    descriptor.put(ends.target, pt.index, offset=1, ack=AckReq.ACK_REQ)
    ends.event(ends.a, EventKind.ACK)
    assert [bytes(piece) for piece in pieces] == [b"bcd", b"ef", b"", b"ghijk\0"]
    assert ends.event(ends.b, EventKind.PUT).data == b"bcdefghijk"
    back = [bytearray(4), bytearray(4)]
    MemoryDescriptor(ends.a.ni, back, ends.a.queue).get(ends.target, pt.index, remote_offset=2)
    ends.event(ends.a, EventKind.REPLY)
    assert back == [b"defg", b"hijk"]


def test_operations_in_a_bundle_all_get_there(ends: Pair) -> None:
    there = bytearray(8)
    pt = ends.b.table_entry()
    ends.b.entry(pt, there)
    descriptor = MemoryDescriptor(ends.a.ni, b"abcdefgh", ends.a.queue)
    with ends.a.ni.bundle():
        for at in range(8):
            descriptor.put(ends.target, pt.index, offset=at, length=1, remote_offset=at)
    ends.events(ends.b, *[EventKind.PUT] * 8)
    assert there == b"abcdefgh"


def test_counters_count_what_their_options_say(ends: Pair) -> None:
    sent, acked = CountingEvent(ends.a.ni), CountingEvent(ends.a.ni)
    came = CountingEvent(ends.b.ni)
    pt = ends.b.table_entry()
    options = QUIET | LeOption.EVENT_CT_COMM | LeOption.EVENT_CT_BYTES | LeOption.EVENT_COMM_DISABLE
    ends.b.entry(pt, bytearray(9), options=options, counter=came)
    by_send = MemoryDescriptor(ends.a.ni, b"abc", None, sent, options=MdOption.EVENT_CT_SEND)
    by_ack = MemoryDescriptor(ends.a.ni, b"abc", None, acked, options=MdOption.EVENT_CT_ACK)
    by_send.put(ends.target, pt.index)
    by_ack.put(ends.target, pt.index, ack=AckReq.CT_ACK_REQ)
    by_ack.put(ends.target, pt.index, ack=AckReq.OC_ACK_REQ)
    ends.count(acked, 2)
    assert (sent.get(), acked.get(), came.get()) == (Count(1), Count(2), Count(9))
    assert ends.b.seen == []


# ---- triggered operations ----


def test_a_chain_of_triggered_operations_runs_by_itself(ends: Pair) -> None:
    there, data, old = np.array([10]), np.array([3]), np.zeros(1, "i8")
    came, start = CountingEvent(ends.b.ni), CountingEvent(ends.a.ni)
    pt = ends.b.table_entry()
    ends.b.entry(pt, there, counter=came, options=QUIET | LeOption.EVENT_CT_COMM)
    counts = MdOption.EVENT_CT_ACK | MdOption.EVENT_CT_REPLY
    source = MemoryDescriptor(ends.a.ni, data, ends.a.queue, start, options=counts)
    reply = MemoryDescriptor(ends.a.ni, old, ends.a.queue, start, options=counts)
    at = {"trigger": start}
    reply.swap(source, ends.target, pt.index, **at, threshold=5)
    reply.fetch_atomic(source, ends.target, pt.index, AtomicOp.SUM, **at, threshold=4)
    reply.get(ends.target, pt.index, **at, threshold=3)
    ack = AckReq.CT_ACK_REQ
    source.atomic(ends.target, pt.index, AtomicOp.PROD, ack=ack, **at, threshold=2)
    source.put(ends.target, pt.index, ack=ack, **at, threshold=1)
    assert ends.a.queue.take() == []
    start.inc()
    ends.count(start, 6)
    assert came.get() == Count(5)
    # put 3, times 3, get 9, fetch 9 and add 3, fetch 12 and put 3
    assert (there[0], old[0]) == (3, 12)


def test_triggered_counters_are_set_and_counted_up(matching: Pair) -> None:
    first, second = CountingEvent(matching.a.ni), CountingEvent(matching.a.ni)
    second.inc(3, trigger=first, threshold=2)
    second.set(10, 1, trigger=first, threshold=3)
    first.inc()
    assert second.get() == Count(0)
    first.inc()
    assert second.get() == Count(3)
    first.set(3)
    assert second.get() == Count(10, 1)


def test_cancelled_operations_never_run(matching: Pair) -> None:
    first, second = CountingEvent(matching.a.ni), CountingEvent(matching.a.ni)
    second.inc(trigger=first, threshold=1)
    first.cancel_triggered()
    first.inc()
    assert second.get() == Count(0)


def test_entries_are_linked_and_unlinked_by_counters(ends: Pair) -> None:
    trigger = CountingEvent(ends.b.ni)
    pt = ends.b.table_entry()
    entry = ends.b.entry(pt, bytearray(4), options=BOTH, trigger=trigger, threshold=1)
    entry.unlink_when(trigger, 2)
    assert ends.b.queue.take() == []
    trigger.inc()
    assert ends.event(ends.b, EventKind.LINK).entry is entry
    trigger.inc()
    descriptor = MemoryDescriptor(ends.a.ni, b"abc", ends.a.queue)
    descriptor.put(ends.target, pt.index, ack=AckReq.ACK_REQ)
    assert ends.event(ends.a, EventKind.ACK).ni_fail is NiFail.DROPPED
    entry.close()
    pt.close()


# ---- the target's lists ----


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


# ---- events and counters ----


def test_events_come_in_batches_and_one_by_one(matching: Pair) -> None:
    pt = matching.b.table_entry()
    for number in range(5):
        MatchEntry(pt, None, number, user_ptr=number)
    queue = matching.b.queue
    first = queue.get()
    assert first and first.user_ptr == 0
    assert [event.user_ptr for event in queue.take(2)] == [1, 2]
    assert [event.user_ptr for event in queue.take()] == [3, 4]
    assert queue.get() is None and queue.take() == [] and queue.take(0) == []


def test_a_full_queue_tells_that_events_were_lost() -> None:
    with PrivateInterface(listen=None) as ni:
        queue = EventQueue(ni, 2)
        pt = PortalTableEntry(ni, queue)
        for number in range(5):
            MatchEntry(pt, None, number, user_ptr=number)
        events = queue.take()
        assert [event.is_after_loss for event in events] == [True] + [False] * (len(events) - 1)
        assert events[-1].user_ptr == 4


def test_waits_and_polls_end_after_their_time() -> None:
    with PrivateInterface(listen=None) as ni:
        queues, counter = [EventQueue(ni, 2), EventQueue(ni, 2)], CountingEvent(ni)
        assert queues[0].wait(0) is None and queues[0].wait(0.001) is None
        assert poll_queues(queues, 0.001) is None
        assert counter.wait(1, 0.001) is None
        assert poll_counters([counter, counter], [1, 2], 0) is None


def test_polls_tell_which_queue_and_which_counter() -> None:
    with PrivateInterface(listen=None) as ni:
        queues = [EventQueue(ni, 2) for _ in range(3)]
        MatchEntry(PortalTableEntry(ni, queues[1]), None, user_ptr="second")
        found = poll_queues(queues)
        assert found and (found[0], found[1].user_ptr) == (1, "second")
        counters = [CountingEvent(ni) for _ in range(3)]
        counters[2].inc(5)
        assert poll_counters(counters, [1, 1, 5]) == (2, Count(5))
        counters[0].inc(0, 1)
        assert counters[0].wait(100) == Count(0, 1)


def test_threads_wait_while_another_works() -> None:
    with PrivateInterface(listen=None) as ni:
        queue, counter, found = EventQueue(ni, 8), CountingEvent(ni), []
        threads = [
            threading.Thread(target=lambda: found.append(queue.wait())),
            threading.Thread(target=lambda: found.append(counter.wait(1))),
        ]
        for thread in threads:
            thread.start()
        MatchEntry(PortalTableEntry(ni, queue), None, user_ptr="linked")
        counter.inc()
        for thread in threads:
            thread.join(LIMIT_S)
        assert Count(1) in found
        assert "linked" in [getattr(one, "user_ptr", None) for one in found]


def test_closing_wakes_who_waits() -> None:
    with PrivateInterface(listen=None) as ni:
        queue, counter, caught = EventQueue(ni, 8), CountingEvent(ni), []
        begun = threading.Barrier(3)

        def run(wait: Any, *args: Any) -> None:
            begun.wait(LIMIT_S)
            try:
                wait(*args)
            except (PtlError, ValueError) as error:  # ValueError: it was closed before
                caught.append(getattr(error, "rc", Rc.PTL_INTERRUPTED))

        threads = [
            threading.Thread(target=run, args=(queue.wait,)),
            threading.Thread(target=run, args=(counter.wait, 1)),
        ]
        for thread in threads:
            thread.start()
        begun.wait(LIMIT_S)
        queue.close()
        counter.close()
        for thread in threads:
            thread.join(LIMIT_S)
        assert caught == [Rc.PTL_INTERRUPTED] * 2


# ---- interfaces ----


def test_limits_are_granted_as_they_are_wished() -> None:
    wished = Limits(max_mds=3, max_cts=2, max_triggered_ops=1, features=Feature(0))
    with PrivateInterface(listen=None, limits=wished) as ni:
        granted = ni.limits
        assert (granted.max_mds, granted.max_cts, granted.max_triggered_ops) == (3, 2, 1)
        assert granted.max_entries > 0 and granted.features is Feature(0)
        held = [MemoryDescriptor(ni, b"") for _ in range(3)]
        with pytest.raises(NoSpaceError):
            MemoryDescriptor(ni, b"")
        held.pop().close()
        MemoryDescriptor(ni, b"")
        counter = CountingEvent(ni)
        counter.inc(trigger=counter, threshold=5)
        with pytest.raises(NoSpaceError):
            counter.inc(trigger=counter, threshold=5)


def test_an_interface_tells_who_it_is(ends: Pair) -> None:
    for rank, end in enumerate((ends.a, ends.b)):
        ni = end.ni
        assert isinstance(ni.phys_id(), Process)
        assert ni.id() == (rank if ni.is_logical else ni.phys_id())
        assert ni.uid() == 0
        assert ni.ni_handle() == end.queue.ni_handle() == ni.handle
        assert ni.is_same(ni) and not ni.is_same(end.queue)
        assert end.queue.is_same(end.queue)
        if ni.is_logical:
            assert ni.get_map() == [ends.a.ni.phys_id(), ends.b.ni.phys_id()]


def test_a_logical_interface_without_a_map_says_so() -> None:
    with PrivateInterface(NiOption.MATCHING | NiOption.LOGICAL) as ni:
        with pytest.raises(NoSpaceError):
            ni.get_map()
        assert ni.id() == ANY


def test_the_four_interfaces_of_a_process_share_its_id() -> None:
    opened = [Interface(kind) for kind in KINDS]
    again = Interface(KINDS[0])
    assert len({ni.phys_id() for ni in opened}) == 1
    assert again.is_same(opened[0]) and not again.is_same(opened[1])
    queue = EventQueue(opened[0], 4)
    opened[0].close()
    assert queue.get() is None  # the other name keeps it
    again.close()
    assert queue.is_closed
    for ni in opened[1:]:
        ni.close()


def test_a_process_puts_to_itself() -> None:
    with Interface(NiOption.NO_MATCHING | NiOption.LOGICAL) as ni:
        ni.set_map([ni.phys_id()])
        queue, there = EventQueue(ni, 8), np.zeros(3)
        pt = PortalTableEntry(ni, queue)
        with (
            ListEntry(pt, there, options=QUIET),
            MemoryDescriptor(ni, np.ones(3), queue) as descriptor,
        ):
            descriptor.put(0, pt.index, ack=AckReq.ACK_REQ)
            events = [queue.wait(LIMIT_S) for _ in range(3)]
        kinds = {EventKind.PUT, EventKind.SEND, EventKind.ACK}
        assert {event.kind for event in events if event} == kinds
        assert list(there) == [1, 1, 1]


def test_ends_of_a_user_on_a_host_need_no_key() -> None:
    with PrivateInterface(is_local=True) as a, PrivateInterface(is_local=True) as b:
        there = bytearray(3)
        MatchEntry(PortalTableEntry(b), there, options=MeOption.OP_PUT)
        sent = CountingEvent(a)
        options = MdOption.EVENT_CT_ACK
        md = MemoryDescriptor(a, b"abc", None, sent, options=options)
        md.put(b.phys_id(), 0, ack=AckReq.CT_ACK_REQ)
        came = CountingEvent(b)  # a look at it lets its end go on
        while sent.get() == Count(0):
            came.get()
        assert (there, sent.get()) == (b"abc", Count(1))


def test_a_count_of_users_is_kept() -> None:
    init()
    fini()
    with pytest.raises(ValueError, match="without init"):
        fini()


def test_kinds_are_told_in_the_order_of_the_events(matching: Pair) -> None:
    pt = matching.b.table_entry()
    MatchEntry(pt, bytearray(4), options=MeOption.OP_PUT | MeOption.USE_ONCE)
    MemoryDescriptor(matching.a.ni, b"a").put(matching.target, pt.index)
    matching.drive(lambda: len(matching.b.seen) == 3)
    assert kinds_of(matching.b.seen) == [EventKind.LINK, EventKind.PUT, EventKind.AUTO_UNLINK]
