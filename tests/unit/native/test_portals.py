"""What daemons use of the transport, met by the objects of native.portals."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from native.port.endpoint import NetworkInterface, Slab, buffer, number_of
from native.portals import (
    AckReq,
    CountingEvent,
    EventKind,
    EventQueue,
    MatchEntry,
    MemoryDescriptor,
    MeOption,
    PortalTableEntry,
    PrivateInterface,
)

LOOPBACK = 0x7F000001
MESSAGES = 0
KEY = bytes(32)


class End(NamedTuple):
    interface: PrivateInterface
    queue: EventQueue

    def take(self) -> list[EventKind]:
        return [event.kind for event in self.queue.take()]


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    found = []
    for _ in range(2):
        interface = PrivateInterface(partition_key=KEY, flush_ms=0)
        found.append(End(interface, EventQueue(interface, 64)))
    yield found[0], found[1]
    for end in found:
        end.interface.close()


@pytest.fixture
def daemon() -> Iterator[NetworkInterface]:
    interface = NetworkInterface(listen_nid=LOOPBACK, listen_pid=0, partition_key=KEY)
    interface.receive_messages()
    yield interface
    interface.close(0)


def drive(takes: dict[int, Callable[[], list[EventKind]]], kind: EventKind) -> list[EventKind]:
    """Let ends go on, by descriptor, until one has had an event of that kind."""
    seen: list[EventKind] = []
    while kind not in seen:
        readable = select.select(list(takes), [], [], 10)[0]
        assert readable, f"nothing more happens after {seen}"
        for fd in readable:
            seen += takes[fd]()
    return seen


def drive_both(ends: tuple[End, End], kind: EventKind) -> list[EventKind]:
    return drive({end.interface.fileno(): end.take for end in ends}, kind)


def test_a_put_lands_in_the_match_entry(ends: tuple[End, End]) -> None:
    a, b = ends
    pt = PortalTableEntry(b.interface, b.queue, 9)
    memory = bytearray(64)
    options = MeOption.OP_PUT | MeOption.EVENT_LINK_DISABLE
    entry = MatchEntry(pt, memory, 5, options=options)
    with MemoryDescriptor(a.interface, b"hello world", a.queue) as descriptor:
        target = b.interface.phys_id()
        descriptor.put(target, pt.index, 5, offset=6, length=5, remote_offset=3, ack=AckReq.ACK_REQ)
        seen = drive_both(ends, EventKind.ACK)
        assert sorted(seen) == sorted([EventKind.SEND, EventKind.PUT, EventKind.ACK])
    assert bytes(memory[:9]) == b"\0\0\0world\0"
    entry.close()


def test_an_event_gives_its_bytes_and_the_number_of_its_slab(
    ends: tuple[End, End], daemon: NetworkInterface
) -> None:
    a = ends[0]
    slab = Slab(daemon, 64, 1234, 1)
    descriptor = MemoryDescriptor(a.interface, b"abc", a.queue)
    descriptor.put(daemon.id(), MESSAGES, 99, ack=AckReq.NO_ACK_REQ)
    while True:
        select.select([daemon.fileno()], [], [], 10)
        events, n = daemon.events()
        a.queue.take()
        if n:
            break
    assert events[0].type == EventKind.PUT
    assert bytes(buffer(events[0].start, events[0].mlength)) == b"abc"
    assert number_of(events[0]) == 1234
    assert events[0].match_bits == 99
    assert not slab.is_closed


def test_a_counter_releases_a_triggered_put(ends: tuple[End, End]) -> None:
    a, b = ends
    pt = PortalTableEntry(b.interface, b.queue, 9)
    arrived = CountingEvent(b.interface)
    MatchEntry(pt, bytearray(64), counter=arrived, options=MeOption.OP_PUT | MeOption.EVENT_CT_COMM)
    trigger = CountingEvent(a.interface)
    descriptor = MemoryDescriptor(a.interface, b"abc", a.queue)
    target = b.interface.phys_id()
    descriptor.put(target, pt.index, 0, ack=AckReq.ACK_REQ, trigger=trigger, threshold=2)
    trigger.inc()
    assert arrived.get() == (0, 0)
    trigger.inc()
    drive_both(ends, EventKind.ACK)
    assert arrived.get() == (1, 0)
    assert trigger.get() == (2, 0)


def test_counters_name_every_field_of_c(daemon: NetworkInterface) -> None:
    counters = daemon.counters()
    assert {"bytes_out", "bytes_in", "connections", "unproven"} <= counters.keys()
    assert set(counters.values()) == {0}
