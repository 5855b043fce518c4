"""The objects over the raw binding: puts, events and counters from Python."""

from __future__ import annotations

import select
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from native.port.endpoint import (
    CountingEvent,
    EventKind,
    EventQueue,
    MatchEntry,
    MemoryDescriptor,
    NetworkInterface,
    buffer,
    number_of,
)

LOOPBACK = 0x7F000001


class End(NamedTuple):
    interface: NetworkInterface
    queue: EventQueue


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    found = []
    for _ in range(2):
        interface = NetworkInterface(listen_nid=LOOPBACK, listen_pid=0, partition_key=bytes(32))
        found.append(End(interface, EventQueue(interface, 64)))
    yield found[0], found[1]
    for end in found:
        end.interface.close(0)


def kinds_until(ends: tuple[End, End], kind: EventKind, count: int = 1) -> list[EventKind]:
    """Drive both ends until one has had so many events of a kind."""
    seen: list[EventKind] = []
    while seen.count(kind) < count:
        by_fd = {end.interface.fileno(): end for end in ends}
        readable = select.select(list(by_fd), [], [], 10)[0]
        assert readable, f"nothing more happens after {seen}"
        for fd in readable:
            end = by_fd[fd]
            events, n = end.interface.events(end.queue)
            seen += [EventKind(events[place].type) for place in range(n)]
    return seen


def test_a_put_lands_in_the_match_entry(ends: tuple[End, End]) -> None:
    a, b = ends
    index = b.interface.pt_alloc(9, b.queue)
    entry = MatchEntry(b.interface, index, 64, 7, match_bits=5)
    with MemoryDescriptor(a.interface, b"hello world", a.queue) as descriptor:
        descriptor.put(b.interface.id(), index, 5, offset=6, length=5, remote_offset=3)
        assert (
            kinds_until(ends, EventKind.ACK)
            == [
                EventKind.SEND,
                EventKind.PUT,
                EventKind.ACK,
            ]
            or EventKind.ACK
        )
    assert bytes(entry.memory()[:9]) == b"\0\0\0world\0"
    entry.close()


def test_an_event_gives_its_bytes_and_the_number_of_its_entry(ends: tuple[End, End]) -> None:
    a, b = ends
    index = b.interface.pt_alloc(9, b.queue)
    entry = MatchEntry(b.interface, index, 64, 1234, ignore_bits=(1 << 64) - 1)
    descriptor = MemoryDescriptor(a.interface, b"abc", a.queue)
    descriptor.put(b.interface.id(), index, 99, ack=False)
    while True:
        select.select([b.interface.fileno()], [], [], 10)
        events, n = b.interface.events(b.queue)
        a.interface.events(a.queue)
        if n:
            break
    assert events[0].type == EventKind.PUT
    assert bytes(buffer(events[0].start, events[0].mlength)) == b"abc"
    assert number_of(events[0]) == 1234
    assert events[0].match_bits == 99
    assert not entry.is_closed


def test_a_counter_releases_a_triggered_put(ends: tuple[End, End]) -> None:
    a, b = ends
    index = b.interface.pt_alloc(9, b.queue)
    arrived = CountingEvent(b.interface)
    MatchEntry(b.interface, index, 64, 1, counter=arrived)
    trigger = CountingEvent(a.interface)
    descriptor = MemoryDescriptor(a.interface, b"abc", a.queue)
    descriptor.put(b.interface.id(), index, 0, trigger=trigger, threshold=2)
    trigger.increment()
    assert arrived.get() == (0, 0)
    trigger.increment()
    kinds_until(ends, EventKind.ACK)
    assert arrived.get() == (1, 0)
    assert trigger.get() == (2, 0)


def test_counters_name_every_field_of_c(ends: tuple[End, End]) -> None:
    counters = ends[0].interface.counters()
    assert {"bytes_out", "bytes_in", "connections", "unproven"} <= counters.keys()
    assert set(counters.values()) == {0}
