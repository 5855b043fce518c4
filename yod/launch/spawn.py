"""More ranks for a running job: where they go, and what is said about it.

The application asks (MPI_Comm_spawn, PMIx_Spawn, a launcher inside that starts its
daemons); the job's tree carries the question here. Ranks go to nodes of the grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from native.errors import UsageError
from native.text import shown
from native.wire.alloc import Grant, Run
from native.wire.base import SIZE_MAX
from native.wire.keeper import RANKS_MAX
from native.wire.pmi import SpawnCommand


class Placement:
    """How many living ranks each node of a grant has.

    Args:
        grant: its ranks live until they are said to have ended.
    """

    def __init__(self, grant: Grant) -> None:
        self._names = [node.name for node in grant.nodes]
        self._loads = [0] * len(grant.nodes)
        self._place_of: list[int] = []
        self.add(grant.runs)

    @property
    def size(self) -> int:
        """Ranks that the job has had so far; the next one's number."""
        return len(self._place_of)

    def ended(self, rank: int) -> None:
        """A rank has ended, and makes room."""
        if rank < self.size:
            self._loads[self._place_of[rank]] -= 1

    def choose(self, commands: Sequence[SpawnCommand]) -> tuple[Run, ...]:
        """Places for ranks: each goes to the node that has fewest, of several to the first.

        Raises:
            UsageError: a host that is none of the job's, or too many ranks, in all or for
                a node's keeper.
        """
        import heapq  # few applications start more ranks

        count = sum(command.count for command in commands)
        if self.size + count > SIZE_MAX:
            raise UsageError(f"{self.size + count} ranks in all, at most {SIZE_MAX}")
        chosen: list[int] = []
        loads = list(self._loads)
        for command in commands:
            emptiest = [(loads[place], place) for place in set(self._places_of(command.hosts))]
            heapq.heapify(emptiest)
            for _ in range(command.count):
                load, place = emptiest[0]
                heapq.heapreplace(emptiest, (load + 1, place))
                loads[place] += 1
                chosen.append(place)
        for name, before, after in zip(self._names, self._loads, loads, strict=True):
            if after - before > RANKS_MAX:
                raise UsageError(f"{name}: {after - before} ranks at once, at most {RANKS_MAX}")
        return runs(chosen)

    def add(self, runs: Iterable[Run]) -> None:
        """The job has more ranks, behind those that it had."""
        self._add(run.place for run in runs for _ in range(run.count))

    def _places_of(self, hosts: tuple[bytes, ...]) -> Sequence[int]:
        if not hosts:
            return range(len(self._names))
        places = []
        for host in hosts:
            name = shown(host)
            found = [place for place, each in enumerate(self._names) if each == name]
            if not found:
                raise UsageError(f"{name}: no node of this job; it has {_some(self._names)}")
            places += found
        return places

    def _add(self, places: Iterable[int]) -> None:
        for place in places:
            self._loads[place] += 1
            self._place_of.append(place)


def runs(places: Sequence[int]) -> tuple[Run, ...]:
    """Places of consecutive ranks, folded."""
    found: list[Run] = []
    for place in places:
        if found and found[-1].place == place:
            found[-1] = Run(place, found[-1].count + 1)
        else:
            found.append(Run(place, 1))
    return tuple(found)


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f", ... ({len(names)})" if len(names) > 8 else "")
