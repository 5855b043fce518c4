"""The cores of a node: which there are, and which jobs have them.

Jobs of which ranks are bound have cores of their own; all others use what processors they find.
bebopd counts cores by group, and the node chooses: the lowest of a group that are free, so that
what a job has lies close together. A core is given whole, with all of its hardware threads.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from native.text import plural
from native.wire.runs import Binding, CoreGroup, CoreRow, Reach

Owned = tuple[tuple[int, "Core"], ...]  # a job's cores with the members whose ranks have them


class Core(NamedTuple):
    """One core. Those of a node ascend by socket, NUMA node and processor.

    Attributes:
        cpus: the processors (hardware threads) of it that jobs may use, ascending; at least one.
    """

    socket: int
    numa: int
    cpus: tuple[int, ...]


class Given(NamedTuple):
    """What a job has of a node's cores.

    Attributes:
        own: its own, member by member, in the order of its ranks.
        here: all of the node.
    """

    own: Owned
    here: tuple[Core, ...]


class CoreTable:
    """Who has which core.

    Invariant: no core is given to two jobs.
    """

    def __init__(self, cores: tuple[Core, ...]) -> None:
        self._cores = sorted(cores)
        by_group = sorted(self._cores, key=_group)
        self._groups = [list(row) for _, row in groupby(by_group, _group)]
        self._given: dict[int, Owned] = {}  # by job

    @property
    def groups(self) -> tuple[CoreGroup, ...]:
        """As bebopd counts them."""
        firsts = [(cores[0], len(cores)) for cores in self._groups]
        return tuple(
            [CoreGroup(core.socket, core.numa, len(core.cpus), count) for core, count in firsts]
        )

    def of(self, job_id: int) -> Given | None:
        """What a job has; None: nothing."""
        own = self._given.get(job_id)
        return None if own is None else Given(own, tuple(self._cores))

    def counts(self, job_id: int) -> tuple[int, ...]:
        """How many cores of each group a job has; empty: none of any."""
        if job_id not in self._given:
            return ()
        own = {core for _, core in self._given[job_id]}
        return tuple([len(own.intersection(cores)) for cores in self._groups])

    def take(self, job_id: int, rows: Iterable[CoreRow]) -> str:
        """Give a job cores, the first that are free; why not, empty: it has them."""
        taken = {core for given in self._given.values() for _, core in given}
        chosen: list[tuple[int, Core]] = []
        for member, group, count in rows:
            if group >= len(self._groups):
                return f"cores of group {group} granted, there are {len(self._groups)} groups"
            free = [core for core in self._groups[group] if core not in taken]
            if count > len(free):
                there = f"{len(free)} of {len(self._groups[group])} are free"
                return f"{plural(count, 'core')} of a group granted, {there}"
            chosen += [(member, core) for core in free[:count]]
            taken.update(free[:count])
        self._given[job_id] = tuple(sorted(chosen))
        return ""

    def give_back(self, job_id: int) -> None:
        """A job is over."""
        self._given.pop(job_id, None)

    def check(self, jobs: Iterable[int]) -> None:
        """Assert the invariant, and that only these jobs have cores."""
        given = [core for each in self._given.values() for _, core in each]
        assert len(given) == len(set(given)) and set(given) <= set(self._cores), given
        assert self._given.keys() <= set(jobs), self._given


def _group(core: Core) -> tuple[int, int, int]:
    """What tells it from others; those with more threads come first."""
    return core.socket, core.numa, -len(core.cpus)


def dealt(
    ranks: Iterable[int],
    member_of: list[int],
    bound: Mapping[int, tuple[int, Binding]],
    given: Given,
) -> dict[int, tuple[int, ...]]:
    """The processors of each rank that is bound.

    Args:
        ranks: of the node, ascending.
        member_of: of each rank.
        bound: by member whose ranks are bound: cores for each rank, and how.
        given: what the job has here.
    """
    left = {member: [core for of, core in given.own if of == member] for member in bound}
    whole = sorted(core for _, core in given.own)
    found = {}
    for rank in ranks:
        member = member_of[rank]
        if member not in bound:
            continue
        count, binding = bound[member]
        own = whole if binding.is_whole else left[member][:count]
        if not binding.is_whole:
            del left[member][:count]
        cores = _around(own, given.here, binding)
        if cpus := sorted(cpu for core in cores for cpu in core.cpus[: binding.threads or None]):
            found[rank] = tuple(cpus)
    return found


def _around(own: list[Core], here: tuple[Core, ...], binding: Binding) -> list[Core]:
    """What a rank is bound to: its own cores, or all of the socket or NUMA node that these are of.

    Those with fewer threads than it wants of each are left out.
    """
    if binding.reach not in (Reach.SOCKET, Reach.NUMA):
        return own
    width = 1 if binding.reach is Reach.SOCKET else 2  # of (socket, NUMA node)
    places = {core[:width] for core in own}
    return [core for core in here if core[:width] in places and len(core.cpus) >= binding.threads]
