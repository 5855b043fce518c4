"""Memory stays where it is while C may use it, and objects while an event may name them."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from native.portals import (
    AckReq,
    AtomicOp,
    CountingEvent,
    EventKind,
    MatchEntry,
    MdOption,
    MemoryDescriptor,
    MeOption,
)
from tests.support.portals_ends import Pair, pair
from tests.unit.native.parts_of import SELF, Parts


@pytest.fixture
def ends() -> Iterator[Pair]:
    with pair() as made:
        yield made


# ---- memory ----


def test_read_only_memory_is_refused_where_bytes_may_land(parts: Parts) -> None:
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    for memory in (b"abcd", memoryview(b"abcd"), frozen, [bytearray(4), b"abcd"]):
        with pytest.raises(ValueError, match="read-only"):
            MatchEntry(parts.pt, memory)
        MatchEntry(parts.pt, memory, options=MeOption.OP_GET).close()
        md = MemoryDescriptor(parts.ni, memory)
        for use in (
            lambda md=md: md.get(SELF, 0),
            lambda md=md: md.fetch_atomic(parts.md, SELF, 0, AtomicOp.SUM),
            lambda md=md: md.swap(parts.md, SELF, 0),
        ):
            with pytest.raises(ValueError, match="read-only"):
                use()


@pytest.mark.parametrize(
    "memory",
    [np.zeros(8)[::2], np.zeros((4, 4)).T, np.zeros((4, 4))[:, 1], memoryview(bytearray(8))[::2]],
    ids=["strided", "fortran", "column", "view"],
)
def test_memory_that_is_not_contiguous_is_refused(parts: Parts, memory: Any) -> None:
    for piece in (memory, [memory]):
        with pytest.raises(ValueError, match="not contiguous"):
            MemoryDescriptor(parts.ni, piece)
        with pytest.raises(ValueError, match="not contiguous"):
            MatchEntry(parts.pt, piece)


@pytest.mark.parametrize(
    "memory",
    ["text", 5, object(), [5], ["text"], {1: 2}, np.zeros(2, "O"), (ctypes.py_object * 2)()],
    ids=lambda memory: type(memory).__name__,
)
def test_what_is_no_plain_memory_is_refused(parts: Parts, memory: Any) -> None:
    for use in (
        lambda: MemoryDescriptor(parts.ni, memory),
        lambda: MatchEntry(parts.pt, memory),
    ):
        with pytest.raises(TypeError):
            use()


@pytest.mark.parametrize(
    ("memory", "shrink"),
    [
        (bytearray(8), lambda memory: memory.clear()),
        (array.array("d", [1, 2]), lambda memory: memory.pop()),
        (mmap.mmap(-1, 4096), lambda memory: memory.close()),
    ],
    ids=["bytearray", "array", "mmap"],
)
def test_memory_stays_until_its_object_is_closed(
    parts: Parts, memory: Any, shrink: Callable[[Any], object]
) -> None:
    for make in (
        lambda: MemoryDescriptor(parts.ni, memory),
        lambda: MemoryDescriptor(parts.ni, [b"x", memory]),
        lambda: MatchEntry(parts.pt, memory),
    ):
        one = make()
        with pytest.raises(BufferError):
            shrink(memory)
        one.close()
    shrink(memory)


def test_a_refused_object_locks_no_memory(parts: Parts) -> None:
    memory = bytearray(8)
    with pytest.raises(ValueError):
        MemoryDescriptor(parts.ni, memory, options=1 << 31)
    with pytest.raises(ValueError):
        MatchEntry(parts.pt, memory, options=1 << 30)
    with pytest.raises(ValueError):
        MatchEntry(parts.pt, memory, uid=-1)
    with pytest.raises(ValueError):
        MemoryDescriptor(parts.ni, [memory, np.zeros(4)[::2]])
    gc.collect()
    memory.clear()


def test_memory_that_nobody_else_refers_to_stays_for_c(ends: Pair) -> None:
    pt = ends.b.table_entry()
    ends.b.entry(pt, bytearray(1 << 20))
    MemoryDescriptor(ends.a.ni, bytes(range(256)) * 4096, ends.a.queue).put(
        ends.target, pt.index, ack=AckReq.ACK_REQ
    )
    gc.collect()
    ends.event(ends.a, EventKind.ACK)
    assert bytes(ends.event(ends.b, EventKind.PUT).data) == bytes(range(256)) * 4096


# ---- objects that events name ----


class Thing:
    pass


def test_a_user_ptr_is_let_go_after_its_last_event(ends: Pair) -> None:
    pt = ends.b.table_entry()
    ends.b.entry(pt, bytearray(8))
    md = MemoryDescriptor(ends.a.ni, bytearray(8), ends.a.queue)
    thing = Thing()
    gone = weakref.ref(thing)
    md.put(ends.target, pt.index, ack=AckReq.ACK_REQ, user_ptr=thing)
    md.get(ends.target, pt.index, user_ptr=thing)
    del thing
    events = ends.events(ends.a, EventKind.SEND, EventKind.ACK, EventKind.REPLY)
    assert all(event.user_ptr is gone() for event in events)
    events.clear()
    assert gone() is None
    assert not md._state.records.keys() & md._numbers


def test_a_user_ptr_of_a_closed_entry_is_told_by_its_queued_events(ends: Pair) -> None:
    pt = ends.b.table_entry()
    entry = ends.b.entry(pt, bytearray(8), user_ptr=Thing())
    gone = weakref.ref(entry.user_ptr)
    md = MemoryDescriptor(ends.a.ni, b"abc", ends.a.queue)
    md.put(ends.target, pt.index, ack=AckReq.ACK_REQ)
    came = CountingEvent(ends.b.ni)  # its calls let the other end go on
    acks: list[EventKind] = []
    while EventKind.ACK not in acks:
        acks += [event.kind for event in ends.a.queue.take()]
        came.get()
    entry.close()
    del entry
    gc.collect()
    event = ends.b.queue.wait(0)
    assert event and event.user_ptr is gone() is not None
    assert event.data == b"abc"
    del event
    assert ends.b.queue.take() == []
    gc.collect()
    assert gone() is None


def test_entries_that_end_silently_do_not_pile_up(ends: Pair) -> None:
    pt = ends.b.table_entry()
    came = CountingEvent(ends.b.ni)
    options = (
        MeOption.OP_PUT
        | MeOption.USE_ONCE
        | MeOption.EVENT_LINK_DISABLE
        | MeOption.EVENT_UNLINK_DISABLE
        | MeOption.EVENT_COMM_DISABLE
        | MeOption.EVENT_CT_COMM
    )
    md = MemoryDescriptor(ends.a.ni, b"abc", options=MdOption.EVENT_SEND_DISABLE)
    for done in range(1, 1001):
        MatchEntry(pt, bytearray(4), options=options, counter=came)
        md.put(ends.target, pt.index)
        ends.count(came, done)
    assert len(pt._state.parts) < 600
    assert len(pt._state.records) < 600


def test_numbers_of_finished_operations_do_not_pile_up(ends: Pair) -> None:
    pt = ends.b.table_entry()
    ends.b.entry(pt, bytearray(8), options=MeOption.OP_PUT | MeOption.EVENT_COMM_DISABLE)
    md = MemoryDescriptor(ends.a.ni, b"abc", ends.a.queue)
    for number in range(2000):
        md.put(ends.target, pt.index, user_ptr=number)
        assert ends.event(ends.a, EventKind.SEND).user_ptr == number
    assert len(md._numbers) < 1000
    assert len(md._state.records) < 10
