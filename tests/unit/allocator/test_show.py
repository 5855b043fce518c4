"""What pingd prints. Other programs read the parsed form."""

import time

import pytest

from native.wire.status import NodeDrain, NodeJob, NodeRow, NodeState
from partition.status import show, why

ROWS = [
    NodeRow(0, "node0", NodeState.BUSY, 4, 4, 1.0, (NodeJob(7, "alice", (0, 1, 2), 3725.9, False),
                                                    NodeJob(12, "bob", (5,), 2.0, False))),
    NodeRow(1, "n1", NodeState.PENDING, 4, 1, 1.0, (NodeJob(7, "alice", (3,), 9.0, True),)),
    NodeRow(2, "n2", NodeState.FREE, 4, 0, 1.0),
    NodeRow(10, "n10", NodeState.DOWN, 4, 0, 99.0),
]  # fmt: skip


def test_each_node_has_one_line():
    assert show.plain(ROWS) == [
        "Node  Name   State     Job  Ranks    Owner      Elapsed",
        "   0  node0  busy     7,12  0..2; 5  alice,bob  0001:02:05",
        "   1  n1     pending     7  3        alice      0000:00:09",
        "   2  n2     free",
        "  10  n10    down",
    ]


def test_programs_get_a_line_for_each_node_and_job():
    assert show.parse_lines(ROWS) == [
        "nid:name:status:reserved:session:job-id:spid:rank:owner:hours:minutes:seconds",
        "0:node0:busy:false:_:7:_:0..2:alice:1:2:5",
        "0:node0:busy:false:_:12:_:5:bob:0:0:2",
        "1:n1:pending:false:_:7:_:3:alice:0:0:9",
        "2:n2:free:false:_:_:_:_:_:_:_:_",
        "10:n10:down:false:_:_:_:_:_:_:_:_",
    ]


def test_every_parsed_line_has_the_columns_of_the_header():
    header, *lines = show.parse_lines(ROWS)
    assert {line.count(":") for line in lines} == {header.count(":")}


def test_totals_count_nodes_by_state_and_slots():
    assert show.totals(ROWS) == [
        "4 nodes: 1 free, 1 pending, 1 busy, 1 down",
        "16 slots: 5 in use by 2 jobs",
    ]


FAN = NodeDrain("fan\n", "root", 0.0)
DRAINED = [
    NodeRow(3, "n3", NodeState.DRAINED, 4, 0, 1.0, (), FAN),
    NodeRow(4, "n4", NodeState.DRAINING, 4, 1, 1.0, ROWS[1].jobs, FAN, True),
    NodeRow(5, "n5", NodeState.DOWN, 0, 0, 0.0, (), NodeDrain("disk", "alice", 0.0)),
]


def test_drained_nodes_are_shown_with_the_reason_the_operator_and_the_time(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert why.out_of_use([*ROWS, *DRAINED], 99.0, 20.0) == [
        "node 10 down, last heard of 1970-01-01 00:00:00",
        "nodes 3..4 drained by root since 1970-01-01 00:00:00: $'fan\\n'",
        "node 4 to restart when free of jobs",
        "node 5 down: its PCT has not announced itself",
        "node 5 drained by alice since 1970-01-01 00:00:00: disk",
    ]
    monkeypatch.undo()
    time.tzset()
    assert [line.split()[2] for line in show.plain(DRAINED)[1:]] == ["drained", "draining", "down"]
    assert show.totals(DRAINED)[0] == (
        "3 nodes: 0 free, 0 pending, 0 busy, 1 down, 1 draining, 1 drained"
    )


def test_programs_get_the_drain_as_an_object():
    drained, *_ = show.records(DRAINED, 99.0, 20.0)["nodes"]
    assert drained["drain"] == {"reason": "fan\n", "by": "root", "since": 0.0}
    assert (drained["state"], drained["is_restarting"]) == ("drained", False)
    assert show.records(ROWS, 99.0, 20.0)["nodes"][0]["drain"] is None


@pytest.fixture
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_each_node_that_is_not_free_has_a_line_that_says_why(utc):
    lost = NodeRow(11, "n11", NodeState.DOWN, 4, 1, 10.0, ROWS[1].jobs, None, False, "it\nleft")
    assert why.lines([*ROWS, lost], 99.0, 20.0) == [
        "node 0 busy with jobs 7 of alice, 12 of bob",
        "node 1 pending for job 7 of alice since 1970-01-01 00:01:30: no PCT has reported it",
        "node 10 down, last heard of 1970-01-01 00:00:00",
        "node 11 down, last heard of 1970-01-01 00:01:29: $'it\\nleft'",
        "node 11 held by job 7 of alice until its PCT is back",
    ]


def test_nodes_that_are_alike_share_a_line():
    busy = [NodeRow(n, f"n{n}", NodeState.BUSY, 4, 1, 1.0, ROWS[0].jobs[1:]) for n in range(3)]
    assert why.lines(busy, 99.0, 20.0) == ["nodes 0..2 busy with job 12 of bob, 3 of 4 slots free"]


def test_a_node_that_should_have_been_heard_from_is_stale(utc):
    late = NodeRow(2, "n2", NodeState.FREE, 4, 0, 21.0)
    assert why.lines([late], 99.0, 20.0) == ["node 2 stale: no word since 1970-01-01 00:01:18"]
    assert why.lines([late], 99.0, 22.0) == []


def test_programs_get_why_a_node_is_not_free():
    free, busy = (show.records([ROWS[n]], 99.0, 20.0)["nodes"][0]["why"] for n in (2, 0))
    assert free is None
    assert busy == "busy with jobs 7 of alice, 12 of bob"


def test_a_node_with_very_many_jobs_names_some_of_them():
    jobs = tuple(NodeJob(n, "a", (), 1.0, False) for n in range(1, 12))
    (line,) = why.lines([NodeRow(0, "n", NodeState.BUSY, 9, 9, 1.0, jobs)], 99.0, 20.0)
    assert line.endswith("8 of a and 3 more")


def test_conditions_combine():
    def numbers(**conditions):
        return [row.node for row in show.select(ROWS, **conditions)]

    assert numbers() == [0, 1, 2, 10]
    assert numbers(nodes=(10, 0)) == [0, 10]
    assert numbers(job_id=7) == [0, 1]
    assert numbers(owner="bob") == [0]
    assert numbers(job_id=7, owner="bob") == []
    assert numbers(nodes=(1,), job_id=7) == [1]
    (row,) = show.select(ROWS, owner="bob")
    assert [job.job_id for job in row.jobs] == [12]


def test_a_node_that_came_in_parts_is_one_row():
    first = NodeRow(0, "n", NodeState.BUSY, 4, 4, 1.0, (NodeJob(7, "a", (0, 1), 1.0, False),))
    second = NodeRow(0, "n", NodeState.BUSY, 4, 4, 1.0, (NodeJob(7, "a", (2, 3), 1.0, False),))
    (row,) = show.merge([first, second])
    assert [(job.job_id, job.ranks) for job in row.jobs] == [(7, (0, 1, 2, 3))]


def test_a_name_moves_no_cursor_and_no_column():
    row = NodeRow(0, "a:b\x1b[2J\n c", NodeState.FREE, 1, 0, 0.0)
    assert show.cells(row)[1] == "a?b?[2J??c"
    assert show.parse_lines([row])[1].count(":") == 11
