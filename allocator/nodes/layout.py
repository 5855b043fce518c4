"""How the ranks of a spec lie on the cores of one node, where they are bound.

Cores are counted by group (:class:`native.wire.runs.CoreGroup`); which ones of a group a job
gets is the PCT's choice. A rank has whole cores. If the spec speaks of sockets or NUMA nodes all
of a rank's cores are in one of them: in each the job then has a multiple of what a rank takes, so
that the PCT can deal them in order. Ranks fill sockets in turn, and NUMA nodes in these; a spec for
a count of sockets has that many of those with most room, evenly.

Pure. Most nodes of a partition are alike, and so are the answers: the last ones are remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from native.wire.runs import Binding, CoreGroup

Groups = tuple[CoreGroup, ...]
Counts = tuple[int, ...]  # cores by group

REMEMBERED_COUNT = 1024


class _Cell(Struct):
    """Cores of which a rank's are all, and how many ranks they have room for."""

    groups: list[int]
    room: int = 0


@lru_cache(maxsize=REMEMBERED_COUNT)
def room(binding: Binding, cores: int, groups: Groups, free: Counts) -> int:
    """How many ranks, each of so many cores, find room."""
    return sum(count for count, _ in _chosen(binding, cores, groups, free, None))


@lru_cache(maxsize=REMEMBERED_COUNT)
def lay(binding: Binding, cores: int, groups: Groups, free: Counts, ranks: int) -> Counts | None:
    """The cores by group that so many ranks, each of so many cores, take; None: too few."""
    taken = [0] * len(groups)
    for count, cells in _chosen(binding, cores, groups, free, ranks):
        for cell in cells:
            here = min(count, cell.room)
            count -= here
            ranks -= here
            wanted = here * cores
            for group in cell.groups:
                more = min(wanted, free[group])
                taken[group] += more
                wanted -= more
    return None if ranks else tuple(taken)


def _chosen(
    binding: Binding, cores: int, groups: Groups, free: Counts, ranks: int | None
) -> list[tuple[int, list[_Cell]]]:
    """The sockets to use, with the ranks on each.

    Args:
        ranks: as many; None: as many as there is room for.
    """
    sockets = [
        (count, cells)
        for cells in _sockets(binding, cores, groups, free)
        if (count := _most(sum(cell.room for cell in cells), binding.per_socket))
    ]
    if binding.sockets:
        if len(sockets) < binding.sockets:
            return []
        wanted = binding.sockets if ranks is None else min(binding.sockets, ranks)
        by_room = sorted(range(len(sockets)), key=lambda index: -sockets[index][0])
        sockets = [sockets[index] for index in sorted(by_room[:wanted])]
    if ranks is None:
        return sockets
    rooms = [count for count, _ in sockets]
    counts = _even(rooms, ranks) if binding.sockets else _filled(rooms, ranks)
    return [(count, cells) for count, (_, cells) in zip(counts, sockets, strict=True)]


def _sockets(binding: Binding, cores: int, groups: Groups, free: Counts) -> list[list[_Cell]]:
    """The cells of each socket; one of all groups, where a rank's cores may be of several."""
    found: dict[int, dict[int, _Cell]] = {}
    for index, group in enumerate(groups):
        if group.threads < binding.threads:
            continue
        socket = group.socket if binding.is_inside_sockets else 0
        numa = group.numa if binding.is_inside_numa else 0
        found.setdefault(socket, {}).setdefault(numa, _Cell([])).groups.append(index)
    for cells in found.values():
        for cell in cells.values():
            here = sum(free[group] for group in cell.groups) // cores
            cell.room = _most(here, binding.per_numa)
    return [list(cells.values()) for cells in found.values()]


def _most(count: int, limit: int) -> int:
    return min(count, limit) if limit else count


def _filled(rooms: Sequence[int], ranks: int) -> list[int]:
    """Each full before the next."""
    counts = []
    for most in rooms:
        counts.append(min(most, ranks))
        ranks -= counts[-1]
    return counts


def _even(rooms: Sequence[int], ranks: int) -> list[int]:
    """As even as the rooms allow; of what is left over the first get more."""
    counts = [0] * len(rooms)
    while ranks:
        able = [index for index, most in enumerate(rooms) if counts[index] < most]
        if not able:
            break
        share = max(1, ranks // len(able))
        for index in able:
            more = min(share, rooms[index] - counts[index], ranks)
            counts[index] += more
            ranks -= more
    return counts
