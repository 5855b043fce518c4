"""How bebopd knows how the jobs of yods have ended."""

from __future__ import annotations

import pytest

from allocator.jobs.outcomes import Outcomes
from native.ids import PortalId
from native.wire.base import JobEnd, State

YOD, OTHER = PortalId(1, 1), PortalId(1, 2)
ALICE, BOB = 1000, 1001
WELL = JobEnd(State.COMPLETED, 0, 0, "")
FAILED = JobEnd(State.FAILED, 3, 0, "rank 0 on n1: ended with exit code 3")


@pytest.fixture
def outcomes():
    made = Outcomes(3)
    made.granted(1, ALICE, YOD)
    yield made
    made.check()


def news(outcomes):
    found = set(outcomes.news)
    outcomes.news.clear()
    outcomes.check()
    return found


@pytest.mark.parametrize(("end", "is_well"), [(WELL, True), (FAILED, False), (None, False)])
@pytest.mark.parametrize("is_told_first", [True, False])
def test_a_job_has_ended_when_it_holds_no_slot_and_its_yod_has_said_how(
    outcomes, end, is_well, is_told_first
):
    calls = [lambda: outcomes.told(1, ALICE, end), lambda: outcomes.slots_gone(1, True)]
    first, second = calls if is_told_first else calls[::-1]
    first()
    assert outcomes.has_ended_well(1) is None and not news(outcomes)
    second()
    assert outcomes.has_ended_well(1) is is_well and not outcomes.is_awaited(1)
    assert news(outcomes) == {1}


@pytest.mark.parametrize("order", [("gone", "slots"), ("slots", "gone")])
def test_a_job_whose_yod_is_lost_has_failed(outcomes, order):
    for each in order:
        outcomes.gone(YOD) if each == "gone" else outcomes.slots_gone(1, True)
    assert outcomes.has_ended_well(1) is False


def test_what_was_said_stays_when_the_yod_has_gone(outcomes):
    outcomes.told(1, ALICE, WELL)
    outcomes.gone(YOD)
    outcomes.told(1, ALICE, FAILED)
    outcomes.slots_gone(1, True)
    assert outcomes.has_ended_well(1) is True


def test_nobody_but_the_owner_says_how_a_job_has_ended(outcomes):
    outcomes.slots_gone(1, True)
    outcomes.told(1, BOB, WELL)
    assert outcomes.is_awaited(1)
    outcomes.told(2, ALICE, WELL)
    assert outcomes.has_ended_well(2) is None


def test_a_yod_that_never_says_how_its_jobs_ended_takes_bounded_memory(outcomes):
    for job_id in range(2, 6):
        outcomes.granted(job_id, ALICE, OTHER)
    for job_id in range(1, 6):
        outcomes.slots_gone(job_id, True)
    awaited = [outcomes.is_awaited(job_id) for job_id in range(1, 6)]
    assert awaited == [False, False, True, True, True]
    assert outcomes.has_ended_well(1) is False


def test_the_oldest_that_have_ended_are_forgotten(outcomes):
    for job_id in range(2, 6):
        outcomes.granted(job_id, ALICE, OTHER)
        outcomes.told(job_id, ALICE, WELL)
        outcomes.slots_gone(job_id, True)
    known = [outcomes.has_ended_well(job_id) for job_id in range(2, 6)]
    assert known == [None, True, True, True]


def test_jobs_that_no_yod_has_are_none_of_these(outcomes):
    outcomes.slots_gone(9, True)
    assert outcomes.has_ended_well(9) is None
