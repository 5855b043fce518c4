"""`yod -nice` on real daemons: it has nodes that are free, and gives them up for others."""

from __future__ import annotations

import signal

import pytest

from tests.support.partition import finish
from tests.support.wait import read_until
from tests.system.test_bebopd import restart

pytestmark = pytest.mark.system

SLEEP = ("sh", "-c", "echo up; exec sleep 600")
STUBBORN = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 600; done")
SAVES = ("sh", "-c", "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done")


def start(partition, *words):
    yod = partition.start_yod(*words)
    read_until(yod.stdout.fileno(), b"up\n")
    return yod


def test_a_launch_gives_way_to_one_that_does_not_and_says_to_whom(start_local, nothing_left_behind):
    partition = start_local(2, slots=1)
    nice = start(partition, "-nice", "-sz", "2", *SLEEP)
    done = partition.yod("-sz", "2", "true")
    assert done.status == 0, done.err
    ended = finish(nice)
    assert ended.status == 128 + signal.SIGTERM
    assert "gives way for root (-nice): SIGTERM sent to all ranks, SIGKILL in 300 s" in ended.err


def test_what_ignores_sigterm_is_killed_after_the_grace(start_local, nothing_left_behind):
    partition = start_local(1, slots=1, env={"YOD_NICE_KILL_S": "0.5"})
    nice = start(partition, "-nice", "-sz", "1", *STUBBORN)
    assert partition.yod("--wait", "-sz", "1", "true").status == 0
    ended = finish(nice)
    assert ended.status == 128 + signal.SIGKILL
    assert "SIGKILL in 0.5 s" in ended.err


def test_what_saves_itself_in_its_grace_ends_as_it_likes(start_local):
    partition = start_local(1, slots=1)
    nice = start(partition, "-nice", "-sz", "1", *SAVES)
    assert partition.yod("-sz", "1", "true").status == 0
    ended = finish(nice)
    assert (ended.status, ended.out) == (0, "saved\n")


def test_none_gives_way_to_another_that_does(start_local):
    partition = start_local(1, slots=1)
    nice = start(partition, "-nice", "-sz", "1", *SAVES)
    refused = partition.yod("-nice", "-sz", "1", "true")
    assert refused.status != 0 and "free now" in refused.err, refused
    assert partition.yod("-sz", "1", "true").status == 0
    assert finish(nice).out == "saved\n"


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended"])
def test_a_bebopd_that_is_started_again_knows_what_gives_way(
    start_local, nothing_left_behind, place, kill
):
    partition = start_local(3, slots=1)
    stays = start(partition, "-sz", "1", *SAVES)
    nice = start(partition, "-nice", "-sz", "2", *SLEEP)
    restart(partition, nothing_left_behind, place, kill=kill)
    done = partition.yod("-sz", "2", "true")
    assert done.status == 0, done.err
    assert finish(nice).status == 128 + signal.SIGTERM
    refused = partition.yod("-sz", "3", "true")  # what does not give way goes on
    assert refused.status != 0 and "2 of 3 slots free" in refused.err, refused
    stays.terminate()
    assert finish(stays).out == "saved\n"


def test_what_was_told_to_end_by_a_bebopd_that_died_is_told_again(
    start_local, nothing_left_behind, place
):
    partition = start_local(1, slots=1, env={"YOD_NICE_KILL_S": "0.5"})
    nice = start(partition, "-nice", "-sz", "1", *STUBBORN)
    restart(partition, nothing_left_behind, place, kill=True)
    assert partition.yod("-sz", "1", "true").status == 0
    assert finish(nice).status == 128 + signal.SIGKILL
