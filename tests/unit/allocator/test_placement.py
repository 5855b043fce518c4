"""Both placements are the same rule: first fit in the order asked for."""

from hypothesis import given
from hypothesis import strategies as st

from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.placement_list import ListPlacement
from native.wire.placed import NodeSpan

frees = st.dictionaries(st.integers(0, 200), st.integers(0, 4), max_size=30)


def pairs(spans):
    """Node by node, with its slots."""
    nodes = ((range(span.node, span.node + span.count), span.slots) for span in spans)
    return [(node, slots) for numbers, slots in nodes for node in numbers]


def filled(placement, free):
    for node, count in free.items():
        placement.set_free(node, count)
    return placement


@given(frees, st.integers(1, 40))
def test_arrays_and_lists_place_alike_anywhere(free, size):
    assert filled(ArrayPlacement(), free).anywhere(size) == filled(ListPlacement(), free).anywhere(
        size
    )


@given(frees, st.integers(1, 40), st.lists(st.integers(0, 300), unique=True).map(tuple))
def test_arrays_and_lists_place_alike_on_a_list(free, size, nodes):
    fast, plain = filled(ArrayPlacement(), free), filled(ListPlacement(), free)
    assert fast.of_list(nodes, size) == plain.of_list(nodes, size)


@given(frees, st.integers(1, 40))
def test_what_is_placed_is_free_and_fills_nodes_in_order(free, size):
    picks = filled(ArrayPlacement(), free).anywhere(size)
    if picks is None:
        assert sum(free.values()) < size
        return
    picks = pairs(picks)
    assert sum(count for _, count in picks) == size
    assert [node for node, _ in picks] == sorted(node for node, _ in picks)
    assert all(0 < count <= free[node] for node, count in picks)
    assert all(free[node] == count for node, count in picks[:-1])


@given(frees, st.lists(st.integers(0, 200), unique=True, min_size=1).map(tuple))
def test_a_list_is_filled_in_its_order(free, nodes):
    placement = filled(ArrayPlacement(), free)
    size = sum(free.get(node, 0) for node in nodes)
    if size:
        picks = placement.of_list(nodes, size)
        assert pairs(picks) == [(node, free[node]) for node in nodes if free.get(node)]
    assert placement.of_list(nodes, size + 1) is None


def test_the_last_word_about_a_node_counts():
    for placement in (ArrayPlacement(), ListPlacement()):
        placement.set_free(500, 3)
        placement.set_free(500, 1)
        assert placement.free(500) == 1
        assert placement.free(501) == 0
        assert placement.anywhere(1) == [NodeSpan(500, 1, 1)]
        assert placement.anywhere(2) is None


@given(frees, st.integers(1, 40))
def test_what_is_taken_is_free_no_more(free, size):
    for placement in (filled(ArrayPlacement(), free), filled(ListPlacement(), free)):
        picks = placement.anywhere(size) or []
        placement.take(picks)
        left = free | {node: free[node] - slots for node, slots in pairs(picks)}
        assert {node: placement.free(node) for node in free} == left
