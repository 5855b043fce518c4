"""Nodes of which so many are of some sets: counts in expressions of features. Pure.

One node may be of several sets. First come nodes of as many sets that lack some as can be; so with
up to two sets they are as few as can be.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from allocator.jobs.selection import Picks, select
from allocator.nodes.access import Least
from allocator.nodes.node import Node
from native.text import plural
from native.wire.alloc import NodeSpec


def is_covered(least: Sequence[Least], numbers: Iterable[int]) -> bool:
    """Whether so many of these nodes are of each set."""
    there = frozenset(numbers)
    return all(len(there & each.nodes) >= each.count for each in least)


def covering(least: Sequence[Least], numbers: Iterable[int]) -> frozenset[int] | None:
    """So many nodes of each set, the first ones of equally good ones; None: there are too few.

    Args:
        numbers: to choose from, in order.
    """
    by_sets: defaultdict[tuple[int, ...], deque[int]] = defaultdict(deque)
    for number in numbers:
        if sets := tuple(nth for nth, each in enumerate(least) if number in each.nodes):
            by_sets[sets].append(number)
    lacks = [each.count for each in least]
    chosen = set[int]()
    while max(lacks, default=0) > 0:
        best: tuple[int, ...] = ()
        most = 0, 0
        for sets in by_sets:
            wanted = [lacks[nth] for nth in sets if lacks[nth] > 0]
            if (len(wanted), sum(wanted)) > most:
                best, most = sets, (len(wanted), sum(wanted))
        if not most[0]:
            return None
        chosen.add(by_sets[best].popleft())
        if not by_sets[best]:
            del by_sets[best]
        for nth in best:
            lacks[nth] -= 1
    return frozenset(chosen)


def select_covering(spec: NodeSpec, candidates: Picks, least: Sequence[Least]) -> Picks | None:
    """Nodes for all ranks of a spec, so many of each set among them; None: there are too few.

    Args:
        spec, candidates: as for :func:`allocator.jobs.selection.select`.
    """
    picks = _on_so_many if spec.node_count else _on_any
    found = picks(spec, candidates, least)
    if found is None or not is_covered(least, (number for number, _ in found)):
        return None
    return found


def _on_any(spec: NodeSpec, candidates: Picks, least: Sequence[Least]) -> Picks | None:
    """At least one rank on each node that is needed, each node full before the next."""
    cover = covering(least, (number for number, _ in candidates))
    if cover is None or len(cover) > spec.size:
        return None
    ordered = sorted(candidates, key=lambda each: each[0] not in cover)
    if spec.plane:
        return select(spec, ordered)
    picks: dict[int, int] = {}
    left, waiting = spec.size, len(cover)
    for number, room in ordered:
        waiting -= number in cover
        if count := min(room, left - waiting):
            picks[number] = count
            left -= count
    return (
        None if left else [(number, picks[number]) for number, _ in candidates if number in picks]
    )


def _on_so_many(spec: NodeSpec, candidates: Picks, least: Sequence[Least]) -> Picks | None:
    """The nodes that have room for an even share; where these do not do, those with most room."""
    share = -(-spec.size // spec.node_count)
    roomy = [each for each in candidates if each[1] >= share]
    for among in (roomy, sorted(candidates, key=lambda each: -each[1])):
        cover = covering(least, (number for number, _ in among))
        if cover is None or len(cover) > spec.node_count:
            continue
        first = sorted(among, key=lambda each: each[0] not in cover)[: spec.node_count]
        chosen = {number for number, _ in first}
        found = select(spec, [each for each in candidates if each[0] in chosen])
        if found is not None:
            return found
    return None


def in_the_way(spec: NodeSpec, among: Sequence[Node], least: Sequence[Least]) -> str:
    """Why nodes never do for what a spec says of their features; empty: they do.

    Args:
        among: all nodes that the spec could be on.
    """
    numbers = [node.number for node in among]
    most = spec.node_count or spec.size
    of = plural(most, "node" if spec.node_count else "rank")
    for each in least:
        wanted = f"{plural(each.count, 'node')} with {each.name} requested"
        if (there := sum(number in each.nodes for number in numbers)) < each.count:
            return f"{wanted}, there {'is' if there == 1 else 'are'} {there}"
        if each.count > most:
            return f"{wanted} for a job of {of}"
    if (cover := covering(least, numbers)) is not None and len(cover) > most:
        all_of = " and ".join(f"{each.count} with {each.name}" for each in least)
        return f"{len(cover)} nodes needed ({all_of}) for a job of {of}"
    return ""
