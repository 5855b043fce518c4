"""Objects through the port over Portals: whole at every place, or failed and told of."""

from __future__ import annotations

import os
import time
from hashlib import blake2b

import pytest

from native import auth
from native.ids import ObjectKey
from native.port.port import ObjectArrived, ObjectFailed, ObjectSent, PeerLost, Received
from native.port.portals import JobKey, PortalsPort, UserKey
from tests.support.ports import FRAME, TEST_KEY, Key, RawPeer, pump, quiet
from tests.unit.native.port_of import HELLO, KEY, Open, counters, file_of, raw_peer, room_for

FAR = int(time.time()) + 3600


def verdict(raw: RawPeer, port: PortalsPort) -> int:
    """Of the next ack: 0, or why the operation was refused."""
    ack = FRAME.unpack(raw.take(port, 64))
    assert ack[0] == 5
    return int(ack[6])


def test_a_small_message_passes_a_hundred_megabytes(port: Open) -> None:
    a, b = port(), port()
    size = 100_000_000
    source, room = file_of(bytes(size)), room_for(size)
    b.receive_object(KEY, room, size, 1 << 20, [])
    a.send_object(KEY, source, size, 1 << 20, [b.id])
    pump([a, b], lambda _: counters(b)["bytes_in"] > 1 << 20)
    a.send(b.id, HELLO)
    seen = pump([a, b], lambda seen: any(isinstance(e, Received) for e in seen[b]))
    assert counters(b)["bytes_in"] < size / 2
    assert not [event for event in seen[b] if isinstance(event, ObjectArrived)]
    pump([a, b], lambda seen: seen[a] and seen[b])
    os.close(source)
    os.close(room)


def test_every_link_of_a_tree_carries_the_object_once(port: Open) -> None:
    size, chunk = 5_000_000, 256 * 1024
    source_port, ports = port(), [port() for _ in range(7)]
    data = os.urandom(size)
    source, rooms = file_of(data), [room_for(size) for _ in ports]
    for place in range(7):
        children = [ports[child].id for child in (2 * place + 1, 2 * place + 2) if child < 7]
        ports[place].receive_object(KEY, rooms[place], size, chunk, children)
    source_port.send_object(KEY, source, size, chunk, [ports[0].id])
    pump([source_port, *ports], lambda seen: sum(map(len, seen.values())) == 11)
    assert counters(source_port)["bytes_out"] < 1.1 * size
    for place, one in enumerate(ports):
        children = sum(child < 7 for child in (2 * place + 1, 2 * place + 2))
        assert children * size <= counters(one)["bytes_out"] <= (children + 0.1) * size
        assert os.pread(rooms[place], size, 0) == data
    for fd in (source, *rooms):
        os.close(fd)


def test_two_objects_of_two_jobs_share_their_links(port: Open) -> None:
    a, b = port(), port()
    keys = [ObjectKey(1, 0), ObjectKey(2, 0), ObjectKey(2, 1)]
    contents = {key: os.urandom(700_000 + 1000 * place) for place, key in enumerate(keys)}
    rooms = {key: room_for(len(contents[key])) for key in keys}
    for key in keys:
        b.receive_object(key, rooms[key], len(contents[key]), 65536, [])
    for key in keys:
        a.send_object(key, file_of(contents[key]), len(contents[key]), 65536, [b.id])
    seen = pump([a, b], lambda seen: len(seen[a]) == len(seen[b]) == 3)
    assert {event.key for event in seen[a] if isinstance(event, ObjectSent)} == set(keys)
    for key in keys:
        assert os.pread(rooms[key], len(contents[key]), 0) == contents[key]


def half_way(source: PortalsPort, ports: list[PortalsPort], size: int) -> None:
    """Drive an object until half of it has left the source."""
    pump([source, *ports], lambda _: counters(source)["bytes_out"] > size / 2)


def test_an_object_whose_child_dies_fails_at_the_relay_and_goes_on_elsewhere(port: Open) -> None:
    size, chunk = 30_000_000, 256 * 1024
    a, relay, child = port(), port(), port()
    relay.receive_object(KEY, room_for(size), size, chunk, [child.id])
    child.receive_object(KEY, room_for(size), size, chunk, [])
    a.send_object(KEY, file_of(bytes(size)), size, chunk, [relay.id])
    half_way(a, [relay, child], size)
    child.close(flush_s=0)
    seen = pump([a, relay], lambda seen: len(seen[relay]) >= 2 and seen[a])
    failed = [event for event in seen[relay] if isinstance(event, ObjectFailed)]
    assert failed == [ObjectFailed(KEY, f"the child {child.id} was lost", True)]
    assert [type(event) for event in seen[a]] == [ObjectFailed]


def test_an_object_whose_parent_dies_fails(port: Open) -> None:
    size = 30_000_000
    a, b = port(), port()
    b.receive_object(KEY, room_for(size), size, 1 << 20, [])
    a.send_object(KEY, file_of(bytes(size)), size, 1 << 20, [b.id])
    half_way(a, [b], size)
    parent = a.id
    a.close(flush_s=0)
    seen = pump([b], lambda seen: len(seen[b]) >= 2)
    kinds = {type(event): event for event in seen[b]}
    assert kinds.keys() == {ObjectFailed, PeerLost}
    assert kinds[PeerLost].peer == parent
    assert kinds[ObjectFailed].key == KEY


def test_after_a_failure_the_object_can_come_again_from_another(port: Open) -> None:
    size = 8_000_000
    data = os.urandom(size)
    a, b, c = port(), port(), port()
    room = room_for(size)
    b.receive_object(KEY, room, size, 1 << 20, [])
    a.send_object(KEY, file_of(data), size, 1 << 20, [b.id])
    half_way(a, [b], size)
    a.close(flush_s=0)
    pump([b], lambda seen: len(seen[b]) >= 2)
    b.receive_object(KEY, room, size, 1 << 20, [])
    c.send_object(KEY, file_of(data), size, 1 << 20, [b.id])
    seen = pump([b, c], lambda seen: seen[b] and seen[c])
    assert seen[b][0].digest == blake2b(data, digest_size=32).digest()


def test_a_source_that_is_cancelled_half_way_fails_at_the_receiver_only(port: Open) -> None:
    """The receiver learns of it when its machine says so: the link lives."""
    size = 30_000_000
    a, b = port(), port()
    b.receive_object(KEY, room_for(size), size, 1 << 20, [])
    a.send_object(KEY, file_of(bytes(size)), size, 1 << 20, [b.id])
    half_way(a, [b], size)
    a.cancel_object(KEY)
    a.send(b.id, HELLO)
    seen = pump([a, b], lambda seen: seen[b])
    assert [type(event) for event in seen[b]] == [Received]
    assert quiet([a, b]) == []
    b.cancel_object(KEY)


@pytest.mark.parametrize("is_of_the_job", [True, False])
def test_only_the_partition_or_the_job_delivers_its_objects(
    port: Open, is_of_the_job: bool
) -> None:
    b = port()
    a = port(listen=None, partition_key=None)
    job = KEY.job_id if is_of_the_job else KEY.job_id + 1
    a.use_key(None, JobKey(job, 1, FAR, auth.derive_job_key(TEST_KEY, job, 1, FAR)))
    b.receive_object(KEY, room_for(5000), 5000, 4096, [])
    a.send_object(KEY, file_of(bytes(5000)), 5000, 4096, [b.id])
    seen = pump([a, b], lambda seen: seen[a])
    if is_of_the_job:
        assert seen[a] == [ObjectSent(KEY)]
    else:
        assert isinstance(seen[a][0], ObjectFailed)
        assert seen[b] == []


def test_a_user_delivers_no_objects(port: Open) -> None:
    b = port()
    a = port(listen=None, partition_key=None)
    a.use_key(None, UserKey(1, auth.derive_user_key(TEST_KEY, 1)))
    b.receive_object(KEY, room_for(5000), 5000, 4096, [])
    a.send_object(KEY, file_of(bytes(5000)), 5000, 4096, [b.id])
    assert isinstance(pump([a, b], lambda seen: seen[a])[a][0], ObjectFailed)


def test_a_chunk_out_of_place_is_refused_and_the_file_untouched(port: Open) -> None:
    a = port()
    room = room_for(8192)
    a.receive_object(KEY, room, 8192, 4096, [])
    raw = raw_peer(a)
    bits = KEY.job_id << 16 | KEY.number
    wrong = ({"offset": 4096}, {"offset": 1}, {"offset": 1 << 63}, {"match_bits": bits + 1})
    for changes in wrong:
        fields = {"pt_index": 1, "lane": 2, "match_bits": bits} | changes
        raw.send(raw.frame(1, b"!" * 4096, **fields))
        assert verdict(raw, a) != 0  # the ack's verdict
    raw.send(raw.frame(1, b"!" * 4097, pt_index=1, match_bits=bits))
    assert verdict(raw, a) != 0
    assert os.pread(room, 8192, 0) == bytes(8192)
    assert raw.events == []


def test_a_second_parent_is_refused(port: Open) -> None:
    a = port()
    a.receive_object(KEY, room_for(8192), 8192, 4096, [])
    bits = KEY.job_id << 16 | KEY.number
    first, second = raw_peer(a), raw_peer(a, key=Key(1, TEST_KEY))
    first.send(first.frame(1, bytes(4096), pt_index=1, match_bits=bits))
    assert verdict(first, a) == 0
    second.send(second.frame(1, bytes(4096), pt_index=1, match_bits=bits, offset=4096))
    assert verdict(second, a) == 4  # permission
    first.send(first.frame(1, bytes(4096), pt_index=1, match_bits=bits, offset=4096))
    (arrived,) = pump([a], lambda seen: seen[a])[a]
    assert isinstance(arrived, ObjectArrived)
