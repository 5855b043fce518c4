"""Jobs that end behind a checkpoint: for others (-nice), or since a node of theirs is drained."""

from __future__ import annotations

import shlex
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.support.partition import drained, finish
from tests.support.wait import read_until, wait_until
from tests.system.test_checkpoint import STUBBORN, Study

pytestmark = pytest.mark.system

NICE = ("-nice", "--checkpoint-on", "preempt")


@pytest.fixture(params=["cold", "warm"])
def study(request: pytest.FixtureRequest, start_local, tmp_path: Path) -> Study:
    """On two nodes of one slot; yod starts by itself, or in a launch server."""
    tmp_path.chmod(0o755)
    partition = start_local(2, slots=1)
    if request.param == "warm":
        partition.launch_server = request.getfixturevalue("launch_server")
    return Study(partition, tmp_path)


def gone_on(study: Study) -> None:
    """A later job begins where the checkpoint is."""
    study.let(9)
    again = study.partition.yod("--restart", str(study.kept))
    assert again.status == 0, again.err
    assert again.out.count(" begins at 2\n") == 2


def test_a_launch_is_written_down_before_it_gives_way(study, nothing_left_behind):
    nice = study.start(*NICE)
    assert study.partition.yod("-sz", "2", "true").status == 0
    ended = finish(nice)
    assert ended.status == 75
    assert "gives way for root (-nice), behind a checkpoint within 150 s: a checkpoint" in ended.err
    assert "SIGTERM" not in ended.err
    gone_on(study)


def test_one_that_cannot_be_written_down_gets_sigterm_at_once(study, nothing_left_behind):
    kept = ("--checkpoint-dir", str(study.kept))
    nice = study.partition.start_yod(*NICE, *kept, "-sz", "2", "sh", "-c", "echo up; exec sleep 99")
    read_until(nice.stdout.fileno(), b"up\n", times=2)
    assert study.partition.yod("-sz", "2", "true").status == 0
    ended = finish(nice)
    assert ended.status == 128 + signal.SIGTERM
    assert "no checkpoint: rank " in ended.err and "; SIGTERM sent to all ranks" in ended.err


def test_one_that_is_not_written_down_in_time_ends_by_signals(
    start_local, tmp_path, nothing_left_behind
):
    limits = {"YOD_NICE_CHECKPOINT_S": "0.5", "YOD_NICE_KILL_S": "0.5"}
    study = Study(start_local(1, slots=1, env=limits), tmp_path)
    kept = ("--checkpoint-dir", str(study.kept))
    never = f"trap '' TERM; {STUBBORN}"
    nice = study.partition.start_yod(*NICE, *kept, "-sz", "1", "sh", "-c", never)
    study.seen(nice, b"job ", 1)
    assert study.partition.yod("-sz", "1", "true").status == 0
    ended = finish(nice)
    assert ended.status == 128 + signal.SIGKILL
    assert "behind a checkpoint within 0.5 s" in ended.err
    assert "SIGTERM sent to all ranks, SIGKILL in 0.5 s" in ended.err
    assert study.names() == []


def test_a_drain_is_over_when_the_job_there_has_been_written_down(study, nothing_left_behind):
    yod = study.start("--checkpoint-on", "drain")
    with drained(study.partition, 1):
        ended = finish(yod)
        assert study.partition.states() == ["free", "drained"]
    assert ended.status == 75
    assert " is drained by root: test: a checkpoint is made\n" in ended.err
    gone_on(study)


@pytest.mark.parametrize("on", [(), ("--checkpoint-on", "TERM,preempt,timeout")])
def test_without_the_option_a_drain_waits_for_the_end_of_the_job(study, on):
    yod = study.start(*on)
    with drained(study.partition, 1):
        assert study.partition.states()[1] == "draining"
        study.let(9)
        ended = finish(yod)
    assert (ended.status, ended.out.count(" at 4\n")) == (0, 2)
    assert study.names() == []


def test_a_batch_job_is_requeued_behind_its_checkpoint_when_its_node_is_drained(jobs):
    study = Study(jobs.partition, jobs.directory)
    words = shlex.join(study.words(4))
    text = f"exec yod --restart {study.kept} --checkpoint-on drain -sz 1 {words}"
    job_id = jobs.submit("--requeue-on", "75", text=text)
    says = partial(jobs.says, job_id)
    wait_until(lambda: says("rank 0 at 2\n"), what="two steps")
    (node,) = jobs.row(job_id)["nodes"]
    with drained(jobs.partition, node):
        wait_until(lambda: says("rank 0 begins at 2\n"), what="the second time")
        assert jobs.row(job_id)["nodes"] != [node]
        study.let(9)
        assert jobs.wait(job_id) == 0
    assert jobs.says(job_id, " is drained by root: test: a checkpoint is made\n")
    events = jobs.yodjob("show", "--events", job_id).out
    assert "waits again (1): its script ended with 75" in events
