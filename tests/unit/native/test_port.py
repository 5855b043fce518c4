"""What every port promises, held against each kind of port."""

from __future__ import annotations

import os
import select
import tempfile
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import pytest

from native.ids import ObjectKey, PortalId, Principal, PrincipalKind
from native.loop.reactor import Reactor
from native.port.port import (
    EVENTS_PER_TURN,
    Hub,
    Loss,
    ObjectArrived,
    ObjectFailed,
    ObjectSent,
    PeerLost,
    Port,
    PortEvent,
    Received,
)
from native.port.portals import PortalsPort
from native.wire import codec
from native.wire.alloc import Freed
from native.wire.base import MESSAGE_MAX_BYTES
from native.wire.io import Input, InputCredit
from tests.support.ports import TEST_KEY, all_of, pump, quiet
from tests.support.wait import LIMIT_S

OWNER = Principal(PrincipalKind.PARTITION, 77)
KEY = ObjectKey(job_id=(1 << 47) - 1, number=65535)
Make = Callable[[], Port]


@pytest.fixture(params=["memory", "portals"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes ports that can reach one another; closes them afterwards."""
    hub = Hub()
    ports: list[Port] = []

    def memory() -> Port:
        return hub.port(OWNER)

    def portals() -> Port:
        return PortalsPort(listen="127.0.0.1:0", partition_key=TEST_KEY, uid=OWNER.uid)

    def remembered() -> Port:
        ports.append(memory() if request.param == "memory" else portals())
        return ports[-1]

    yield remembered
    for port in ports:
        port.close(flush_s=0.1)


class Taken(NamedTuple):
    """A port whose events are taken by another function."""

    fd: int
    events: Callable[[], list[PortEvent]]

    def fileno(self) -> int:
        return self.fd


def message(number: int, size: int = 0) -> Input:
    return Input(number, bytes(size))


def messages_of(events: list[object]) -> list[object]:
    return [event.message for event in events if isinstance(event, Received)]


def file_of(data: bytes) -> int:
    fd = os.memfd_create("object")
    os.write(fd, data)
    return fd


def pump_once(port: Port, reactor: Reactor) -> None:
    """Drive a sender, and a loop that another port is listened to in."""
    port.events()
    reactor.run_once(0.001)


def room_for(size: int) -> int:
    fd = os.memfd_create("room")
    os.posix_fallocate(fd, 0, size)
    return fd


def test_messages_arrive_once_whole_and_in_order(make: Make) -> None:
    a, b = make(), make()
    sent = [message(n + 1, n * 37 % 3000) for n in range(1500)]
    for one in sent:
        a.send(b.id, one)
    seen = pump([a, b], lambda seen: len(seen[b]) >= len(sent))
    assert messages_of(seen[b]) == sent
    assert seen[a] == []
    assert {(event.source, event.principal) for event in seen[b]} == {(a.id, OWNER)}


def test_a_reply_goes_to_the_source(make: Make) -> None:
    a, b = make(), make()
    a.send(b.id, message(1))
    event = pump([a, b], lambda seen: seen[b])[b][0]
    b.send(event.source, InputCredit(1, 5))
    assert pump([a, b], lambda seen: seen[a])[a] == [Received(b.id, OWNER, InputCredit(1, 5))]


def test_a_listener_is_called_in_the_loop_while_there_are_events_until_it_is_closed(
    make: Make,
) -> None:
    reactor, a, b = Reactor(), make(), make()
    heard: list[PortEvent] = []
    listener = b.listen(reactor, lambda: heard.extend(b.events()))
    a.send(b.id, message(1))
    assert not heard, "called from within a send"
    deadline = time.monotonic() + LIMIT_S
    while not heard and time.monotonic() < deadline:
        pump_once(a, reactor)
    assert messages_of(heard) == [message(1)]
    listener.close()
    a.send(b.id, message(2))
    assert messages_of(pump([a, b], lambda seen: seen[b])[b]) == [message(2)]
    reactor.run_once(0)
    assert len(heard) == 1
    reactor.close()


def test_a_listener_that_raises_is_called_no_more_and_its_owner_is_told(make: Make) -> None:
    reactor, a, b = Reactor(), make(), make()
    told: list[Exception] = []

    def fail() -> None:
        raise ValueError("no")

    reactor.run_for(told.append, lambda: b.listen(reactor, fail))
    a.send(b.id, message(1))
    deadline = time.monotonic() + LIMIT_S
    while not told and time.monotonic() < deadline:
        pump_once(a, reactor)
    reactor.run_once(0)
    assert len(told) == 1
    reactor.close()


def test_a_port_can_send_to_itself(make: Make) -> None:
    a = make()
    a.send(a.id, message(1))
    a.send(a.id, message(2))
    seen = pump([a], lambda seen: len(seen[a]) == 2)
    assert messages_of(seen[a]) == [message(1), message(2)]


def test_ports_that_send_to_each_other_at_once_lose_nothing(make: Make) -> None:
    ports = [make() for _ in range(5)]
    for number in range(20):
        for a in ports:
            for b in ports:
                if a is not b:
                    a.send(b.id, message(number + 1))
    seen = pump(ports, lambda seen: all(len(events) >= 80 for events in seen.values()))
    for a in ports:
        for b in ports:
            if a is not b:
                from_b = [event for event in seen[a] if event.source == b.id]
                assert messages_of(from_b) == [message(n + 1) for n in range(20)]
    assert not [event for event in all_of(seen) if isinstance(event, PeerLost)]
    assert quiet(ports) == []


def freed_of_size(size: int) -> Freed:
    """A message of exactly so many bytes: of a node that is far from others it takes 7."""
    count = (size - 100) // 7
    far = tuple((number, 1) for number in range(1 << 16, (1 << 16) + 2 * count, 2))
    rest = size - len(codec.encode_part(Freed(1, far)))
    near = tuple((number, 1) for number in range(0, 2 * (rest // 3), 2))  # these take 3
    rest -= 3 * len(near)
    found = Freed(1 << (0, 7, 8)[rest], (*near, *far))  # the job's id takes the rest
    assert len(codec.encode_part(found)) == size
    return found


def test_a_message_of_the_greatest_size_arrives(make: Make) -> None:
    a, b = make(), make()
    for _ in range(10):  # more than the slabs of one receiver hold
        a.send(b.id, freed_of_size(MESSAGE_MAX_BYTES))
    seen = pump([a, b], lambda seen: len(seen[b]) == 10)
    assert messages_of(seen[b]) == [freed_of_size(MESSAGE_MAX_BYTES)] * 10


def test_a_larger_message_raises_value_error_and_sends_nothing(make: Make) -> None:
    a, b = make(), make()
    with pytest.raises(ValueError, match="262145"):
        a.send(b.id, freed_of_size(MESSAGE_MAX_BYTES + 1))
    a.send(b.id, message(1))
    assert messages_of(pump([a, b], lambda seen: seen[b])[b]) == [message(1)]


def test_a_peer_that_closes_is_lost_once_after_its_last_message(make: Make) -> None:
    a, b = make(), make()
    b.send(a.id, message(1))
    pump([a, b], lambda seen: seen[a])
    for number in range(50):
        b.send(a.id, message(number + 2))
    b.close(flush_s=0.1)
    seen = pump([a], lambda seen: any(isinstance(event, PeerLost) for event in seen[a]))
    assert messages_of(seen[a]) == [message(n + 2) for n in range(50)]
    last = seen[a][-1]
    assert isinstance(last, PeerLost)
    assert (last.peer, last.loss) == (b.id, Loss.CLOSED)
    assert quiet([a]) == []


def test_sending_to_a_port_that_is_gone_is_a_loss_each_time(make: Make) -> None:
    a, b = make(), make()
    b.close()
    for _ in range(2):
        a.send(b.id, message(1))
        (lost,) = pump([a], lambda seen: seen[a])[a]
        assert isinstance(lost, PeerLost)
        assert (lost.peer, lost.loss) == (b.id, Loss.UNREACHABLE)


def test_disconnecting_flushes_and_tells_only_the_other(make: Make) -> None:
    a, b = make(), make()
    a.send(b.id, message(1))
    a.disconnect(b.id)
    seen = pump([a, b], lambda seen: len(seen[b]) == 2)
    assert messages_of(seen[b]) == [message(1)]
    assert isinstance(seen[b][1], PeerLost)
    assert (seen[b][1].peer, seen[b][1].loss) == (a.id, Loss.CLOSED)
    assert seen[a] == []
    assert quiet([a, b]) == []


def test_after_a_disconnect_a_message_reaches_the_peer_again(make: Make) -> None:
    a, b = make(), make()
    a.send(b.id, message(1))
    a.disconnect(b.id)
    a.disconnect(PortalId(0x7F000001, 9))  # one that was never met: nothing happens
    pump([a, b], lambda seen: len(seen[b]) == 2)
    a.send(b.id, message(2))
    assert messages_of(pump([a, b], lambda seen: seen[b])[b]) == [message(2)]


def test_what_is_sent_after_a_disconnect_comes_after_the_goodbye(make: Make) -> None:
    a, b = make(), make()
    a.send(b.id, message(1))
    a.disconnect(b.id)
    a.send(b.id, message(2))
    seen = pump([a, b], lambda seen: len(seen[b]) == 3)
    assert [type(event) for event in seen[b]] == [Received, PeerLost, Received]
    assert messages_of(seen[b]) == [message(1), message(2)]
    assert seen[a] == []


def test_the_descriptor_is_readable_exactly_while_there_is_something_to_take(make: Make) -> None:
    a, b = make(), make()
    assert quiet([a, b]) == []
    assert a.events() == []
    assert select.select([a], [], [], 0)[0] == []
    a.send(a.id, message(1))
    assert select.select([a], [], [], LIMIT_S)[0] == [a]
    assert messages_of(a.events()) == [message(1)]
    assert quiet([a]) == []
    assert select.select([a], [], [], 0)[0] == []


def test_a_port_gives_a_bounded_number_of_events_and_stays_readable_for_the_rest(
    make: Make,
) -> None:
    a, b = make(), make()
    sent = [message(number + 1) for number in range(3 * EVENTS_PER_TURN + 1)]
    for one in sent:
        a.send(b.id, one)
    counts = []

    def take() -> list[PortEvent]:
        events = b.events()
        counts.append(len(events))
        return events

    taken = Taken(b.fileno(), take)
    seen = pump([a, taken], lambda seen: len(seen[taken]) == len(sent))
    assert messages_of(seen[taken]) == sent
    assert max(counts) <= EVENTS_PER_TURN
    assert quiet([a, b]) == []


def test_a_closed_port_can_be_closed_again(make: Make) -> None:
    a = make()
    a.close()
    a.close()


@pytest.mark.parametrize("size", [1, 65536, 1_000_003])
def test_an_object_lands_whole_with_its_digest_and_its_times(make: Make, size: int) -> None:
    a, b = make(), make()
    data = os.urandom(size)
    source, room = file_of(data), room_for(size)
    began = time.monotonic()
    b.receive_object(KEY, room, size, 65536, [])
    a.send_object(KEY, source, size, 65536, [b.id])
    seen = pump([a, b], lambda seen: seen[a] and seen[b])
    assert seen[a] == [ObjectSent(KEY)]
    (arrived,) = seen[b]
    assert isinstance(arrived, ObjectArrived)
    assert arrived.key == KEY
    assert arrived.digest == blake2b(data, digest_size=32).digest()
    assert began <= arrived.first_chunk_at <= arrived.last_chunk_at <= time.monotonic()
    assert os.pread(room, size + 1, 0) == data
    os.close(source)
    os.close(room)


def test_an_object_goes_down_a_tree_of_seven(make: Make) -> None:
    size, chunk = 3_000_000, 200_000
    source_port, ports = make(), [make() for _ in range(7)]
    data = os.urandom(size)
    source, rooms = file_of(data), [room_for(size) for _ in ports]
    for place in reversed(range(7)):
        children = [ports[child].id for child in (2 * place + 1, 2 * place + 2) if child < 7]
        ports[place].receive_object(KEY, rooms[place], size, chunk, children)
    source_port.send_object(KEY, source, size, chunk, [ports[0].id])
    seen = pump(
        [source_port, *ports], lambda seen: sum(len(events) for events in seen.values()) == 11
    )
    digest = blake2b(data, digest_size=32).digest()
    for place, port in enumerate(ports):
        arrived = [event for event in seen[port] if isinstance(event, ObjectArrived)]
        assert [event.digest for event in arrived] == [digest]
        assert ObjectSent(KEY) in seen[port] or place >= 3
        assert os.pread(rooms[place], size, 0) == data
    assert seen[source_port] == [ObjectSent(KEY)]
    for fd in (source, *rooms):
        os.close(fd)


def test_an_arrived_object_can_be_executed_at_once(make: Make) -> None:
    """A file that is still open for writing would give "text file busy"."""
    data = b"#!/bin/sh\nexit 3\n"
    a, b, c = make(), make(), make()
    fd, path = tempfile.mkstemp(dir="/dev/shm" if os.access("/dev/shm", os.X_OK) else None)
    os.posix_fallocate(fd, 0, len(data))
    os.fchmod(fd, 0o700)
    room = room_for(len(data))
    c.receive_object(KEY, room, len(data), 4096, [])
    b.receive_object(KEY, fd, len(data), 4096, [c.id])
    a.send_object(KEY, file_of(data), len(data), 4096, [b.id])
    pump([a, b], lambda seen: seen[b])  # c has not read anything yet
    os.close(fd)
    child = os.posix_spawn(path, [path], {})
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    os.unlink(path)


def test_an_object_that_the_target_does_not_expect_fails(make: Make) -> None:
    a, b = make(), make()
    a.send_object(KEY, file_of(b"abc"), 3, 4096, [b.id])
    (failed,) = pump([a, b], lambda seen: seen[a])[a]
    assert isinstance(failed, ObjectFailed)
    assert failed.key == KEY
    assert quiet([a, b]) == []


def test_a_file_that_is_shorter_than_said_fails(make: Make) -> None:
    a, b = make(), make()
    b.receive_object(KEY, room_for(9000), 9000, 4096, [])
    a.send_object(KEY, file_of(bytes(5000)), 9000, 4096, [b.id])
    (failed,) = pump([a, b], lambda seen: seen[a])[a]
    assert failed == ObjectFailed(KEY, "the file has shrunk")


def test_a_cancelled_object_is_heard_of_no_more(make: Make) -> None:
    a, b = make(), make()
    room = room_for(9000)
    b.receive_object(KEY, room, 9000, 4096, [])
    b.cancel_object(KEY)
    b.cancel_object(ObjectKey(3, 3))  # an unknown one: nothing happens
    a.send_object(KEY, file_of(bytes(9000)), 9000, 4096, [b.id])
    seen = pump([a, b], lambda seen: seen[a])
    assert isinstance(seen[a][0], ObjectFailed)
    assert seen[b] == []
    assert quiet([a, b]) == []


def test_the_same_key_can_be_expected_again_after_a_cancel(make: Make) -> None:
    a, b = make(), make()
    room = room_for(9000)
    b.receive_object(KEY, room, 9000, 4096, [])
    b.cancel_object(KEY)
    b.receive_object(KEY, room, 9000, 4096, [])
    a.send_object(KEY, file_of(bytes(9000)), 9000, 4096, [b.id])
    seen = pump([a, b], lambda seen: seen[a] and seen[b])
    assert isinstance(seen[b][0], ObjectArrived)
