"""Nodes that a job is to get none of: how they are written, and what the job gets."""

import pytest

from allocator.jobs.assign import RequestRefused
from allocator.jobs.excluding import excluded
from allocator.nodes.placement import ArrayPlacement
from native.errors import Refusal
from native.wire.alloc import Grant, Queued, Refused
from native.wire.base import Terms
from tests.unit.allocator.partition_of import Partition, pct, spec


def without(text, **more):
    return {"terms": Terms(exclude=text, **more)}


@pytest.fixture(params=["list", "arrays"])
def four(request):
    """Four nodes of two slots, node0 to node3."""
    placement = ArrayPlacement() if request.param == "arrays" else None
    return Partition(4, 2, placement=placement)


def nodes_of(grant):
    assert isinstance(grant, Grant), grant
    return [node.node for node in grant.nodes]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2", {2}),
        ("0,2..3", {0, 2, 3}),
        ("3..2", {2, 3}),
        ("2..99", {2, 3}),
        ("node1", {1}),
        ("node1,2", {1, 2}),
        ("node[0,2-3]", {0, 2, 3}),
        ("node[0-999999999]", {0, 1, 2, 3}),
        ("node[3],0", {0, 3}),
    ],
)
def test_nodes_are_numbers_names_and_names_with_numbers_in_brackets(four, text, numbers):
    assert excluded(text, four.machine.nodes).nodes == numbers


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("9", Refusal.UNKNOWN_NODE, "no node 9 here; this partition has nodes 0..3"),
        ("n9", Refusal.UNKNOWN_NODE, "no node n9 here"),
        ("node[00-03]", Refusal.UNKNOWN_NODE, "no node node[00-03] here"),
        ("x[0-3]", Refusal.UNKNOWN_NODE, "no node x[0-3] here"),
        ("", Refusal.BAD_REQUEST, "an item is empty"),
        ("1,", Refusal.BAD_REQUEST, "an item is empty"),
        ("1..", Refusal.BAD_REQUEST, "`1..` is neither a number nor a range"),
        ("9999999999", Refusal.BAD_REQUEST, "nodes are numbered from 0 to"),
        ("node[1", Refusal.BAD_REQUEST, "`node[1` is no name, nor n[1-4]"),
        ("node[1-x]", Refusal.BAD_REQUEST, "`1-x` in node[1-x] is neither a number nor a range"),
        ("node[]", Refusal.BAD_REQUEST, "`` in node[] is neither"),
    ],
)
def test_what_names_no_node_is_refused(four, text, code, why):
    with pytest.raises(RequestRefused) as refused:
        excluded(text, four.machine.nodes)
    assert refused.value.code is code
    assert why in str(refused.value)


def test_a_request_gets_none_of_the_nodes(four):
    assert nodes_of(four.request(spec(4), **without("0,node2"))) == [1, 3]
    assert nodes_of(four.request(spec(1), **without("1..3"))) == [0]


def test_a_list_is_used_without_them(four):
    assert nodes_of(four.request(spec(2, 2, 1, 3), **without("2"))) == [1]


def test_a_list_that_needs_one_of_them_is_refused_and_named(four):
    refused = four.request(spec(6, 0, 1, 2), **without("node1"))
    assert isinstance(refused, Refused) and refused.code is Refusal.NOT_ENOUGH_NODES
    assert "node 1 (node1) is excluded (--exclude)" in refused.text


def test_where_nothing_is_left_a_line_says_so_at_once(four):
    refused = four.request(spec(1), waits=True, **without("0..3"))
    assert isinstance(refused, Refused) and refused.code is Refusal.NOT_ENOUGH_NODES
    assert "0 slots there (nodes 0..3 are excluded (--exclude))" in refused.text


def test_it_goes_with_features_and_in_their_choices(four):
    four.machine.nodes.features = {"ib": frozenset((0, 1)), "gpu": frozenset((2, 3))}
    assert nodes_of(four.request(spec(1), **without("0", constraint="ib"))) == [1]
    assert nodes_of(four.request(spec(2), **without("1..2", constraint="[ib|gpu]"))) == [0]
    refused = four.request(spec(2), **without("3", constraint="gpu*2"))
    assert isinstance(refused, Refused)


def test_a_request_waits_for_other_nodes_while_these_are_free(four):
    assert nodes_of(four.request(spec(4, 0, 1))) == [0, 1]
    refused = four.request(spec(1), **without("2..3"))
    assert (refused.code, "nodes 2..3 are excluded" in refused.text) == (Refusal.BUSY, True)


def test_a_list_means_nodes_that_come_while_its_job_waits(four):
    four.grant(spec(8))
    queued = four.request(spec(1), source=pct(77), waits=True, **without("1..9,node[3-12]"))
    assert isinstance(queued, Queued)
    for number in (4, 12):
        assert grants(four.announce(number, 2)) == []
    (grant,) = grants(four.announce(13, 2))
    assert nodes_of(grant) == [13]


def grants(actions):
    return [each.message for each in actions if isinstance(getattr(each, "message", None), Grant)]
