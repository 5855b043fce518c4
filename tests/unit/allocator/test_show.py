"""What pingd prints. Other programs read the parsed form."""

import time

from native.wire.status import NodeDrain, NodeJob, NodeRow, NodeState
from partition.status import show

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
    assert show.drains([*ROWS, *DRAINED]) == [
        "nodes 3..4 drained by root since 1970-01-01 00:00:00: $'fan\\n'",
        "node 5 drained by alice since 1970-01-01 00:00:00: disk",
        "node 4 to restart when free of jobs",
    ]
    monkeypatch.undo()
    time.tzset()
    assert show.drains(ROWS) == []
    assert [line.split()[2] for line in show.plain(DRAINED)[1:]] == ["drained", "draining", "down"]
    assert show.totals(DRAINED)[0] == (
        "3 nodes: 0 free, 0 pending, 0 busy, 1 down, 1 draining, 1 drained"
    )


def test_programs_get_the_drain_as_an_object():
    drained, *_ = show.records(DRAINED)["nodes"]
    assert drained["drain"] == {"reason": "fan\n", "by": "root", "since": 0.0}
    assert (drained["state"], drained["is_restarting"]) == ("drained", False)
    assert show.records(ROWS)["nodes"][0]["drain"] is None


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
