"""Orders for nodes: what the words of a command mean, and what its user is told."""

import pytest

from native.errors import UsageError
from native.wire.nodes import (
    Changed,
    Dedicate,
    Drain,
    Ending,
    EndJobs,
    JobsEnding,
    OwnedJob,
    Reserve,
    Restart,
    Resume,
    Unreserve,
)
from native.wire.status import Portion
from partition.status import order

JOBS = (OwnedJob(12, "alice"), OwnedJob(13, "bob"))


def test_several_lists_are_one():
    assert order.nodes_of(("5,1..3", "2..4")) == (5, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("lists", "text"),
    [
        (("1", "n3"), "node list `n3`: 'n' is not allowed"),
        (("0..8192",), "8193 nodes, at most 8192 at a time"),
    ],
)
def test_what_is_no_list_of_nodes_is_refused(lists, text):
    with pytest.raises(UsageError) as caught:
        order.nodes_of(lists)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, 'nodes are drained for a reason: -reason TEXT, as in -reason "fan"'),
        (" ", 'nodes are drained for a reason: -reason TEXT, as in -reason "fan"'),
        ("a\nb", "-reason $'a\\nb': must be one line of text"),
        ("\udcff", "-reason $'\\377': must be one line of text"),
        ("x" * 256, "-reason: 256 characters, at most 255"),
    ],
    ids=["none", "blank", "two lines", "no text", "long"],
)
def test_a_drain_needs_a_reason_that_others_can_read(text, error):
    with pytest.raises(UsageError) as caught:
        order.reason_of(text)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("given", "changed", "lines"),
    [
        (Drain((4, 3), "fan"), Changed((3, 4), (), (), 0), ["nodes 3..4 drained"]),
        (
            Reserve((3, 4), 1000),
            Changed((3, 4), (4,), (OwnedJob(12, "bob"),), 1),
            ["node 3 reserved", "node 4 reserved: job 12 (bob) still there"],
        ),
        (
            Unreserve((3, 4)),
            Changed((3,), (3,), (OwnedJob(12, "bob"),), 1),
            ["node 3 given to all users again", "node 4 not reserved before"],
        ),
        (
            Dedicate((3, 4), Portion.BATCH),
            Changed((3, 4), (4,), (OwnedJob(12, "bob"),), 1),
            ["node 3 for batch jobs", "node 4 for batch jobs: job 12 (bob) still there"],
        ),
        (
            Drain((3, 4, 5), "fan"),
            Changed((3, 4, 5), (4,), JOBS, 2),
            ["nodes 3,5 drained", "node 4 draining: jobs 12 (alice), 13 (bob) still there"],
        ),
        (
            Resume((3, 4, 5)),
            Changed((3, 4), (4,), JOBS[:1], 1),
            ["nodes 3..4 resumed", "node 5 not drained before"],
        ),
        (Resume((5,)), Changed((), (), (), 0), ["node 5 not drained before"]),
        (
            Restart((3, 4)),
            Changed((3, 4), (4,), JOBS[:1], 1),
            [
                "node 3 to restart now",
                "node 4 to restart when free of jobs; job 12 (alice) still there",
            ],
        ),
        (
            Restart((4,), True),
            Changed((4,), (4,), JOBS, 9),
            ["node 4 to restart now, which ends jobs 12 (alice), 13 (bob) and 7 more"],
        ),
    ],
)
def test_an_operator_is_told_what_becomes_of_an_order(given, changed, lines):
    assert order.told(given, changed) == lines


@pytest.mark.parametrize(
    ("how", "answer", "lines"),
    [
        (
            Ending.INTERRUPT,
            JobsEnding(JOBS, 2, 3, 0),
            ["SIGTERM to jobs 12 (alice), 13 (bob) on 3 nodes"],
        ),
        (Ending.RESET, JobsEnding(JOBS[:1], 1, 1, 0), ["SIGKILL to job 12 (alice) on 1 node"]),
        (
            Ending.NICEKILL,
            JobsEnding(JOBS, 140, 9, 1),
            [
                "SIGTERM, and SIGKILL later, to jobs 12 (alice), 13 (bob) and 138 more on 9 nodes",
                "1 job is another user's",
            ],
        ),
        (
            Ending.RESET,
            JobsEnding((), 0, 0, 2),
            ["no job there that you may end", "2 jobs are others'"],
        ),
    ],
)
def test_who_ends_jobs_is_told_which_and_what_is_left_alone(how, answer, lines):
    assert order.ending(EndJobs(how), answer) == lines
