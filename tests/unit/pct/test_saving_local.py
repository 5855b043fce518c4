"""A node keeps its ranks first: it votes, drains when yod says so, and votes again."""

from __future__ import annotations

import pytest

from native.machine import DeadlineReached
from native.wire import group, keeper, load
from pct import events
from tests.unit.pct import job_of
from tests.unit.pct.job_of import JOB_ID as ID
from tests.unit.pct.test_saving import done_in

WHERE = group.Checkpoints(
    b"/scratch", "c", local=b"/dev/shm/yod-checkpoints-0", local_bytes=1000, drain_s=9.0
)
BEGIN = group.Begin(ID, 10, 60.0, 2, b"{}", attempt=3)
DRAIN = group.GoOn(ID, drains=True)
KEPT = (WHERE.local, b"c.0")
SHARED = (b"/scratch", b"c")


def savers(actions) -> list[tuple[bytes, ...]]:
    return [each.words for each in actions if isinstance(each, events.RunSaver)]


def kept():
    """A job alone on its node, which keeps its ranks."""
    job = job_of.a_job(*job_of.RUNNING, checkpoints=WHERE)
    (words,) = savers(job.handle(job_of.received(job_of.YOD, BEGIN), job_of.BEGIN))
    assert (words[:3], words[-3:]) == ((b"collect", b"0", b"3"), (*KEPT, b"1000"))
    job.handle(events.SaverReady(ID), job_of.BEGIN)
    (done,) = done_in(job.handle(events.SaverEnded(ID, 7, b"", ""), job_of.BEGIN))
    assert (done.is_kept, done.size, done.text) == (True, 7, "")
    return job


def draining():
    job = kept()
    (words,) = savers(job.handle(job_of.received(job_of.YOD, DRAIN), job_of.BEGIN))
    assert words == (b"drain", b"0", *KEPT, *SHARED)
    return job


def test_the_root_makes_it_whole_behind_the_drain():
    job = draining()
    (words,) = savers(job.handle(events.SaverEnded(ID, 7, b"", ""), job_of.BEGIN))
    assert words == (b"commit", b"3", b"2", *SHARED)
    ended = events.SaverEnded(ID, 7, b"/scratch/checkpoint.1", "")
    (done,) = done_in(job.handle(ended, job_of.BEGIN))
    assert (done.path, done.is_kept) == (b"/scratch/checkpoint.1", False)


def test_a_drain_that_fails_is_told_and_another_checkpoint_may_follow():
    job = draining()
    (done,) = done_in(job.handle(events.SaverEnded(ID, 0, b"", "no space"), job_of.BEGIN))
    assert (done.text, done.is_kept) == ("no space", False)
    assert savers(job.handle(job_of.received(job_of.YOD, BEGIN), job_of.BEGIN))


def test_a_drain_that_takes_too_long_is_killed():
    job = draining()
    assert job.deadline() == job_of.BEGIN + WHERE.drain_s
    assert events.KillSaver(ID) in job.handle(DeadlineReached(), job_of.BEGIN + WHERE.drain_s)
    (done,) = done_in(job.handle(events.SaverEnded(ID, 0, b"", "killed"), job_of.BEGIN))
    assert done.text == "not drained to /scratch within 9 s"


@pytest.mark.parametrize("between", [(), (group.GoOn(ID),)])
def test_what_was_kept_for_nothing_is_not_drained_and_another_checkpoint_may_follow(between):
    job = kept()
    for message in between:
        assert savers(job.handle(job_of.received(job_of.YOD, message), job_of.BEGIN)) == []
    assert savers(job.handle(job_of.received(job_of.YOD, BEGIN), job_of.BEGIN))


def test_without_anything_to_keep_here_go_on_drains_nothing():
    job = job_of.a_job(*job_of.RUNNING, checkpoints=WHERE)
    assert savers(job.handle(job_of.received(job_of.YOD, DRAIN), job_of.BEGIN)) == []


def ended_ranks(job):
    """The job ends, and its keeper with its ranks."""
    actions = job.handle(job_of.received(job_of.YOD, load.AllDone(ID)), job_of.BEGIN)
    empty = events.KeeperReported(ID, keeper.KeeperEmpty())
    outputs = [events.OutputRead(ID, rank, stream, b"") for rank in job.ranks for stream in (1, 2)]
    gone = (empty, events.LeftoversRemoved(ID, 0))
    for event in (*outputs, *map(job_of.ended, job.ranks), *gone):
        actions += job.handle(event, job_of.BEGIN)
    return actions


def released(actions) -> bool:
    return any(isinstance(getattr(each, "message", None), load.Released) for each in actions)


@pytest.mark.parametrize("is_draining", [False, True])
def test_what_is_not_drained_when_the_job_ends_is_removed_before_it_is_released(is_draining):
    job = draining() if is_draining else kept()
    actions = ended_ranks(job)
    if is_draining:
        assert events.KillSaver(ID) in actions
        actions = job.handle(events.SaverEnded(ID, 0, b"", "killed"), job_of.BEGIN)
    assert savers(actions) == [(b"drop", *KEPT)]
    assert not released(actions)
    assert released(job.handle(events.SaverEnded(ID, 0, b"", ""), job_of.BEGIN))


def test_a_job_whose_nodes_keep_nothing_is_released_at_once():
    job = draining()
    job.handle(events.SaverEnded(ID, 7, b"", ""), job_of.BEGIN)
    job.handle(events.SaverEnded(ID, 7, b"/scratch/checkpoint.1", ""), job_of.BEGIN)
    actions = ended_ranks(job)
    assert savers(actions) == []
    assert released(actions)
