"""What really happened to each job, and those rules of tests/sim/rules.py that concern one
job. The fakes write here; no machine does.
"""

from __future__ import annotations

from msgspec import Struct

from native.wire.alloc import Grant
from native.wire.io import STREAMS
from native.wire.load import StartWorld
from native.wire.pmix import AddWorld
from native.wire.rank import ENTRY
from tests.sim.apps import Program, quiet, spawned
from tests.sim.clock import Violation

_TEXT = (bytes(range(33, 126)) + b"\n") * 1500  # longer than any message


class World(Struct):
    """Ranks that see one another as their MPI_COMM_WORLD; see :mod:`native.wire.pmi`."""

    number: int
    first_rank: int
    size: int
    is_tool: bool = False
    token: int = 0  # of the request that made it
    parent: int = -1  # who made it, as the job numbers it
    space: bytes = b""  # its key-value space, once a rank has seen it

    @property
    def ranks(self) -> range:
        """Its ranks, as the job numbers them."""
        return range(self.first_rank, self.first_rank + self.size)


class Fence(Struct):
    """One meeting of ranks by PMIx.

    Attributes:
        data: rank -> what it has brought.
        seen: what the first one that left has seen.
    """

    what: object
    ranks: tuple[int, ...]
    data: dict[int, bytes]
    seen: bytes | None = None


class JobTruth:
    """One job.

    Attributes:
        trouble: faults that were injected and can have touched the job.
        ends: rank -> (wait status, was released) as its process ended.
        size: of world 0; spawned ranks follow in ``programs`` and ``node_of``.
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
        self.is_lied_to = False
        self.arity = 2  # as its load message says
        self.ends: dict[int, tuple[int, bool]] = {}
        self.was_reported: set[int] = set()
        self._held: set[int] = set()
        self._listeners: dict[int, tuple[int, int]] = {}  # rank -> nid, port
        self._mapped: set[int] = set()  # nodes whose ranks have the map of these
        self.passed: set[int] = set()
        self._produced: dict[tuple[int, int], int] = {}
        self._received: dict[tuple[int, int], int] = {}
        self._entered: dict[tuple[int, int], set[int]] = {}
        self._usr1: dict[int, int] = {}
        self.input_bytes = 0
        self.pieces: dict[int, list[bytes]] = {}  # of shared input, by the rank that has read them
        self.at_end: set[int] = set()  # ranks that have come to its end
        self.words: set[tuple[bytes, ...]] = set()  # with which ranks are started
        self.patterns: dict[int, bytes] = {}  # what ranks write over and over, instead of text
        self.gaps: dict[tuple[int, int], int] = {}  # bytes that yod has told as lost
        self.worlds = [World(0, 0, self.size)]
        self.has_refused = False  # a spawn
        self.no_pmix: set[int] = set()  # nodes
        self.has_no_wireup = False  # as it must have
        self._tokens: dict[int, World] = {}
        self._started: set[int] = set()
        self.saved_nodes: set[int] = set()  # since the last checkpoint
        self.drained_nodes: set[int] = set()  # of what they have saved since
        self.checkpoints = 0  # that are whole
        self._marks: dict[tuple[int, int], int] = {}  # of what ranks had written
        self.committed: dict[int, bytes] = {}
        self._fences: dict[tuple[object, int], Fence] = {}
        self._fences_of: dict[tuple[object, int], int] = {}  # what, rank -> how many so far
        if len(self.node_of) != self.size:
            raise Violation(f"job {self.job_id}: {len(self.node_of)} ranks, {self.size} asked")

    def unsaved_rank(self) -> int | None:
        """A rank that a checkpoint would lack, which was asked for last; None: none is."""
        unsaved = set(self.nodes) - (self.drained_nodes or self.saved_nodes)
        ended = {rank for rank, (status, _) in self.ends.items() if not status}
        lacking = (
            rank for rank in range(self.size) if self.node_of[rank] in unsaved and rank not in ended
        )
        return next(lacking, None)

    def world_of(self, rank: int) -> World:
        """The world of a rank."""
        found = [world for world in self.worlds if rank in world.ranks]
        return found[0] if found else World(len(self.worlds), rank, 1)

    def add_world(self, message: StartWorld) -> None:
        """yod has spawned one."""
        programs = spawned(message)
        if message.is_tool:
            token = int(message.members[0].arguments[2].split()[1])
        else:
            token = int(message.members[0].arguments[2])
        parent = self.worlds[message.parent.world].first_rank + message.parent.rank
        world = World(
            message.world, message.first_rank, len(programs), message.is_tool, token, parent
        )
        if world.first_rank != len(self.programs) or token in self._tokens:
            raise Violation(f"job {self.job_id}: {world} is in the place of another")
        self.worlds.append(world)
        self._tokens[token] = world
        self.programs = [*self.programs, *programs]
        self.node_of += [self.nodes[run.place] for run in message.runs for _ in range(run.count)]

    def world_named(self, token: int) -> World | None:
        """The world that a request has made."""
        return self._tokens.get(token)

    @property
    def tool_ranks(self) -> set[int]:
        """Ranks that are daemons of a launcher inside."""
        return {rank for world in self.worlds if world.is_tool for rank in world.ranks}

    def has_failed(self, rank: int) -> bool:
        """A rank's end is a failure of the job, or of what its parent has been told."""
        wait_status, was_released = self.ends[rank]
        is_spawned = rank >= self.size
        return (
            bool(wait_status) and rank not in self.tool_ranks and (was_released or not is_spawned)
        )

    def program_of(self, rank: int) -> Program:
        """What a rank runs; what only a liar has asked for runs for a moment."""
        return self.programs[rank] if rank < len(self.programs) else quiet()

    def _wrong(self, text: str) -> None:
        """A rule of the job is broken; it has none when its own yod lies."""
        if not self.is_lied_to:
            raise Violation(text)

    def starts(self, rank: int, host: str) -> None:
        """A keeper starts a rank."""
        if rank in self._started or host != f"n{(self.node_of[rank : rank + 1] or [-1])[0]}":
            self._wrong(f"job {self.job_id}: rank {rank} is started on {host}, or again")
        self._started.add(rank)

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
        if rank in self._listeners and self.node_of[rank] not in self._mapped:
            raise Violation(f"rule 8: job {self.job_id}: rank {rank} goes without the map")

    def listens(self, rank: int, nid: int, port: int) -> None:
        """A rank has a listener for Portals."""
        self._listeners[rank] = (nid, port)

    def gives_map(self, node: int, ids: bytes) -> None:
        """A node's ranks are told where all of them listen."""
        found = {rank: tuple(entry) for rank, entry in enumerate(ENTRY.iter_unpack(ids))}
        if found != self._listeners or len(found) != self.size:
            wrong = [
                rank for rank in range(self.size) if found.get(rank) != self._listeners.get(rank)
            ]
            raise Violation(f"job {self.job_id}: node {node} has a wrong map: ranks {wrong[:8]}")
        self._mapped.add(node)

    # -- 5: output --------------------------------------------------------------

    def text(self, rank: int, stream: int, offset: int, count: int) -> bytes:
        """What a rank writes at an offset."""
        if pattern := self.patterns.get(rank):
            first = offset % len(pattern)
            return (pattern * (count // len(pattern) + 2))[first : first + count]
        first = (offset + 7 * rank + 3 * stream) % 94
        return _TEXT[first : first + count]

    def mark(self, rank: int) -> None:
        """A rank is saved now, and goes on."""
        for stream in STREAMS:
            self._marks[rank, stream] = self._produced.get((rank, stream), 0)

    def forget_marks(self) -> None:
        """Another checkpoint is begun: what was marked for one that failed is of no use."""
        self._marks.clear()

    def demand_marked(self) -> None:
        """yod has what was written when the ranks were saved, and nothing more."""
        for (rank, stream), mark in self._marks.items():
            if (found := self.received(rank, stream)) != mark:
                text = f"rule 16: job {self.job_id}: {found} of {mark} bytes of rank {rank}"
                raise Violation(f"{text} are there at the checkpoint")
        self._marks.clear()

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

    def received(self, rank: int, stream: int) -> int:
        """Bytes that have arrived or were told of as lost."""
        return self._received.get((rank, stream), 0)

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

    def line_read(self, rank: int, data: bytes) -> None:
        """Rule 13: a rank has read a piece of the input that all share, or its end."""
        if not data:
            if rank in self.at_end:
                self._wrong(f"rule 13: rank {rank} was given the end of its input twice")
            self.at_end.add(rank)
            return
        if rank in self.at_end:
            self._wrong(f"rule 13: rank {rank} was given {data!r} behind the end of its input")
        self.pieces.setdefault(rank, []).append(data)

    def enters_barrier(self, rank: int, number: int) -> None:
        """A rank comes to its world's barrier of this number."""
        world = self.world_of(rank)
        self._entered.setdefault((world.number, number), set()).add(rank)

    def leaves_barrier(self, rank: int, number: int) -> None:
        """A rank is let out."""
        world = self.world_of(rank)
        missing = set(world.ranks) - self._entered[world.number, number] - self.ends.keys()
        if missing:
            self._wrong(
                f"PMI: job {self.job_id}: rank {rank} leaves barrier {number} before"
                f" {sorted(missing)[:8]}"
            )

    def sees(self, rank: int, wanted: bytes, answer: bytes) -> None:
        """A question behind a barrier has been answered."""
        if wanted not in answer and self.ends.keys().isdisjoint(self.world_of(rank).ranks):
            self._wrong(f"PMI: job {self.job_id}: rank {rank} sees {answer!r}, not {wanted!r}")

    def sees_parent(self, rank: int, answer: bytes) -> None:
        """A spawned rank has asked for what its parent has put before."""
        world = self.world_of(rank)
        if not answer.endswith(b"value=%d\n" % world.token):
            self._wrong(f"PMI: job {self.job_id}: rank {rank} of {world} sees {answer!r}")

    def sees_space(self, rank: int, name: bytes) -> None:
        """A rank has the name of its world's key-value space."""
        world = self.world_of(rank)
        world.space = world.space or name
        if {each.space for each in self.worlds if each.space} - {name} != {
            each.space for each in self.worlds if each.space and each is not world
        }:
            self._wrong(f"PMI: job {self.job_id}: rank {rank} of {world} is in {name!r}")

    # -- spawned worlds -----------------------------------------------------------

    def spawn_answered(self, rank: int, token: int, answer: bytes) -> None:
        """A parent has its answer."""
        world = self._tokens.get(token)
        if not answer.startswith(b"cmd=spawn_result "):
            self._wrong(f"job {self.job_id}: a spawn of rank {rank} is answered by {answer!r}")
        if b" rc=0" not in answer:
            self.has_refused = True
            return
        missing = set(world.ranks) - self._held if world else {-1}
        if missing:
            self._wrong(f"job {self.job_id}: {world} is said to run, {sorted(missing)} do not")

    def pmix_spawn_answered(self, rank: int, token: int, is_ok: bool, nspace: str) -> None:
        """A parent has its answer from PMIx."""
        answer = b"cmd=spawn_result rc=%d" % (0 if is_ok else -1)
        self.spawn_answered(rank, token, answer)
        if is_ok and (world := self._tokens.get(token)):
            world.space = world.space or nspace.encode()
            if world.space != nspace.encode():
                self._wrong(f"PMIx: job {self.job_id}: {world} is said to be {nspace}")

    # -- PMIx -----------------------------------------------------------------------

    def named(self, nspace: str) -> World:
        """The world of a namespace."""
        return next(world for world in self.worlds if world.space == nspace.encode())

    def name_of(self, rank: int) -> tuple[str, int]:
        """What PMIx calls a rank."""
        world = self.world_of(rank)
        return world.space.decode(), rank - world.first_rank

    def sees_namespace(self, rank: int, name: bytes) -> None:
        """A rank has the name of its namespace."""
        self.sees_space(rank, name)

    def check_namespace(self, host: str, message: AddWorld) -> None:
        """A PMIx server is told of a world."""
        world = self.worlds[message.serial]
        nodes = [self.node_of[rank] for rank in world.ranks]
        names = [f"n{number}" for number in nodes]
        told = [message.nodes[index] for index in message.node_of]
        here = tuple(number for number, name in enumerate(names) if name == host)
        order = sorted(set(nodes), key=self.nodes.index)
        if (
            told != names
            or message.local_ranks != here
            or message.first_rank != world.first_rank
            or message.nodes != tuple(f"n{number}" for number in order)
        ):
            self._wrong(f"PMIx: job {self.job_id}: {world} is said to be {message}")

    def enters_fence(self, rank: int, what: object, ranks: tuple[int, ...], data: bytes) -> Fence:
        """A rank comes to a fence."""
        number = self._fences_of.get((what, rank), 0)
        self._fences_of[what, rank] = number + 1
        fence = self._fences.setdefault((what, number), Fence(what, ranks, {}))
        fence.data[rank] = data
        return fence

    def leaves_fence(self, rank: int, fence: Fence, status: int, data: bytes) -> None:
        """A rank is let out, and sees everybody's data."""
        missing = set(fence.ranks) - fence.data.keys() - self.ends.keys() - self.without_pmix
        where = f"PMIx: job {self.job_id}: rank {rank} leaves {fence.what}"
        if missing:
            self._wrong(f"{where} before {sorted(missing)[:8]}")
        if status:
            self._wrong(f"{where} with status {status}")
        fence.seen = data if fence.seen is None else fence.seen
        if fence.seen != data:
            self._wrong(f"{where} and sees {data!r:.100}, others {fence.seen!r:.100}")
        if fence.data.keys() >= set(fence.ranks):
            order = sorted(fence.ranks, key=self._order)
            expected = b"".join(fence.data[each] for each in order)
            if data != expected and self.ends.keys().isdisjoint(fence.ranks):
                self._wrong(f"{where} and sees {data!r:.200}, not {expected!r:.200}")

    def _order(self, rank: int) -> tuple[int, tuple[str, int]]:
        """By nodes, in the order of the job's places; on one by name."""
        return self.nodes.index(self.node_of[rank]), self.name_of(rank)

    @property
    def without_pmix(self) -> set[int]:
        """Ranks on nodes that have no PMIx server."""
        return {rank for rank, node in enumerate(self.node_of) if node in self.no_pmix}

    def sees_data(self, rank: int, other: int, status: int, data: bytes) -> None:
        """A rank has asked for what another one has put."""
        is_right = status == 0 and data == self.committed.get(other)
        if not is_right and not (status and (other in self.ends or other in self.without_pmix)):
            self._wrong(
                f"PMIx: job {self.job_id}: rank {rank} sees {data!r:.100} of rank {other}"
                f" and status {status}"
            )

    def tool_answered(self, token: int, wait_status: int | None) -> None:
        """An agent has its last answer; None: a refusal."""
        world = self._tokens.get(token)
        ended = self.ends.get(world.first_rank) if world else None
        told = None if ended is None else ended[0]
        if wait_status != told and not (wait_status is None and self.trouble):
            self._wrong(
                f"job {self.job_id}: the agent of {world} is told {wait_status},"
                f" its tool has {told}"
            )

    def agent_gone(self, token: int, after_s: float) -> None:
        """Some time after an agent's end: the tool has ended too."""
        world = self._tokens.get(token)
        if world and world.first_rank in self._started - self.ends.keys() and not self.trouble:
            self._wrong(f"job {self.job_id}: {world} is alive {after_s} s after its agent")

    # -- 6: ends --------------------------------------------------------------------

    def ended(self, rank: int, wait_status: int, was_released: bool) -> None:
        """A rank's process has ended."""
        if rank in self.ends:
            raise AssertionError(f"rank {rank} ended twice: the fake is wrong")
        self.ends[rank] = (wait_status, was_released)

    def reported(self, rank: int) -> None:
        """Its keeper has told its PCT."""
        self.was_reported.add(rank)

    @property
    def heard_usr1(self) -> dict[int, int]:
        """How many SIGUSR1 the handler of each rank has seen."""
        return self._usr1

    def note_usr1(self, rank: int) -> None:
        """A handler has seen SIGUSR1."""
        self._usr1[rank] = self._usr1.get(rank, 0) + 1
