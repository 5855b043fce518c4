"""Clients of a launch server that die, stop or do not read: their job ends or waits, no other."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.leaks import descendants
from tests.support.own_server import OwnServer
from tests.support.partition import Done, finish
from tests.support.place import Place
from tests.support.processes import stopped
from tests.support.programs import Programs, Stopped
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until

LINES = 20_000
BYTES = 3_000_000


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


def kill(yod: subprocess.Popen[bytes]) -> None:
    """Kill a client; what is below it must end."""
    below = descendants(yod.pid)
    yod.kill()
    yod.communicate()
    for unix_pid in below:
        wait_for_exit(unix_pid)


def test_killed_while_its_launch_is_prepared(server: OwnServer):
    with stopped(*server.helpers):
        yod = server.start_warm("-sz", "2", "true")
        kill(yod)
        wait_until(lambda: not server.states(), what="the end of the session")


def test_killed_while_the_ranks_are_started(server: OwnServer, programs: Programs, tmp_path):
    held = Stopped(programs, tmp_path)
    yod = server.start_warm("-sz", "2", held.program)
    held.wait()
    kill(yod)
    held.go_on()


def test_killed_while_the_ranks_run(server: OwnServer):
    yod = server.start_warm("-sz", "2", "sh", "-c", "echo up; sleep 1000 & wait")
    read_until(yod.stdout.fileno(), b"up\nup\n")
    kill(yod)


def test_killed_while_its_output_waits_for_a_reader(server: OwnServer):
    yod = server.start_warm("-sz", "2", "sh", "-c", "echo up; yes")
    read_until(yod.stdout.fileno(), b"up\n")
    kill(yod)


def test_stopped_while_its_ranks_write_many_short_lines(server: OwnServer):
    count = "i=0; while [ $i -lt 8000 ]; do echo $i; i=$((i+1)); done"
    yod = server.start_warm("-sz", "1", "sh", "-c", f"read line; echo up; {count}")
    with stopped(yod.pid):
        server.works()
    yod.stdin.write(b"go\n")
    read_until(yod.stdout.fileno(), b"up\n")
    with stopped(yod.pid):
        server.works()
    done = finish(yod)
    assert (done.status, done.err) == (0, "")
    assert done.out.split()[-1] == "7999"


def test_a_reader_that_does_not_read_holds_up_its_own_launch_only(server: OwnServer):
    yod = server.start_warm("--raw", "-sz", "2", "sh", "-c", f"head -c {BYTES} /dev/zero")
    for _ in range(3):
        server.works()
    wait_until(lambda: server.states() == ["running"], what="the end of the others")
    done = finish(yod)
    assert (done.status, len(done.out), done.err) == (0, 2 * BYTES, "")


def test_a_reader_that_has_gone_ends_its_own_launch_only(server: OwnServer):
    yod = server.start_warm("-sz", "2", "sh", "-c", "while echo more; do :; done")
    read_until(yod.stdout.fileno(), b"more\n")
    yod.stdout.close()
    server.works()
    yod.wait(timeout=LIMIT_S)
    assert yod.returncode != 0
    yod.stdin.close()
    yod.stderr.close()


def full(server: OwnServer, **streams: int) -> Done:
    return finish(server.start_warm("-sz", "2", "sh", "-c", "sleep 0.2; echo lost", **streams))


def test_output_that_cannot_be_written_is_said_once(server: OwnServer):
    with open("/dev/full", "wb") as device:
        done = full(server, stdout=device.fileno())
    assert done.status != 0
    assert done.err.count("the application's output cannot be written: No space left") == 1, done


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_descriptors_do_to_it_what_they_do_to_a_cold_one(server: OwnServer, closed: str):
    words = ("-sz", "2", "sh", "-c", "ls -l /proc/self/fd | wc -l; cat")
    warm = server.yod_under_shell(*words, after=closed)
    chosen = server.environment({"YOD_LAUNCH_SERVER": "cold"})
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", "yod", *words]
    cold = subprocess.run(
        command, env=chosen, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert (warm.status, warm.out) == (cold.returncode, cold.stdout)


def test_thirty_thousand_arguments_and_as_much_environment_as_the_kernel_takes(server: OwnServer):
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    big = {f"BIG_{number}": "x" * 100_000 for number in range(55)}
    arguments = [str(number) for number in range(30_000)]
    resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, hard))
    try:
        shell = 'echo $# "$(printenv BIG_54 | wc -c)"'
        yod = server.start_warm("-sz", "2", "sh", "-c", shell, "sh", *arguments, env=big)
        done = finish(yod)
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    assert (done.status, done.out, done.err) == (0, "30000 100001\n" * 2, "")


def test_a_helper_that_is_killed_costs_its_launch_the_warmth_and_no_more(server: OwnServer):
    victims = server.helpers
    with stopped(*victims):
        yod = server.start_warm("-sz", "2", "echo", "once")
        wait_until(lambda: server.states() != ["greeted"], what="a request for the helper")
        for unix_pid in victims:
            os.kill(unix_pid, signal.SIGKILL)
    done = finish(yod)
    assert (done.status, done.out, done.err) == (0, "once\nonce\n", "")
    said = f"client {yod.pid} runs cold: a helper of the launch server has ended\n"
    assert server.daemon.text().count(said) == 1


def test_helpers_that_hang_hold_up_no_other_launch_and_their_own_run_cold(place: Place):
    with OwnServer(place, env={"YOD_PREPARE_S": "4"}) as server:
        with stopped(*(first := server.helpers)):
            hung = [server.start_warm("-sz", "1", "echo", "cold") for _ in range(2)]
            others = [server.start_warm("-sz", "1", "echo", "warm") for _ in range(2)]
            for yod in others:
                assert finish(yod).out == "warm\n"
            assert server.helpers - first
            for yod in hung:
                assert finish(yod).out == "cold\n"
        server.wait_idle()
        server.works()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_press_while_its_launch_is_prepared_ends_it_by_that_signal(server: OwnServer, number):
    with stopped(*server.helpers):
        yod = server.start_warm("-sz", "2", "echo", "never")
        yod.send_signal(number)
        done = finish(yod)
    assert (done.status, done.out, done.err) == (-number, "", "")


def test_refused_with_more_words_than_a_packet_takes(server: OwnServer):
    done = finish(server.start_warm("-sz", "1", "x" * 70_000))
    assert done.status in (126, 127) and done.err.startswith("yod: "), done.err[:200]
    assert done.err.endswith("…\n") and len(done.err.encode()) == 65536


@pytest.mark.parametrize("length", [5000, 70_000])
def test_with_a_log_whose_path_is_too_long(server: OwnServer, length: int):
    path = "/" * length
    done = finish(server.start_warm("-sz", "1", "true", env={"LOGFILENAME": path}))
    assert done.status == 0 and "file name too long" in done.err.lower(), done.err[-200:]


def test_each_launch_has_the_variables_and_the_directory_of_its_own_client(
    server: OwnServer, tmp_path
):
    """Those of the launch before are not taken for them, however alike the two are."""
    echo = ("sh", "-c", 'echo "${OF_THE_CLIENT-none} $(pwd)"')
    for value, place in (("1", "/"), ("1", tmp_path), ("2", "/"), (None, "/"), ("1", "/")):
        yod = server.start_warm(*echo, env={"OF_THE_CLIENT": value}, cwd=place)
        assert finish(yod) == Done(0, f"{value or 'none'} {place}\n", "")
