"""What the port over Portals does when peers are idle, slow, stopped or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from native._native import ffi, lib

from native.port.port import Loss, PeerLost, Port, PortEvent
from native.port.portals import SLAB_BYTES, SLABS, PortalsPort
from native.transport import raw
from native.wire.io import Input
from tests.support.ports import FRAME, TEST_KEY, pump, quiet
from tests.unit.native.port_of import HELLO, KEY, Open, counters, file_of, raw_peer, room_for

ROOT = Path(__file__).parents[3]


# ---- pings and last acks ----


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
