"""Processes that do not end when they are killed: what a node does, and when."""

import pytest

from native.machine import DeadlineReached
from native.wire import alloc, keeper
from pct.events import (
    KeeperReported,
    KillKeepers,
    KillOrphans,
    NameProcesses,
    ProcessesNamed,
    TellBebopd,
)
from pct.job.progress import JobState
from tests.unit.pct.job_of import ALL_DONE, EMPTY, JOB_ID, NOW, RUNNING, a_job

LIMIT_S = 60.0
LOST = KeeperReported(JOB_ID, keeper.KeeperLost("killed by SIGKILL"))


def an_ending_job():
    job = a_job(*RUNNING, unkillable_s=LIMIT_S)
    job.handle(ALL_DONE, NOW)
    return job


def due(job, now):
    assert job.deadline() is not None and job.deadline() <= now
    return [each for each in job.handle(DeadlineReached(), now) if not hasattr(each, "text")]


def test_keepers_that_do_not_end_in_time_are_killed():
    job = an_ending_job()
    assert job.handle(DeadlineReached(), NOW + LIMIT_S - 1) == []
    assert due(job, NOW + LIMIT_S) == [KillKeepers(JOB_ID)]
    assert job.handle(LOST, NOW + LIMIT_S + 1)[-1:] == [KillOrphans(JOB_ID, 0)]


def test_bebopd_is_told_once_of_processes_that_outlive_their_keeper():
    job = an_ending_job()
    due(job, NOW + LIMIT_S)
    job.handle(LOST, NOW + LIMIT_S + 1)
    assert due(job, NOW + 2 * LIMIT_S) == [NameProcesses(JOB_ID)]
    named = ProcessesNamed(JOB_ID, "process 5 (dd, state D)")
    told = job.handle(named, NOW + 2 * LIMIT_S)[-1]
    text = "cannot be killed: process 5 (dd, state D)"
    assert told == TellBebopd(alloc.Unfit(JOB_ID, 20, text))
    assert job.deadline() is None
    assert job.state is JobState.ENDING  # its slots are held until they have ended


@pytest.mark.parametrize(("events", "text"), [((), ""), ((EMPTY,), "process 5 (dd, state D)")])
def test_nobody_is_told_of_processes_that_have_ended_while_they_were_looked_for(events, text):
    job = an_ending_job()
    due(job, NOW + LIMIT_S)
    due(job, NOW + 2 * LIMIT_S)
    for event in events:
        job.handle(event, NOW + 2 * LIMIT_S)
    assert job.handle(ProcessesNamed(JOB_ID, text), NOW + 2 * LIMIT_S) == []


def test_nothing_is_done_against_processes_that_have_ended():
    job = an_ending_job()
    job.handle(EMPTY, NOW + 1)
    assert job.handle(DeadlineReached(), NOW + LIMIT_S) == []
    assert job.deadline() is None
