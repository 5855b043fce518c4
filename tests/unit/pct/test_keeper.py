"""The PCT's side of a keeper: its encoding, and what becomes of what a keeper says."""

from __future__ import annotations

import _socket
import errno
import os
import random
import struct
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from native.errors import PeerProtocolError
from native.wire import keeper as wire
from pct.host import keeper as keeper_module
from pct.host.keeper import Keeper
from pct.host.spawn.orphans import children_of
from pct.host.spawn.spawner import Departed

SPEC = wire.KeeperSpec(
    job_id=1 << 40,
    uid=1000,
    gid=100,
    groups=(100, 44),
    umask=0o27,
    limits=((7, 1024), (3, wire.UNLIMITED, wire.UNLIMITED), (4, wire.KEEP, 0)),
    environment=(b"A=1", b"B=\xff"),
    programs=(wire.ProgramSpec(b"/store/1", (b"a.out", b"-x", b""), b"/home", wire.Hold.TRACE),),
    ranks=(
        wire.RankSpec(8, 0, (b"YOD_RANK=8",), True, False),
        wire.RankSpec(9, 0, (), False, True),
    ),
    ignored=(1, 64),
    group=b"/sys/fs/cgroup/job-7",
    remote=(b"/data",),
)


class Reader:
    """Reads a specification as the text of KEEPER.md has it."""

    def __init__(self, encoded: bytes) -> None:
        self.left = encoded

    def take(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + layout)
        taken, self.left = self.left[:size], self.left[size:]
        return struct.unpack("<" + layout, taken)

    def strings(self) -> list[bytes]:
        count, size = self.take("II")
        blob, self.left = self.left[:size], self.left[size:]
        strings = blob.split(b"\0")
        assert strings.pop() == b""
        assert len(strings) == count
        return strings


def test_a_specification_is_laid_out_as_the_protocol_says() -> None:
    reader = Reader(wire.encode_spec(SPEC, 4711, b"/lib/yodhold.so"))
    assert reader.take("4sI") == (b"YOK1", 4711)
    assert reader.take("QIII") == (1 << 40, 1000, 100, 0o27)
    assert reader.take("IIIIII") == (2, 3, 1, 2, 0, 0)
    assert reader.take("Q") == (1 | 1 << 63,)
    assert reader.take("II") == (100, 44)
    keep, unlimited = (1 << 64) - 2, (1 << 64) - 1
    assert reader.take("IQQ") == (7, 1024, keep)
    assert reader.take("IQQ") == (3, unlimited, unlimited)
    assert reader.take("IQQ") == (4, keep, 0)
    assert reader.strings() == [b"/lib/yodhold.so"]
    assert reader.strings() == [b"/sys/fs/cgroup/job-7"]
    assert reader.strings() == [b""]  # denied devices
    assert reader.strings() == [b"/data"]  # directories of remote files
    assert reader.strings() == [b"A=1", b"B=\xff"]
    assert reader.take("I") == (1,)
    assert [reader.strings() for _ in range(3)] == [
        [b"/store/1"],
        [b"/home"],
        [b"a.out", b"-x", b""],
    ]
    assert reader.take("III") == (8, 0, 1)
    assert reader.strings() == [b"YOD_RANK=8"]
    assert reader.take("III") == (9, 0, 2)
    assert reader.strings() == []
    assert reader.left == b""


def test_the_processors_of_a_rank_that_is_bound_follow_its_environment() -> None:
    bound = wire.RankSpec(9, 0, (b"A=1",), False, False, cpus=(0, 65, 3))
    whole = wire.encode_spec(changed(ranks=(bound,)), 1, b"")
    reader = Reader(whole[-40:])
    assert reader.take("II") == (0, 8)
    assert reader.strings() == [b"A=1"]
    assert reader.take("I") == (2,)
    assert reader.take("QQ") == (0b1001, 0b10)
    assert reader.left == b""


def changed(**fields: object) -> wire.KeeperSpec:
    return wire.KeeperSpec(
        **{name: getattr(SPEC, name) for name in SPEC.__struct_fields__} | fields
    )


@pytest.mark.parametrize(
    "spec",
    [
        changed(ranks=()),
        changed(ranks=SPEC.ranks * 32769),
        changed(ranks=(wire.RankSpec(0, 1, (), False, False),)),
        changed(ranks=(wire.RankSpec(0, 0, (), False, False, cpus=(65536,)),)),
        changed(environment=(b"A=1\0B=2",)),
        changed(programs=(wire.ProgramSpec(b"", (b"a",), b"/"),)),
        changed(programs=(wire.ProgramSpec(b"/a", (), b"/"),)),
        changed(programs=(wire.ProgramSpec(b"/a\0", (b"a",), b"/"),)),
    ],
)
def test_what_no_keeper_takes_is_refused_before_it_is_spawned(spec: wire.KeeperSpec) -> None:
    with pytest.raises(ValueError):
        wire.encode_spec(spec, 1, b"")


def report(
    kind: int,
    rank: int = 0,
    value: int = 0,
    *,
    flags: int = 0,
    step: int = 0,
    used: tuple[int, int, int, int] = (0, 0, 0, 0),
    text: bytes = b"",
    fds: int = 0,
) -> bytes:
    packed = struct.pack(
        "<HHIiI4QII200s", kind, flags, rank, value, step, *used, len(text), fds, text
    )
    assert len(packed) == 256
    return packed


def test_every_report_is_decoded() -> None:
    packet = (
        report(1, 8, 4711, fds=6)
        + report(2, 8, 3)
        + report(3, 9, errno.ENOENT, step=6, text=b"/no/\xffsh")
        + report(4, 8, 9 << 8, flags=1, used=(1_500_000, 250_000, 2048, 3_000_000_000))
        + report(4, 9, 0, flags=1, text=b"/mpi/libmpi.so.12")
        + report(4, 8, 9, flags=3)
        + report(9, 8, 11, step=4712)
        + report(5)
        + report(6, text=b"why")
    )
    assert wire.decode_reports(packet) == [
        wire.StreamsTaken(8, False, True, True, False),
        wire.RankStarted(8, 4711),
        wire.RankHeld(8, wire.HowHeld.BEFORE_EXEC),
        wire.ExecFailed(9, errno.ENOENT, wire.ExecStep.INTERPRETER, "/no/\udcffsh"),
        wire.RankEnded(8, 9 << 8, True, 1.5, 0.25, 2048 * 1024, 3.0),
        wire.RankEnded(9, 0, True, 0.0, 0.0, 0, 0.0, "/mpi/libmpi.so.12"),
        wire.RankEnded(8, 9, True, 0.0, 0.0, 0, 0.0, was_signalled=True),
        wire.RankDying(8, 11, 4712),
        wire.KeeperEmpty(),
        wire.KeeperFailed("why"),
    ]


@pytest.mark.parametrize("size", [0, 1, 255, 257, 511])
def test_a_packet_of_parts_of_reports_is_refused(size: int) -> None:
    with pytest.raises(PeerProtocolError):
        wire.decode_reports((report(5) * 2)[:size])


def test_random_bytes_are_decoded_or_refused() -> None:
    chance = random.Random(7)
    for _ in range(300):
        packet = bytearray(chance.randbytes(256 * chance.randint(1, 3)))
        packet[0], packet[1] = chance.randint(0, 9), 0
        try:
            wire.decode_reports(bytes(packet))
        except PeerProtocolError:
            pass


def test_every_failure_is_explained_with_the_path_that_is_at_fault() -> None:
    for step in wire.ExecStep:
        for number in (errno.ENOENT, errno.EACCES, 9999):
            text = wire.ExecFailed(3, number, step, "/a/path").explain()
            assert "\n" not in text
            named = step not in (1, 2, 3, 11, 12)
            assert ("/a/path" in text) == named
            assert text.startswith(("cannot ", "/a/path "))


def test_commands_are_of_one_size() -> None:
    assert wire.encode_go() == struct.pack("<IIiI", 1, 0, 0, 0)
    assert wire.encode_signal(15) == struct.pack("<IIiI", 2, 0xFFFFFFFF, 15, 0)
    assert wire.encode_signal(15, 7) == struct.pack("<IIiI", 2, 7, 15, 0)
    assert wire.encode_end() == struct.pack("<IIiI", 3, 0, 0, 0)


# --- the class, with this test as its keeper ---------------------------------


class FakeWatch:
    def __init__(self, on_readable: Callable[[], None]) -> None:
        self.on_readable: Callable[[], None] | None = on_readable
        self.on_writable: Callable[[], None] | None = None
        self.closed = False

    def set(
        self, on_readable: Callable[[], None] | None, on_writable: Callable[[], None] | None
    ) -> None:
        self.on_readable, self.on_writable = on_readable, on_writable

    def close(self) -> None:
        self.closed = True


class FakeReactor:
    """Calls back when the test says so."""

    def __init__(self) -> None:
        self.watches: list[FakeWatch] = []

    def watch(self, fd: int, on_readable: Callable[[], None]) -> FakeWatch:
        self.watches.append(FakeWatch(on_readable))
        return self.watches[-1]


class Peer:
    """A keeper's end of the socket, and the PCT's object at the other."""

    def __init__(self) -> None:
        ours, self.socket = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self.reactor = FakeReactor()
        self.events: list[wire.Report] = []
        self.streams: list[tuple[int, int | None, int, int, int | None]] = []
        self.keeper = Keeper(
            ours,
            Departed(),
            self.reactor,  # type: ignore[arg-type]
            self.events.append,
            lambda *streams: self.streams.append(streams),
            range(2 * keeper_module._PACKETS_PER_TURN),
        )
        self.keeper.started(77)
        self.watch = self.reactor.watches[0]

    def say(self, packet: bytes, fds: tuple[int, ...] = ()) -> None:
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", fds))] if fds else []
        self.socket.sendmsg([packet], rights)
        if self.watch.on_readable:
            self.watch.on_readable()

    def exit(self, wait_status: int) -> None:
        self.socket.close()
        self.keeper.ended(wait_status)


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.keeper.close()
    peer.socket.close()
    for _, stdin, stdout, stderr, pmi in peer.streams:
        for fd in (stdin, stdout, stderr, pmi):
            if fd is not None:
                os.close(fd)


@pytest.fixture
def ends() -> Iterator[tuple[int, int, int]]:
    """Both ends of a pipe, and a socket."""
    reading, writing = os.pipe()
    sockets = _socket.socketpair()
    yield reading, writing, sockets[0].fileno()
    os.close(reading)
    os.close(writing)
    for each in sockets:
        each.close()


def test_streams_come_before_the_start_that_they_belong_to(
    peer: Peer, ends: tuple[int, int, int]
) -> None:
    reading, writing, connection = ends
    packet = report(1, 4, 100, fds=6) + report(1, 5, 101, fds=15)
    peer.say(packet, (reading, reading, writing, reading, reading, connection))
    assert peer.events == [wire.RankStarted(4, 100), wire.RankStarted(5, 101)]
    (first, second) = peer.streams
    assert first[0] == 4 and first[1] is None and first[4] is None
    assert second[0] == 5 and None not in second
    assert len({*first[2:4], *second[1:]}) == 6
    for fd in (*first[2:4], *second[1:]):
        assert fd is not None and not os.get_inheritable(fd)
    for fd in (*first[2:4], *second[1:4]):  # nobody else can make them block
        assert fd is not None and not os.get_blocking(fd)
    assert os.get_blocking(reading) and os.get_blocking(writing)


@pytest.mark.parametrize("wrong", range(4), ids=["stdin", "stdout", "stderr", "PMI"])
@pytest.mark.parametrize("path", ["/dev/zero", "/", "other"])
def test_files_of_another_kind_end_the_conversation(
    peer: Peer, ends: tuple[int, int, int], wrong: int, path: str
) -> None:
    reading, writing, connection = ends
    fds = [writing, reading, reading, connection]
    other = reading if wrong == 3 else connection
    fds[wrong] = os.dup(other) if path == "other" else os.open(path, os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    peer.say(report(1, 4, 100, fds=15), tuple(fds))
    os.close(fds[wrong])
    assert peer.watch.closed and peer.streams == []
    peer.exit(0)
    (lost,) = peer.events
    assert isinstance(lost, wire.KeeperLost)
    assert lost.reason.startswith("keeper: a ") and " that is no " in lost.reason
    assert len(os.listdir("/proc/self/fd")) == before - 3  # that one, and both ends of the control


@pytest.mark.parametrize("fds", [0, 2, 4, 7])
def test_missing_descriptors_end_the_conversation(peer: Peer, fds: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    peer.say(report(1, 4, 100, fds=fds), (0,))
    assert peer.watch.closed
    peer.exit(0)
    (lost,) = peer.events
    assert isinstance(lost, wire.KeeperLost)
    assert "keeper: " in lost.reason
    assert len(os.listdir("/proc/self/fd")) <= before


def test_descriptors_that_nobody_announced_are_closed(peer: Peer) -> None:
    before = len(os.listdir("/proc/self/fd"))
    peer.say(report(4, 4, 1), (0, 1, 2))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_keeper_that_ends_without_empty_is_lost_once(peer: Peer) -> None:
    peer.exit(9)
    assert peer.events == [wire.KeeperLost("the keeper failed: killed by SIGKILL")]
    peer.keeper.ended(9)
    assert len(peer.events) == 1


def test_what_a_keeper_said_last_is_heard_after_its_exit(peer: Peer) -> None:
    peer.socket.send(report(4, 1, 0) + report(5))
    peer.exit(0)
    assert peer.events[-1] == wire.KeeperEmpty()
    assert len(peer.events) == 2


@pytest.mark.parametrize("has_exited", [False, True])
def test_a_talkative_keeper_is_heard_some_packets_a_turn_and_all_at_its_exit(
    peer: Peer, has_exited: bool
) -> None:
    count = keeper_module._PACKETS_PER_TURN
    for rank in range(2 * count):
        peer.socket.send(report(4, rank, 0))
    if has_exited:
        peer.socket.send(report(5))
        peer.exit(0)
        assert len(peer.events) == 2 * count + 1
    else:
        peer.watch.on_readable()
        assert len(peer.events) == count
        peer.watch.on_readable()
        assert len(peer.events) == 2 * count


def test_reports_of_a_keeper_that_left_a_command_unread_are_heard(peer: Peer) -> None:
    peer.keeper.end()
    peer.socket.send(report(5))
    peer.exit(0)
    assert peer.events == [wire.KeeperEmpty()]


def test_a_keepers_own_reason_is_the_reason_of_its_loss(peer: Peer) -> None:
    peer.say(report(6, text=b"specification: cut short"))
    assert peer.events == []
    peer.exit(64 << 8)
    assert peer.events == [wire.KeeperLost("specification: cut short")]


def test_a_closed_keeper_tells_nothing_more(peer: Peer) -> None:
    peer.keeper.close()
    peer.keeper.close()
    peer.keeper.go()
    assert peer.socket.recv(100) == b""
    peer.exit(0)
    assert peer.events == []


def test_closing_on_what_was_heard_drops_the_rest(peer: Peer) -> None:
    before = len(os.listdir("/proc/self/fd"))
    peer.keeper._on_event = lambda event: (peer.events.append(event), peer.keeper.close())[0]
    peer.say(report(4, 4, 1) + report(1, 5, 100, fds=6) + report(5), (0, 1))
    assert [type(event) for event in peer.events] == [wire.RankEnded]
    assert peer.streams == []
    assert len(os.listdir("/proc/self/fd")) == before - 1  # its own end


def test_commands_wait_for_room_and_keep_their_order(peer: Peer) -> None:
    sent = 0
    while peer.watch.on_writable is None:
        peer.keeper.signal(1 + sent % 60, rank=sent)
        sent += 1
    peer.keeper.signal(1 + (sent - 1) % 60, rank=sent - 1)  # the one that waits already
    peer.keeper.end()
    received = []
    peer.socket.setblocking(False)
    while True:
        try:
            received.append(peer.socket.recv(100))
        except BlockingIOError:
            if peer.watch.on_writable is None:
                break
            peer.watch.on_writable()
    wanted = [wire.encode_signal(1 + n % 60, n) for n in range(sent)]
    assert received == [*wanted, wire.encode_end()]


def test_a_command_to_a_keeper_that_is_gone_is_no_fault(peer: Peer) -> None:
    peer.socket.close()
    peer.keeper.go()
    peer.keeper.end()
    peer.keeper.ended(0)
    assert [type(event) for event in peer.events] == [wire.KeeperLost]


def test_children_of_a_process_that_is_not_there_are_none() -> None:
    assert children_of(2**22 + 1) == []
