"""Ranks that a running application spawns: which nodes they go to, and the answer.

The application asks by MPI_Comm_spawn or PMIx_Spawn, or a launcher inside the job asks for
its daemons. The tree passes the question to yod. Spawned ranks go to nodes of the grant.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from native.errors import UsageError
from native.machine import Action
from native.text import shown
from native.wire import codec, load, pmi
from native.wire.alloc import Grant
from native.wire.base import SIZE_MAX, clipped
from native.wire.keeper import RANKS_MAX
from native.wire.pmi import SpawnCommand
from native.wire.runs import Run
from yod.launch.events import FindPrograms, ProgramsFound, Tell
from yod.launch.report import Report
from yod.launch.tree import Tree
from yod.plan.plan import Plan


class Placement:
    """How many living ranks each node of a grant has.

    Args:
        grant: its ranks live until :meth:`ended` is called for them.
    """

    def __init__(self, grant: Grant) -> None:
        self._names = list(grant.nodes.names())
        self._loads = [0] * len(grant.nodes)
        self._place_of: list[int] = []
        self.add(grant.runs)

    @property
    def size(self) -> int:
        """How many ranks the job has had so far; also the number of the next."""
        return len(self._place_of)

    def ended(self, rank: int) -> None:
        """A rank has ended, which makes room on its node."""
        if rank < self.size:
            self._loads[self._place_of[rank]] -= 1

    def choose(self, commands: Sequence[SpawnCommand]) -> tuple[Run, ...]:
        """Places for new ranks: each goes to the first node of those that have the fewest.

        Raises:
            UsageError: a host is not one of the job, or there are too many ranks in all or
                for one node.
        """
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
        """The job has more ranks; their numbers follow those before."""
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


class Spawner:
    """Answers the application's questions for more ranks."""

    def __init__(self, plan: Plan, tree: Tree, report: Report) -> None:
        self._plan = plan
        self._tree = tree
        self._report = report
        self._placement: Placement | None = None
        self._world_count = 1  # the job as it was loaded

    def place(self, grant: Grant) -> None:
        """The nodes have been granted."""
        self._placement = Placement(grant)

    def ended(self, rank: int) -> None:
        """A rank has ended, which makes room on its node."""
        assert self._placement is not None
        self._placement.ended(rank)

    def asked(self, ask: pmi.Ask, now: float) -> list[Action]:
        """RUNNING: a rank asks. Only spawns are yod's to answer."""
        return [FindPrograms(ask)] if isinstance(ask.question, pmi.Spawn) else []

    def found(self, event: ProgramsFound, now: float) -> list[Action]:
        """RUNNING: the programs have been looked for."""
        if event.text:
            return self._refuse(event.ask, event.text)
        try:
            return self._spawn(event.ask, event.paths)
        except UsageError as error:
            return self._refuse(event.ask, str(error))

    def _spawn(self, ask: pmi.Ask, paths: tuple[bytes, ...]) -> list[Action]:
        """Choose nodes and tell all of them of the new world.

        Raises:
            UsageError: no such host, or more than a message or a node can hold.
        """
        question = ask.question
        assert isinstance(question, pmi.Spawn) and self._placement is not None
        runs = self._placement.choose(question.commands)
        members = tuple(
            load.MemberLoad(
                command.count,
                number,
                (command.program, *command.arguments),
                self._plan.directory_of(command.directory),
            )
            for number, command in enumerate(question.commands)
        )
        message = load.StartWorld(
            job_id=self._tree.job_id,
            world=self._world_count,
            first_rank=self._placement.size,
            runs=runs,
            paths=paths,
            members=members,
            environments=tuple(command.environment for command in question.commands),
            parent=question.parent,
            pairs=question.pairs,
            is_tool=question.is_tool,
            source=ask.source,
            serial=ask.serial,
        )
        if text := codec.why_refused(message):
            raise UsageError(text)
        self._placement.add(runs)
        self._world_count += 1
        names = tuple(shown(command.program) for command in question.commands)
        sizes = tuple(command.count for command in question.commands)
        self._report.spawn(names, sizes, runs, is_tool=question.is_tool)
        return self._tree.send(message)

    def _refuse(self, ask: pmi.Ask, text: str) -> list[Action]:
        reply = pmi.Reply(self._tree.job_id, ask.source, ask.serial, -1, (), clipped(text))
        return [Tell(f"spawn: {text}"), *self._tree.send(reply)]


def runs(places: Sequence[int]) -> tuple[Run, ...]:
    """Places of consecutive ranks as runs."""
    found: list[Run] = []
    for place in places:
        if found and found[-1].place == place:
            found[-1] = Run(place, found[-1].count + 1)
        else:
            found.append(Run(place, 1))
    return tuple(found)


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f", ... ({len(names)})" if len(names) > 8 else "")
