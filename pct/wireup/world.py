"""One world of a job, which a program sees as its MPI_COMM_WORLD, as one node knows it."""

from __future__ import annotations

from collections.abc import Iterator

from native.errors import PeerProtocolError
from native.wire.pmi import Process
from pct.account import Account
from pct.wireup.kvs import KeyValueSpace


class World:
    """World 0 is the job as it was loaded; every spawn adds one.

    Attributes:
        number: of the world in its job.
        name: of its key-value space, and its namespace; unique on the host.
        first_rank: rank of the job of its rank 0.
        places: the place of each rank.
        applications: the number of each rank's program.
        parent: world and rank that spawned it, or None.
        local: the ranks of this node.
        alive: those of them that have not ended.
        joined: those of them that have joined the world.
        inside: those of them that are in its present PMI barrier.
        alive_below: for each child, how many ranks of its subtree have not ended.
        ended_below: the ranks below that have.
        space: its pairs.
        node_space: pairs of the ranks of this node for one another (PMI-2).
        environments: the PMIx server's variables for each local rank.
    """

    def __init__(
        self,
        number: int,
        name: str,
        first_rank: int,
        places: list[int],
        applications: list[int],
        place: int,
        child_of: dict[int, int],
        account: Account,
        parent: tuple[int, int] | None = None,
    ) -> None:
        self.number = number
        self.name = name
        self.first_rank = first_rank
        self.places = places
        self.applications = applications
        self.parent = parent
        self.local = {rank for rank, where in enumerate(places) if where == place}
        self.alive = set(self.local)
        self.ended_below: set[int] = set()
        self.joined: set[int] = set()
        self.inside: set[int] = set()
        self.space = KeyValueSpace(account)
        self.node_space = KeyValueSpace(account)
        self.environments: dict[int, tuple[bytes, ...]] = {}
        self.is_registered = False  # with the PMIx server
        self.alive_below: dict[int, int] = {}
        for where in places:
            if (child := child_of.get(where)) is not None:
                self.alive_below[child] = self.alive_below.get(child, 0) + 1

    @property
    def size(self) -> int:
        """Ranks of the world."""
        return len(self.places)

    def rank_of(self, job_rank: int) -> int | None:
        """The rank in this world of a rank of the job; None: it is in another world."""
        rank = job_rank - self.first_rank
        return rank if 0 <= rank < self.size else None


class Worlds:
    """The worlds of a job, as one node knows them."""

    def __init__(self) -> None:
        self._by_number: dict[int, World] = {}
        self._by_name: dict[str, World] = {}

    def __iter__(self) -> Iterator[World]:
        return iter(self._by_number.values())

    def __getitem__(self, number: int) -> World:
        if number not in self._by_number:
            raise PeerProtocolError(f"there is no world {number}")
        return self._by_number[number]

    def add(self, world: World) -> None:
        """Add a world."""
        self._by_number[world.number] = world
        self._by_name[world.name] = world

    def clear(self) -> None:
        """Remove all worlds."""
        for world in self:
            world.space.clear()
            world.node_space.clear()
        self._by_number.clear()
        self._by_name.clear()

    def check(self) -> None:
        """Assert the invariants."""
        for world in self:
            world.space.check()
            world.node_space.check()

    def get(self, number: int) -> World | None:
        """The world of a number, or None."""
        return self._by_number.get(number)

    def named(self, name: str) -> World | None:
        """The world of a name, or None."""
        return self._by_name.get(name)

    def of(self, job_rank: int) -> tuple[World, int] | None:
        """The world of a rank of the job, and its rank there; None: a tool, or no rank."""
        for world in self._by_number.values():
            if (rank := world.rank_of(job_rank)) is not None:
                return world, rank
        return None

    def local(self, job_rank: int) -> Process | None:
        """A rank of this node with its world; None: the rank is not on this node."""
        found = self.of(job_rank)
        if found is None or found[1] not in found[0].local:
            return None
        return Process(found[0].number, found[1])
