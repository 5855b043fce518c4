"""What really happened to each job, and the rules of DESIGN.md 12 as far as they
concern one job. The fakes write here; no machine does.
"""

from __future__ import annotations

from msgspec import Struct

from native.wire.alloc import Grant
from tests.sim.apps import Program
from tests.sim.clock import Violation

_TEXT = bytes(range(33, 127)) * 1500  # longer than any message


class World(Struct):
    """Ranks that see one another as their MPI_COMM_WORLD; see :mod:`native.wire.pmi`."""

    number: int
    first_rank: int
    size: int

    @property
    def ranks(self) -> range:
        """Its ranks, as the job numbers them."""
        return range(self.first_rank, self.first_rank + self.size)


class JobTruth:
    """One job.

    Attributes:
        trouble: faults that were injected and can have touched the job.
        ends: rank -> (wait status, was released) as its process ended.
    """

    def __init__(self, grant: Grant, programs: list[Program], owner: str) -> None:
        self.job_id = grant.job_id
        self.grant = grant
        self.programs = programs
        self.owner = owner
        self.size = len(programs)
        self.nodes = tuple(node.node for node in grant.nodes)
        self.node_of = [self.nodes[run.place] for run in grant.runs for _ in range(run.count)]
        self.trouble: set[str] = set()
        self.is_aborted = False
        self.arity = 2  # as its load message says
        self.ends: dict[int, tuple[int, bool]] = {}
        self.was_reported: set[int] = set()
        self._held: set[int] = set()
        self.passed: set[int] = set()
        self._produced: dict[tuple[int, int], int] = {}
        self._received: dict[tuple[int, int], int] = {}
        self._entered: dict[tuple[int, int], set[int]] = {}
        self._usr1: dict[int, int] = {}
        self.input_bytes = 0
        self.gaps: dict[tuple[int, int], int] = {}  # bytes that yod has told as lost
        self.worlds = [World(0, 0, self.size)]
        if len(self.node_of) != self.size:
            raise Violation(f"job {self.job_id}: {len(self.node_of)} ranks, {self.size} asked")

    def world_of(self, rank: int) -> World:
        """The world of a rank."""
        return next(world for world in self.worlds if rank in world.ranks)

    # -- 8: the entry ---------------------------------------------------------

    def held(self, rank: int) -> None:
        """A rank has come to its entry."""
        self._held.add(rank)

    def passes_entry(self, rank: int) -> None:
        """A rank runs user code."""
        self.passed.add(rank)
        if rank < self.size and not self._held >= set(range(self.size)):
            missing = sorted(set(range(self.size)) - self._held)
            raise Violation(
                f"rule 8: job {self.job_id}: rank {rank} passes its entry before {missing[:8]}"
            )

    # -- 5: output --------------------------------------------------------------

    def text(self, rank: int, stream: int, offset: int, count: int) -> bytes:
        """What a rank writes at an offset."""
        first = (offset + 7 * rank + 3 * stream) % 94
        return _TEXT[first : first + count]

    def written(self, rank: int, stream: int, count: int) -> None:
        """A rank has written; the pipe has it."""
        key = rank, stream
        self._produced[key] = self._produced.get(key, 0) + count

    def arrived(self, rank: int, stream: int, data: bytes, gap: int) -> None:
        """yod writes a rank's output, having told of ``gap`` bytes before it."""
        key = rank, stream
        if gap:
            self.gaps[key] = self.gaps.get(key, 0) + gap
        offset = self._received.get(key, 0) + gap
        self._received[key] = offset + len(data)
        if data != self.text(rank, stream, offset, len(data)):
            raise Violation(f"rule 5: job {self.job_id}: output of rank {rank} is not in order")
        if self._received[key] > self._produced.get(key, 0):
            raise Violation(f"rule 5: job {self.job_id}: more output than rank {rank} has written")

    def missing_output(self) -> dict[tuple[int, int], int]:
        """Bytes that yod never got and, as they were the last ones, no gap tells of."""
        return {
            key: count - self._received.get(key, 0)
            for key, count in self._produced.items()
            if count != self._received.get(key, 0)
        }

    def input_read(self, count: int) -> None:
        """Rank 0 has read its input."""
        self.input_bytes += count

    # -- barriers -----------------------------------------------------------------

    def enters_barrier(self, rank: int, number: int) -> None:
        """A rank comes to its world's barrier of this number."""
        world = self.world_of(rank)
        self._entered.setdefault((world.number, number), set()).add(rank)

    def leaves_barrier(self, rank: int, number: int) -> None:
        """A rank is let out."""
        world = self.world_of(rank)
        missing = set(world.ranks) - self._entered[world.number, number] - self.ends.keys()
        if missing:
            raise Violation(
                f"PMI: job {self.job_id}: rank {rank} leaves barrier {number} before"
                f" {sorted(missing)[:8]}"
            )

    def sees(self, rank: int, wanted: bytes, answer: bytes) -> None:
        """A get behind a barrier has been answered."""
        if not answer.endswith(wanted) and len(self.ends) == 0:
            raise Violation(f"PMI: job {self.job_id}: rank {rank} sees {answer!r}, not {wanted!r}")

    # -- 6: ends --------------------------------------------------------------------

    def ended(self, rank: int, wait_status: int, was_released: bool) -> None:
        """A rank's process has ended."""
        if rank in self.ends:
            raise AssertionError(f"rank {rank} ended twice: the fake is wrong")
        self.ends[rank] = (wait_status, was_released)

    def reported(self, rank: int) -> None:
        """Its keeper has told its PCT."""
        self.was_reported.add(rank)

    def note_usr1(self, rank: int) -> None:
        """A handler has seen SIGUSR1."""
        self._usr1[rank] = self._usr1.get(rank, 0) + 1
