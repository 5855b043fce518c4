"""The state of a job on a node, and the failures that are reported in it."""

from __future__ import annotations

import pytest

from native.machine import Action, Send
from native.wire import load
from native.wire.load import FailureKind
from pct.job.failures import Failures
from pct.job.progress import LEVEL_GRACE, JobState, Progress
from pct.tree.collective import SELF
from pct.tree.group import Group
from tests.unit.pct.job_of import (
    BEGIN,
    JOB_ID,
    YOD,
    failure,
    load_message,
    node,
    pct,
    slowest,
    vote,
)

DEADLINE_S = 30.0
NOTICE_S = 10.0


def at(size: int, place: int = 0, notice_s: float = float("inf")) -> tuple[Progress, Group]:
    """A job at its beginning, on one of its nodes."""
    message = load_message(size, place, deadline_s=DEADLINE_S)
    group = Group(message, YOD if place == 0 else pct((place - 1) // 2))
    return Progress(message, group, BEGIN, notice_s), group


def waits() -> str:
    return "looks for the files"


def waits_for_others() -> str:
    return ""


def test_a_state_that_lasts_too_long_names_once_the_nodes_that_have_not_contributed():
    progress, _ = at(3)
    progress.votes.give(1, vote(1))
    due = progress.deadline()
    assert progress.take_timeout(due - 0.1, waits) == ""
    text = progress.take_timeout(due, waits)
    assert text == f"no answer in {due - BEGIN:.0f} s from n22, n20 (looks for the files)"
    assert progress.take_timeout(due + 100, waits) == ""
    assert progress.deadline() is None


def test_a_node_waits_longer_for_each_level_below_it_so_that_its_child_reports_first():
    dues = [at(7, place)[0].deadline() - BEGIN for place in (3, 1, 0)]
    assert dues == [pytest.approx(DEADLINE_S * (1 + LEVEL_GRACE * level)) for level in (0, 1, 2)]


def test_a_node_that_makes_progress_has_its_deadline_again_but_not_once_it_has_passed():
    progress, _ = at(1)
    progress.extend(BEGIN + 20)
    assert progress.deadline() == BEGIN + 20 + DEADLINE_S
    assert progress.take_timeout(BEGIN + 100, waits)
    progress.extend(BEGIN + 100)
    assert progress.deadline() is None


@pytest.mark.parametrize("state", [JobState.HELD, JobState.RUNNING, JobState.RELEASED])
def test_nothing_is_timed_while_yod_or_the_application_decides_how_long_it_lasts(state):
    progress, _ = at(3, notice_s=NOTICE_S)
    progress.enter(state, BEGIN + 1)
    assert progress.deadline() is None


def test_each_state_that_waits_awaits_its_own_contributions():
    progress, _ = at(3)
    progress.votes.give(1, vote(1))
    assert progress.awaited == {SELF, 2}
    progress.enter(JobState.LOADING, BEGIN)
    progress.loaded.give(2, slowest(2))
    assert progress.awaited == {SELF, 1}
    progress.enter(JobState.STARTING, BEGIN)
    assert progress.awaited == {SELF, 1, 2}
    progress.enter(JobState.ENDING, BEGIN)
    progress.released.give(SELF, (20,))
    assert progress.awaited == {1, 2}


def test_a_node_reports_itself_late_with_its_reason_unless_others_keep_it_waiting():
    progress, _ = at(1, notice_s=NOTICE_S)
    own = load.LateNode(node(0).node, node(0).name, "looks for the files")
    assert progress.take_late(BEGIN + 1, waits) is None
    assert progress.take_late(BEGIN + NOTICE_S, waits) == load.Late(JOB_ID, (own,))
    other, _ = at(1, notice_s=NOTICE_S)
    assert other.take_late(BEGIN + NOTICE_S, waits_for_others) is None


def test_what_a_child_reported_late_is_out_of_date_once_it_has_contributed():
    progress, _ = at(2, notice_s=NOTICE_S)
    below = load.LateNode(99, "far", "files are on their way")
    progress.hear(1, load.Late(JOB_ID, (below,)), BEGIN)
    progress.late_below(1, vote(1), BEGIN)
    progress.votes.give(SELF, vote(0))
    told = progress.take_late(BEGIN + NOTICE_S, waits)
    assert told == load.Late(JOB_ID, (load.LateNode(node(1).node, node(1).name),))


def up(actions: list[Action]) -> list[load.Failure]:
    return [action.message for action in actions if isinstance(action, Send)]


def test_a_node_reports_the_first_failure_of_each_kind():
    progress, group = at(1)
    failures = Failures(load_message(1), group, progress)
    assert not failures.has_any
    told = up(failures.report(FailureKind.OBJECT, "damaged"))
    assert told == [failure(FailureKind.OBJECT, "forming the group", "damaged")]
    assert failures.has_any
    assert failures.report(FailureKind.OBJECT, "damaged as well") == []
    assert up(failures.report(FailureKind.TIMED_OUT, "no answer"))
    assert up(failures.report_again(FailureKind.OBJECT, "damaged as well"))


@pytest.mark.parametrize("kind", list(FailureKind))
def test_at_the_end_a_node_reports_only_why_completions_may_be_missing(kind):
    progress, group = at(1)
    progress.enter(JobState.ENDING, BEGIN)
    told = up(Failures(load_message(1), group, progress).report(kind, "text"))
    assert bool(told) == (kind in (FailureKind.KEEPER_LOST, FailureKind.FAULT))
