"""A trial of a checkpoint on a node: the saver looks, votes go up, and no rank is told."""

from __future__ import annotations

import pytest

from native.wire import group
from pct import events
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
