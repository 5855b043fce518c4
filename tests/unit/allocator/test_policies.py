"""Placement policies: which free slots of a line of nodes a request gets."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.geometry import hilbert
from allocator.host.files import POLICIES as NAMES
from allocator.nodes import nodesfile, policies
from allocator.nodes.access import Access, Claim
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.placement_list import ListPlacement
from native.errors import UsageError
from native.wire.alloc import Grant
from tests.unit.allocator.partition_of import Partition, spec
from tests.unit.allocator.test_placement import filled, pairs

lines = st.lists(st.integers(0, 3), min_size=1, max_size=30)


def placed(policy, free, size, line=()):
    """Node by node, with its slots."""
    found = filled(ArrayPlacement(policies.POLICIES[policy], line), dict(enumerate(free)))
    return pairs(found.anywhere(size))


def runs(free):
    """The places of each row of neighbours that all have a free slot."""
    found, row = [], []
    for place, count in enumerate([*free, 0]):
        if count:
            row.append(place)
        elif row:
            found.append(row)
            row = []
    return found


def smallest_span(free, size):
    """By trying all windows."""
    spans = [
        behind - first
        for first in range(len(free))
        for behind in range(first, len(free))
        if sum(free[first : behind + 1]) >= size
    ]
    return min(spans)


def test_the_command_offers_the_policies_that_there_are():
    assert list(policies.POLICIES) == list(NAMES)


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [
        ("lowest", [0, 2, 3]),
        ("first-fit", [2, 3, 4]),
        ("best-fit", [6, 7, 8]),
        ("minimal-span", [2, 3, 4]),
    ],
)
def test_each_policy_by_an_example(policy, nodes):
    free = [1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1]
    free[5:6] = [1, 0]  # runs of 1, 4, 3 and 1
    nodes = [node + 1 if node > 5 else node for node in nodes]
    assert [node for node, _ in placed(policy, free, 3)] == nodes


def test_sum_of_squares_leaves_lengths_that_are_rare():
    free = [1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1]  # runs of 2, 2, 3 and 4
    # 2 of a 2 leaves none; of the 3 it would leave a 1, of the 4 a third 2
    assert [node for node, _ in placed("sum-of-squares", free, 2)] == [0, 1]
    # of a 2 it would leave a second 1
    assert [node for node, _ in placed("sum-of-squares", [1, 1, 0, 1, 1, 0, 1], 1)] == [6]
    assert [node for node, _ in placed("sum-of-squares", [1, 0, 1, 0, 1, 1, 0, 1, 1], 1)] == [0]


@pytest.mark.parametrize("policy", policies.POLICIES)
@given(free=lines, data=st.data())
def test_what_is_placed_is_free_and_as_much_as_asked_for(policy, free, data):
    if not any(free):
        return
    size = data.draw(st.integers(1, sum(free)))
    picks = placed(policy, free, size)
    assert sum(count for _, count in picks) == size
    assert all(0 < count <= free[node] for node, count in picks)
    assert [node for node, _ in picks] == sorted({node for node, _ in picks})
    span = picks[-1][0] - picks[0][0]
    large = [row for row in runs(free) if sum(free[place] for place in row) >= size]
    if policy == "minimal-span" or (policy != "lowest" and not large):
        assert span == smallest_span(free, size)
    elif policy == "first-fit":
        assert picks[0][0] == large[0][0]
    elif policy == "best-fit":
        least = min(sum(free[place] for place in row) for row in large)
        begun = next(row for row in large if sum(free[place] for place in row) == least)
        assert picks[0][0] == begun[0]
    elif policy == "sum-of-squares":
        assert picks[0][0] in [row[0] for row in large]


@pytest.mark.parametrize("policy", policies.POLICIES)
@given(free=lines, slots=st.integers(1, 3), count=st.integers(1, 6))
def test_a_count_of_nodes_is_placed_by_the_policy_too(policy, free, slots, count):
    placement = filled(ArrayPlacement(policies.POLICIES[policy]), dict(enumerate(free)))
    able = [int(each >= slots) for each in free]
    nodes = placement.nodes_with(slots, count)
    if sum(able) < count:
        assert nodes is None
    else:
        assert nodes == [node for node, _ in placed(policy, able, count)]


@given(lines, st.integers(1, 3), st.integers(1, 6))
def test_arrays_and_lists_find_the_same_counts_of_nodes(free, slots, count):
    both = [filled(new(), dict(enumerate(free))) for new in (ArrayPlacement, ListPlacement)]
    fast, plain = (each.nodes_with(slots, count) for each in both)
    assert fast == plain
    assert list(both[0].in_order()) == list(both[1].in_order())


def test_nodes_that_the_order_lacks_follow_it_by_number():
    assert placed("lowest", [1, 1, 1, 1], 4, line=(3, 1)) == [(3, 1), (1, 1), (0, 1), (2, 1)]
    assert placed("minimal-span", [1, 0, 1, 1], 2, line=(2, 0, 1, 3)) == [(2, 1), (0, 1)]


@pytest.mark.parametrize("new", [ArrayPlacement, ListPlacement])
def test_a_placement_for_a_claim_and_for_unused_nodes_leaves_the_first_as_it_is(new):
    placement = new()
    for node, (free, is_unused) in enumerate([(2, True), (1, False), (2, True)]):
        placement.set_free(node, free, is_unused)
    placement.set_access(0, Access(7))
    assert placement.admitting(Claim(7)) is placement
    others = placement.admitting(Claim(8))
    assert [others.free(node) for node in range(3)] == [0, 1, 2]
    unused = others.unused()
    assert [unused.free(node) for node in range(3)] == [0, 0, 2]
    unused.take(unused.anywhere(2))
    assert [placement.free(node) for node in range(3)] == [2, 1, 2]
    placement.take(placement.of_list((2,), 1))
    assert placement.unused().free(2) == 0
    placement.set_access(0, Access())
    assert placement.admitting(Claim(8)) is placement


def test_dealt_ranks_are_counted_each_time_a_node_has_some():
    for placement in (ArrayPlacement(), ListPlacement()):
        partition = Partition(0, placement=placement)
        for number, slots in enumerate((1, 5, 1)):
            partition.announce(number, slots)
        dealt = spec(5, node_count=1, plane=1)
        assert isinstance(partition.request(spec(1), spec(1), dealt), Grant)
        assert partition.free() == {0: 0, 1: 0, 2: 0}


# -- the order


@pytest.mark.parametrize("sizes", [(8, 8), (4, 4, 4), (16, 16), (2, 2, 2, 2)])
def test_the_curve_goes_from_each_place_to_a_neighbour(sizes):
    at = dict(enumerate(np.ndindex(sizes)))
    line = hilbert.order(at)
    assert sorted(line) == sorted(at)
    steps = [
        sum(abs(one - other) for one, other in zip(at[before], at[after], strict=True))
        for before, after in pairwise(line)
    ]
    assert set(steps) == {1}


def test_nodes_at_the_same_place_follow_one_another_by_number():
    assert hilbert.order({5: (0, 0), 2: (1, 1), 1: (0, 0)}) == [1, 5, 2]
    assert hilbert.order({}) == []
    assert hilbert.order({3: (7,), 4: (2,)}) == [4, 3]


def test_a_nodes_file_has_coordinates():
    found = nodesfile.parse("a at=0,1\nb  at=3,0 # corner\n", "f")
    assert (found.numbers, found.at) == ({"a": 0, "b": 1}, {0: (0, 1), 1: (3, 0)})
    assert nodesfile.parse("7 a at=5\n", "f").at == {7: (5,)}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a at=1,2\nb\n", "f: node 1 has no `at=`, and others have"),
        ("a at=1,2\nb at=1\n", "f:2: `at=1`: node 0 has 2 coordinates"),
        ("a at=1,-2\n", "f:1: `at=1,-2`: coordinates are numbers from 0, as in at=3,0,7"),
        ("a at=\n", "f:1: `at=`: coordinates are numbers from 0, as in at=3,0,7"),
        ("a at=1 at=2\n", "f:1: node 0 has `at=` twice"),
        ("a at=99999999,1,1,1\n", "f:1: `at=99999999,1,1,1`: 4 coordinates have at most 15 bits"),
        (
            "a rack=7\n",
            "f:1: `rack=7` is none of `at=X,Y,Z`, `for=batch`, `share=no`, `features=gpu`",
        ),
        ("at=1\n", "f:1: lines are either `name` or `number name`, all alike"),
    ],
)
def test_wrong_words_behind_a_name_are_refused_with_their_line(text, error):
    with pytest.raises(UsageError) as caught:
        nodesfile.parse(text, "f")
    assert str(caught.value) == error


def test_an_order_is_read_as_node_lists():
    assert nodesfile.parse_order("# rows\n3..0\n 7,5 6\n", "f") == [3, 2, 1, 0, 7, 5, 6]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1\n2..0\n", "f:2: node 1 is there twice"),
        ("n1\n", "f:1: node list `n1`: 'n' is not allowed (digits, dots and commas, as in 5,1..3)"),
    ],
)
def test_a_wrong_order_is_refused_with_its_line(text, error):
    with pytest.raises(UsageError) as caught:
        nodesfile.parse_order(text, "f")
    assert str(caught.value) == error
