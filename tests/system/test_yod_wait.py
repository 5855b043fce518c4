"""yod --wait: launches that stand in line for nodes, with real daemons."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.partition import Partition, finish
from tests.support.wait import LIMIT_S, read_until

READS = ("sh", "-c", "echo up; read line")  # rank 0 until the end of input


@pytest.fixture
def full(start_local):
    """A partition of two slots, both used by a job that waits for its input."""
    partition = start_local(2, slots=1)
    job = partition.start_yod("-sz", "2", *READS)
    read_until(job.stdout.fileno(), b"up\n")
    try:
        yield partition, job
    finally:
        if job.returncode is None:
            job.communicate(b"\n", timeout=LIMIT_S)


def start_waiting(partition: Partition, *words: str):
    """A launch that has been told its place."""
    yod = partition.start_yod(*words)
    return yod, read_until(yod.stderr.fileno(), b"\n").decode()


def test_a_launch_waits_for_its_turn_and_then_runs(full):
    partition, job = full
    first, said = start_waiting(partition, "--wait", "-sz", "2", "echo", "first")
    assert said == (
        "yod: waits for nodes, place 1 in the line: 2 ranks requested, 0 of 2 slots free now"
        " (nodes 0..1 are in use); Ctrl-C leaves\n"
    )
    second, said = start_waiting(partition, "--wait=60", "echo", "second")
    assert "place 2 in the line" in said
    job.communicate(b"\n", timeout=LIMIT_S)
    assert (finish(first).out, finish(second).out) == ("first\nfirst\n", "second\n")
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_launch_that_does_not_get_nodes_in_time_says_so(full):
    done = full[0].yod("--wait=0.2", "-sz", "2", "true")
    assert done.status == 125
    assert done.err.splitlines()[-1] == (
        "yod: no nodes in 0.2 s (--wait): 2 ranks requested, 0 of 2 slots free now"
        " (nodes 0..1 are in use)"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_one_that_leaves_the_line_lets_the_next_one_up(full, number):
    partition, job = full
    first, _ = start_waiting(partition, "--wait", "-sz", "2", "true")
    second, _ = start_waiting(partition, "--wait", "-sz", "1", "echo", "second")
    os.kill(first.pid, number)
    assert finish(first).status == -number
    told = read_until(second.stderr.fileno(), b"\n").decode()
    assert "place 1 in the line" in told
    job.communicate(b"\n", timeout=LIMIT_S)
    assert finish(second).out == "second\n"


def test_a_wait_that_is_no_time_is_refused_in_one_line(start_local):
    done = start_local(1).yod("--wait=soon", "true")
    said = "yod: --wait=soon: seconds above 0, or --wait for any time\n"
    assert (done.status, done.err) == (125, said)
