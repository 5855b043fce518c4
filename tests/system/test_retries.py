"""Launches that fail before their ranks are let go, and are tried again without the node."""

from __future__ import annotations

import pytest

from tests.support.processes import stopped
from tests.support.wait import wait_until

QUICK = {"YOD_PHASE_S": "1", "YOD_END_S": "1", "YOD_LIVENESS_S": "3"}


@pytest.fixture
def three(start_local):
    """Nodes of one slot."""
    return start_local(3, slots=1, env=QUICK)


def run_beside(partition, silent, size, *words):
    """A yod, while the PCT of a node stands still."""
    with stopped(partition.pcts[silent].unix_pid):
        done = partition.yod(*words, "-sz", str(size), "printenv", "YOD_NODE", env=QUICK)
    wait_until(lambda: set(partition.states()) == {"free"})
    return done


def tries_of(done):
    return [line for line in done.err.splitlines() if line.startswith("yod: try ")]


@pytest.mark.parametrize("server", [None, "launch_server"], ids=["cold", "beside a server"])
def test_a_launch_is_tried_again_without_the_node_that_did_not_answer(request, three, server):
    """Where a launch server is, the client tries by itself all the same."""
    three.launch_server = server and request.getfixturevalue(server)
    done = run_beside(three, 1, 2, "--retries", "2")
    assert (done.status, sorted(done.out.split())) == (0, ["0", "2"])
    (line,) = tries_of(done)
    assert line.startswith("yod: try 2 of 3, without node 1 (node1): node 1 (node1)")


def test_the_last_try_decides_where_too_few_nodes_are_left(three):
    done = run_beside(three, 1, 3, "--retries", "5")
    assert (done.status, done.out) == (125, "")
    assert [line.split(":")[1] for line in tries_of(done)] == [
        " try 2 of 6, without node 1 (node1)"
    ]
    assert "3 ranks requested, 2 slots there (node 1 (node1) is " in done.err.splitlines()[-1]


def test_the_programs_own_failure_is_not_tried_again(three):
    done = three.yod("--retries", "3", "-sz", "2", "sh", "-c", "exit 3")
    assert (done.status, tries_of(done)) == (3, [])
    done = three.yod("--retries", "many", "true")
    assert done == (125, "", "yod: --retries many: a number from 0 to 100\n")
