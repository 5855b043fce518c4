"""How ranks lie on nodes, whatever is free: what is asked for, or nothing where nothing can do."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from allocator.jobs.selection import room_of, select
from native.wire.alloc import NodeSpec

frees = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def shapes(node_count=(0, 4), plane=(0, 3)):
    """Specs that do not contradict themselves."""
    return st.builds(
        NodeSpec,
        size=st.integers(1, 24),
        node_count=st.integers(*node_count),
        per_node=st.sampled_from([0, 0, 1, 3, 8]),
        cores=st.integers(1, 4),
        plane=st.integers(*plane),
    ).filter(lambda spec: not spec.contradiction)


def candidates(spec, free):
    rooms = [(node, room_of(spec, slots)) for node, slots in enumerate(free)]
    return [(node, room) for node, room in rooms if room]


def exists(spec, rooms):
    """Whether any choice of nodes does, by trying all."""
    if not spec.node_count:
        return sum(rooms) >= spec.size
    return any(sum(some) >= spec.size for some in combinations(rooms, spec.node_count))


@given(shapes(), frees)
def test_what_is_chosen_is_what_was_asked_for_and_is_found_where_it_exists(spec, free):
    there = candidates(spec, free)
    picks = select(spec, there)
    assert (picks is not None) == exists(spec, [room for _, room in there])
    if picks is None:
        return
    on: dict[int, int] = {}
    for node, count in picks:
        assert count > 0
        on[node] = on.get(node, 0) + count
    assert sum(on.values()) == spec.size
    assert all(count * spec.cores <= free[node] for node, count in on.items())
    assert not spec.per_node or max(on.values()) <= spec.per_node
    assert not spec.node_count or len(on) == spec.node_count


@given(shapes(plane=(1, 3)), frees)
def test_ranks_are_dealt_in_turn_past_nodes_that_are_full(spec, free):
    there = candidates(spec, free)
    picks = select(spec, there)
    if picks is None:
        return
    left, last = dict(there), -1
    order = list(left) if not spec.node_count else sorted(dict(picks))
    for index, (node, count) in enumerate(picks):
        turn = [each for each in order if left[each]]
        assert node == next((each for each in turn if each > last), turn[0])
        is_last = index == len(picks) - 1
        assert count == min(spec.plane, left[node]) or (is_last and count < spec.plane)
        left[node] -= count
        last = node


@given(shapes(node_count=(1, 4), plane=(0, 0)), frees)
def test_ranks_lie_as_evenly_as_room_allows(spec, free):
    there = candidates(spec, free)
    picks = select(spec, there)
    if picks is None:
        return
    on, rooms = dict(picks), dict(there)
    most = max(on.values())
    assert all(count >= most - 1 or count == rooms[node] for node, count in on.items())
