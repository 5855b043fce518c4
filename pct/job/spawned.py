"""The spawned worlds of a job on one node: which ranks run, and the answers to spawns."""

from __future__ import annotations

from collections.abc import Iterator

from native.errors import PeerProtocolError
from native.wire import load, pmi
from native.wire.base import clipped
from native.wire.pmi import KeyValue
from pct.job import spec
from pct.job.rules.objects import spawn_misfit
from pct.wireup.questions import ERROR, SUCCESS


class SpawnedWorld:
    """One spawned world.

    Attributes:
        spawn: the message that started it.
        awaited: ranks of this node, by rank of the job, that may still come to run or fail.
    """

    def __init__(self, spawn: load.StartWorld, ranks: set[int]) -> None:
        self.spawn = spawn
        self.awaited = ranks
        self.count = 0  # ranks of this node that run
        self.text = ""  # why another one does not


class SpawnedWorlds:
    """The spawned worlds of one job.

    Args:
        message: the load, with this node's place in it.

    Attributes:
        rank_count: ranks that the job has had so far, in all worlds.
    """

    def __init__(self, message: load.Load) -> None:
        self._job_id = message.job_id
        self._here = message.nodes[message.place]
        self._place = message.place
        self._places = len(message.nodes)
        self.rank_count = message.runs.size
        self._worlds: dict[int, SpawnedWorld] = {}
        self._untold: dict[int, _Untold] = {}

    def __iter__(self) -> Iterator[tuple[int, SpawnedWorld]]:
        return iter(self._worlds.items())

    def add(self, spawn: load.StartWorld) -> list[int]:
        """Add a world.

        Returns:
            The place of each of its ranks.

        Raises:
            PeerProtocolError: the message contradicts itself or an earlier one.
        """
        if text := spawn_misfit(spawn, self._places):
            raise PeerProtocolError(text)
        # Ranks may have been skipped: the message of another world may be lost with a parent.
        if spawn.world in self._worlds or spawn.first_rank < self.rank_count:
            raise PeerProtocolError(f"world {spawn.world} from rank {spawn.first_rank} on")
        places = [run.place for run in spawn.runs for _ in range(run.count)]
        ranks = spec.world_ranks_at(spawn, self._place)
        self._worlds[spawn.world] = SpawnedWorld(spawn, {spawn.first_rank + r for r in ranks})
        self.rank_count = spawn.first_rank + len(places)
        if not spawn.is_tool:
            self._untold[spawn.world] = _Untold(len(places))
        return places

    def spawn_of(self, number: int) -> load.StartWorld:
        """The message that started a world. Raises KeyError if there is no such world."""
        return self._worlds[number].spawn

    def is_tool(self, number: int) -> bool:
        """Is this world a tool?"""
        return number in self._worlds and self._worlds[number].spawn.is_tool

    def rank_is(self, number: int, rank: int, text: str) -> load.Spawned | None:
        """A rank of this node runs; or, if there is a text, why it never will.

        Returns:
            The report for the root, when all ranks of this node have run or failed.
        """
        world = self._worlds[number]
        if rank not in world.awaited:
            return None
        world.awaited.discard(rank)
        world.count += not text
        world.text = world.text or text
        if world.awaited or world.spawn.is_tool:
            return None
        failed = f"{self._here.name}: {world.text}" if world.text else ""
        return load.Spawned(self._job_id, number, world.count, clipped(failed))

    def gather(self, told: load.Spawned) -> pmi.Reply | None:
        """At the root: take the report of a node.

        Returns:
            The answer to the spawn, when all ranks run or one has failed.
        """
        untold = self._untold.get(told.world)
        if untold is None:
            return None
        untold.missing -= told.count
        untold.text = untold.text or told.text
        if untold.missing > 0 and not untold.text:
            return None
        del self._untold[told.world]
        spawn = self._worlds[told.world].spawn
        pairs = (KeyValue(b"world", b"%d" % told.world),)
        status = ERROR if untold.text else SUCCESS
        return pmi.Reply(self._job_id, spawn.source, spawn.serial, status, pairs, untold.text)

    def tool_ended(self, number: int, wait_status: int) -> pmi.Reply | None:
        """The answer to the spawn of a tool, which is given at its end; None: it is no tool."""
        if not self.is_tool(number):
            return None
        spawn = self._worlds[number].spawn
        pairs = (KeyValue(b"wait_status", b"%d" % wait_status),)
        return pmi.Reply(self._job_id, spawn.source, spawn.serial, SUCCESS, pairs)


class _Untold:
    """A spawn that has not been answered."""

    def __init__(self, missing: int) -> None:
        self.missing = missing  # ranks that have not been reported to run
        self.text = ""
