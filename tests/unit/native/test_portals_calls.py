"""Each call that moves data, on each kind of interface, over TCP."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from native.portals import (
    AckReq,
    AtomicOp,
    Count,
    CountingEvent,
    Datatype,
    EventKind,
    LeOption,
    ListKind,
    MdOption,
    MemoryDescriptor,
    NiFail,
    atomic_sync,
)
from tests.support.portals_ends import Pair

BOTH = LeOption.OP_PUT | LeOption.OP_GET
QUIET = BOTH | LeOption.EVENT_LINK_DISABLE


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
