"""Much output of a warm launch: the server writes it, and all is as if the client did."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.leaks import descendants
from tests.support.own_server import OwnServer
from tests.support.partition import finish
from tests.support.place import Place
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until

LINES = 300_000  # of each rank: two megabytes
COUNTS = ("sh", "-c", f"seq {LINES}")
ENDLESS = ("sh", "-c", "yes more")
COLD = {"YOD_LAUNCH_SERVER": "cold"}
TEES = ("--tee", "-o", "out.%t")
F_GETPIPE_SZ = 1032  # linux/fcntl.h


@pytest.fixture
def server(place: Place) -> Iterator[OwnServer]:
    """One that is as it was in the end, and still runs launches."""
    with OwnServer(place) as server:
        server.works()
        server.wait_idle()
        before = server.descriptors()
        yield server
        server.wait_idle()
        wait_until(lambda: server.descriptors() <= before, what="as few descriptors as before")
        server.works()


def has(server: OwnServer, pipe: int) -> bool:
    """The server has a pipe open that we read."""
    name = os.readlink(f"/proc/self/fd/{pipe}")
    directory = Path(f"/proc/{server.unix_pid}/fd")
    return name in {os.readlink(each) for each in directory.iterdir() if each.is_symlink()}


def writes(server: OwnServer, yod: subprocess.Popen[bytes]) -> bytes:
    """Read until the server writes, and the pipe is full; what was read."""
    assert yod.stdout is not None
    fd, got = yod.stdout.fileno(), b""
    while not has(server, fd):
        got += os.read(fd, 65_536)
    return got


def end(yod: subprocess.Popen[bytes]) -> int:
    for stream in (yod.stdin, yod.stdout, yod.stderr):
        if stream is not None and not stream.closed:
            stream.close()
    return yod.wait(timeout=LIMIT_S)


def test_it_comes_whole_and_in_order_and_ends_with_the_command(server: OwnServer):
    yod = server.start_warm("-sz", "1", *COUNTS)
    seen = writes(server, yod)
    done = finish(yod)
    assert (done.status, done.err) == (0, "")
    assert (seen.decode() + done.out).split() == [str(number + 1) for number in range(LINES)]


@pytest.mark.parametrize("options", [(), ("--label",), ("--raw",), TEES])
def test_it_is_the_same_as_that_of_a_cold_launch(
    server: OwnServer, options: tuple[str, ...], tmp_path: Path
):
    found = []
    here = tmp_path / "here"
    here.mkdir()
    for env in ({}, COLD):
        done = server.yod("-sz", "2", *options, *COUNTS, env=env, cwd=here)
        files = {each.name: each.read_bytes() for each in here.iterdir()}
        found.append((done.status, done.err, sorted(done.out), files))
    assert found[0] == found[1]
    assert found[0][0] == 0


def test_two_streams_that_are_one_pipe_are_one(server: OwnServer):
    both = f"seq {LINES}; seq {LINES} >&2"
    yod = server.start_warm("-sz", "1", "sh", "-c", both, stderr=subprocess.STDOUT)
    out = finish(yod).out.split()
    assert sorted(out) == sorted(2 * [str(number + 1) for number in range(LINES)])


def test_a_reader_that_stops_holds_up_its_own_launch_only(server: OwnServer):
    yod = server.start_warm("-sz", "2", *ENDLESS)
    writes(server, yod)
    for _ in range(3):
        server.works()
    assert yod.poll() is None
    yod.send_signal(signal.SIGTERM)
    assert end(yod) != 0


@pytest.mark.parametrize("way", [{}, COLD], ids=["warm", "cold"])
def test_a_reader_that_leaves_ends_its_launch_as_ever(server: OwnServer, way: dict[str, str]):
    start = server.start_yod if way else server.start_warm
    yod = start("-sz", "2", *ENDLESS, env=way)
    assert yod.stdout is not None and yod.stderr is not None
    if way:
        read_until(yod.stdout.fileno(), b"more\n")
    else:
        writes(server, yod)
    yod.stdout.close()
    said = yod.stderr.read()
    assert (end(yod), said) == (128 + signal.SIGPIPE, b"") or (yod.returncode, said) == (
        -signal.SIGPIPE,
        b"",
    )


def test_a_client_that_is_killed_takes_its_job_along_and_its_reader_sees_the_end(
    server: OwnServer,
):
    yod = server.start_warm("-sz", "2", *ENDLESS)
    writes(server, yod)
    below = descendants(yod.pid)
    yod.kill()
    assert yod.stdout is not None
    while yod.stdout.read(1 << 20):
        pass
    end(yod)
    for unix_pid in below:
        wait_for_exit(unix_pid)


def test_nothing_is_written_while_the_client_is_stopped(server: OwnServer):
    # The kernel stops no process by SIGTSTP whose group has nobody above it in its session.
    yod = server.start_warm("-sz", "1", *ENDLESS, process_group=0)
    writes(server, yod)
    assert yod.stdout is not None
    fd = yod.stdout.fileno()
    yod.send_signal(signal.SIGTSTP)
    state = Path(f"/proc/{yod.pid}/stat")
    wait_until(lambda: state.read_text().rpartition(") ")[2][0] == "T", what="a stopped client")
    os.set_blocking(fd, False)
    with pytest.raises(BlockingIOError):
        for _ in range(4 * fcntl.fcntl(fd, F_GETPIPE_SZ) // 4096):
            os.read(fd, 4096)
    server.works()
    with pytest.raises(BlockingIOError):
        os.read(fd, 4096)
    yod.send_signal(signal.SIGCONT)
    os.set_blocking(fd, True)
    assert os.read(fd, 4096)
    yod.send_signal(signal.SIGTERM)
    assert end(yod) != 0


def test_a_server_that_is_killed_ends_the_output(place: Place):
    with OwnServer(place) as server:
        yod = server.start_warm("-sz", "2", *ENDLESS)
        writes(server, yod)
        server.signal(signal.SIGKILL)
        done = finish(yod)
        assert done.status == 125
        assert "has ended; the job has been ended" in done.err


@pytest.mark.parametrize("way", [{}, COLD], ids=["warm", "cold"])
def test_the_last_line_of_a_stream_that_is_read_late_is_not_lost(
    server: OwnServer, way: dict[str, str]
):
    """Neither has a newline; standard output has been written before standard error can be."""
    reading, writing = os.pipe()
    room = fcntl.fcntl(writing, F_GETPIPE_SZ)
    os.write(writing, b"." * room)
    words = ("-sz", "1", "sh", "-c", "printf out; printf err >&2")
    yod = server.start_yod(*words, env=way, stderr=writing)
    os.close(writing)
    assert yod.stdout is not None
    read_until(yod.stdout.fileno(), b"out")
    with open(reading, "rb") as file:
        assert file.read().lstrip(b".").startswith(b"err")
    assert end(yod) == 0
