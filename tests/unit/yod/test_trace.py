"""The trace of a launch: what is drawn where, from what yod knows."""

from __future__ import annotations

import json

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


def drawn(report: Report, began=BEGAN, slowest=SLOWEST):
    whole = encode(of_launch(report, began, slowest, 0.25, 102.5), **about(report, "yod a", 1e9))
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
