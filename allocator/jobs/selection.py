"""How the ranks of one spec lie on nodes, where it asks for more than slots anywhere.

Of the nodes with room it takes the first, in the order of the list or of their numbers. A spec
for a count of nodes takes the first that have room for an even share; where these are too few,
those with most room. Its ranks lie on them as evenly as their room allows.


Ranks that are dealt go to the nodes in turn, past those that are full: to the count of nodes
that is asked for, else to all that have room.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from native.wire.alloc import NodeSpec

Picks = list[tuple[int, int]]  # (node, ranks), in rank order
Candidates = Iterable[tuple[int, int]]  # (node, room), none is asked for in vain


def room_of(spec: NodeSpec, free: int) -> int:
    """How many ranks of a spec a node with so many free slots takes."""
    room = free // spec.cores
    return min(room, spec.per_node) if spec.per_node else room


def is_shaped(spec: NodeSpec) -> bool:
    """Whether it takes more than the free slots that come next."""
    return bool(
        spec.node_count or spec.per_node or spec.cores > 1 or spec.plane or spec.needs is not None
    )


def select(spec: NodeSpec, candidates: Candidates) -> Picks | None:
    """Nodes for all ranks of a spec; None: these have too little room.

    Args:
        spec: it does not contradict itself.
        candidates: nodes and the ranks that each has room for, at least 1, in order.
    """
    if not spec.node_count:
        dealt = spec.plane
        if dealt:
            return _dealt(list(candidates), spec.size, dealt)
        return _filled(candidates, spec.size)
    chosen = _chosen(candidates, spec.size, spec.node_count)
    if chosen is None:
        return None
    if spec.plane:
        return _dealt(chosen, spec.size, spec.plane)
    counts = _even([room for _, room in chosen], spec.size)
    return [(node, count) for (node, _), count in zip(chosen, counts, strict=True)]


def _filled(candidates: Candidates, size: int) -> Picks | None:
    """Each node full before the next."""
    picks = []
    for node, room in candidates:
        count = min(room, size)
        picks.append((node, count))
        size -= count
        if not size:
            return picks
    return None


def _dealt(candidates: Picks, size: int, plane: int) -> Picks | None:
    """So many to each node in turn; None: they have too little room in all."""
    if sum(room for _, room in candidates) < size:
        return None
    picks = []
    while size:
        left = []
        for node, room in candidates:
            count = min(plane, room, size)
            if count:
                picks.append((node, count))
                size -= count
                left.append((node, room - count))
        candidates = [(node, room) for node, room in left if room]
    return picks


def _chosen(candidates: Candidates, size: int, node_count: int) -> Picks | None:
    """So many nodes, in their order, that together have room; None: there are none."""
    share = -(-size // node_count)
    seen: Picks = []
    roomy: Picks = []
    for candidate in candidates:
        seen.append(candidate)
        if candidate[1] >= share:
            roomy.append(candidate)
            if len(roomy) == node_count:
                return roomy
    by_room = sorted(range(len(seen)), key=lambda index: -seen[index][1])
    most = [seen[index] for index in sorted(by_room[:node_count])]
    return most if len(most) == node_count and sum(room for _, room in most) >= size else None


def _even(rooms: Sequence[int], size: int) -> list[int]:
    """Ranks for each node, as even as the rooms allow; of what is left over the first get more."""
    counts = list(rooms)
    by_room = sorted(range(len(rooms)), key=lambda index: rooms[index])
    for done, index in enumerate(by_room):
        share, more = divmod(size, len(rooms) - done)
        if rooms[index] > share:
            for nth, other in enumerate(sorted(by_room[done:])):
                counts[other] = share + (nth < more)
            break
        size -= rooms[index]
    return counts
