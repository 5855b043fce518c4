"""A gather is complete once: when the last of those it waits for has given."""

from hypothesis import given
from hypothesis import strategies as st

from pct.tree.collective import SELF, Gather


def test_the_last_contribution_completes_a_gather():
    gather = Gather([3, 4])
    assert gather.give(4, "b") is False
    assert gather.give(SELF, "own") is False
    assert not gather.is_complete
    assert gather.give(3, "a") is True
    assert gather.is_complete
    assert gather.given == {4: "b", SELF: "own", 3: "a"}


def test_a_node_without_children_waits_for_itself_only():
    assert Gather(range(0)).give(SELF, 1) is True


def test_a_second_contribution_and_one_of_nobody_change_nothing():
    gather = Gather([3])
    gather.give(3, "first")
    assert gather.give(3, "second") is False
    assert gather.give(9, "who") is False
    assert gather.given == {3: "first"}


def test_a_lost_child_is_replaced_by_its_heirs():
    gather = Gather([1])
    gather.give(SELF, "own")
    assert gather.drop(1, range(3, 5)) is False
    assert gather.give(1, "late") is False
    assert gather.give(3, "a") is False
    assert gather.give(4, "b") is True


def test_losing_the_last_one_awaited_completes_the_gather():
    gather = Gather([1])
    gather.give(SELF, "own")
    assert gather.drop(1) is True
    assert gather.drop(1) is False
    assert gather.given == {SELF: "own"}


def test_a_child_that_has_given_is_not_lost_afterwards():
    gather = Gather([1])
    gather.give(1, "a")
    assert gather.drop(1, [3]) is False
    assert gather.awaited == {SELF}


@given(
    places=st.sets(st.integers(0, 8), max_size=6),
    steps=st.lists(st.tuples(st.booleans(), st.integers(-1, 12)), max_size=40),
)
def test_whatever_the_order_a_place_is_awaited_or_has_given_and_completion_is_told_once(
    places, steps
):
    gather = Gather(sorted(places))
    completions = 0
    for is_drop, place in steps:
        was_awaited = place in gather.awaited
        told = gather.drop(place) if is_drop else gather.give(place, place)
        assert not gather.awaited & set(gather.given)
        assert told == (was_awaited and gather.is_complete)
        completions += told
    assert completions == gather.is_complete
