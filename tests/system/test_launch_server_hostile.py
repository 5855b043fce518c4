"""Clients that break the protocol, or mean no good: they harm themselves only."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from native.wire import client as wire
from native.wire import client_codec as codec
from tests.support.nobody import NOBODY
from tests.support.own_server import OwnServer, Raw, memfd, own_server, request_of
from tests.support.partition import finish
from tests.support.place import Place
from tests.support.processes import stopped
from tests.support.wait import LIMIT_S, read_until, wait_until

__all__ = ["own_server"]

CONNECT_S = 120  # a connection without a request lapses
SHORT_S = 2  # the same where the test waits for it
CLIENTS = 40


@pytest.fixture
def server(request: pytest.FixtureRequest, place: Place) -> Iterator[OwnServer]:
    """One that has a launch under way, which must end well."""
    connect_s = getattr(request, "param", CONNECT_S)
    limits = {"YOD_CONNECT_S": str(connect_s), "YOD_LAUNCHES_COUNT": str(CLIENTS)}
    with OwnServer(place, env=limits) as server:
        yod = server.start_warm("--mpi=none", "sh", "-c", "echo up; read line; echo $line")
        read_until(yod.stdout.fileno(), b"up\n")
        server.works()  # which opens what stays open from the first launch on
        wait_until(lambda: server.states() == ["running"], what="the end of that launch")
        before = server.descriptors()
        yield server
        wait_until(lambda: server.states() == ["running"], what="the end of the hostile")
        wait_until(lambda: server.descriptors() <= before + 1, what="as few descriptors as before")
        done = finish(yod, b"still\n")
        assert (done.status, done.out, done.err) == (0, "still\n", ""), done
        server.works()


def greeted(server: OwnServer) -> Raw:
    raw = server.connect()
    raw.expect(wire.Hello)
    return raw


def running(server: OwnServer, *words: str) -> Raw:
    """A client whose launch has begun."""
    raw = server.connect()
    raw.ask("--mpi=none", "-sz", "1", *words)
    wait_until(lambda: server.states() == ["running"] * 2, what="a launch that has begun")
    return raw


GARBAGE = [
    b"",
    b"\0",
    b"\xff" * 8,
    struct.pack("<II", wire.ClientKind.REQUEST, 2) + bytes(28),
    struct.pack("<II", wire.ClientKind.REQUEST, 1) + b"\xff" * 28,
    struct.pack("<III", wire.ClientKind.WRITTEN, 3, 1),
    struct.pack("<III", wire.ClientKind.WRITTEN, 1, 1 << 31),
    struct.pack("<II", wire.ClientKind.SIGNAL, signal.SIGKILL),
    struct.pack("<III", wire.ClientKind.STARTED, 7, 1),
    struct.pack("<III", wire.ClientKind.ENDED, 7, 1),
    struct.pack("<II", wire.ClientKind.ORPHANS_KILLED, 7),
    struct.pack("<II", wire.ClientKind.LEFT, 3),
    struct.pack("<III", wire.ClientKind.GIVEN, 1, wire.Gift.NOTHING),
    struct.pack("<III", wire.ClientKind.GIVEN, 1, wire.Gift.PIPE),
    struct.pack("<III", wire.ClientKind.GIVEN, 2, wire.Gift.NULL),
    b"\x0a" + bytes(65_543),
    bytes(100_000),
]


@pytest.mark.parametrize("is_running", [False, True], ids=["greeted", "running"])
def test_packets_that_no_client_sends_are_hung_up_on(server: OwnServer, is_running: bool):
    for packet in GARBAGE:
        with running(server, "sleep", "1000") if is_running else greeted(server) as raw:
            raw.send(packet)
            if packet:
                raw.wait_end()


def test_descriptors_that_belong_to_no_packet_are_hung_up_on_and_closed(server: OwnServer):
    request, strings = request_of("-sz", "1", "true")
    with memfd(strings) as fd:
        for packet, fds in (
            (request, [fd]),
            (request, [fd] * 3),
            (request, [fd] * 200),
            (wire.Given(1, wire.Gift.PIPE), [fd]),
            (wire.Given(1, wire.Gift.NULL), [fd]),
            (wire.Ping(), [fd]),
            (wire.Ping(), [fd] * 253),
        ):
            with greeted(server) as raw:
                raw.send(packet, *fds)
                raw.wait_end()


def test_a_second_request_is_hung_up_on(server: OwnServer):
    request, strings = request_of("-sz", "1", "true")
    with memfd(strings) as fd, running(server, "sleep", "1000") as raw:
        raw.send(request, fd, fd)
        raw.wait_end()
    with memfd(strings) as fd, stopped(*server.helpers), greeted(server) as raw:
        here = os.open("/", os.O_PATH)
        for _ in range(2):
            raw.send(request, fd, here)
        os.close(here)
        raw.wait_end()


def answers(server: OwnServer, request: wire.Request, fd: int, directory: int) -> wire.FromServer:
    """What the server answers a request with these descriptors."""
    with greeted(server) as raw:
        raw.send(request, fd, directory)
        received = raw.receive()
        assert received is not None
        raw.socket.shutdown(socket.SHUT_RDWR)
        return received[0]


def test_descriptors_that_are_something_else_end_that_launch_only(
    server: OwnServer, tmp_path: Path
):
    request, strings = request_of("-sz", "1", "true")
    reading, writing = os.pipe()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "short").write_bytes(strings[:-9])
    (tmp_path / "long").write_bytes(b"")
    os.truncate(tmp_path / "long", 1 << 40)
    opened = [
        os.open(path, flags)
        for path, flags in (
            ("/", os.O_PATH),
            ("/dev/zero", os.O_RDONLY),
            (tmp_path / "fifo", os.O_RDWR),
            (tmp_path / "short", os.O_RDONLY),
            (tmp_path / "long", os.O_RDONLY),
            ("/etc/passwd", os.O_PATH),
            ("/proc/self/mem", os.O_RDONLY),
        )
    ]
    root = opened[0]
    with memfd(strings) as good, memfd(b"") as empty:
        for fd in (reading, writing, empty, *opened):
            said = answers(server, request, fd, root)
            assert isinstance(said, wire.Cold | wire.Output), (fd, said)
        for fd in (good, reading, *opened[1:]):
            said = answers(server, request, good, fd)
            assert isinstance(said, wire.Cold), (fd, said)
    for fd in (reading, writing, *opened):
        os.close(fd)


def test_a_memory_file_that_changes_while_it_is_read_ends_that_launch_only(server: OwnServer):
    request, strings = request_of("-sz", "1", "true")
    root = os.open("/", os.O_PATH)
    for change in (b"", strings[:100], strings * 2, os.urandom(len(strings))):
        with memfd(strings) as fd, stopped(*server.helpers):
            raw = greeted(server)
            raw.send(request, fd, root)
            wait_until(lambda: "preparing" in server.states(), what="a client that has asked")
            os.ftruncate(fd, 0)
            os.pwrite(fd, change, 0)
        with raw:
            assert isinstance(raw.receive()[0], wire.Cold | wire.Output)
    os.close(root)


def test_one_that_asks_without_reading_is_hung_up_on(server: OwnServer):
    with running(server, "sleep", "1000") as raw:
        ping = codec.encode(wire.Ping())
        with pytest.raises(OSError):
            for _ in range(1_000_000):
                raw.send(ping)


def test_one_that_sends_signals_and_credit_for_ever_holds_up_nobody(server: OwnServer):
    flood = [
        codec.encode(message)
        for message in (
            wire.Signal(signal.SIGUSR1),
            wire.Signal(signal.SIGCONT),
            wire.Written(1, 1),
            wire.OutputFailed(2, 5),
            wire.Input(b"x"),
            wire.Input(b""),
            wire.Appended(3, 0),
        )
    ]
    with running(server, "sleep", "1000") as raw:
        raw.socket.setblocking(False)
        sent = 0
        while sent < 50_000:
            try:
                raw.send(flood[sent % len(flood)])
                sent += 1
            except BlockingIOError:
                server.works() if sent % 9 == 0 else None
            except OSError:
                break


@pytest.mark.parametrize(
    "answer",
    [
        wire.Started(1, 1),
        wire.Started(1, 0, 11),
        wire.Started(2, 4000),
        wire.Ended(1, 0),
        wire.OrphansKilled(1),
    ],
    ids=repr,
)
def test_answers_for_a_keeper_that_lie_end_that_launch_only(server: OwnServer, answer):
    # The server may hang up on it at any time.
    with running(server, "true") as raw, suppress(BrokenPipeError):
        raw.expect(wire.Start)
        raw.send(answer)
        raw.send(wire.Ended(1, 0))
        while (received := raw.receive()) is not None:
            match received[0]:
                case wire.Output(stream, data):
                    raw.send(wire.Written(stream, len(data)))
                case wire.KillOrphans(token):
                    raw.send(wire.OrphansKilled(token))
                case wire.Exit():
                    break


def test_one_that_starts_no_keeper_loses_its_launch_when_it_leaves(server: OwnServer):
    for _ in range(20):
        with running(server, "true") as raw:
            raw.expect(wire.Start)


@pytest.mark.parametrize("server", [SHORT_S], indirect=True, ids=[""])
def test_connections_without_a_request_lapse_and_further_clients_run_cold_meanwhile(
    server: OwnServer,
):
    idle = [server.connect() for _ in range(300)]
    done = server.yod("-sz", "1", "echo", "cold or warm")
    assert (done.status, done.out, done.err) == (0, "cold or warm\n", "")
    for raw in idle:
        raw.wait_end()
        raw.close()
    why = f"clients run cold: {CLIENTS} launches run (YOD_LAUNCHES_COUNT)"
    assert server.daemon.text().count(why) == 1


@pytest.mark.parametrize("is_open", [False, True])
def test_another_user_is_refused_by_the_directory_and_hung_up_on_behind_it(
    server: OwnServer, needs_root: None, is_open: bool
):
    directory = server.directory
    if is_open:
        directory.chmod(0o777)
        next(directory.glob("launch.*[!k]")).chmod(0o777)
    path = next(str(path) for path in directory.iterdir() if path.is_socket())
    pid = os.fork()
    if pid == 0:
        status = 3
        try:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            end.settimeout(LIMIT_S)
            end.connect(path)
            status = 1 if end.recv(1000) else 0
        except PermissionError:
            status = 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == (0 if is_open else 2)
