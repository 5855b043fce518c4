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
from native.wire.runs import CoreGroup, CoreRow

Given = tuple[tuple[int, "Core"], ...]  # a job's cores with the members whose ranks have them


class Core(NamedTuple):
    """One core. Those of a node ascend by socket, NUMA node and processor.

    Attributes:
        cpus: the processors (hardware threads) of it that jobs may use, ascending; at least one.
    """

    socket: int
    numa: int
    cpus: tuple[int, ...]


class CoreTable:
    """Who has which core.

    Invariant: no core is given to two jobs.
    """

    def __init__(self, cores: tuple[Core, ...]) -> None:
        self._cores = sorted(cores)
        by_group = sorted(self._cores, key=_group)
        self._groups = [list(row) for _, row in groupby(by_group, _group)]
        self._given: dict[int, Given] = {}  # by job

    @property
    def groups(self) -> tuple[CoreGroup, ...]:
        """As bebopd counts them."""
        firsts = [(cores[0], len(cores)) for cores in self._groups]
        return tuple(
            [CoreGroup(core.socket, core.numa, len(core.cpus), count) for core, count in firsts]
        )

    def of(self, job_id: int) -> Given:
        """What a job has, member by member, in the order of its ranks."""
        return self._given.get(job_id, ())

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
    cores_of: Mapping[int, tuple[int, int, bool]],
    given: Given,
) -> dict[int, tuple[int, ...]]:
    """The processors of each rank that is bound.

    Args:
        ranks: of the node, ascending.
        member_of: of each rank.
        cores_of: by member whose ranks are bound: cores for each rank, threads to use of each
            (0: all), and whether each rank has all cores of the job instead.
        given: what the job has here.
    """
    left = {member: [core for of, core in given if of == member] for member in cores_of}
    whole = sorted(core for _, core in given)
    found = {}
    for rank in ranks:
        member = member_of[rank]
        if member not in cores_of:
            continue
        count, threads, is_whole = cores_of[member]
        own = whole if is_whole else left[member][:count]
        if not is_whole:
            del left[member][:count]
        if cpus := sorted(cpu for core in own for cpu in core.cpus[: threads or None]):
            found[rank] = tuple(cpus)
    return found
