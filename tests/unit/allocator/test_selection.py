"""How ranks lie on nodes, whatever is free: what is asked for, or nothing where nothing can do."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from allocator.jobs.selection import room_of, select
from native.wire.alloc import NodeSpec

frees = st.lists(st.integers(0, 9), min_size=1, max_size=6)
shapes = st.builds(
    NodeSpec,
    size=st.integers(1, 24),
    node_count=st.integers(0, 4),
    per_node=st.integers(0, 5),
    cores=st.integers(1, 4),
).filter(lambda spec: not spec.contradiction)


def candidates(spec, free):
    rooms = [(node, room_of(spec, slots)) for node, slots in enumerate(free)]
    return [(node, room) for node, room in rooms if room]


def exists(spec, rooms):
    """Whether any choice of nodes does, by trying all."""
    if not spec.node_count:
        return sum(rooms) >= spec.size
    return any(sum(some) >= spec.size for some in combinations(rooms, spec.node_count))


@given(shapes, frees)
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


@given(shapes.filter(lambda spec: spec.node_count), frees)
def test_ranks_lie_as_evenly_as_room_allows(spec, free):
    there = candidates(spec, free)
    picks = select(spec, there)
    if picks is None:
        return
    on, rooms = dict(picks), dict(there)
    most = max(on.values())
    assert all(count >= most - 1 or count == rooms[node] for node, count in on.items())
