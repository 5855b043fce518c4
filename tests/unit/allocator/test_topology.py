"""Nodes below switches: a job gets them below as few leaf switches as it can."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.host import files
from allocator.nodes import topology
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.site_policy import SitePolicy
from native.errors import UsageError
from tests.unit.allocator.test_placement import filled, pairs

TWO_LEVELS = """
SwitchName=s0 Nodes=0..3
SwitchName=s1 Nodes=4..7
SwitchName=s2 Nodes=8..11   # a row of its own
SwitchName=s3 Nodes=12..15
SwitchName=left  Switches=s[0-1]
SwitchName=right Switches=s2,s3 LinkSpeed=100
SwitchName=top Switches=left,right
"""


def placed(free, size, text=TWO_LEVELS):
    """Node by node, with its slots."""
    tree = topology.parse(text, "f", {})
    placement = filled(ArrayPlacement(tree.choose, tree.line), dict(enumerate(free)))
    return pairs(placement.anywhere(size))


def nodes(free, size):
    return [node for node, _ in placed(free, size)]


def test_a_job_that_fits_below_a_leaf_switch_gets_the_fullest_of_those():
    free = [1] * 16
    free[0] = free[8] = free[9] = 0  # 3, 4, 2 and 4 free
    assert nodes(free, 2) == [10, 11]
    assert nodes(free, 3) == [1, 2, 3]
    assert nodes(free, 4) == [4, 5, 6, 7]


def test_a_larger_job_stays_below_one_switch_of_the_next_level():
    free = [1] * 16
    free[0] = free[4] = 0  # 6 on the left, 8 on the right
    assert nodes(free, 6) == [1, 2, 3, 5, 6, 7]
    assert nodes(free, 7) == [8, 9, 10, 11, 12, 13, 14]
    assert nodes(free, 14) == [node for node in range(16) if node not in (0, 4)]


def test_the_last_leaf_switch_is_the_one_with_least_that_does():
    free = [0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1]
    assert nodes(free, 6) == [4, 5, 8, 9, 10, 11]
    assert nodes(free, 5) == [8, 9, 10, 11, 15]


def test_nodes_below_no_switch_are_a_leaf_switch_more():
    free = [1] * 20
    assert nodes(free, 20) == list(range(20))
    assert 16 in nodes([0] * 16 + [2, 2, 1], 5)


def leaves_used(picks, sizes):
    behind = np.cumsum(sizes)
    return len({int(np.searchsorted(behind, node, side="right")) for node, _ in picks})


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=6),
    st.data(),
)
def test_no_smaller_number_of_leaf_switches_would_do(below, data):
    free = [count for leaf in below for count in leaf]
    if not any(free):
        return
    size = data.draw(st.integers(1, sum(free)))
    lines, first = [], 0
    for number, leaf in enumerate(below):
        lines.append(f"SwitchName=s{number} Nodes={first}..{first + len(leaf) - 1}")
        first += len(leaf)
    lines.append(f"SwitchName=top Switches=s[0-{len(below) - 1}]")
    picks = placed(free, size, "\n".join(lines))
    assert sum(slots for _, slots in picks) == size
    assert all(0 < slots <= free[node] for node, slots in picks)
    used = leaves_used(picks, [len(leaf) for leaf in below])
    least = next(
        count
        for count in range(1, len(below) + 1)
        if any(sum(map(sum, some)) >= size for some in combinations(below, count))
    )
    assert used == least


@given(st.lists(st.integers(0, 3), min_size=16, max_size=20), st.data())
def test_any_free_slots_below_any_tree_are_found(free, data):
    if any(free):
        size = data.draw(st.integers(1, sum(free)))
        assert sum(slots for _, slots in placed(free, size)) == size


def test_names_are_those_of_the_nodes_file():
    tree = topology.parse("switchname=a nodes=n[0-1],gpu1\n", "f", {"n0": 5, "n1": 3, "gpu1": 9})
    assert tree.line == [3, 5, 9]


def test_a_count_of_nodes_is_placed_below_as_few_switches():
    tree = topology.parse(TWO_LEVELS, "f", {})
    placement = ArrayPlacement(tree.choose, tree.line)
    for node in range(16):
        placement.set_free(node, 1 if node in (0, 1, 4) else 2)
    assert placement.nodes_with(2, 3) == [5, 6, 7]
    assert placement.nodes_with(1, 4) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Switch=s0 Nodes=1", "f:1: a switch has a SwitchName= and one of Nodes= and Switches="),
        ("SwitchName=s0", "f:1: a switch has a SwitchName= and one of Nodes= and Switches="),
        ("SwitchName=s0 x", "f:1: `x`: lines are `SwitchName=s0 Nodes=n[0-3]`"),
        ("SwitchName=s0 Nodes=1 Nodes=2", "f:1: `Nodes=2`: lines are `SwitchName=s0 Nodes=n[0-3]`"),
        ("SwitchName=s0 Nodes=n7", "f:1: the nodes file has no node n7"),
        ("SwitchName=s0 Nodes=n[0", "f:1: `n[0` is no list of names, as n[0-3],gpu1 is"),
        ("SwitchName=s0 Nodes=1&2", "f:1: `1&2` is no list of names, as n[0-3],gpu1 is"),
        ("SwitchName=s0 Nodes=1...", "f:1: node list `1...`: `1...` is neither a number"),
        ("SwitchName=s0 Nodes=1\nSwitchName=s0 Nodes=2", "f:2: switch s0 is there twice"),
        ("SwitchName=s0 Nodes=1\nSwitchName=s1 Nodes=1", "f:2: node 1 is below s0 already"),
        ("SwitchName=s0 Switches=s1", "f:1: there is no switch s1"),
        (
            "SwitchName=s0 Nodes=1\nSwitchName=a Switches=s0\nSwitchName=b Switches=s0",
            "f:3: switch s0 is below a already",
        ),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "f:1: above switch a is a loop"),
        ("SwitchName=a Switches=a", "f:1: above switch a is a loop"),
        (
            "SwitchName=s0 Nodes=1\n"
            + "".join(f"SwitchName=s{n + 1} Switches=s{n}\n" for n in range(32)),
            "f:1: more than 32 switches above one another",
        ),
    ],
)
def test_a_wrong_topology_is_refused_with_its_line(text, error):
    with pytest.raises(UsageError) as caught:
        topology.parse(text, "f", {"n0": 0})
    assert str(caught.value).startswith(error)


# -- a site's own policy


def asked(policy, free=(1, 0, 2), size=2):
    """The places that come of a site's policy, and what bebopd's log says."""
    said = []
    guarded = SitePolicy("near", policy, said.append)
    return guarded.choose(np.array(free), size).tolist(), said


def test_a_sites_policy_chooses_where_its_answer_is_right():
    assert asked(lambda free, size: np.array([2])) == ([2], [])


def raises(free, size):
    raise ValueError("no map")


def writes(free, size):
    free[0] = 7


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (lambda free, size: np.array([0]), "it chose 1 slots, 2 were asked for"),
        (lambda free, size: np.array([0, 1, 2]), "it chose a place without a free slot"),
        (lambda free, size: np.array([2, 0]), "its places are not ascending from 0 to 2"),
        (lambda free, size: np.array([0, 3]), "its places are not ascending from 0 to 2"),
        (lambda free, size: np.array([-1, 2]), "its places are not ascending from 0 to 2"),
        (lambda free, size: [], "it answered no line of integers but float64 of shape (0,)"),
        (lambda free, size: None, "it answered no line of integers but object of shape ()"),
        (raises, "ValueError: no map"),
        (writes, "ValueError: assignment destination is read-only"),
    ],
)
def test_after_a_wrong_answer_lowest_chooses_and_the_log_says_why(policy, why):
    places, said = asked(policy)
    assert places == [0, 2]
    assert said == [f"warning: placement near: {why}; `lowest` chooses from now on"]


def test_a_policy_that_failed_is_not_asked_again():
    calls, said = [], []
    guarded = SitePolicy("near", lambda free, size: calls.append(size), said.append)
    for _ in range(3):
        assert guarded.choose(np.array([1]), 1).tolist() == [0]
    assert (calls, len(said)) == ([1], 1)


def test_a_name_that_is_no_policy_is_refused():
    with pytest.raises(UsageError, match=r"--placement odd: no such policy, nor an entry point"):
        files.site_policy("odd")
