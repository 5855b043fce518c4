"""A node that is lost while nodes copy a checkpoint: yod ends the job, and makes it whole."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from native.machine import Send
from native.wire import alloc, group, load
from tests.unit.yod import launch_of
from tests.unit.yod.launch_of import JOB_ID as ID
from tests.unit.yod.test_time_limit import KEPT, LOCAL, running, sent, told
from yod.launch.events import CheckpointAsked, Interrupted, Rescue
from yod.launch.phases import Phase

LOST = launch_of.failure(load.FailureKind.NODE_LOST, 1, text="died", phase="running")
END_S = launch_of.LIMITS.end_s


def copying(size: int = 3) -> launch_of.Yod:
    yod = running(size, how=replace(LOCAL, every_s=0.0))
    yod.handle(CheckpointAsked(ends=False))
    yod.receive(KEPT)
    return yod


def rescues(actions) -> list[Rescue]:
    return [each for each in actions if isinstance(each, Rescue)]


def test_the_job_ends_behind_what_others_drain_and_then_its_checkpoint_is_made_whole():
    yod = copying()
    yod.receive(launch_of.completions(2))
    actions = yod.receive(LOST)
    kinds = [each.message for each in actions if isinstance(each, Send)]
    assert kinds == [group.Rescue(ID, (1,)), load.AllDone(ID)]
    assert told(actions)[-1] == "its nodes copy the last checkpoint to /scratch; Ctrl-C ends that"
    assert sent(yod.wait(END_S + LOCAL.drain_s - 1), load.Reset) == []
    actions = yod.receive(launch_of.released(0, 2))
    assert yod.phase is Phase.RESETTING  # the lost node may be reached from here
    assert sent(actions, group.Rescue) == [group.Rescue(ID, (1,))]
    actions = yod.lose(launch_of.pct(1))
    assert rescues(actions) == [Rescue(1, (2,))]
    assert yod.phase is Phase.RELEASING
    assert rescues(yod.from_bebopd(alloc.Released(ID))) == []


def test_without_the_root_each_node_is_told_ahead_of_its_reset():
    yod = copying()
    actions = yod.lose(launch_of.ROOT)
    found = [(each.target, each.message) for each in actions if isinstance(each, Send)]
    rescue, reset = group.Rescue(ID, (0,)), load.Reset(ID)
    others = [launch_of.pct(1), launch_of.pct(2)]
    assert found[1:] == [(peer, message) for peer in others for message in (rescue, reset)]
    assert rescues(yod.receive(launch_of.released(1), launch_of.pct(1))) == []
    assert rescues(yod.receive(launch_of.released(2), launch_of.pct(2))) == [Rescue(1, ())]


@pytest.mark.parametrize("how", ["Ctrl-C", "too late"])
def test_nodes_that_are_not_waited_for_any_more_are_told_so(how):
    yod = copying()
    yod.receive(LOST)
    if how == "Ctrl-C":
        actions = yod.handle(Interrupted(launch_of.INT))
    else:
        actions = yod.wait(END_S + LOCAL.drain_s)
    assert set(sent(actions, group.Rescue)) == {group.Rescue(ID, ())}
    assert sent(actions, load.Reset)
    assert rescues(yod.receive(launch_of.released(0, 1, 2))) == []


@pytest.mark.parametrize("state", ["nothing kept", "all copied", "alone"])
def test_a_node_that_is_lost_at_another_time_ends_the_job_as_ever(state):
    if state == "nothing kept":
        yod = running(3, how=LOCAL)
    else:
        yod = copying(1 if state == "alone" else 3)
    if state == "all copied":
        yod.receive(group.Done(ID, 3, 1000, b"/scratch/checkpoint.1"))
    actions = yod.receive(replace(LOST, node=20, name="n20"))
    assert sent(actions, group.Rescue) == []
    assert sent(actions, load.AllDone)
