"""The programs under examples/, as the README starts them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.partition import BIN, EXAMPLES, ROOT
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.warm

RING = "ring of {0}: the token came back as {1}, expected {1}\n"


@pytest.mark.mpi
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_ring_is_one_mpi_world(here, size):
    done = here.yod("-sz", str(size), "python", "examples/ring.py")
    assert done == (0, RING.format(size, sum(range(size))), "")


@pytest.mark.mpi
def test_the_farm_is_one_mpi_world_of_two_programs(here):
    done = here.yod("examples/farm.load")
    assert done == (0, "20 tasks done by 3 workers: sum of squares 2470\n", "")


@pytest.mark.mpi
@pytest.mark.hosts
@pytest.mark.parametrize("size", [2, 4])
def test_mpi_works_across_hosts(start_hosts, size):
    hosts = start_hosts(size, slots=1)
    done = hosts.yod("-sz", str(size), sys.executable, EXAMPLES / "ring.py")
    assert done == (0, RING.format(size, sum(range(size))), "")


def test_hello_in_python(here):
    done = here.yod("-sz", "3", "python", "examples/hello.py")
    assert (done.status, done.err, len(done.out.splitlines())) == (0, "", 3)


def test_hello_in_c(here, programs):
    program = programs.compile("hello", (EXAMPLES / "hello.c").read_text())
    done = here.yod("-sz", "2", program)
    expected = {f"hello from rank {rank} of 2 on {here.node_names[0]}" for rank in range(2)}
    assert (done.status, done.err, set(done.out.splitlines())) == (0, "", expected)


def test_a_static_program_is_not_traced_any_more_when_it_runs(here, programs):
    program = programs.compile("untraced", (EXAMPLES / "static.c").read_text(), "-static")
    assert here.yod("-sz", "3", program) == (0, "TracerPid:\t0\n" * 3, "")


def test_whereami_says_where_each_rank_is(start_local):
    local = start_local(6, slots=1)
    done = local.yod("-list", "5,1..3", "./examples/whereami")
    host = local.yod("uname", "-n").out.strip()
    expected = [
        f"rank {rank} of 4 is on node {node} (node{node}), host {host}"
        for rank, node in enumerate((5, 1, 2, 3))
    ]
    assert (done.status, sorted(done.out.splitlines()), done.err) == (0, expected, "")


def test_the_commands_of_the_readme_in_their_order(place, programs):
    """yodctl's partition is found by itself, and gone afterwards."""
    hello = programs.compile("readme-hello", (EXAMPLES / "hello.c").read_text())
    script = f"""
        set -e
        yodctl up --local 8
        yodctl status
        yod -sz 8 -timing {hello} 2>/dev/null
        pingd
        yod -list 5,1..3 ./examples/whereami
        yodctl down
    """
    environment = {**place.environment(), "PATH": f"{BIN}:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("hello from rank") == 8
    assert "8 nodes: 8 free" in done.stdout
    assert "rank 0 of 4 is on node 5 (node5)" in done.stdout
    assert "killed" not in done.stdout.splitlines()[-1]
