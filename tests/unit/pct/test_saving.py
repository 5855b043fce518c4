"""A trial of a checkpoint on a node: the saver looks, votes go up, and no rank is told."""

from __future__ import annotations

import pytest

from native.machine import DeadlineReached
from native.wire import group, io
from pct import events
from pct.job.saving import HOLD_S
from pct.rare_events import HoldOutput, MarkRank, RankSaved
from tests.unit.pct import job_of
from tests.unit.pct.job_of import JOB_ID as ID

BEGIN = group.Begin(ID, 10, 60.0, 2, b"{}", is_trial=True)


def inspecting():
    """A job alone on its node, whose saver looks."""
    job = job_of.a_job(*job_of.RUNNING, checkpoints=group.Checkpoints(b"/scratch", "c"))
    actions = job.handle(job_of.received(job_of.YOD, BEGIN), job_of.BEGIN)
    (run,) = [each for each in actions if isinstance(each, events.RunSaver)]
    assert run.words[0] == b"inspect"
    return job


@pytest.mark.parametrize("text", ["", "rank 0: it is in the way"])
def test_the_root_answers_with_what_the_saver_says_and_commits_nothing(text):
    job = inspecting()
    actions = job.handle(events.SaverEnded(ID, 0, b"", text), job_of.BEGIN)
    assert not [each for each in actions if isinstance(each, events.RunSaver)]
    (done,) = [
        each.message for each in actions if isinstance(getattr(each, "message", 0), group.Done)
    ]
    assert (done.path, done.text) == (b"", text)


def test_no_rank_is_told_and_a_checkpoint_may_follow():
    job = inspecting()
    assert job.handle(events.SaverReady(ID), job_of.BEGIN) == []
    job.handle(events.SaverEnded(ID, 0, b"", ""), job_of.BEGIN)
    actions = job.handle(
        job_of.received(job_of.YOD, group.Begin(ID, 10, 60.0, 2, b"{}")), job_of.BEGIN
    )
    (run,) = [each for each in actions if isinstance(each, events.RunSaver)]
    assert run.words[0] == b"collect"


HELD = group.Begin(ID, 0, 60.0, 2, b"{}", holds_output=True)


def holding():
    """A job alone on its node, which holds output for a checkpoint."""
    job = job_of.a_job(*job_of.RUNNING, checkpoints=group.Checkpoints(b"/scratch", "c"))
    actions = job.handle(job_of.received(job_of.YOD, HELD), job_of.BEGIN)
    (run,) = [each for each in actions if isinstance(each, events.RunSaver)]
    assert run.words[0] == b"collect-held"
    job.handle(events.SaverReady(ID), job_of.BEGIN)
    return job


def done_in(actions) -> list[group.Done]:
    messages = [getattr(each, "message", None) for each in actions]
    return [each for each in messages if isinstance(each, group.Done)]


def test_a_rank_that_is_saved_is_marked_once_and_its_output_is_held():
    job = holding()
    rank = job.ranks[0]
    held = [HoldOutput(ID, rank), MarkRank(ID, rank)]
    assert job.handle(RankSaved(ID, rank), job_of.BEGIN) == held
    assert job.handle(RankSaved(ID, rank), job_of.BEGIN) == []
    assert job.handle(RankSaved(ID, 4000), job_of.BEGIN) == []  # of another node


def test_a_node_votes_behind_the_output_from_before_and_goes_on_when_yod_says_so():
    job = holding()
    for rank in job.ranks:
        job.handle(RankSaved(ID, rank), job_of.BEGIN)
    data = b"x" * (64 * 1024)
    for _ in range(2):  # more than there is credit for
        job.handle(events.OutputRead(ID, job.ranks[0], 1, data), job_of.BEGIN)
    actions = job.handle(events.SaverEnded(ID, 0, b"", "no space"), job_of.BEGIN)
    assert HoldOutput(ID, None) in actions and not done_in(actions)
    credit = io.OutputCredit(ID, 1, 1 << 20)
    (done,) = done_in(job.handle(job_of.received(job_of.YOD, credit), job_of.BEGIN))
    assert done.text == "no space"
    goes_on = HoldOutput(ID, None, is_on=False)
    on = job_of.received(job_of.YOD, group.GoOn(ID))
    assert job.handle(on, job_of.BEGIN) == [goes_on]
    assert job.handle(on, job_of.BEGIN) == []


def test_output_is_not_held_for_ever():
    job = holding()
    job.handle(events.SaverEnded(ID, 0, b"", "no space"), job_of.BEGIN)
    until = job.deadline()
    assert until is not None
    while (at := job.deadline()) is not None and at <= job_of.BEGIN + 60.0 + HOLD_S:
        actions = job.handle(DeadlineReached(), at)
        if HoldOutput(ID, None, is_on=False) in actions:
            return
    raise AssertionError("it is held")
