"""Interfaces: their limits, ids, maps and users."""

from __future__ import annotations

import numpy as np
import pytest

from native.portals import (
    ANY,
    AckReq,
    Count,
    CountingEvent,
    EventKind,
    EventQueue,
    Feature,
    Interface,
    LeOption,
    Limits,
    ListEntry,
    MatchEntry,
    MdOption,
    MemoryDescriptor,
    MeOption,
    NiOption,
    NoSpaceError,
    PortalTableEntry,
    PrivateInterface,
    Process,
    fini,
    init,
)
from tests.support.portals_ends import KINDS, Pair
from tests.support.wait import LIMIT_S

QUIET = LeOption.OP_PUT | LeOption.OP_GET | LeOption.EVENT_LINK_DISABLE


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
