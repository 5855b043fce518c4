"""The trace of a launch: what is drawn where, from what yod knows."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from native.wire.group import NodeTimes
from native.wire.load import Slowest
from tests.support.traces import check_trace
from tests.unit.yod.launch_of import grant, held, outcome
from yod.launch.phases import Phase
from yod.launch.report import Report
from yod.trace import about, encode, of_launch

BEGAN = {
    Phase.ALLOCATING: 100.0,
    Phase.FORMING: 100.5,
    Phase.LOADING: 100.6,
    Phase.STARTING: 100.7,
    Phase.RUNNING: 101.0,
    Phase.ENDING: 102.0,
}
SLOWEST = {
    Phase.FORMING: Slowest(21, "n21", 0.05),
    Phase.STARTING: Slowest(20, "n20", 0.4),
}


# Of n21: its load message came a quarter of a second after it was sent.
OF_N21 = NodeTimes(
    *(21, 250_000, 50_000, 60_000),
    *(80_000, 200_000, 260_000, 900_000, 1_300_000, 1_400_000),
)


def drawn(report: Report, began=BEGAN, slowest=SLOWEST, times=()):
    known = {each.node: each for each in times}
    events = of_launch(report, began, slowest, known, 0.25, 102.5)
    whole = encode(events, **about(report, "yod a", 1e9))
    trace = json.loads(whole)
    check_trace(trace["traceEvents"])
    return trace


def spans(trace, category):
    return {
        (each["pid"], each["name"]): (each["ts"], each["dur"])
        for each in trace["traceEvents"]
        if each["ph"] == "X" and each["cat"] == category
    }


def a_report() -> Report:
    report = Report(("a.out",), (3,))
    report.place(grant(3))
    report.map(held(0, 1, 2))
    return report


def test_phases_follow_one_another_from_the_beginning_of_the_preparation():
    phases = spans(drawn(a_report()), "phase")
    assert list(phases.values()) == [
        *[(0, 250_000), (250_000, 500_000), (750_000, 100_000), (850_000, 100_000)],
        *[(950_000, 300_000), (1_250_000, 1_000_000), (2_250_000, 500_000)],
    ]


def test_a_rank_is_drawn_from_go_to_its_end_on_its_node_and_one_without_an_end_is_not():
    report = a_report()
    report.complete(outcome(0, 1, wait_status=3 << 8), ())
    trace = drawn(report)
    assert spans(trace, "rank") == {
        (2, "running"): (1_250_000, 500_000),  # a second after the load message
        (3, "running"): (1_250_000, 500_000),
    }
    names = {each["args"]["name"] for each in trace["traceEvents"] if each["ph"] == "M"}
    assert names == {
        *("yod, job 7", "launch", "node", "rank 0", "rank 1", "rank 2"),
        *("n20 (node 20)", "n21 (node 21)", "n22 (node 22)"),
    }


def test_the_slowest_node_of_a_phase_has_how_long_it_took():
    assert spans(drawn(a_report()), "slowest") == {
        (2, "slowest: held: all its ranks are at their entry"): (750_000, 400_000),
        (3, "slowest: joined, and its store looked at"): (750_000, 50_000),
    }


def test_a_launch_that_never_went_has_its_phases_only():
    began = {phase: at for phase, at in BEGAN.items() if phase is not Phase.RUNNING}
    report = a_report()
    report.complete(outcome(1, wait_status=9, was_released=False), ())
    trace = drawn(report, began)
    assert list(spans(trace, "rank")) == [(3, "ended before go")]
    assert "go" not in {each["name"] for each in trace["traceEvents"]}


def test_a_node_that_has_told_its_times_has_every_phase_on_its_track():
    trace = drawn(a_report(), times=[OF_N21])
    arrived = 1_000_000  # 0.75 s until yod has sent the load message
    assert spans(trace, "node") == {
        (3, "form"): (arrived, 50_000),
        (3, "load"): (arrived + 50_000, 10_000),
        (3, "start"): (arrived + 60_000, 140_000),
        (3, "wire-up"): (arrived + 60_000, 20_000),
        (3, "hold"): (arrived + 200_000, 60_000),
        (3, "run"): (arrived + 260_000, 640_000),
        (3, "end"): (arrived + 1_300_000, 100_000),
    }
    slowest = {
        (each["pid"], each["name"])
        for each in trace["traceEvents"]
        if each.get("args", {}).get("slowest") is True
    }
    assert slowest == {(3, "form")}
    assert list(spans(trace, "slowest")) == [  # of those that have told nothing
        (2, "slowest: held: all its ranks are at their entry")
    ]


def test_a_rank_runs_from_when_its_own_node_has_let_it_go():
    report = a_report()
    report.complete(outcome(0, 1), ())
    assert spans(drawn(report, times=[OF_N21]), "rank") == {
        (2, "running"): (1_250_000, 500_000),  # of yod
        (3, "running"): (1_260_000, 740_000),  # a second after its load message
    }


@pytest.mark.parametrize(
    ("reached", "phases"),
    [
        ({}, {"form": (0, 300_000, True)}),
        ({"joined": 5, "loaded": 9}, {"load": (5, 4, False), "start": (9, 299_991, True)}),
        (
            {"joined": 5, "loaded": 5, "started": 7, "held": 9, "went": 9, "ended": 400_000},
            {"hold": (9, 0, False), "run": (9, 299_991, True)},
        ),
    ],
)
def test_a_phase_that_the_end_of_the_job_has_cut_short_is_marked(reached, phases):
    times = NodeTimes(20, 0, told=300_000, left=350_000, **reached)
    trace = drawn(a_report(), times=[times])
    found = {
        each["name"]: (
            each["ts"] - 750_000,
            each["dur"],
            each["args"].get("cut_short", False),
        )
        for each in trace["traceEvents"]
        if each.get("cat") == "node"
    }
    assert found.items() >= phases.items()
    assert found["end"] == (300_000, 50_000, False)
    assert ("run" in found) == ("went" in reached)


def test_a_node_that_was_never_told_to_end_is_drawn_as_far_as_it_came():
    times = replace(OF_N21, ended=-1, told=-1, left=-1)
    found = spans(drawn(a_report(), times=[times]), "node")
    assert (3, "end") not in found
    assert found[3, "run"] == (1_260_000, 0)
