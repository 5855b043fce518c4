"""Which cores the ranks of a job would have on this host, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from allocator.nodes.layout import lay
from native.nodelist import format_nodes
from native.text import plural
from native.wire.alloc import NodeSpec
from native.wire.runs import Binding, CoreRow
from partition.find import discover
from pct.cores import Core, CoreTable, dealt
from pct.host import capacity

_FREE = "."


def of_job(specs: Sequence[NodeSpec], partition: str, environment: Mapping[str, str]) -> list[str]:
    """What is shown of a job that is not started; empty: no rank is bound.

    Args:
        partition: as the user names it; empty: it is found.
    """
    if all(binding_of(spec) is None for spec in specs):
        return []
    if discover.find(partition, environment).is_embedded:
        return lines(specs, capacity.here(environment).cores)
    return ["binding: each rank has cores of its own, the lowest that are free on its node"]


def lines(specs: Sequence[NodeSpec], cores: tuple[Core, ...]) -> list[str]:
    """A line for each socket and NUMA node, then one for each rank that is bound.

    Each core is in brackets, with the rank that has it for each of its processors.

    Args:
        specs: of the members of a job that is alone here.
        cores: of this host.
    """
    table = CoreTable(cores)
    left = [group.cores for group in table.groups]
    rows: list[CoreRow] = []
    cores_of: dict[int, tuple[int, int, bool]] = {}
    for member, spec in enumerate(specs):
        if (binding := binding_of(spec)) is None:
            continue
        counts = lay(binding, spec.cores, table.groups, tuple(left), spec.size)
        if counts is None:
            asked = f"{plural(spec.size, 'rank')} with {plural(spec.cores, 'core')} each"
            return [f"binding: no room for {asked}: this host has {plural(len(cores), 'core')}"]
        rows += [(member, group, count) for group, count in enumerate(counts) if count]
        left = [have - taken for have, taken in zip(left, counts, strict=True)]
        cores_of[member] = spec.cores, binding.threads, binding.is_whole
    table.take(0, rows)
    member_of = [member for member, spec in enumerate(specs) for _ in range(spec.size)]
    found = dealt(range(len(member_of)), member_of, cores_of, table.of(0))
    return ["binding, if nobody else has cores here:", *_picture(cores, found), *_ranks(found)]


def binding_of(spec: NodeSpec) -> Binding | None:
    """How the ranks of a member are bound; None: they are not."""
    return None if spec.needs is None else spec.needs.binding


def _picture(cores: tuple[Core, ...], found: dict[int, tuple[int, ...]]) -> list[str]:
    rank_at = {cpu: str(rank) for rank, cpus in found.items() for cpu in cpus}
    width = max(map(len, rank_at.values()), default=1)
    shown = []
    for (socket, numa), own in groupby(cores, lambda core: (core.socket, core.numa)):
        boxes = (
            "[" + " ".join(rank_at.get(cpu, _FREE).rjust(width) for cpu in core.cpus) + "]"
            for core in own
        )
        shown.append(f"  socket {socket}, NUMA node {numa}: {' '.join(boxes)}")
    return shown


def _ranks(found: dict[int, tuple[int, ...]]) -> list[str]:
    return [
        f"  rank {rank}: processors {format_nodes(cpus).replace('..', '-')}"
        for rank, cpus in found.items()
    ]
