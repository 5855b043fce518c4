"""The tree of a job: the heap over its nodes, numbered by place.

Place 0 is the root, the node of rank 0. Shape and numbering are those of
Cplant's control tree (k-ary, heap order).
"""


def children(place: int, size: int, arity: int) -> range:
    """Places right below ``place`` in a tree of ``size`` nodes."""
    first = arity * place + 1
    return range(min(first, size), min(first + arity, size))


def parent(place: int, arity: int) -> int:
    """The place above; of the root: -1."""
    return (place - 1) // arity if place else -1


def ancestors(place: int, arity: int) -> list[int]:
    """Places above, the nearest first, the root last."""
    found = []
    while place:
        place = parent(place, arity)
        found.append(place)
    return found


def height(place: int, size: int, arity: int) -> int:
    """Levels below ``place``: 0 for a leaf. The leftmost path is the deepest."""
    levels = 0
    while (place := arity * place + 1) < size:
        levels += 1
    return levels


def subtree(place: int, size: int, arity: int) -> list[int]:
    """``place`` and all places below it, level by level."""
    found: list[int] = []
    first = last = place
    while first < size:
        found += range(first, min(last + 1, size))
        first, last = arity * first + 1, arity * last + arity
    return found
