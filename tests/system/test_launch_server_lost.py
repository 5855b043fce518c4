"""A launch server that dies or stops in each phase of a launch: one line, 125, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.support.leaks import descendants
from tests.support.own_server import Counted, OwnServer, counted, finish_lost
from tests.support.partition import finish
from tests.support.place import Place
from tests.support.processes import stopped
from tests.support.programs import Programs, Stopped
from tests.support.wait import read_until, wait_for_exit, wait_until

__all__ = ["counted"]

LIVENESS_S = 2
BYTES = 100_000  # more than a pipe takes, less than a window

# A fault, and what the client says then.
KILLED = (signal.SIGKILL, "has ended")
STOPPED = (signal.SIGSTOP, f"has not answered for {LIVENESS_S} s")


@pytest.fixture(params=[KILLED, STOPPED], ids=["killed", "stopped"])
def fault(request: pytest.FixtureRequest) -> tuple[int, str]:
    """What happens to the server, and what the client says then."""
    found: tuple[int, str] = request.param
    return found


@pytest.fixture
def server(request: pytest.FixtureRequest, place: Place) -> Iterator[OwnServer]:
    env = {}
    if "fault" in request.fixturenames and request.getfixturevalue("fault") == STOPPED:
        env["YOD_LIVENESS_S"] = str(LIVENESS_S)  # nobody else's silence is too long
    with OwnServer(place, env=env) as server:
        yield server


@pytest.fixture
def harm(fault: tuple[int, str], server: OwnServer) -> Iterator[Callable[[], str]]:
    """Does the server harm, and gives what a client says of it. It must get over it, if it can."""
    number, why = fault

    def strike() -> str:
        server.signal(number)
        if number == signal.SIGKILL:
            wait_for_exit(server.unix_pid)
        return why

    yield strike
    if number == signal.SIGSTOP:
        server.signal(signal.SIGCONT)
        server.wait_idle()
        server.works()


def ended(server: OwnServer, yod: subprocess.Popen[bytes], why: str) -> None:
    """The client has said its line, and nothing of the job is left."""
    below = descendants(yod.pid)
    finish_lost(server, finish(yod), why)
    for unix_pid in below:
        wait_for_exit(unix_pid)


def test_before_it_has_greeted_the_launch_is_run_cold(server, counted):
    with stopped(server.unix_pid):
        done = server.yod("-sz", "2", *counted.words("echo up"))
    assert (done.status, done.out, done.err) == (0, "up\nup\n", "")
    assert counted.ranks == ["0", "1"]


def test_while_the_launch_is_prepared(server, harm, counted):
    with stopped(*server.helpers):
        yod = server.start_warm("-sz", "2", *counted.words("true"))
        wait_until(lambda: server.states() == ["preparing"], what="a client that has asked")
        ended(server, yod, harm())
    assert counted.ranks == []


def test_while_its_keeper_is_asked_for(server, harm, counted):
    with stopped(*server.helpers):
        yod = server.start_warm("-sz", "2", *counted.words("true"))
        wait_until(lambda: server.states() == ["preparing"], what="a client that has asked")
        os.kill(yod.pid, signal.SIGSTOP)
    wait_until(lambda: server.states() == ["running"], what="a launch that has begun")
    why = harm()
    os.kill(yod.pid, signal.SIGCONT)
    ended(server, yod, why)
    assert counted.ranks == []


def test_while_the_ranks_are_started(server, harm, programs: Programs, tmp_path):
    held = Stopped(programs, tmp_path)
    yod = server.start_warm("-sz", "2", held.program)
    held.wait()
    ended(server, yod, harm())
    held.go_on()


def test_while_the_ranks_run(server, harm, counted: Counted):
    yod = server.start_warm("-sz", "2", *counted.words("echo up; sleep 1000 & wait"))
    read_until(yod.stdout.fileno(), b"up\nup\n")
    ended(server, yod, harm())
    assert counted.ranks == ["0", "1"]


def test_while_a_rank_is_told_to_end(server, harm, counted: Counted):
    shell = "trap 'echo told; sleep 1000' TERM; echo up; sleep 1000 & while :; do wait; done"
    yod = server.start_warm("-sz", "2", *counted.words(shell))
    read_until(yod.stdout.fileno(), b"up\nup\n")
    yod.send_signal(signal.SIGTERM)
    read_until(yod.stdout.fileno(), b"told\ntold\n")
    read_until(yod.stderr.fileno(), b"\n")
    ended(server, yod, harm())
    assert counted.ranks == ["0", "1"]


def test_while_the_last_output_waits_for_its_reader(server, harm, counted: Counted):
    yod = server.start_warm("-sz", "1", *counted.words(f"head -c {BYTES} /dev/zero"))
    wait_until(lambda: server.states() == ["running"], what="a launch that has begun")
    wait_until(lambda: counted.ranks == ["0"] and not descendants(yod.pid), what="the rank's end")
    why = harm()
    done = finish(yod)
    finish_lost(server, done, why)
    assert done.out == "\0" * BYTES
    assert counted.ranks == ["0"]


def test_a_killed_server_hinders_neither_the_next_launch_nor_the_next_server(server, counted):
    server.daemon.kill()
    assert server.yod("-sz", "1", *counted.words("echo cold")).out == "cold\n"
    server.start()
    server.works()
    assert counted.ranks == ["0"]


def test_a_server_that_is_told_to_end_ends_its_launches(server, counted: Counted):
    yod = server.start_warm("-sz", "2", *counted.words("echo up; sleep 1000 & wait"))
    read_until(yod.stdout.fileno(), b"up\nup\n")
    server.daemon.stop()
    done = finish(yod)
    assert (done.status, done.err) == (
        125,
        "yod: the launch server was told to end (yodctl down); the job has been ended\n",
    )
    assert counted.ranks == ["0", "1"]


def test_a_server_that_is_told_to_end_leaves_a_stopped_client_that_reads_of_it_later(
    server, counted: Counted
):
    yod = server.start_warm("-sz", "2", *counted.words("echo up; sleep 1000 & wait"))
    read_until(yod.stdout.fileno(), b"up\nup\n")
    with stopped(yod.pid):
        server.daemon.stop()
    done = finish(yod)
    assert (done.status, done.err) == (
        125,
        "yod: the launch server was told to end (yodctl down); the job has been ended\n",
    )
    assert counted.ranks == ["0", "1"]
