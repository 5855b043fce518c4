"""Conversation `load`: a job from its first message to its last.

Down the tree: Load, Go, Signal, AllDone. Up, reduced: Vote, Loaded, Held, Completions, Released.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from native.wire.alloc import Needs
from native.wire.base import (
    ARGUMENTS_MAX,
    ARITY_MAX,
    DIGEST_BYTES,
    ENVIRONMENT_MAX,
    MEMBERS_MAX,
    NODE_MAX,
    OBJECTS_MAX,
    SIZE_MAX,
    SLOTS_MAX,
    U32,
    U63,
    Count,
    Digest,
    Interval,
    JobMessage,
    Name,
    NodeNumber,
    ObjectNumber,
    OfAttempt,
    Part,
    Path,
    Rank,
    Seconds,
    SignalNumber,
    Text,
    demand_no_nul,
    demand_same_length,
)
from native.wire.group import Checkpoints, Dialects, Inputs, RankFiles, Remote, StackRules, Window
from native.wire.placed import JobNodes, OfNodes, demand_fitting
from native.wire.pmi import KeyValue, Place, Process, World
from native.wire.runs import JobRuns, Run

Resource = Annotated[int, Meta(ge=0, lt=64)]  # RLIMIT_ number
Port = Annotated[int, Meta(ge=1, lt=1 << 16)]
LATE_MAX = 8  # nodes that are named where more may be late
SoftLimit = Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)]


class ShippedObject(Part, frozen=True):
    """One file that the job needs on every node.

    Attributes:
        path: where yod found it; a node with these bytes there on a local disk needs no copy.
        digest: BLAKE2b-256; empty: never shipped, every node uses ``path``.
        mode: permission bits.
    """

    path: Path
    size: U63
    digest: Digest
    mode: U32

    def __post_init__(self) -> None:
        demand_no_nul(self.path)
        names = self.path.lstrip(b"/").split(b"/")
        if self.path and (self.path[:1] != b"/" or not {b"", b".", b".."}.isdisjoint(names)):
            raise ValueError(f"not the absolute and normal path of a file: {self.path[:80]!r}")
        if self.digest and (len(self.digest) != DIGEST_BYTES or not self.size):
            raise ValueError(f"{self.size} bytes contradict a digest of {len(self.digest)}")


class MemberLoad(Part, frozen=True):
    """One member of the job: a program on consecutive ranks.

    Attributes:
        object_index: its image in the load's list of objects.
        arguments: argv, the name first.
        directory: working directory.
        cores: that each rank has, for its environment; admission goes by the credential.
        needs: memory, GPUs and cores of its ranks, which have them of the job's share.
    """

    size: Annotated[int, Meta(ge=1, le=SIZE_MAX)]
    object_index: Annotated[int, Meta(ge=0, lt=OBJECTS_MAX)]
    arguments: Annotated[tuple[bytes, ...], Meta(min_length=1, max_length=ARGUMENTS_MAX)]
    directory: Path
    cores: Annotated[int, Meta(ge=1, le=SLOTS_MAX)] = 1
    needs: Needs | None = None

    def __post_init__(self) -> None:
        demand_no_nul(self.directory, *self.arguments)


class Arguments(Part, frozen=True):
    """Members and environment: in the load message when small, else the first object."""

    members: Annotated[tuple[MemberLoad, ...], Meta(min_length=1, max_length=MEMBERS_MAX)]
    environment: Annotated[tuple[bytes, ...], Meta(max_length=ENVIRONMENT_MAX)]  # NAME=value

    def __post_init__(self) -> None:
        demand_no_nul(*self.environment)


class Protocol(Enum):
    """How an MPI library finds its world."""

    PMI1 = "pmi1"
    PMI2 = "pmi2"
    PMIX = "pmix"


class Mpi(Part, frozen=True):
    """What is offered to the MPI library of the ranks.

    Attributes:
        offered: the protocols; empty: none.
        is_certain: chosen by the user, or told by the program itself: a node that
            cannot offer one of them fails the load. Else it leaves that one out.
        library: that of the program, or what its Python will find; empty: not known, or several.
        speaks: the protocols of that library, if the program is linked to it.
        libpmix: paths to try before the system's, in this order.
        is_libpmix_chosen: by the user: try no other.
        universe_size: how many ranks there could be in all, spawned ones included.
        has_portals: each rank gets a listener, the ranks' key, the map of all (RANK.md).
    """

    offered: Annotated[tuple[Protocol, ...], Meta(max_length=3)]
    is_certain: bool = False
    library: Path = b""
    speaks: Annotated[tuple[Protocol, ...], Meta(max_length=3)] = ()
    libpmix: Annotated[tuple[Path, ...], Meta(max_length=16)] = ()
    is_libpmix_chosen: bool = False
    universe_size: Annotated[int, Meta(ge=0, le=SIZE_MAX)] = 0
    has_portals: bool = False

    def __post_init__(self) -> None:
        demand_no_nul(self.library, *self.libpmix)


class Load(JobMessage, frozen=True, tag="load.load"):
    """Host this job.

    The tree is the heap over ``nodes``: the children of place p are ``arity * p + 1`` to
    ``arity * p + arity``; so parent and ancestors of every place follow from its number.

    Attributes:
        place: the receiver's index in ``nodes``.
        limits: (resource, soft limit) pairs of yod's user; -1: unlimited.
        deadline_s, orphan_s: for each phase before go; to look for an ancestor without a parent.
        arguments: None: they are object 0, an encoded :class:`Arguments`.
        output_window_bytes: how much a node may send its parent unacknowledged.
        ignored: signals that yod was started to ignore, and so are the ranks.
        is_allocation: the ranks are PCTs, which host steps.
        checkpoints: where the ranks save themselves; None: they are never told to.
        input_ranks: (first, last) of the ranks that have yod's standard input; empty: none.
        files: that the ranks write to; None: all that they write goes to yod.
        window: of the terminal that the rank with the input has; None: it has none.
        merge_s: how long a line waits at a node for that of other ranks; 0: none is folded.
        remote: directories whose files yod has; None: all files are those of the nodes.
        stacks: how nodes look at those of ranks; None: the defaults.
        shares_input: each line of it goes to the rank that asks next (``--stdin shared``).
        signals_group: any signal to a rank is for its process group (``--signal-tree``).
        awaits_user: go comes when the user says so: until then debuggers may trace the ranks.
        holds_before_exec: ranks are held before their program is executed, not at its entry.
        tells_times: each node says when it came to the end of each phase (``group.times``).
    """

    credential: bytes
    credential_mac: bytes
    place: Annotated[int, Meta(ge=0, le=NODE_MAX)]
    nodes: JobNodes
    runs: JobRuns
    arity: Annotated[int, Meta(ge=1, le=ARITY_MAX)]
    objects: Annotated[tuple[ShippedObject, ...], Meta(max_length=OBJECTS_MAX)]
    arguments: Arguments | None
    umask: U32
    limits: tuple[tuple[Resource, SoftLimit], ...]
    mpi: Mpi
    input_ranks: Inputs
    chunk_bytes: Annotated[int, Meta(ge=4096, le=1 << 22)]
    deadline_s: Interval
    orphan_s: Interval
    output_window_bytes: Annotated[int, Meta(ge=64 * 1024, le=1 << 30)]
    addresses: tuple[tuple[U32, Name], ...] = ()
    ignored: Annotated[tuple[SignalNumber, ...], Meta(max_length=64)] = ()
    is_allocation: bool = False
    checkpoints: Checkpoints | None = None
    files: RankFiles | None = None
    dialects: Dialects = ()
    window: Window | None = None
    merge_s: Seconds = 0.0
    remote: Remote | None = None
    stacks: StackRules | None = None
    signals_group: bool = False
    shares_input: bool = False
    awaits_user: bool = False
    tells_times: bool = False
    holds_before_exec: bool = False

    def __post_init__(self) -> None:
        demand_fitting(self.nodes, self.runs)
        if self.place >= len(self.nodes):
            raise ValueError(f"place {self.place} contradicts {len(self.nodes)} nodes")


class Slowest(Part, frozen=True):
    """The node that took longest, counted from its load message."""

    node: NodeNumber
    name: Name
    seconds: Seconds


class NoRoom(Part, frozen=True):
    """A node that cannot store an object, and why."""

    object_index: ObjectNumber
    node: NodeNumber
    name: Name
    text: Text


class Vote(JobMessage, frozen=True, tag="load.vote"):
    """Up: this subtree has joined the group; what it lacks.

    Attributes:
        count: nodes that have joined.
        lacking: objects that some node lacks and has reserved room for.
        no_room: nodes without room, one for each object.
    """

    count: Count
    lacking: tuple[ObjectNumber, ...]
    no_room: tuple[NoRoom, ...]
    slowest: Slowest


class UseShared(JobMessage, frozen=True, tag="load.use_shared"):
    """Down: an object is not shipped; it lies at this path for all."""

    object_index: ObjectNumber
    path: Path

    def __post_init__(self) -> None:
        demand_no_nul(self.path)


class Loaded(JobMessage, frozen=True, tag="load.loaded"):
    """Up, unless the vote said that nothing is lacking: every node has every object, checked."""

    slowest: Slowest


class Held(JobMessage, frozen=True, tag="load.held"):
    """Up: every rank of this subtree is held at its entry.

    Attributes:
        ranks, unix_pids: a piece of the map of ranks to process ids, by columns.
        before_exec: ranks held before exec, because tracing is forbidden there.
        is_last: the subtree's map is complete with this piece.
        ports: where these ranks listen; empty: they do not, or yod is told.
    """

    ranks: tuple[Rank, ...]
    unix_pids: tuple[U32, ...]
    before_exec: tuple[Rank, ...]
    slowest: Slowest
    is_last: bool
    ports: tuple[Port, ...] = ()

    def __post_init__(self) -> None:
        demand_same_length(ranks=self.ranks, unix_pids=self.unix_pids)
        demand_same_length(ranks=self.ranks, ports=self.ports or self.ranks)


class Ports(JobMessage, frozen=True, tag="load.ports"):
    """Down, before go, where the load has Portals: a piece of the map of listeners.

    The nids are those of the ranks' nodes. Pieces come in the order of the ranks.

    Attributes:
        ports: of ``first_rank`` and those that follow.
    """

    first_rank: Rank
    ports: Annotated[tuple[Port, ...], Meta(min_length=1)]


class Go(JobMessage, frozen=True, tag="load.go"):
    """Down: every rank is held; continue."""


class FailureKind(Enum):
    """What went wrong, as far as somebody does something different about it."""

    NODE_LOST = "node lost"  # its PCT died or cannot be reached
    REFUSED = "refused"  # the PCT does not take the job
    TIMED_OUT = "timed out"  # a phase did not end in time; who is late
    NO_ROOM = "no room"
    OBJECT = "object"  # did not arrive, or not as sent
    NOT_FOUND = "not found"  # exec: 127
    NOT_EXECUTABLE = "not executable"  # exec: 126
    EARLY_EXIT = "early exit"  # ended before its entry
    OUT_OF_MEMORY = "out of memory"  # the kernel has killed a rank at the job's limit: 137
    HOOK = "hook"  # a program of the site's that runs before the start has failed
    UNFIT = "unfit"  # such a program has failed, and not refused the job: the node is drained
    KEEPER_LOST = "keeper lost"
    NO_WIREUP = "no wire-up"  # the node cannot offer what the ranks' MPI speaks
    ABORTED = "aborted"  # the application asked for the job's end
    FAULT = "fault"  # the node's daemon failed at something that it did for the job


class Failure(JobMessage, frozen=True, tag="load.failure"):
    """Up, at once: the job cannot go on.

    Attributes:
        rank: -1: no rank in particular.
        exit_code: for ABORTED what the application asked for.
    """

    kind: FailureKind
    phase: Name
    node: NodeNumber
    name: Name
    rank: Annotated[int, Meta(ge=-1, lt=SIZE_MAX)]
    text: Text
    exit_code: Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)] = 0


class StartWorld(JobMessage, frozen=True, tag="load.spawn"):
    """Down: the answer of yod to a spawn: one more world, started and let go at once.

    Attributes:
        world: its number, from 1.
        first_rank: rank of the job of its rank 0; the others follow.
        runs: ranks 0, 1, ... of the world, over the load's nodes.
        paths: of the programs, the same on every node; ``members`` name them by index.
        environments: of each member, beside the job's.
        parent, pairs, is_tool, source, serial: of the question that this answers.
    """

    world: World
    first_rank: Rank
    runs: Annotated[tuple[Run, ...], Meta(min_length=1)]
    paths: tuple[Path, ...]
    members: Annotated[tuple[MemberLoad, ...], Meta(min_length=1, max_length=MEMBERS_MAX)]
    environments: tuple[tuple[bytes, ...], ...]
    parent: Process
    pairs: tuple[KeyValue, ...]
    is_tool: bool
    source: Place
    serial: U32

    def __post_init__(self) -> None:
        demand_no_nul(*self.paths)
        for environment in self.environments:
            demand_no_nul(*environment)


class Spawned(JobMessage, frozen=True, tag="load.spawned"):
    """Up, to the root: so many of a world's ranks run on one node; ``text``: why others do not."""

    world: World
    count: Count
    text: Text = ""


class LateNode(Part, frozen=True):
    """A node that keeps others waiting.

    Attributes:
        text: what of it is awaited; empty: any word.
    """

    node: NodeNumber
    name: Name
    text: Name = ""


class Late(JobMessage, frozen=True, tag="load.late"):
    """Up, after a while: for whom this subtree waits.

    Attributes:
        more: nodes that are late and not named.
    """

    nodes: Annotated[tuple[LateNode, ...], Meta(min_length=1, max_length=LATE_MAX)]
    more: Count = 0


class Signal(JobMessage, frozen=True, tag="load.signal"):
    """Down: to every rank."""

    signal_number: SignalNumber


class Outcome(Part, frozen=True):
    """Ranks that ended alike, column by column.

    Attributes:
        wait_status: as waitpid gives it.
        was_released: it had been let go from its entry.
        was_signalled: its keeper had sent the signal that ended it: yod asked, or the job ended.
    """

    wait_status: U32
    was_released: bool
    ranks: tuple[Rank, ...]
    nodes: tuple[NodeNumber, ...]
    unix_pids: tuple[U32, ...]
    elapsed_ms: tuple[U63, ...]
    user_ms: tuple[U63, ...]
    system_ms: tuple[U63, ...]
    max_rss_kb: tuple[U63, ...]
    was_signalled: bool = False

    def __post_init__(self) -> None:
        demand_same_length(
            ranks=self.ranks,
            nodes=self.nodes,
            unix_pids=self.unix_pids,
            elapsed_ms=self.elapsed_ms,
            user_ms=self.user_ms,
            system_ms=self.system_ms,
            max_rss_kb=self.max_rss_kb,
        )


class Completions(JobMessage, frozen=True, tag="load.completions"):
    """Up: ranks have ended. Each rank is reported once."""

    outcomes: tuple[Outcome, ...]


class AllDone(JobMessage, frozen=True, tag="load.all_done"):
    """Down: the job is over, loaded or not; end what is left of it, give the slots back."""


class Released(OfNodes, frozen=True, tag="load.released"):
    """Up: nothing of the job is left on these nodes; all their output has been sent."""


class Reset(OfAttempt, frozen=True, tag="load.reset"):
    """yod to one PCT: end this attempt of the job here. It answers Released for itself."""
