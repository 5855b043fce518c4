"""States are announced once and in order, whatever reports come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yod.pilot.model import states
from yod.pilot.model.states import PILOT, TASK, Course

COURSES = pytest.mark.parametrize("course", [TASK, PILOT])
REPORTS = st.lists(st.sampled_from([*TASK.values]), max_size=40)


def test_tasks_have_eighteen_states_and_pilots_eight():
    assert len(TASK.states) + len(states.FINAL) == 18
    assert len(PILOT.states) + len(states.FINAL) == 8
    assert TASK.values["AGENT_EXECUTING"] == 10
    assert {TASK.values[state] for state in states.FINAL} == {15}
    assert PILOT.values["PMGR_ACTIVE"] == 4


@given(REPORTS)
def test_reports_late_or_twice_are_announced_once_and_in_order(reports):
    now, heard = states.NEW, []
    for told in reports:
        passed = TASK.announced(now, told)
        heard += passed
        now = passed[-1] if passed else now
    assert len(set(heard)) == len(heard)
    on_the_way = [state for state in heard if state not in states.FINAL]
    values = [TASK.values[state] for state in on_the_way]
    assert all(later == earlier + 1 for earlier, later in pairwise([0, *values]))
    final = [state for state in heard if state in states.FINAL]
    assert final == heard[len(on_the_way) :]
    assert len(final) <= 1
    if final == [states.DONE]:
        assert values == list(range(1, 15))


@COURSES
def test_a_final_state_never_changes(course: Course):
    for final in states.FINAL:
        for told in course.values:
            assert course.announced(final, told) == ()


@COURSES
def test_nothing_is_announced_on_the_way_to_a_failure(course: Course):
    assert course.announced(states.NEW, states.FAILED) == (states.FAILED,)
    assert course.announced(states.NEW, states.CANCELED) == (states.CANCELED,)


def test_one_that_has_passed_a_state_has_been_in_it_and_a_final_one_in_all():
    assert TASK.has_reached("AGENT_EXECUTING", ["AGENT_SCHEDULING"])
    assert not TASK.has_reached("AGENT_SCHEDULING", ["AGENT_EXECUTING", states.DONE])
    assert TASK.has_reached(states.FAILED, ["AGENT_EXECUTING"])
