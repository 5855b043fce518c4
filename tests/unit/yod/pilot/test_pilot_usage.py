"""Core-seconds add up, and none is counted twice."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.support.traces import check_trace
from yod.pilot.analysis import curves, trace, usage
from yod.pilot.analysis.records import Record
from yod.pilot.analysis.story import PilotStory, Story, TaskStory

EVENTS = ("AGENT_EXECUTING", "task_run_start", "launch_start", "exec_start", "exec_stop")


def story_of(cores, runs, until=100.0):
    """A story with one pilot from 0 s on.

    Args:
        runs: (task, its cores, when it got slots, when it gave them back).
    """
    tasks = {uid: TaskStory(uid, "pilot.0", own, states={}, runs=[]) for uid, own, _, _ in runs}
    for task in tasks.values():
        task.slots = [("n1", tuple(range(task.cores)), ())]
    story = Story("s", [PilotStory("pilot.0", [("n1", cores)], {})], tasks.values())

    def add(at, event, uid, state="", msg=""):
        story.add(Record(at, event, "", uid, state, msg))

    for at, event in ((0.0, "bootstrap_0_start"), (1.0, "bootstrap_0_ok")):
        add(at, event, "pilot.0")
    add(2.0, "advance", "pilot.0", "PMGR_ACTIVE")
    add(until - 2.0, "cmd", "pilot.0", msg="cancel_pilot")
    add(until, "bootstrap_0_stop", "pilot.0")
    add(until, "advance", "pilot.0", "CANCELED")
    for uid, _, since, ended in runs:
        add(since, "schedule_ok", uid)
        step = (ended - since) / (len(EVENTS) + 1)
        for n, event in enumerate(EVENTS, 1):
            told = ("advance", uid, event) if event.isupper() else (event, uid)
            add(since + n * step, *told)
        add(ended, "unschedule_stop", uid)
    story.finish()
    return story


def test_each_use_has_its_core_seconds():
    story = story_of(4, [("a", 2, 10.0, 40.0), ("b", 1, 40.0, 70.0)])
    (found,) = usage.usage_of(story)
    assert usage.check(found) == []
    assert found.provided == 400.0
    totals = found.totals()
    assert totals["exec_cmd"] == pytest.approx(3 * 5.0)
    assert totals["exec_queue"] == pytest.approx(3 * 5.0)
    assert (totals["boot"], totals["setup"]) == (4.0, 4.0)
    assert totals["warmup"] == pytest.approx(8 * 4)
    assert totals["idle"] == pytest.approx(30 * 2 + 30 * 3)
    assert totals["drain"] == pytest.approx(28 * 4)
    assert totals["term"] == pytest.approx(2 * 4)
    assert sum(totals.values()) == pytest.approx(400.0)


@given(
    some.lists(
        some.tuples(some.integers(1, 3), some.floats(2.0, 95.0), some.floats(0.001, 50.0)),
        max_size=12,
    ),
    some.integers(1, 400),
)
def test_core_seconds_add_up_whatever_ran_when(asked, bins):
    free_at = [0.0] * 3  # each task has cores that nobody has meanwhile
    runs = []
    for n, (cores, since, took) in enumerate(asked):
        free_at.sort()
        began = max(since, free_at[cores - 1])
        ended = min(began + took, 99.0)
        if ended > began:
            free_at[:cores] = [ended] * cores
            runs.append((f"t{n}", cores, began, ended))
    story = story_of(3, runs)
    (found,) = usage.usage_of(story)
    assert usage.check(found) == []
    assert found.over == 0
    edges = usage.edges_of(0.0, 100.0, bins)
    rows = usage.binned([found], edges)
    width = 100.0 / bins
    assert sum(map(sum, rows.values())) * width == pytest.approx(found.provided)
    for n in range(bins):
        assert sum(row[n] for row in rows.values()) == pytest.approx(3.0)


def test_what_is_held_twice_is_found():
    (found,) = usage.usage_of(story_of(1, [("a", 1, 10.0, 30.0), ("b", 1, 20.0, 40.0)]))
    assert found.over == pytest.approx(10.0)
    assert usage.check(found) == ["pilot.0: tasks held 10 core-seconds more than there were"]


def test_a_task_that_has_not_ended_holds_its_cores_to_the_end_of_its_pilot():
    story = Story(
        "s", [PilotStory("p", [("n", 1)], {})], [TaskStory("t", "p", 1, states={}, runs=[])]
    )
    for at, event, uid in (
        (0.0, "bootstrap_0_start", "p"),
        (0.0, "bootstrap_0_ok", "p"),
        (1.0, "schedule_ok", "t"),
        (5.0, "advance", "x"),
    ):
        story.add(Record(at, event, "", uid, "", ""))
    story.finish()
    (found,) = usage.usage_of(story)
    assert (found.until, found.totals()["exec_queue"]) == (5.0, 4.0)


def test_clocks_of_other_nodes_do_not_turn_the_time_of_a_run_round():
    task = TaskStory("t", "p", 1, states={}, runs=[])
    story = Story("s", [], [task])
    for at, event, state in (
        (10.0, "schedule_ok", ""),
        (10.0, "advance", "AGENT_EXECUTING"),
        (3.0, "task_run_start", ""),
        (90.0, "exec_start", ""),
        (91.0, "exec_stop", ""),
        (20.0, "unschedule_stop", ""),
    ):
        story.add(Record(at, event, "", "t", state, ""))
    story.finish()
    assert task.runs[0].uses() == [("exec_rp", 10.0, 20.0)]


def test_curves_count_what_is_there_at_a_time():
    story = story_of(4, [("a", 1, 10.0, 70.0), ("b", 1, 40.0, 100.0)])
    edges = usage.edges_of(0.0, 100.0, 100)
    found = curves.concurrency(story, edges)
    assert [found["holding slots"][n] for n in (5, 15, 50, 80)] == pytest.approx([0, 1, 2, 1])
    assert sum(found["running"]) == pytest.approx(20.0)
    rates = curves.rates(story, edges, 4)
    assert sum(rates["started"]) == pytest.approx(2.0)
    assert rates["ended"][60] == pytest.approx(0.25)


def test_durations_are_of_states_in_a_row():
    task = TaskStory("t", states={"NEW": 1.0, "TMGR_SCHEDULING": 4.0, "DONE": 10.0})
    first, second = curves.durations(Story("s", [], [task]))
    assert (first.state, first.quantiles[2], second.total) == ("NEW", 3.0, 6.0)


def test_slices_of_a_trace_lie_within_one_another_on_each_track():
    runs = [("a", 2, 10.0, 40.0), ("b", 1, 30.0, 70.0), ("c", 1, 45.0, 50.0)]
    events = list(trace.events_of(story_of(4, runs)))
    check_trace(events)
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "X" and event["cat"] == "task":
            since = event["ts"]
            tracks.setdefault((event["pid"], event["tid"]), []).append(
                (since, since + event["dur"])
            )
    assert len(tracks) == 3  # both cores of a; b overlaps it; c comes behind a
    for own in tracks.values():
        own.sort()
        assert all(before[1] <= behind[0] for before, behind in pairwise(own))
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names >= {"session s", "pilot.0 n1", "core 0", "core 1", "core 0 (2)"}
