"""The client and a launch server: whom it asks, what it asks, and when it runs the launch cold."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from native.wire import client as wire
from native.wire.client import Stdio
from native.wire.client_codec import encode
from tests.support.launch_server import (
    Installed,
    Server,
    client,
    ended,
    lost_line,
    own_hello,
    server,
)
from tests.support.nobody import NOBODY

__all__ = ["client", "server"]

COLD = (7, "cold -sz 2 true\n", "")
WORDS = ("-sz", "2", "true")
may_be_cold = pytest.mark.usefixtures("cold_is_allowed")
LOOK = """
import os
print(open("/proc/self/status").read())
print(sorted(os.listdir("/proc/self/fd")))
"""


@pytest.fixture(autouse=True)
def is_waited_for(monkeypatch: pytest.MonkeyPatch, place: None) -> None:
    """A server that is slow to say HELLO is waited for."""
    monkeypatch.setenv("YOD_COLD", "never")


@pytest.fixture
def cold_is_allowed(monkeypatch: pytest.MonkeyPatch, is_waited_for: None) -> None:
    """A client that is told nothing in time runs its launch cold."""
    monkeypatch.delenv("YOD_COLD")


def asks(server: Server, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """A client that was in time greeted and has asked, and reads that it is to run cold."""
    while True:
        process = start()
        try:
            server.begin().send(wire.Cold("this takes a planner too long"))
        except BrokenPipeError:  # it has not waited any longer
            process.communicate()
            continue
        return process


@may_be_cold
def test_without_a_server_the_client_becomes_the_front_end_in_python(client: Installed) -> None:
    assert client.run(*WORDS) == COLD


def test_a_server_runs_the_launch_and_says_how_it_ended(client: Installed, server: Server) -> None:
    process = client.start(*WORDS)
    conversation = server.begin()
    conversation.send(wire.Output(1, b"hello\n"))
    conversation.send(wire.Output(2, b"careful\n"))
    conversation.send(wire.Exit(3))
    assert process.communicate() == (b"hello\n", b"careful\n")
    assert process.returncode == 3


@may_be_cold
def test_the_user_may_choose_to_run_it_cold(client: Installed, server: Server) -> None:
    assert client.run(*WORDS, env={**os.environ, "YOD_LAUNCH_SERVER": "cold"}) == COLD


@may_be_cold
def test_a_server_may_leave_it_to_the_client(client: Installed, server: Server) -> None:
    process = asks(server, lambda: client.start(*WORDS))
    out, err = process.communicate()
    assert (process.returncode, out.decode(), err.decode()) == COLD


@may_be_cold
def test_the_front_end_in_python_is_given_the_process_as_it_was(
    client: Installed, server: Server
) -> None:
    """Signals, closed descriptors, limits; also after the server has been asked."""
    (client.yod.parent / "yod-cold").write_text(LOOK)
    before = 'ulimit -Sf 100; trap "" USR1; exec 0<&-; exec "$0" x'
    results = []
    for env in ({"YOD_LAUNCH_SERVER": "cold"}, {}):
        start = partial(
            client.start_command, "sh", "-c", before, client.yod, env={**os.environ, **env}
        )
        process = start() if env else asks(server, start)
        lines = process.communicate()[0].decode().splitlines()
        # SigQ counts the signals of all processes of the user.
        own = [line for line in lines if not line.startswith("SigQ")]
        results.append([line for line in own if line.startswith(("Sig", "Shd", "["))])
    assert results[0] == results[1] != []


@may_be_cold
@pytest.mark.parametrize(
    "changed",
    [
        {"release": b"x" * 32},
        {"root": (1, 2)},
        *({"namespaces": (*range(1, each), 5, *range(each + 1, 7))} for each in range(1, 7)),
    ],
    ids=["release", "root", *wire.NAMESPACES],
)
def test_a_server_of_another_world_is_not_asked(
    client: Installed, server: Server, changed: dict[str, object]
) -> None:
    process = client.start(*WORDS)
    conversation = server.accept()
    hello = own_hello()
    if "namespaces" in changed:
        others = changed["namespaces"]
        assert isinstance(others, tuple)
        at = others.index(5)
        theirs = list(hello.namespaces)
        theirs[at] += 1
        changed = {"namespaces": tuple(theirs)}
    with suppress(BrokenPipeError):  # it has not waited any longer
        conversation.send(replace(hello, **changed))
    assert conversation.receive() is None
    out, err = process.communicate()
    assert (process.returncode, out.decode(), err.decode()) == COLD


@may_be_cold
@pytest.mark.parametrize(
    "packet",
    [
        b"x",
        encode(own_hello())[:-1],
        encode(own_hello()) + b"x",
        encode(wire.Exit(0)),
        b"\x01\0\0\0\x02" + encode(own_hello())[5:],
        b"\xff" * 65544,
    ],
    ids=["short", "cut", "long", "another", "version", "huge"],
)
def test_a_server_that_makes_no_sense_is_not_asked(
    client: Installed, server: Server, packet: bytes
) -> None:
    process = client.start(*WORDS)
    conversation = server.accept()
    with suppress(BrokenPipeError):  # it has not waited any longer
        conversation.send_raw(packet)
    assert conversation.receive() is None
    assert process.communicate()[0] == b"cold -sz 2 true\n"


@may_be_cold
def test_a_server_that_is_stopped_or_hangs_up_is_not_asked(
    client: Installed, server: Server
) -> None:
    assert client.run(*WORDS) == COLD  # nobody accepts: connected, and no HELLO
    process = client.start(*WORDS)
    server.accept().close()  # that of the former
    server.accept().close()
    assert process.communicate()[0] == b"cold -sz 2 true\n"


@may_be_cold
def test_a_server_with_a_full_queue_is_not_asked(client: Installed, server: Server) -> None:
    waiting = []
    try:
        while True:
            each = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            waiting.append(each)
            each.connect(str(server.path))
    except BlockingIOError:
        pass
    assert client.run(*WORDS) == COLD
    for each in waiting:
        each.close()


@may_be_cold
def test_a_server_of_another_user_is_not_asked(
    client: Installed, server: Server, needs_root: None
) -> None:
    os.seteuid(NOBODY)
    try:
        server.listen()  # the kernel notes who does
    finally:
        os.seteuid(0)
    assert client.run(*WORDS) == COLD


@may_be_cold
def test_under_another_effective_user_nobody_is_asked(
    client: Installed, server: Server, needs_root: None
) -> None:
    process = client.start(*WORDS, preexec_fn=lambda: os.setegid(NOBODY))
    assert process.communicate()[0] == b"cold -sz 2 true\n"


@pytest.mark.parametrize("where", ["runtime", "state", "home", "long"])
def test_the_server_is_looked_for_where_user_directories_are(
    client: Installed, tmp_path: Path, where: str
) -> None:
    base = tmp_path / where
    places = {
        "runtime": ({"XDG_RUNTIME_DIR": base}, base / "yod"),
        "state": ({"XDG_RUNTIME_DIR": tmp_path / "none", "XDG_STATE_HOME": base}, base / "yod"),
        "home": ({"HOME": base, "XDG_STATE_HOME": "relative"}, base / ".local/state/yod"),
        "long": ({"XDG_STATE_HOME": base / ("x" * 200)}, base / ("x" * 200) / "yod"),
    }
    variables, directory = places[where]
    env = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    there = Server(directory)
    process = client.start(*WORDS, env={**env, **{k: str(v) for k, v in variables.items()}})
    there.begin().send(wire.Exit(5))
    assert ended(process) == 5
    there.close()


@may_be_cold
def test_without_a_home_it_runs_cold(client: Installed) -> None:
    assert client.run(*WORDS, env={"PATH": os.environ["PATH"]}) == COLD


@may_be_cold
def test_a_missing_front_end_is_said_in_one_line(client: Installed) -> None:
    (client.yod.parent / "yod-cold").unlink()
    done = client.run(*WORDS)
    assert done.status == 125
    assert done.err == (
        f"yod: {client.yod.parent}/yod-cold is missing: yod is not completely installed\n"
    )


@may_be_cold
def test_a_link_to_the_command_starts_the_same_front_end(client: Installed, tmp_path: Path) -> None:
    link = tmp_path / "other"
    link.symlink_to(client.yod)
    process = client.start_command(link, *WORDS)
    assert process.communicate()[0] == b"cold -sz 2 true\n"


def test_the_request_says_what_the_client_was_started_with(
    client: Installed, server: Server, tmp_path: Path
) -> None:
    def prepare() -> None:
        os.umask(0o27)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    env = {**os.environb, b"EMPTY": b"", b"BYTES": b"\xff\n"}
    process = client.start(
        *("-sz", "", b"\xfe"), cwd=tmp_path, env=env, preexec_fn=prepare, stdin=subprocess.DEVNULL
    )
    conversation = server.begin()
    request, strings = conversation.request, conversation.strings
    assert strings.arguments == (os.fsencode(client.yod), b"-sz", b"", b"\xfe")
    assert set(strings.variables) == {k + b"=" + v for k, v in env.items()}
    assert strings.directory == os.fsencode(tmp_path)
    assert os.path.samestat(os.fstat(conversation.directory), tmp_path.stat())
    assert request.umask == 0o27
    assert signal.SIGHUP in request.ignored_signals
    limits = dict(request.limits)
    assert limits[resource.RLIMIT_NOFILE] == 100
    assert limits[resource.RLIMIT_CORE] == 0
    assert limits[resource.RLIMIT_CPU] == wire.UNLIMITED
    assert request.stdio == Stdio(0)
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_the_request_is_sealed(client: Installed, server: Server) -> None:
    process = client.start(*WORDS)
    conversation = server.accept()
    conversation.send(own_hello())
    _, fds, _, _ = socket.recv_fds(conversation.socket, 65544, 4)
    seals = fcntl.fcntl(fds[0], 1034)  # F_GET_SEALS
    assert seals == 1 | 2 | 4 | 8
    for fd in fds:
        os.close(fd)
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_an_environment_of_six_megabytes_and_many_arguments_go_through(
    client: Installed, server: Server
) -> None:
    big = {f"V{i}": "x" * 125_000 for i in range(45)}

    def prepare() -> None:
        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))

    words = [str(i) for i in range(30_000)]
    process = client.start(*words, env={**os.environ, **big}, preexec_fn=prepare)
    conversation = server.begin()
    assert [word.decode() for word in conversation.strings.arguments[1:]] == words
    assert sum(map(len, conversation.strings.variables)) > 5_600_000
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_a_limit_of_files_does_not_stop_a_request(client: Installed, server: Server) -> None:
    def prepare() -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))

    process = client.start(*WORDS, preexec_fn=prepare)
    conversation = server.begin()
    assert dict(conversation.request.limits)[resource.RLIMIT_FSIZE] == 0
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_a_directory_that_is_gone_has_no_path(
    client: Installed, server: Server, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    process = client.start_command("sh", "-c", 'rmdir "$PWD"; exec "$0" x', client.yod, cwd=gone)
    conversation = server.begin()
    assert conversation.strings.directory == b""
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


@pytest.mark.parametrize("closed", ["0", "1", "2", "012"])
def test_closed_streams_are_told_and_no_file_of_ours_takes_their_place(
    client: Installed, server: Server, closed: str
) -> None:
    script = " ".join(f"{number}>&-" for number in closed)
    process = client.start_command("sh", "-c", f'exec "$0" x {script}', client.yod)
    conversation = server.begin()
    flags = sum(Stdio.STDIN_CLOSED << int(number) for number in closed)
    assert conversation.request.stdio == Stdio(flags)
    conversation.send(wire.Read(10))
    if "0" in closed:
        assert conversation.expect(wire.Input).data == b""
    for stream in (1, 2):
        conversation.send(wire.Output(stream, b"text\n"))
        if str(stream) in closed:
            assert conversation.expect(wire.OutputFailed).errno == 9  # EBADF
        conversation.wait_written(stream, 5)
    conversation.send(wire.Exit(4))
    out, err = process.communicate()
    assert process.returncode == 4
    assert (out, err) == tuple(b"" if stream in closed else b"text\n" for stream in ("1", "2"))


def test_what_cannot_be_a_packet_ends_the_client_with_one_line(
    client: Installed, server: Server
) -> None:
    for packet in (b"", b"\0" * 8, b"\xff" * 8, encode(wire.Exit(0))[:-1], encode(own_hello())):
        if not packet:
            continue
        process = client.start(*WORDS)
        conversation = server.begin()
        conversation.send_raw(packet)
        conversation.wait_end()
        assert process.communicate() == (b"", lost_line("broke the protocol"))
        assert process.returncode == 125
