"""Nodes and ranks of a job by ranges: they say what a list would say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.ids import PortalId
from native.wire import codec
from native.wire.placed import GrantedNode, JobNodes, NodeRule, NodeSpan, counted
from native.wire.runs import JobRuns, Run, RunRange

TEN = 10 << 24


def node(number, name="", nid=TEN, pid=7000, slots=1):
    """One whose address counts up with its number, unless it says otherwise."""
    return GrantedNode(number, name or f"n{number:03d}.site", nid + number, pid, slots)


# Names and addresses that count up here and there, and slots that change.
nodes_of_a_job = st.lists(
    st.builds(
        node,
        st.integers(0, 40),
        st.sampled_from(["", "", "", "n8", "n9", "n10", "other"]),
        st.sampled_from([TEN, TEN, TEN, 2 * TEN]),
        slots=st.integers(1, 2),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda each: each.node,
)
runs_of_a_job = st.lists(
    st.builds(Run, st.integers(0, 12), st.integers(1, 3)), min_size=1, max_size=30
)


@given(nodes_of_a_job)
def test_nodes_are_the_same_after_they_have_been_ranges(listed):
    nodes = JobNodes.of(listed)
    assert list(nodes) == listed
    assert len(nodes) == len(listed)
    assert [nodes[place] for place in range(len(nodes))] == listed
    assert [nodes.address(place) for place in range(len(nodes))] == [
        PortalId(each.nid, each.pid) for each in listed
    ]
    assert nodes[-1] == listed[-1]
    assert list(nodes.addresses()) == [(each.nid, each.pid) for each in listed]
    assert list(nodes.names()) == [each.name for each in listed]
    nids = [each.nid for each in listed]
    assert [nodes.count_at(nid) for nid in nids] == [nids.count(nid) for nid in nids]
    assert nodes.count_at(1) == 0
    assert list(nodes.numbers()) == [each.node for each in listed]
    with pytest.raises(IndexError):
        nodes[len(nodes)]


@given(nodes_of_a_job)
def test_a_node_is_found_by_its_number_and_by_its_address(listed):
    nodes = JobNodes.of(listed)
    places = {each.node: place for place, each in enumerate(listed)}
    addresses = {(each.nid, each.pid) for each in listed}
    assert [nodes.place_of(number) for number in range(50)] == list(map(places.get, range(50)))
    for number in range(50):
        for nid in (TEN, 2 * TEN):
            at = (nid + number, 7000)
            assert nodes.has_address(*at) == (at in addresses)


@given(runs_of_a_job)
def test_runs_put_the_ranks_where_a_list_puts_them(listed):
    runs = JobRuns.of(listed)
    places = [run.place for run in listed for _ in range(run.count)]
    assert list(runs.places()) == places
    assert [run.place for run in runs for _ in range(run.count)] == places
    assert runs.size == len(places)
    assert runs.end == max(places) + 1
    assert runs.counts(20) == [places.count(place) for place in range(20)]
    for place in range(14):
        ranks = tuple(rank for rank, at in enumerate(places) if at == place)
        assert runs.ranks_at(place) == ranks


@given(nodes_of_a_job, runs_of_a_job)
def test_a_place_with_more_ranks_than_slots_is_found(listed, listed_runs):
    nodes = JobNodes.of(listed)
    runs = (
        JobRuns.of(run for run in listed_runs if run.place < len(nodes))
        if any(run.place < len(nodes) for run in listed_runs)
        else JobRuns((RunRange(0, 1),))
    )
    counts = runs.counts(len(nodes))
    wrong = [place for place, count in enumerate(counts) if count > listed[place].slots]
    beyond = nodes.beyond(runs)
    if beyond is None:
        assert not wrong
    else:
        assert beyond[0] in wrong and beyond[1] == counts[beyond[0]]


def test_names_and_addresses_that_count_up_are_one_rule():
    nodes = JobNodes.of(node(number) for number in range(8, 1200))
    assert nodes.rules == (NodeRule(8, 1192, "n008.site", 1, TEN + 8, 7000, True),)
    assert nodes.spans == (NodeSpan(8, 1192, 1),)
    assert (nodes[0].name, nodes[1191].name) == ("n008.site", "n1199.site")
    assert JobRuns.of(Run(place, 2) for place in range(1192)) == JobRuns((RunRange(0, 2, 1192),))


@pytest.mark.parametrize(
    ("before", "after", "digits"),
    [
        ("n9", "n10", 1),
        ("n09", "n10", 1),
        ("n19.a", "n20.a", 1),
        ("r1n9", "r1n10", 3),
        ("r1n9", "r2n9", 1),
        ("9", "10", 0),
        ("n099", "n100", 1),
        ("n9", "n010", -1),
        ("n9", "n11", -1),
        ("n9", "n9", -1),
        ("n9", "m10", -1),
        ("n9.a", "n10.b", -1),
        ("n10", "n9", -1),
        ("n", "n1", -1),
        ("n٣", "n٤", -1),
    ],
)
def test_a_name_follows_another_when_one_number_in_it_is_one_more(before, after, digits):
    assert counted(before, after) == digits


@given(nodes_of_a_job)
def test_nodes_survive_the_wire_and_their_digest_is_that_of_what_arrives(listed):
    from msgspec import msgpack

    nodes = JobNodes.of(listed)
    arrived = msgpack.decode(codec.encode_part(nodes), type=JobNodes)
    assert list(arrived) == listed
    assert codec.nodes_digest(arrived) == codec.nodes_digest(nodes)
