"""The tree of a job: every place below one parent, ancestors and subtrees that agree."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pct.tree.tree import ancestors, children, height, parent, subtree

SIZES = st.integers(1, 100)
ARITIES = st.integers(1, 64)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 1000])
@pytest.mark.parametrize("arity", [1, 2, 16])
def test_every_place_but_the_root_is_some_places_child_exactly_once(size, arity):
    below = [place for each in range(size) for place in children(each, size, arity)]
    assert sorted(below) == list(range(1, size))


def test_the_tree_is_the_heap():
    assert list(children(0, 7, 2)) == [1, 2]
    assert list(children(1, 7, 2)) == [3, 4]
    assert list(children(2, 6, 2)) == [5]
    assert list(children(3, 7, 2)) == []
    assert list(children(1, 20, 4)) == [5, 6, 7, 8]
    assert ancestors(6, 2) == [2, 0]
    assert subtree(1, 9, 2) == [1, 3, 4, 7, 8]


@given(size=SIZES, arity=ARITIES)
def test_a_child_names_its_parent(size, arity):
    for place in range(size):
        assert all(parent(child, arity) == place for child in children(place, size, arity))


@given(size=SIZES, arity=ARITIES)
def test_ancestors_go_from_the_parent_up_to_the_root(size, arity):
    for place in range(size):
        chain = [place, *ancestors(place, arity)]
        assert chain[-1] == 0
        assert all(parent(low, arity) == high for low, high in pairwise(chain))


@given(size=SIZES, arity=ARITIES)
def test_a_subtree_is_who_has_the_place_among_its_ancestors(size, arity):
    for place in range(min(size, 40)):
        below = [each for each in range(size) if place in (each, *ancestors(each, arity))]
        assert subtree(place, size, arity) == below


@given(size=SIZES, arity=ARITIES)
def test_the_height_is_that_of_the_highest_child_and_one(size, arity):
    for place in range(size):
        below = [height(child, size, arity) for child in children(place, size, arity)]
        assert height(place, size, arity) == (max(below) + 1 if below else 0)


def test_the_root_has_no_parent_and_no_ancestors():
    assert parent(0, 2) == -1
    assert ancestors(0, 2) == []
