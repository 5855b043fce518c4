"""yodctl up --local, again: what has died of a partition is started in its place."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.support.partition import BIN
from tests.support.wait import LIMIT_S, wait_for_exit, wait_until
from tests.system.test_yodctl import as_users_do, down, four, run, unix_pids

__all__ = ["as_users_do", "down", "four"]


def test_a_start_beside_nodes_whose_bebopd_is_gone_says_so(place, four):
    """It said that a partition is up, which nobody could reach."""
    bebopd, *_ = unix_pids(place)
    os.kill(bebopd, signal.SIGKILL)
    wait_for_exit(bebopd)
    done = run("yodctl", "up", "--local", "1")
    assert (done.status, done.err) == (
        1,
        f"yodctl: bebopd (process {bebopd}) of the partition that was up is gone,"
        " 4 of its 4 nodes are left; `yodctl up --local 4` starts again what is gone,"
        " `yodctl down` ends them\n",
    )


@pytest.mark.parametrize("lost", [[0], [2], [1, 4], [0, 3], [0, 1, 2, 3]])
def test_what_has_died_of_a_partition_is_started_again_in_its_place(place, four, lost):
    address = run("yodctl", "status").out.split("address", 1)[1].split()[:2]
    before = unix_pids(place)
    for index in lost:
        os.kill(before[index], signal.SIGKILL)
        wait_for_exit(before[index])
    done = run("yodctl", "up", "--local", "4")
    assert (done.status, done.err) == (0, ""), done
    after = unix_pids(place)
    names = ["bebopd", *(f"pct of node {node}" for node in range(4))]
    told = ", ".join(f"{names[index]} (process {after[index]})" for index in lost)
    assert done.out.startswith(f"started again: {told}\n4 nodes are up at ")
    assert [a == b for a, b in zip(before, after, strict=True)] == [
        index not in lost for index in range(5)
    ]
    status = run("yodctl", "status")
    assert (status.status, status.err) == (0, "")
    assert status.out.split("address", 1)[1].split()[:2] == address
    assert run("yod", "-sz", "4", "printenv", "YOD_RANK").status == 0
    again = run("yodctl", "up", "--local", "4")
    assert again.err.startswith("yodctl: a partition of 4 nodes is up already, at ")


def test_a_start_of_another_number_of_nodes_leaves_those_that_are_there(place, four):
    _, first, *_ = unix_pids(place)
    os.kill(first, signal.SIGKILL)
    wait_for_exit(first)
    done = run("yodctl", "up", "--local", "3")
    assert done.status == 1
    assert "; `yodctl up --local 4` starts again what is gone, `yodctl down`" in done.err


def test_an_interrupted_mend_ends_what_it_has_started_and_nothing_else(place, four):
    bebopd, first, *others = unix_pids(place)
    os.kill(first, signal.SIGKILL)
    wait_for_exit(first)
    os.kill(bebopd, signal.SIGSTOP)  # it takes no node
    try:
        process = subprocess.Popen([BIN / "yodctl", "up", "--local", "4"], stderr=subprocess.PIPE)
        wait_until(lambda: unix_pids(place)[1] != first, what="a node that is started again")
        started = unix_pids(place)[1]
        process.send_signal(signal.SIGTERM)
        assert b"interrupted" in process.communicate(timeout=LIMIT_S)[1]
        wait_for_exit(started)
    finally:
        os.kill(bebopd, signal.SIGCONT)
    assert unix_pids(place)[2:] == others
    assert run("yodctl", "up", "--local", "4").status == 0
