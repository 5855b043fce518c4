"""Wrong frames cut off their sender and harm nobody else."""

from __future__ import annotations

import random

import pytest

from native.port.port import Loss, PeerLost, Refused
from native.wire import codec
from tests.support.ports import FRAME, RawPeer, pump
from tests.unit.native.port_of import HELLO, Open, counters, raw_peer

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
