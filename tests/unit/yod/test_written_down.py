"""bebopd asks a launch to end behind a checkpoint: for others, or since a node is drained."""

from __future__ import annotations

import signal

import pytest
from msgspec.structs import replace

from native.errors import UsageError
from native.wire import group, load
from native.wire.group import WriteDown
from tests.unit.yod import launch_of
from tests.unit.yod.test_time_limit import HOW, sent, told, whole
from yod.launch.checkpoints import WRITTEN_STATUS
from yod.launch.events import CheckpointAsked, Interrupted
from yod.launch.phases import Phase
from yod.plan.checkpoint import Checkpointing, Occasion
from yod.plan.checkpointing import chosen

BOTH = replace(HOW, on=frozenset({Occasion.PREEMPT, Occasion.DRAIN}))
GIVES_WAY = WriteDown(launch_of.JOB_ID, "gives way for bob (-nice)", gives_way=True)
DRAINED = WriteDown(launch_of.JOB_ID, "node 3 (n3) is drained by root: fan")
WRITE_DOWN = pytest.mark.parametrize("message", [GIVES_WAY, DRAINED])
FULL = "no space left on device"


def running(how: Checkpointing | None = BOTH) -> launch_of.Yod:
    return launch_of.Yod(2, checkpointing=how, gives_way=True).to(Phase.RUNNING)


def signals(actions) -> list[int]:
    return [each.signal_number for each in sent(actions, load.Signal)]


@WRITE_DOWN
def test_it_ends_behind_a_checkpoint_with_the_status_of_that(message):
    yod = running()
    actions = yod.from_bebopd(message)
    assert told(actions) == [f"{message.text}: a checkpoint is made"]
    assert sent(actions, group.Begin) and not signals(actions)
    actions = yod.receive(whole())
    assert sent(actions, load.AllDone)
    assert launch_of.leave(yod) == WRITTEN_STATUS


@WRITE_DOWN
@pytest.mark.parametrize("how", [None, HOW, replace(HOW, on=frozenset({Occasion.TERM}))])
def test_one_that_has_no_reason_to_make_a_checkpoint_then_does_nothing(message, how):
    assert running(how).from_bebopd(message) == []


def test_what_is_drained_goes_on_without_its_checkpoint_and_can_be_asked_again():
    yod = running()
    yod.from_bebopd(DRAINED)
    actions = yod.receive(whole(b"", FULL))
    assert told(actions) == [f"no checkpoint: {FULL}; the job goes on"]
    assert not signals(actions)
    assert sent(yod.from_bebopd(DRAINED), group.Begin)


def test_what_gives_way_ends_without_its_checkpoint_too_and_its_ranks_say_how():
    yod = running()
    yod.from_bebopd(GIVES_WAY)
    actions = yod.receive(whole(b"", FULL))
    assert told(actions) == [f"no checkpoint: {FULL}; SIGTERM sent to all ranks"]
    assert signals(actions) == [signal.SIGTERM]
    yod.receive(launch_of.completions(0, 1))  # they have saved themselves, and ended well
    assert launch_of.leave(yod) == 0


@WRITE_DOWN
def test_it_ends_behind_the_checkpoint_that_is_being_made(message):
    yod = running()
    yod.handle(CheckpointAsked(ends=False))
    assert not sent(yod.from_bebopd(message), group.Begin)
    assert sent(yod.receive(whole()), load.AllDone)


@WRITE_DOWN
def test_what_is_asked_for_during_a_trial_begins_behind_it(message):
    yod = running()
    yod.handle(CheckpointAsked(ends=False, is_trial=True))
    yod.from_bebopd(message)
    yod.handle(CheckpointAsked(ends=False))
    assert sent(yod.receive(whole(b"", "rank 0: in the way")), group.Begin)
    assert sent(yod.receive(whole()), load.AllDone)


@pytest.mark.parametrize("later", [DRAINED, CheckpointAsked(ends=True)])
def test_who_is_to_end_without_a_checkpoint_too_does_so_whoever_asks_for_one_later(later):
    yod = running(replace(BOTH, on=BOTH.on | {Occasion.TERM}))
    yod.handle(Interrupted(signal.SIGTERM))
    yod.from_bebopd(later) if isinstance(later, WriteDown) else yod.handle(later)
    assert signals(yod.receive(whole(b"", FULL))) == [signal.SIGTERM]
    yod.wait(launch_of.LIMITS.press_s)
    assert signals(yod.handle(Interrupted(signal.SIGTERM)))


@pytest.mark.parametrize("phase", [Phase.FORMING, Phase.LOADING, Phase.STARTING, Phase.HELD])
def test_before_its_ranks_run_it_gives_way_at_once_and_is_not_ended_by_a_drain(phase):
    yod = launch_of.Yod(2, checkpointing=BOTH).to(phase)
    (text,) = told(yod.from_bebopd(DRAINED))
    assert text == f"{DRAINED.text}; no checkpoint: its ranks do not run; the job goes on"
    assert yod.phase is phase
    assert told(yod.from_bebopd(GIVES_WAY)) == [f"{GIVES_WAY.text}; its ranks do not run yet"]
    assert yod.phase is Phase.ENDING


def test_bebopd_is_told_how_long_a_launch_wants_for_its_checkpoint():
    def wanted(**fields) -> float:
        return launch_of.Yod(1, **fields).first[0].message.terms.checkpoint_s

    assert wanted(gives_way=True) == wanted(gives_way=True, checkpointing=HOW) == 0.0
    assert wanted(gives_way=True, checkpointing=BOTH) == BOTH.most_s == 95.0


@pytest.mark.parametrize(
    ("words", "nice", "on"),
    [
        ("preempt", False, {Occasion.TERM}),
        ("preempt", True, {Occasion.PREEMPT}),
        ("Drain,term", False, {Occasion.DRAIN, Occasion.TERM}),
        ("drain,preempt,TIMEOUT", True, {Occasion.DRAIN, Occasion.PREEMPT, Occasion.TIMEOUT}),
    ],
)
def test_the_option_says_before_what(words, nice, on):
    given = {"--checkpoint-dir": ["d"], "--checkpoint-on": [words]}
    assert chosen(given | ({"-nice": [""]} if nice else {})).on == on


def test_another_occasion_is_named_with_those_that_there_are():
    with pytest.raises(UsageError, match="lunch: one of TERM, timeout, preempt, drain"):
        chosen({"--checkpoint-dir": ["d"], "--checkpoint-on": ["lunch"]})
