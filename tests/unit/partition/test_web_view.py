"""What browsers are told of a partition, and what programs are that collect metrics."""

import time

import pytest
from msgspec import json, structs
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from native.wire.base import State
from native.wire.batch import Row
from native.wire.nodes import NodeEvent, NodeEventKind
from native.wire.status import NodeDrain, NodeJob, NodeRow, NodeState
from partition.web import metrics
from partition.web.view import View

NOW = 10_000.0
MEGABYTE = 1 << 20


def node(number, state=NodeState.FREE, *jobs, **fields):
    return NodeRow(number, f"n{number}", state, 4, 4 if jobs else 0, 0.0, jobs, **fields)


def job(job_id, *ranks, pending=False, elapsed_s=5.0):
    return NodeJob(job_id, "alice", ranks, elapsed_s, pending)


def row(job_id, state=State.RUNNING, **fields):
    values = dict.fromkeys(("slots", "node_count", "exit_status", "signal"), 0)
    times = dict.fromkeys(("submitted", "began", "ended", "time_s"), 0.0)
    more = {"reason": "", "nodes": (), **values, **times, **fields}
    return Row(job_id=job_id, uid=1000, owner="alice", name="solve", state=state, **more)


@pytest.fixture
def view():
    """A partition of three nodes; the first two have job 7."""
    view = View("here", lambda count: 20.0)
    busy = [node(n, NodeState.BUSY, job(7, 2 * n, 2 * n + 1)) for n in range(2)]
    view.changed([*busy, node(2)], True, NOW)
    return view


def told(data):
    return json.decode(data)


def test_a_browser_that_knows_nothing_is_told_everything(view):
    whole = told(view.whole(NOW))
    assert whole["whole"] and whole["name"] == "here" and whole["lost"] == ""
    assert whole["nodes"] == [
        [0, "n0", 2, 4, 4, [[7, "0..1"]]],
        [1, "n1", 2, 4, 4, [[7, "2..3"]]],
        [2, "n2", 0, 4, 0, []],
    ]
    (record,) = whole["jobs"]
    assert record[:7] == [7, "", "alice", "RUNNING", 4, "0..1", 2]
    assert record[8] == NOW - 5.0


def test_a_change_has_the_nodes_and_jobs_that_are_different_alone(view):
    change = told(view.changed([node(1)], False, NOW + 1))
    assert [each[0] for each in change["nodes"]] == [1]
    assert [(each[0], each[5]) for each in change["jobs"]] == [(7, "0")]
    change = told(view.changed([node(0)], False, NOW + 2))
    assert change["jobs"] == [] and change["gone"] == [7]


def test_that_a_job_goes_on_is_no_change(view):
    again = node(0, NodeState.BUSY, job(7, 0, 1, elapsed_s=6.1))
    assert told(view.changed([again], False, NOW + 1))["jobs"] == []


def test_a_whole_table_takes_away_what_it_does_not_have(view):
    whole = told(view.changed([node(5)], True, NOW))
    assert [each[0] for each in whole["nodes"]] == [5] and whole["jobs"] == []


def test_a_job_has_a_name_and_a_reason_when_bebopd_has_told(view):
    waits = row(9, State.PENDING, reason="too few slots", slots=64, submitted=NOW - 60)
    change = told(view.asked([row(7, began=NOW - 5), waits], [], NOW))
    assert [each[:5] for each in change["jobs"]] == [
        [7, "solve", "alice", "RUNNING", 4],
        [9, "solve", "alice", "PENDING", 64],
    ]
    assert change["jobs"][1][10] == "too few slots"
    assert view.asked([row(7, began=NOW - 5), waits], [], NOW) is None


@pytest.mark.parametrize(
    ("held", "said", "shown"),
    [(True, State.RUNNING, "CONFIGURING"), (False, State.SUSPENDED, "SUSPENDED"),
     (False, State.COMPLETED, "COMPLETING")],
)  # fmt: skip
def test_the_phase_of_a_job_is_what_the_nodes_and_bebopd_say(view, held, said, shown):
    view.asked([row(7, said)], [], NOW)
    state = NodeState.PENDING if held else NodeState.BUSY
    view.changed([node(0, state, job(7, 0, pending=held))], False, NOW)
    (record,) = told(view.whole(NOW))["jobs"]
    assert record[3] == shown


def test_an_event_is_told_once(view):
    lost = NodeEvent(2, "n2", NOW, NodeEventKind.LOST, "", "silent")
    assert told(view.asked([], [lost], NOW))["events"] == [[NOW, 2, "n2", "lost", "", "silent"]]
    assert view.asked([], [lost], NOW) is None
    assert len(told(view.whole(NOW))["events"]) == 1


def test_why_a_node_is_out_of_use_is_told():
    view = View("here", lambda count: 20.0)
    fan = NodeDrain("fan", "root", 0.0)
    down = node(1, NodeState.DOWN, job(7, 0), why="it left")
    whole = told(view.changed([node(0, NodeState.DRAINED, drain=fan), down], True, NOW))
    assert "drained by root" in whole["nodes"][0][6] and "it left" in whole["nodes"][1][6]


def test_ten_thousand_nodes_are_less_than_a_megabyte():
    jobs = [job(100 + n // 50, *range(4 * n, 4 * n + 4)) for n in range(10_000)]
    rows = [NodeRow(n, f"nid{n:06d}", NodeState.BUSY, 4, 4, 0.0, (jobs[n],)) for n in range(10_000)]
    assert len(View("here", lambda count: 20.0).changed(rows, True, NOW)) < MEGABYTE


def test_a_parser_of_openmetrics_reads_the_metrics(view):
    view.changed([node(3, NodeState.DRAINED, drain=NodeDrain("f", "r", 0.0))], False, NOW)
    text = metrics.text(
        view.rows.values(),
        [row(7), row(9, State.PENDING)],
        is_up=True,
        changed_at=time.time(),
        clients=2,
        release='1"\\\n',
    )
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["yod_nodes", "busy"] == 2 and samples["yod_nodes", "drained"] == 1
    assert samples["yod_nodes", "down"] == 0
    assert (samples["yod_slots",], samples["yod_slots_used",]) == (16, 8)
    assert samples["yod_slots_free",] == 4
    assert samples["yod_jobs", "running"] == 1 and samples["yod_jobs", "waiting"] == 1
    assert samples["yod_bebopd_up",] == 1 and samples["yod_pingd_clients",] == 2
    assert samples["yod_build_info", '1"\\\n'] == 1


def test_a_launch_that_takes_long_is_told_with_how_many_nodes_and_ranks_have_come(view):
    far = structs.replace(job(7, 0, 1), phase="start", come=1, total=2, ranks_come=3)
    (record,) = told(view.changed([node(0, NodeState.BUSY, far)], False, NOW + 1))["jobs"]
    assert record[14:] == ["start", 1, 2, 3]
    assert told(view.changed([node(1, NodeState.BUSY, job(7, 2, 3))], False, NOW + 1))["jobs"] == []
    there = [node(0, NodeState.BUSY, job(7, 0, 1))]
    (record,) = told(view.changed(there, False, NOW + 2))["jobs"]
    assert record[14:] == ["", 0, 0, 0]
