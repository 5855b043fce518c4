"""Which cores the ranks of a job would have on this host, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from allocator.nodes.layout import lay
from native.nodelist import format_nodes
from native.text import plural
from native.wire.alloc import NodeSpec
from native.wire.runs import Binding, CoreRow, Reach
from partition.find import discover
from pct.cores import Core, CoreTable, dealt
from pct.host import capacity

_FREE = "."
_Bound = dict[int, tuple[int, Binding]]  # by member: cores for each rank, and how


def of_job(specs: Sequence[NodeSpec], partition: str, environment: Mapping[str, str]) -> list[str]:
    """What is shown of a job that is not started; empty: no rank is bound.

    Args:
        partition: as the user names it; empty: it is found.
    """
    if all(binding_of(spec) is None for spec in specs):
        return []
    if discover.find(partition, environment).is_embedded:
        return lines(specs, capacity.here(environment).cores)
    own = "each rank has cores of its own, the lowest that are free on its node"
    reaches = {binding.reach for spec in specs if (binding := binding_of(spec)) is not None}
    for reach, where in ((Reach.SOCKET, "socket"), (Reach.NUMA, "NUMA node")):
        if reach in reaches:
            own += f"; with --bind {reach.value} it may use all of their {where}"
    return [f"binding: {own}"]


def lines(specs: Sequence[NodeSpec], cores: tuple[Core, ...]) -> list[str]:
    """A line for each socket and NUMA node, then one for each rank that is bound.

    Each core is in brackets, with the ranks that may use it for each of its processors.

    Args:
        specs: of the members of a job that is alone here.
        cores: of this host.
    """
    table = CoreTable(cores)
    left = [group.cores for group in table.groups]
    rows: list[CoreRow] = []
    bound: _Bound = {}
    for member, spec in enumerate(specs):
        if (binding := binding_of(spec)) is None:
            continue
        counts = lay(binding, spec.cores, table.groups, tuple(left), spec.size)
        if counts is None:
            asked = f"{plural(spec.size, 'rank')} with {plural(spec.cores, 'core')} each"
            return [f"binding: no room for {asked}: this host has {plural(len(cores), 'core')}"]
        rows += [(member, group, count) for group, count in enumerate(counts) if count]
        left = [have - taken for have, taken in zip(left, counts, strict=True)]
        bound[member] = spec.cores, binding
    table.take(0, rows)
    member_of = [member for member, spec in enumerate(specs) for _ in range(spec.size)]
    given = table.of(0)
    assert given is not None
    found = dealt(range(len(member_of)), member_of, bound, given)
    shown = [*_picture(cores, found), *_ranks(cores, member_of, bound, found)]
    return ["binding, if nobody else has cores here:", *shown]


def binding_of(spec: NodeSpec) -> Binding | None:
    """How the ranks of a member are bound; None: they are not."""
    return None if spec.needs is None else spec.needs.binding


def _picture(cores: tuple[Core, ...], found: dict[int, tuple[int, ...]]) -> list[str]:
    ranks_at: dict[int, list[int]] = {}
    for rank, cpus in found.items():
        for cpu in cpus:
            ranks_at.setdefault(cpu, []).append(rank)
    rank_at = {cpu: _numbers(ranks) for cpu, ranks in ranks_at.items()}
    width = max(map(len, rank_at.values()), default=1)
    shown = []
    for (socket, numa), own in groupby(cores, lambda core: (core.socket, core.numa)):
        boxes = (
            "[" + " ".join(rank_at.get(cpu, _FREE).rjust(width) for cpu in core.cpus) + "]"
            for core in own
        )
        shown.append(f"  socket {socket}, NUMA node {numa}: {' '.join(boxes)}")
    return shown


def _ranks(
    cores: tuple[Core, ...],
    member_of: Sequence[int],
    bound: _Bound,
    found: dict[int, tuple[int, ...]],
) -> list[str]:
    """What each rank is bound to; a socket or a NUMA node by its number, too."""
    core_of = {cpu: core for core in cores for cpu in core.cpus}
    shown = []
    for rank, cpus in found.items():
        _, binding = bound[member_of[rank]]
        core = core_of[cpus[0]]
        match binding.reach:
            case Reach.SOCKET:
                where = f"socket {core.socket}, "
            case Reach.NUMA:
                where = f"NUMA node {core.numa}, "
            case _:
                where = ""
        shown.append(f"  rank {rank}: {where}processors {_numbers(cpus)}")
    return shown


def _numbers(numbers: Sequence[int]) -> str:
    """Ascending numbers as the kernel writes them: ``0-3,8``."""
    return format_nodes(numbers).replace("..", "-")
