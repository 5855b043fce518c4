"""What users do by mistake or by habit, and launches that meet it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.support.daemons import HostDaemons
from tests.support.hosts import Host
from tests.support.limits import PATIENT
from tests.support.processes import stopped
from tests.support.wait import LIMIT_S, read_until, wait_until

pytestmark = pytest.mark.warm

IMAGE_BYTES = 48 << 20  # a user may hold half of a RAM disk


def put_on(host: Host, data: bytes, size: int) -> str:
    """A large program on a host's own RAM disk."""
    path = host.path("/dev/shm/image")
    path.write_bytes(data)
    with path.open("r+b") as file:
        file.truncate(size)
    path.chmod(0o755)
    return "/dev/shm/image"


def count_up(yod: subprocess.Popen[bytes], times: int) -> None:
    read_until(yod.stdout.fileno(), b"up\n", times=times)


# -- ranks ----------------------------------------------------------------


def test_a_daemon_that_a_rank_leaves_ends_with_the_job(here):
    done = here.yod("-sz", "3", "sh", "-c", "setsid sleep 1000 & exit 0")
    assert done == (0, "", "")


def test_a_process_outside_that_keeps_a_ranks_output_open_is_not_waited_for(here, tmp_path):
    """As a terminal multiplexer or a container's daemon may, which the rank has given it to."""
    path = str(tmp_path / "outside")
    rank = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
    rank += "socket.send_fds(s, [b'x'], [1, 2]); s.recv(1); print('last word')"
    with socket.socket(socket.AF_UNIX) as outside:
        outside.bind(path)
        outside.listen(1)
        env = {"YOD_END_S": "3600"}
        with here.start_yod("-sz", "1", sys.executable, "-c", rank, path, env=env) as yod:
            end = outside.accept()[0]
            _, kept, _, _ = socket.recv_fds(end, 1, 2)
            try:
                end.send(b"x")
                out, err = yod.communicate(timeout=LIMIT_S)
            finally:
                end.close()
                for fd in kept:
                    os.close(fd)
    assert (yod.returncode, out, err) == (0, b"last word\n", b"")


def test_a_rank_that_stops_itself_does_not_stop_the_job(here):
    """An interrupt ends it: SIGCONT follows SIGTERM."""
    with here.start_yod("-sz", "2", "sh", "-c", "echo up; kill -STOP $$; echo on") as yod:
        count_up(yod, 2)
        yod.send_signal(signal.SIGINT)
        out, err = yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGINT
    assert b"on" not in out and b"killed by yod (SIGTERM)" in err


def test_ranks_that_close_their_output_go_on(here, tmp_path):
    text = f"exec >&- 2>&-; : > {tmp_path}/$YOD_RANK"
    assert here.yod("-sz", "2", "sh", "-c", text) == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name in "01") == ["0", "1"]


def test_a_fork_storm_is_killed(here):
    text = "echo up; for i in 1 2 3 4 5 6 7 8 9; do (setsid sleep 1000 &) ; done; wait; sleep 1000"
    with here.start_yod("-sz", "4", "-kill", "sh", "-c", text) as yod:
        count_up(yod, 4)
        yod.send_signal(signal.SIGINT)
        yod.communicate(timeout=LIMIT_S)
    assert yod.returncode == -signal.SIGINT


def test_hundreds_of_ranks(start_local):
    local = start_local(2, slots=100)
    done = local.yod("-sz", "200", "sh", "-c", "echo $YOD_RANK")
    assert (done.status, done.err) == (0, "")
    assert sorted(map(int, done.out.split())) == list(range(200))


def test_a_hundred_failing_ranks_are_a_few_lines(start_local):
    local = start_local(2, slots=50)
    done = local.yod("-sz", "100", "sh", "-c", "exit 9", env=PATIENT)
    assert done.status == 9
    *first, last = done.err.splitlines()  # the first failure may be told at once
    assert len(first) <= 1
    assert "ranks 0..99" in last and "ended with exit code 9" in last


# -- MPI ------------------------------------------------------------------


@pytest.mark.mpi
def test_mpi_abort_gives_its_code_and_ends_the_others(here):
    text = (
        "from mpi4py import MPI; w = MPI.COMM_WORLD\n"
        "if w.rank == 1: w.Abort(3)\n"
        "w.Barrier(); import time; time.sleep(1000)"
    )
    done = here.yod("-sz", "3", sys.executable, "-c", text)
    assert done.status == 3
    assert "called abort with code 3" in done.err and "rank 1" in done.err


@pytest.mark.mpi
def test_a_rank_that_fails_before_mpi_begins_ends_those_that_wait_for_it(here):
    text = "import os, sys\nif os.environ['YOD_RANK'] == '0': sys.exit(4)\nfrom mpi4py import MPI"
    env = {"YOD_KILL_DELAY_S": "0.2"}
    done = here.yod("-sz", "3", sys.executable, "-c", text, env=env)
    assert done.status == 4
    assert "rank 0" in done.err.splitlines()[0]


# -- nodes that differ ----------------------------------------------------


@pytest.mark.hosts
def test_a_directory_that_a_node_lacks_is_named(start_hosts):
    hosts = start_hosts(2, slots=1)
    for host in (hosts.front, hosts.hosts[0]):
        host.path("/dev/shm/work").mkdir()
    done = hosts.yod("-sz", "2", "true", cwd="/dev/shm/work")
    for host in (hosts.front, hosts.hosts[0]):
        host.path("/dev/shm/work").rmdir()
    assert (done.status, done.out) == (127, "")
    (line,) = done.err.splitlines()
    assert "node 1 (node1), rank 1" in line and "/dev/shm/work" in line


# -- images ---------------------------------------------------------------


ENDLESS = b"#!/bin/sh\nsleep 1000\nexit\n"


def start_late(hosts: HostDaemons, image: str) -> subprocess.Popen[bytes]:
    """Start a job that has its nodes, and cannot begin before node 2 goes on."""
    yod = hosts.start_yod("-sz", "3", "-D", image)
    read_until(yod.stderr.fileno(), b"allocate -> form\n")
    return yod


@pytest.mark.hosts
def test_an_image_that_shrinks_while_it_is_sent(start_hosts, programs):
    hosts = start_hosts(3, slots=1, ram_bytes=4 * IMAGE_BYTES)
    image = put_on(hosts.front, programs.dynamic.read_bytes(), IMAGE_BYTES)
    with stopped(hosts.pcts[2].unix_pid):
        yod = start_late(hosts, image)
        with hosts.front.path(image).open("r+b") as file:
            file.truncate(1000)
    with yod:
        _, err = yod.communicate(timeout=LIMIT_S)
    hosts.front.path(image).unlink()
    assert yod.returncode == 125
    words = [line for line in err.decode().splitlines() if " -> " not in line]
    assert image in words[0] and "shrunk" in words[0]


@pytest.mark.hosts
def test_an_image_that_changes_while_it_is_sent_is_not_run(start_hosts, programs):
    hosts = start_hosts(3, slots=1, ram_bytes=4 * IMAGE_BYTES)
    image = put_on(hosts.front, programs.dynamic.read_bytes(), IMAGE_BYTES)
    with stopped(hosts.pcts[2].unix_pid):
        yod = start_late(hosts, image)
        with hosts.front.path(image).open("r+b") as file:
            file.seek(IMAGE_BYTES - 10)
            file.write(b"changed")
    with yod:
        out, err = yod.communicate(timeout=LIMIT_S)
    hosts.front.path(image).unlink()
    assert (yod.returncode, out) == (125, b"")
    assert b"damaged" in err


@pytest.mark.hosts
@pytest.mark.parametrize("node", [0, 1, 6])
def test_a_pct_killed_while_an_image_is_on_its_way(start_hosts, node):
    """The root, an inner node, a leaf."""
    hosts = start_hosts(7, slots=1, ram_bytes=4 * IMAGE_BYTES)
    image = put_on(hosts.front, ENDLESS, IMAGE_BYTES)
    with hosts.start_yod("-sz", "7", "-D", image) as yod:
        read_until(yod.stderr.fileno(), b"form -> load\n")
        hosts.pcts[node].kill()
        out, err = yod.communicate(timeout=LIMIT_S)
    hosts.front.path(image).unlink()
    assert (yod.returncode, out) == (125, b"")
    words = [line for line in err.decode().splitlines() if " -> " not in line]
    assert f"node {node} (node{node}) was lost" in words[0]
    hosts.replace_pct(node)
    wait_until(lambda: set(hosts.states()) == {"free"})


@pytest.mark.hosts
def test_yod_killed_while_an_image_is_on_its_way(start_hosts, programs):
    hosts = start_hosts(3, slots=1, ram_bytes=4 * IMAGE_BYTES)
    image = put_on(hosts.front, programs.dynamic.read_bytes(), IMAGE_BYTES)
    with hosts.start_yod("-sz", "3", "-D", image) as yod:
        read_until(yod.stderr.fileno(), b"form -> load\n")
        yod.kill()
    hosts.front.path(image).unlink()
    wait_until(lambda: set(hosts.states()) == {"free"})


@pytest.mark.hosts
def test_two_jobs_ship_the_same_image_at_once(start_hosts, programs):
    hosts = start_hosts(3, slots=2)
    image = put_on(hosts.front, programs.dynamic.read_bytes(), 8 << 20)
    with (
        hosts.start_yod("-sz", "3", "-list", "0..2", image) as one,
        hosts.start_yod("-sz", "3", "-list", "0..2", image) as other,
    ):
        for yod in (one, other):
            out, err = yod.communicate(timeout=LIMIT_S)
            assert (yod.returncode, err, out.count(b"rank")) == (0, b"", 3)
    hosts.front.path(image).unlink()


# -- the tree -------------------------------------------------------------


@pytest.mark.parametrize("arity", ["1", "3", "64"])
def test_a_job_runs_in_a_tree_of_any_width(start_local, arity):
    done = start_local(5).yod("--arity", arity, "-sz", "5", "sh", "-c", "echo $YOD_RANK")
    assert (done.status, sorted(done.out.split()), done.err) == (0, list("01234"), "")
