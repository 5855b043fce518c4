"""Nodes on a torus: distances around its edges, and the smallest box for a job."""

import random
from itertools import permutations

import numpy as np
import pytest

from allocator.geometry import hilbert, torus
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.site_policy import why_wrong
from native.errors import UsageError

RING = {number: (number,) for number in range(8)}
SQUARE = dict(enumerate(np.ndindex(4, 4)))


def placed(sizes, at, free, size):
    """The nodes of a job of so many ranks, ascending.

    Args:
        free: slots by node.
    """
    line = hilbert.order(at)
    placement = ArrayPlacement(torus.Torus(sizes, line, at).choose, line)
    for node, slots in free.items():
        placement.set_free(node, slots)
    spans = placement.anywhere(size)
    return sorted(n for span in spans for n in range(span.node, span.node + span.count))


@pytest.mark.parametrize(
    ("one", "other", "sizes", "links"),
    [
        ((0,), (7,), (8,), 1),
        ((1,), (5,), (8,), 4),
        ((0, 0), (3, 3), (4, 4), 2),
        ((0, 1, 2), (0, 1, 2), (4, 4, 4), 0),
        ((0,), (7,), (16,), 7),  # twice the length: the way around is never shorter
    ],
)
def test_a_distance_is_the_shorter_way_round(one, other, sizes, links):
    assert torus.distance(one, other, sizes) == torus.distance(other, one, sizes) == links


def test_a_job_may_lie_across_the_edge():
    free = dict.fromkeys((0, 1, 4, 7), 1)
    assert placed((8,), RING, free, 3) == [0, 1, 7]
    assert placed((16,), RING, free, 3) == [0, 1, 4]  # no edge to cross


def test_a_job_may_lie_across_the_edges_of_several_dimensions():
    corners = [node for node, at in SQUARE.items() if at[0] in (0, 3) and at[1] in (0, 3)]
    assert placed((4, 4), SQUARE, dict.fromkeys([*corners, 5, 9, 6], 1), 4) == sorted(corners)


def test_of_boxes_of_a_size_the_one_with_least_free_is_taken():
    assert placed((8,), RING, {0: 2, 1: 2, 5: 1, 6: 2}, 3) == [5, 6]


def test_boxes_are_turned():
    column = [node for node, at in SQUARE.items() if at[1] == 2 and at[0] < 2]
    row = [node for node, at in SQUARE.items() if at[0] == 3 and at[1] < 2]
    for pair in (row, column):
        assert placed((4, 4), SQUARE, dict.fromkeys([*pair, 4], 1), 2) == sorted(pair)


def test_nodes_at_one_place_are_nearest_to_one_another():
    at = {0: (0,), 1: (1,), 2: (3,), 3: (3,), 4: (4,)}
    assert placed((6,), at, dict.fromkeys(at, 1), 2) == [2, 3]


def test_what_the_torus_lacks_is_taken_from_nodes_without_a_place():
    at = {0: (0,), 1: (1,)}
    free = {0: 1, 1: 1, 2: 2}
    assert placed((2,), at, free, 2) == [0, 1]
    assert placed((2,), at, free, 3) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(40))
def test_no_box_of_a_smaller_step_would_have_done(seed):
    """Against a search of all positions by hand."""
    chance = random.Random(seed)
    sizes = tuple(chance.randint(1, 5) for _ in range(chance.randint(1, 3)))
    at = dict(enumerate(chance.sample(list(np.ndindex(sizes)), int(np.prod(sizes)))))
    line = hilbert.order(at)
    free = np.array([chance.choice((0, 0, 1, 3)) for _ in line], dtype=np.int64)
    if not free.any():
        free[0] = 1
    size = chance.randint(1, int(free.sum()))
    chosen = torus.Torus(sizes, line, at).choose(free, size)
    assert why_wrong(chosen, free, size) == ""
    step = next(
        step
        for step in range(len(sizes) * max(sizes))
        if any(
            sum(int(free[place]) for place in inside) >= size
            for inside in boxes(sizes, step, [at[node] for node in line])
        )
    )
    assert any(
        set(chosen.tolist()) <= set(inside)
        for inside in boxes(sizes, step, [at[node] for node in line])
    )


def extents(sizes, step):
    whole, longer = divmod(step, len(sizes))
    return [whole + 2] * longer + [whole + 1] * (len(sizes) - longer)


def boxes(sizes, step, where):
    """The places of the line in each box of a step."""
    for turned in set(permutations(extents(sizes, step))):
        for first in np.ndindex(sizes):
            yield [
                place
                for place, at in enumerate(where)
                if all(
                    (one - begin) % length < extent
                    for one, begin, length, extent in zip(at, first, sizes, turned, strict=True)
                )
            ]


@pytest.mark.parametrize(
    ("text", "at", "error"),
    [
        ("", RING, "--torus : sizes are numbers from 1, as in 8x8x4"),
        ("8x0", RING, "--torus 8x0: sizes are numbers from 1, as in 8x8x4"),
        ("1x1x1x1x1x1x1", RING, "--torus 1x1x1x1x1x1x1: a torus has at most 6 dimensions"),
        ("9999x9999", RING, "--torus 9999x9999: 99980001 places, a torus has at most 4194304"),
        ("8", {}, "--torus 8: the nodes file says no coordinates (at=X,Y,Z), or there is none"),
        ("8x8", RING, "--torus 8x8: node 0 is at=0, with 1 coordinate"),
        ("7", RING, "--torus 7: node 7 is at=7, outside of it; the first place is 0"),
    ],
)
def test_a_wrong_torus_is_refused_with_the_node(text, at, error):
    with pytest.raises(UsageError) as refused:
        torus.parse(text, at)
    assert str(refused.value) == error


def test_the_sizes_of_a_torus_are_those_of_the_coordinates():
    assert torus.parse("8", RING) == (8,)
    assert torus.parse("4x5", SQUARE) == (4, 5)
