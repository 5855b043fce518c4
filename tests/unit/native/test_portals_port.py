"""What the port over Portals does when peers are slow, hostile, or die."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from native._native import ffi, lib

from native import auth
from native.ids import ObjectKey
from native.port.port import (
    Loss,
    ObjectArrived,
    ObjectFailed,
    ObjectSent,
    PeerLost,
    Port,
    PortEvent,
    Received,
    Refused,
)
from native.port.portals import SLAB_BYTES, SLABS, JobKey, PortalsPort, UserKey
from native.transport import raw
from native.wire import codec
from native.wire.io import Input, InputCredit
from tests.support.ports import FRAME, TEST_KEY, Key, RawPeer, pump, quiet

ROOT = Path(__file__).parents[3]
HELLO = InputCredit(1, 1)
KEY = ObjectKey(5, 1)
FAR = int(time.time()) + 3600
Open = Callable[..., PortalsPort]


@pytest.fixture
def port() -> Iterator[Open]:
    """Opens ports: listening on the loopback with the partition's key, unless told."""
    ports: list[PortalsPort] = []

    def open_port(**options: Any) -> PortalsPort:
        options.setdefault("listen", "127.0.0.1:0")
        options.setdefault("partition_key", TEST_KEY)
        ports.append(PortalsPort(**options))
        return ports[-1]

    yield open_port
    for one in ports:
        one.close(flush_s=0.1)


def raw_peer(target: PortalsPort, **options: Any) -> RawPeer:
    """A raw peer that has proven itself."""
    raw = RawPeer(target, **options)
    assert raw.shake(target) == 0
    return raw


def verdict(raw: RawPeer, port: PortalsPort) -> int:
    """Of the next ack: 0, or why the operation was refused."""
    ack = FRAME.unpack(raw.take(port, 64))
    assert ack[0] == 5
    return int(ack[6])


def counters(port: PortalsPort) -> dict[str, int]:
    return port._interface.counters()


def file_of(data: bytes) -> int:
    fd = os.memfd_create("object")
    os.write(fd, data)
    return fd


def room_for(size: int) -> int:
    fd = os.memfd_create("room")
    os.posix_fallocate(fd, 0, size)
    return fd


# ---- nonsense ----

WRONG_FRAMES: dict[str, dict[str, int]] = {
    "type zero": {"type": 0},
    "reserved type": {"type": 2},
    "unknown type": {"type": 77},
    "version": {"version": 2},
    "unknown flag": {"flags": 0x8003},
    "integrity, not offered": {"flags": 0x13},
    "interface kind": {"kind": 4},
    "lane": {"lane": 3},
    "portal index of a message": {"pt_index": 64, "flags": 7},
    "ack request": {"detail": 4},
    "length above the limit": {"length": 262145, "total": 262145},
    "length above the total": {"length": 4, "total": 3},
    "last before the total": {"total": 100},
    "not last at the total": {"flags": 1},
    "incarnation": {"incarnation": 0},
    "fragment of nothing": {"flags": 2, "fragment": 1},
    "first that is not fragment zero": {"fragment": 1},
    "atomic operation": {"operation": 1},
    "total beyond all limits": {"flags": 1, "total": 1 << 60},
    "ack of nothing": {"type": 5, "flags": 0, "length": 0},
    "ack with payload": {"type": 5, "flags": 0},
    "ack with an unknown verdict": {"type": 5, "flags": 0, "length": 0, "detail": 8},
    "pong without ping": {"type": 8, "flags": 0, "length": 0, "detail": 0},
}


@pytest.mark.parametrize("changes", WRONG_FRAMES.values(), ids=WRONG_FRAMES.keys())
def test_a_wrong_frame_cuts_off_its_sender_and_nobody_else(
    port: Open, changes: dict[str, int]
) -> None:
    a, neighbour = port(), port()
    neighbour.send(a.id, HELLO)
    pump([a, neighbour], lambda seen: seen[a])
    raw = raw_peer(a)
    raw.send(raw.frame(1, b"abc", **changes))
    assert raw.is_cut_off(a)
    assert [(e.peer, e.loss) for e in raw.events] == [(raw.own, Loss.MISBEHAVED)]
    a.send(neighbour.id, HELLO)
    seen = pump([a, neighbour], lambda seen: seen[neighbour])
    assert seen[a] == []


def test_bytes_that_are_no_message_are_an_event_and_the_connection_lives(port: Open) -> None:
    a = port()
    raw = raw_peer(a)
    raw.send(raw.frame(1, b"\xc1") + raw.frame(1, codec.encode(HELLO)))
    refused, received = pump([a], lambda seen: len(seen[a]) == 2)[a]
    assert isinstance(refused, Refused)
    assert refused.source == raw.own
    assert refused.reason
    assert received.message == HELLO


def test_random_frames_harm_nobody(port: Open) -> None:
    a, neighbour = port(), port()
    rng = random.Random(4)
    for _ in range(80):
        raw = raw_peer(a)
        frame = bytearray(raw.frame(1, b"some payload", lane=rng.randrange(3)))
        for _ in range(rng.randrange(1, 4)):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        raw.send(bytes(frame) + rng.randbytes(rng.randrange(300)))
        raw.socket.shutdown(1)
        assert raw.is_cut_off(a)
        assert {event.peer for event in raw.events if isinstance(event, PeerLost)} == {raw.own}
    neighbour.send(a.id, HELLO)
    assert pump([a, neighbour], lambda seen: seen[a])[a][0].message == HELLO


def test_every_truncation_of_a_frame_is_a_death_and_no_message(port: Open) -> None:
    a = port()
    whole = RawPeer(a).frame(1, codec.encode(HELLO))
    for length in range(1, len(whole)):
        raw = raw_peer(a)
        raw.send(raw.frame(1, codec.encode(HELLO))[:length])
        raw.socket.shutdown(1)
        assert raw.is_cut_off(a)
        assert [(e.peer, e.loss) for e in raw.events] == [(raw.own, Loss.DIED)]


def test_a_frame_may_come_byte_by_byte(port: Open) -> None:
    a = port()
    raw = raw_peer(a)
    for byte in raw.frame(1, codec.encode(HELLO)):
        raw.send(bytes([byte]))
        assert raw.events == []
        raw.events += a.events()
    raw.events += pump([a], lambda seen: raw.events or seen[a])[a]
    assert [event.message for event in raw.events] == [HELLO]


def test_more_open_operations_than_allowed_cut_off_their_sender(port: Open) -> None:
    a = port()
    raw = raw_peer(a)
    for index in range(9):
        raw.send(raw.frame(1, b"x", flags=1, total=2, op_index=index, pt_index=9))
    assert raw.is_cut_off(a)
    assert raw.events[-1].loss is Loss.MISBEHAVED


def test_a_peer_that_never_reads_its_acks_is_cut_off(port: Open) -> None:
    """Else what we owe it would grow without bound."""
    a = port()
    raw = raw_peer(a)
    ping = FRAME.pack(7, 1, 0, 0, 0, 0, 0, 0, raw.incarnation & 0xFFFFFFFF, *[0] * 9)
    raw.socket.setblocking(False)

    def push(_: object) -> bool:
        try:
            for _ in range(50):
                raw.socket.send(ping * 1000)
        except BlockingIOError:
            pass
        except OSError:
            return True
        return counters(a)["connections"] == 0

    pump([a], push)
    assert counters(a)["connections"] == 0


def test_a_port_that_leaves_asks_for_the_acks_that_its_peer_keeps(port: Open) -> None:
    """Else the end of every yod would last as long as its peers may keep them."""
    a = port()
    raw = raw_peer(a)
    a.send(raw.own, HELLO)
    a.disconnect(raw.own)
    put = FRAME.unpack(raw.take(a, 64))
    raw.take(a, put[7])
    assert (put[0], FRAME.unpack(raw.take(a, 64))[0]) == (1, 7)
    raw.send(raw.frame(5, op_index=put[9], op_generation=put[10], total=put[7]) + raw.frame(8))
    assert FRAME.unpack(raw.take(a, 64))[0] == 9
    assert raw.is_cut_off(a)


def test_ping_is_answered(port: Open) -> None:
    a = port()
    raw = raw_peer(a)
    raw.send(raw.frame(7))
    pong = FRAME.unpack(raw.take(a, 64))
    assert pong[0] == 8
    assert pong[8] == raw.listener_incarnation & 0xFFFFFFFF


def test_an_idle_connection_is_pinged_and_silence_alone_is_no_death(port: Open) -> None:
    a = port(liveness_s=0.1)
    raw = raw_peer(a)
    ping = FRAME.unpack(raw.take(a, 64))
    assert ping[0] == 7
    began = time.monotonic()
    pump([a], lambda _: a.events() or time.monotonic() > began + 0.3)
    assert counters(a)["connections"] == 1
    raw.send(raw.frame(8))
    assert FRAME.unpack(raw.take(a, 64))[0] == 7  # the next one


# ---- slow receivers ----


def test_a_slow_receiver_loses_nothing_and_is_never_given_more_than_its_slabs(port: Open) -> None:
    a, b = port(), port()
    size, count = 60_000, 200  # four times what the slabs hold
    sent = [Input(number + 1, bytes([number & 255]) * size) for number in range(count)]
    for message in sent:
        a.send(b.id, message)
    pump([a, Unread(b)], lambda _: counters(a)["resent"] > 3)
    assert counters(b)["bytes_in"] < SLABS * SLAB_BYTES + 64 * size + counters(a)["resent"] * size
    seen = pump([a, b], lambda seen: len(seen[b]) == count)
    assert [event.message for event in seen[b]] == sent
    assert counters(a)["resent"] > 0


class Unread:
    """A port whose C takes what comes while nobody reads its messages."""

    def __init__(self, port: PortalsPort) -> None:
        self.fileno = port.fileno
        self._interface = port._interface

    def events(self) -> list[PortEvent]:
        counter = raw.made("PtlCTAlloc", self._interface.handle)
        value = ffi.new("ptl_ct_event_t *")
        raw.check(lib.PtlCTGet(counter, value), "PtlCTGet")  # any look at it drives progress
        raw.check(lib.PtlCTFree(counter), "PtlCTFree")
        return []


def test_several_senders_to_a_slow_receiver_keep_their_orders(port: Open) -> None:
    senders, b = [port() for _ in range(4)], port()
    for number in range(60):
        for sender in senders:
            sender.send(b.id, Input(number + 1, bytes(30_000)))
    seen = pump([*senders, b], lambda seen: len(seen[b]) == 240)
    for sender in senders:
        mine = [event.message.job_id for event in seen[b] if event.source == sender.id]
        assert mine == list(range(1, 61))


# ---- bulk ----


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


# ---- other processes ----

CHILD = """
import select, sys
from native.ids import PortalId
from native.port.portals import PortalsPort
from native.wire.io import InputCredit
port = PortalsPort(listen=sys.argv[2] or None, partition_key=bytes(range(32)))
print(port.id.pid, flush=True)
port.send(PortalId(0x7F000001, int(sys.argv[1])), InputCredit(1, 1))
while True:
    select.select([port], [], [])
    port.events()
"""


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process with a port that sends one message to the given one."""
    children: list[subprocess.Popen[str]] = []

    def start(to: Port, listen: str = "127.0.0.1:0") -> subprocess.Popen[str]:
        children.append(
            subprocess.Popen(
                [sys.executable, "-c", CHILD, str(to.id.pid), listen],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return children[-1]

    yield start
    for one in children:
        one.kill()
        one.communicate()


def test_a_peer_that_is_killed_is_lost_once(
    port: Open, child: Callable[[Port], subprocess.Popen[str]]
) -> None:
    a = port()
    process = child(a)
    (received,) = pump([a], lambda seen: seen[a])[a]
    process.kill()
    (lost,) = pump([a], lambda seen: seen[a])[a]
    assert isinstance(lost, PeerLost)
    assert (lost.peer, lost.loss) == (received.source, Loss.DIED)
    assert quiet([a]) == []


def test_a_stopped_daemon_is_lost_in_time(
    port: Open, child: Callable[..., subprocess.Popen[str]]
) -> None:
    """Its kernel takes every byte and answers every probe."""
    a = port(liveness_s=2)
    process = child(a)
    (received,) = pump([a], lambda seen: seen[a])[a]
    process.send_signal(signal.SIGSTOP)
    a.send(received.source, HELLO)
    (lost,) = pump([a], lambda seen: seen[a])[a]
    assert isinstance(lost, PeerLost)
    assert (lost.peer, lost.loss) == (received.source, Loss.DIED)
    assert "stopped" in lost.text


def test_a_stopped_peer_that_does_not_listen_is_alive(
    port: Open, child: Callable[..., subprocess.Popen[str]]
) -> None:
    """Also when its socket is full and its window shut for longer than a host may be silent."""
    a = port(liveness_s=0.6)
    process = child(a, "")
    (received,) = pump([a], lambda seen: seen[a])[a]
    process.send_signal(signal.SIGSTOP)
    for number in range(300):  # more than its socket takes
        a.send(received.source, Input(number + 1, bytes(60_000)))
    until = time.monotonic() + 2
    pump([a], lambda seen: seen[a] or time.monotonic() > until)
    assert counters(a)["connections"] == 1
    process.send_signal(signal.SIGCONT)
    pump([a], lambda seen: seen[a] or counters(a)["bytes_out"] > 300 * 60_000)
    assert counters(a)["connections"] == 1


def test_a_forked_child_can_close_the_port_without_harm(port: Open) -> None:
    a, b = port(), port()
    a.send(b.id, HELLO)
    pump([a, b], lambda seen: seen[b])
    pid = os.fork()
    if pid == 0:
        a.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    a.send(b.id, HELLO)
    assert pump([a, b], lambda seen: seen[b])[b][0].message == HELLO


def test_a_port_remembers_no_peer_that_is_gone(port: Open) -> None:
    a = port()
    for number in range(20):
        b = port()
        b.send(a.id, HELLO)
        pump([a, b], lambda seen: seen[a])
        if number % 2:
            b.close(flush_s=0)
            pump([a], lambda seen: seen[a])
        else:
            a.disconnect(b.id)
            pump([a, b], lambda seen, b=b: seen[b])
    quiet([a])
    assert a._peers == {}
    assert {counters(a)[name] for name in ("peers", "unproven")} == {0}


def test_ports_leave_no_descriptor_behind() -> None:
    before = os.listdir("/proc/self/fd")
    a = PortalsPort(listen="127.0.0.1:0", partition_key=TEST_KEY)
    b = PortalsPort(listen="127.0.0.1:0", partition_key=TEST_KEY)
    a.send(b.id, HELLO)
    pump([a, b], lambda seen: seen[b])
    fd, room = file_of(bytes(9)), room_for(9)
    b.receive_object(KEY, room, 9, 4, [a.id])
    a.send_object(KEY, fd, 9, 4, [b.id])
    pump([a, b], lambda seen: seen[a])
    os.close(fd)
    os.close(room)
    a.close(flush_s=0)
    b.close(flush_s=0)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_importing_the_port_stays_light() -> None:
    program = (
        "import sys, msgspec, native.wire.codec; before = set(sys.modules);"
        "import native.port.portals; print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    heavy = {"socket", "asyncio", "select", "hashlib", "hmac", "subprocess", "cffi", "numpy"}
    assert not heavy & set(run.stdout.split())
