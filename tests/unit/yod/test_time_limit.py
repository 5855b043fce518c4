"""The time limit of a launch, and the checkpoints that are made of it."""

from __future__ import annotations

import signal

import pytest
from msgspec.structs import replace

from native.machine import Send
from native.wire import group, load
from native.wire.base import State
from native.wire.group import Checkpoints
from tests.unit.yod import launch_of
from yod.launch.events import (
    Checked,
    CheckpointAsked,
    Checkpointed,
    Interrupted,
    MarkOutput,
    Tell,
)
from yod.launch.phases import Phase
from yod.plan.checkpoint import AUTO, Checkpointing, Occasion
from yod.plan.plan import TimeLimit

WHERE = Checkpoints(b"/scratch", ".collecting-1")
HOW = Checkpointing(directory="/scratch", where=WHERE, recipe=b"{}", grace_s=5.0)


def running(size: int = 2, how: Checkpointing | None = None, **options) -> launch_of.Yod:
    """A launch whose ranks run."""
    return launch_of.Yod(size, checkpointing=how, **options).to(Phase.RUNNING)


def sent(actions, kind):
    return [
        each.message for each in actions if isinstance(each, Send) and type(each.message) is kind
    ]


def told(actions) -> list[str]:
    return [each.text for each in actions if isinstance(each, Tell)]


def whole(path: bytes = b"/scratch/checkpoint.1", text: str = "") -> group.Done:
    return group.Done(launch_of.JOB_ID, 2, 1000, path, text)


def test_the_ranks_are_warned_then_ended_then_killed():
    yod = running(time_limit=TimeLimit(10.0, signal.SIGUSR1, 4.0))
    assert sent(yod.wait(5.9), load.Signal) == []
    assert [each.signal_number for each in sent(yod.wait(0.2), load.Signal)] == [signal.SIGUSR1]
    assert [each.signal_number for each in sent(yod.wait(4.0), load.Signal)] == [signal.SIGTERM]
    assert yod.phase is Phase.RUNNING
    assert sent(yod.wait(launch_of.LIMITS.kill_delay_s), load.AllDone)
    assert yod.report.is_timed_out
    assert yod.report.end().state is State.TIMEOUT


def test_without_a_kill_delay_ranks_are_killed_when_their_time_is_over():
    yod = running(time_limit=TimeLimit(10.0), limits=replace(launch_of.LIMITS, kill_delay_s=0.0))
    actions = yod.wait(10.0)
    assert told(actions) == ["its time limit of 0:00:10 is over; its ranks are being killed"]
    assert sent(actions, load.AllDone)
    assert not sent(actions, load.Signal)
    assert yod.report.end().state is State.TIMEOUT


def test_one_without_a_limit_has_that_of_its_queue():
    yod = launch_of.Yod(2)
    yod.from_bebopd(replace(launch_of.grant(2), time_s=10.0))
    yod.receive(load.Vote(launch_of.JOB_ID, 2, (), (), launch_of.slowest()))
    yod.receive(launch_of.held(0, 1))
    assert told(yod.wait(9.9)) == []
    assert told(yod.wait(0.2)) == [
        "its queue's limit of 0:00:10 is over; SIGTERM sent to all ranks"
    ]
    assert yod.report.is_timed_out


def test_bebopd_is_told_how_long_the_nodes_are_wanted():
    written = replace(HOW, on=frozenset({Occasion.TIMEOUT}))
    limit = TimeLimit(10.0)
    asked = {
        launch_of.Yod(1).first[0].message.time_s: 0.0,
        launch_of.Yod(1, time_limit=limit).first[0].message.time_s: 10.0,
        launch_of.Yod(1, time_limit=limit, checkpointing=written).first[0].message.time_s: 105.0,
    }
    assert list(asked) == list(asked.values())
    held = launch_of.Yod(1, time_limit=limit, awaits_user=True)
    assert held.first[0].message.time_s == 0.0  # its time begins when its user says go


def test_a_launch_that_ends_in_time_is_not_timed_out():
    yod = running(time_limit=TimeLimit(10.0))
    yod.receive(launch_of.completions(0, 1))
    assert sent(yod.wait(11.0), load.Signal) == []
    assert not yod.report.is_timed_out


def test_a_checkpoint_goes_before_the_end_of_the_time():
    how = replace(HOW, on=frozenset({Occasion.TIMEOUT}))
    yod = running(how=how, time_limit=TimeLimit(10.0))
    actions = yod.wait(10.1)
    assert sent(actions, group.Begin) and not sent(actions, load.Signal)
    actions = yod.receive(whole())
    assert sent(actions, load.AllDone)
    assert not yod.report.is_timed_out


def test_without_its_checkpoint_the_time_ends_the_ranks():
    how = replace(HOW, on=frozenset({Occasion.TIMEOUT}))
    yod = running(how=how, time_limit=TimeLimit(10.0))
    yod.wait(10.1)
    actions = yod.receive(whole(b"", "rank 1 has not saved in time"))
    assert [each.signal_number for each in sent(actions, load.Signal)] == [signal.SIGTERM]
    assert yod.report.is_timed_out


def test_a_checkpoint_is_made_every_so_often_from_the_end_of_the_last():
    yod = running(how=replace(HOW, every_s=10.0))
    assert sent(yod.wait(10.1), group.Begin)
    assert sent(yod.wait(20.0), group.Begin) == []  # one is being made
    yod.receive(whole())
    assert sent(yod.wait(9.9), group.Begin) == []
    assert sent(yod.wait(0.2), group.Begin)


def test_auto_is_youngs_interval_of_what_a_checkpoint_takes():
    yod = running(how=replace(HOW, every_s=AUTO))
    yod.handle(CheckpointAsked(ends=False))
    yod.wait(2.0)
    yod.receive(whole())
    interval_s = (2 * 2.0 * launch_of.LIMITS.node_mtbf_s / 2) ** 0.5
    assert sent(yod.wait(interval_s - 1), group.Begin) == []
    assert sent(yod.wait(2.0), group.Begin)


@pytest.mark.parametrize("text", ["", "no space left on device"])
def test_a_job_that_is_to_end_does_so_behind_a_whole_checkpoint_only(text):
    yod = running(how=HOW)
    yod.handle(CheckpointAsked(ends=True))
    actions = yod.receive(whole(b"" if text else b"/scratch/checkpoint.1", text))
    assert bool(sent(actions, load.AllDone)) is not bool(text)
    assert [each.text for each in actions if isinstance(each, Checkpointed)] == [text]


def test_a_second_checkpoint_is_refused_while_one_is_made_but_may_end_the_job():
    yod = running(how=HOW)
    yod.handle(CheckpointAsked(ends=False))
    (answer,) = yod.handle(CheckpointAsked(ends=False))
    assert answer == Checkpointed(b"", "a checkpoint is being made already")
    assert yod.handle(CheckpointAsked(ends=True)) == []
    assert sent(yod.receive(whole()), load.AllDone)


@pytest.mark.parametrize("text", ["", "rank 0: it is in the way"])
def test_a_trial_makes_no_checkpoint_and_says_what_the_nodes_say(text):
    yod = running(how=replace(HOW, every_s=10.0))
    (begin,) = sent(yod.handle(CheckpointAsked(ends=False, is_trial=True)), group.Begin)
    assert begin.is_trial
    assert yod.handle(CheckpointAsked(ends=False, is_trial=True)) == []
    assert yod.receive(whole(b"", text)) == [Checked(text)]
    (begin,) = sent(yod.wait(10.1), group.Begin)  # in its time
    assert not begin.is_trial


def test_what_is_asked_for_during_a_trial_begins_behind_it():
    yod = running(how=HOW)
    yod.handle(CheckpointAsked(ends=False, is_trial=True))
    assert yod.handle(CheckpointAsked(ends=False)) == []
    assert yod.handle(CheckpointAsked(ends=True)) == []
    actions = yod.receive(whole(b"", "rank 0: it is in the way"))
    assert actions[0] == Checked("rank 0: it is in the way")
    (begin,) = sent(actions, group.Begin)
    assert not begin.is_trial
    assert sent(yod.receive(whole()), load.AllDone)


def test_a_trial_is_refused_while_a_checkpoint_is_made():
    yod = running(how=HOW)
    yod.handle(CheckpointAsked(ends=False))
    answer = yod.handle(CheckpointAsked(ends=False, is_trial=True))
    assert answer == [Checked("a checkpoint is being made already")]


def test_sigterm_is_followed_by_a_checkpoint_once():
    yod = running(how=replace(HOW, on=frozenset({Occasion.TERM})))
    assert sent(yod.handle(Interrupted(signal.SIGTERM)), group.Begin)
    yod.wait(2.0)
    actions = yod.handle(Interrupted(signal.SIGTERM))
    assert sent(actions, load.Signal)


def test_a_launch_without_a_directory_says_so():
    (answer,) = running().handle(CheckpointAsked(ends=False))
    assert answer == Checkpointed(b"", "it was started without --checkpoint-dir")


KEPT = group.Done(launch_of.JOB_ID, 2, 1000, is_kept=True)
LOCAL = replace(HOW, local="/dev/shm", every_s=AUTO, holds_output=True, drain_s=60.0)


def test_ranks_go_on_when_nodes_keep_them_and_it_is_a_checkpoint_when_it_is_drained():
    yod = running(how=LOCAL)
    yod.handle(CheckpointAsked(ends=False))
    yod.wait(2.0)
    actions = yod.receive(KEPT)
    assert [each.drains for each in sent(actions, group.GoOn)] == [True]
    assert MarkOutput(b"") in actions
    assert not any(isinstance(each, Checkpointed) for each in actions)
    assert yod.handle(CheckpointAsked(ends=False)) == [
        Checkpointed(b"", "a checkpoint is being made already")
    ]
    yod.wait(50.0)
    actions = yod.receive(whole())
    assert sent(actions, group.GoOn) == []
    assert MarkOutput(b"/scratch/checkpoint.1") in actions
    assert Checkpointed(b"/scratch/checkpoint.1", "") in actions
    interval_s = (2 * 2.0 * launch_of.LIMITS.node_mtbf_s / 2) ** 0.5  # by what ranks waited for
    assert sent(yod.wait(interval_s - 1), group.Begin) == []
    (begun,) = sent(yod.wait(2.0), group.Begin)
    assert begun.attempt == 2


def test_nodes_that_keep_ranks_for_nothing_are_told_so():
    yod = running(how=replace(LOCAL, holds_output=False))
    yod.handle(CheckpointAsked(ends=False))
    actions = yod.receive(whole(b"", "no space left on device"))
    assert [each.drains for each in sent(actions, group.GoOn)] == [False]
    assert told(actions) == ["no checkpoint: no space left on device; the job goes on"]


def test_a_job_that_is_to_end_does_so_behind_the_drain():
    yod = running(how=LOCAL)
    yod.handle(CheckpointAsked(ends=True))
    assert sent(yod.receive(KEPT), load.AllDone) == []
    assert sent(yod.receive(whole()), load.AllDone)


def copying() -> launch_of.Yod:
    """A launch whose nodes keep its ranks, and copy them."""
    yod = running(how=LOCAL)
    yod.handle(CheckpointAsked(ends=False))
    yod.receive(KEPT)
    return yod


@pytest.mark.parametrize("text", ["", "no space left on device"])
def test_a_job_that_fails_ends_when_its_nodes_have_copied(text):
    yod = copying()
    yod.receive(launch_of.completions(0, wait_status=11))
    yod.wait(launch_of.LIMITS.kill_delay_s)
    actions = yod.wait(launch_of.LIMITS.kill_delay_s)
    assert [each.signal_number for each in sent(actions, load.Signal)] == [signal.SIGKILL]
    assert sent(actions, load.AllDone) == []
    actions = yod.receive(launch_of.completions(1, wait_status=9))
    assert sent(actions, load.AllDone) == []
    assert "its nodes copy the last checkpoint to /scratch" in told(actions)[-1]
    path = b"" if text else b"/scratch/checkpoint.1"
    actions = yod.receive(whole(path, text))
    assert sent(actions, load.AllDone)
    assert Checkpointed(path, text) in actions
    assert (MarkOutput(path) in actions) is not bool(text)


def test_ranks_that_do_not_die_do_not_outlive_the_copy():
    yod = copying()
    yod.receive(launch_of.completions(0, wait_status=11))
    for _ in range(2):
        yod.wait(launch_of.LIMITS.kill_delay_s)
    assert sent(yod.receive(whole()), load.AllDone)


def test_a_job_that_has_succeeded_or_is_interrupted_does_not_wait_for_its_nodes():
    yod = copying()
    assert sent(yod.receive(launch_of.completions(0, 1)), load.AllDone)
    yod = copying()
    assert sent(yod.receive(launch_of.completions(0, 1, wait_status=11)), load.AllDone) == []
    assert sent(yod.handle(Interrupted(signal.SIGINT)), load.AllDone)
