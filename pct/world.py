"""One world of a job: what a program sees as its MPI_COMM_WORLD, as one node sees it."""

from __future__ import annotations

from pct.kvs import KeyValueSpace


class World:
    """World 0 is the job as it was loaded; every spawn makes one more.

    Attributes:
        number: of the world in its job.
        name: of its key-value space, and its namespace; unique on the host.
        first_rank: rank of the job of its rank 0.
        places: the place of each rank.
        applications: the number of each rank's program.
        parent: world and rank that spawned it, or None.
        local: the ranks of this node, ascending.
        alive: those of them that have not ended.
        joined: those of them that have joined the world.
        alive_below: for each child, how many ranks of its subtree have not ended.
        ended_below: the ranks below that have.
        environments: what the PMIx server wants in the environment of each local rank.
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
        parent: tuple[int, int] | None = None,
    ) -> None:
        self.number = number
        self.name = name
        self.first_rank = first_rank
        self.places = places
        self.applications = applications
        self.parent = parent
        self.local = [rank for rank, where in enumerate(places) if where == place]
        self.alive = set(self.local)
        self.ended_below: set[int] = set()
        self.joined: set[int] = set()
        self.space = KeyValueSpace()
        self.node_pairs: dict[bytes, bytes] = {}
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
        """A rank of the job as one of this world; None: it is another's."""
        rank = job_rank - self.first_rank
        return rank if 0 <= rank < self.size else None
