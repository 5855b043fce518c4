"""Conversation `pmi`: how the ranks of a job find one another, over its tree.

Fences are merged on the way up and spread on the way down. Questions are passed
from node to node to the place that can answer, and the replies back.

A *world* is what a program sees as its MPI_COMM_WORLD: world 0 is the job as it was
loaded, every spawn makes one more. Ranks here are ranks of a world.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct

from native.wire.base import (
    NODE_MAX,
    PATH_MAX,
    SIZE_MAX,
    U32,
    JobMessage,
    Name,
    Part,
    Rank,
    Text,
    demand_distinct,
    demand_no_nul,
)

COMMANDS_MAX = 256  # programs of one spawn
KEYS_MAX = 1024  # names in one question
FENCE_WORLDS_MAX = 1024  # in one fence
FENCE_RANKS_MAX = 16384  # that a fence names one by one: they travel with each of its messages

Place = Annotated[int, Meta(ge=0, le=NODE_MAX)]
World = Annotated[int, Meta(ge=0, lt=1 << 20)]
Status = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)]  # 0: it worked; else as PMIx has it


class KeyValue(Struct, frozen=True, array_like=True, gc=False):
    """One pair, as the client put it."""

    key: bytes
    value: bytes


class FenceKind(Enum):
    """What a fence is for; fences of different kinds never meet."""

    PMI = "pmi"  # barrier of PMI-1 and PMI-2: pairs of the world's key-value space
    PMIX = "pmix"  # each node's data, keyed by its place
    CONNECT = "connect"
    DISCONNECT = "disconnect"


class Process(Part, frozen=True):
    """One rank of a world."""

    world: World
    rank: Rank


class Participants(Part, frozen=True):
    """Ranks of one world.

    Attributes:
        ranks: ascending; empty: all.
    """

    world: World
    ranks: tuple[Rank, ...]


class Fence(Part, frozen=True):
    """Which fence.

    Attributes:
        participants: in the order of their worlds, each world once.
        number: counts the fences of this kind and these participants from 0.
    """

    kind: FenceKind
    participants: Annotated[
        tuple[Participants, ...], Meta(min_length=1, max_length=FENCE_WORLDS_MAX)
    ]
    number: U32

    def __post_init__(self) -> None:
        demand_distinct("worlds", tuple(each.world for each in self.participants))
        if sum(len(each.ranks) for each in self.participants) > FENCE_RANKS_MAX:
            raise ValueError(f"a fence names at most {FENCE_RANKS_MAX} ranks one by one")


class FenceIn(JobMessage, frozen=True, tag="pmi.fence_in"):
    """Up: every participant of this subtree is in the fence; what they put since the last.

    Attributes:
        is_last: nothing follows from this child for this fence.
    """

    fence: Fence
    pairs: tuple[KeyValue, ...]
    is_last: bool


class FenceOut(JobMessage, frozen=True, tag="pmi.fence_out"):
    """Down: all participants are in; all that was put."""

    fence: Fence
    pairs: tuple[KeyValue, ...]
    is_last: bool


class Question(Struct, frozen=True, array_like=True, tag_field="question"):
    """Base of what can be asked."""


class Publish(Question, frozen=True, tag="publish"):
    """To the root: note names for the others of the job.

    Attributes:
        is_read_once: the first lookup takes it away.
    """

    pairs: Annotated[tuple[KeyValue, ...], Meta(max_length=KEYS_MAX)]
    is_read_once: bool


class Lookup(Question, frozen=True, tag="lookup"):
    """To the root: what has been published; the reply has what there is of it.

    Attributes:
        is_waiting: reply when all of them are there.
    """

    keys: Annotated[tuple[bytes, ...], Meta(max_length=KEYS_MAX)]
    is_waiting: bool


class Unpublish(Question, frozen=True, tag="unpublish"):
    """To the root: take names away."""

    keys: Annotated[tuple[bytes, ...], Meta(max_length=KEYS_MAX)]


class Modex(Question, frozen=True, tag="modex"):
    """To a rank's node: what the rank has put. The reply has one pair."""

    process: Process


class SpawnCommand(Part, frozen=True):
    """One program of a spawn.

    Attributes:
        program: as the application names it.
        arguments: behind the program's name.
        directory: empty: the parent's.
        environment: NAME=value, beside the job's.
        hosts: names of nodes to use; empty: any of the job's.
    """

    program: Annotated[bytes, Meta(min_length=1, max_length=PATH_MAX)]
    arguments: tuple[bytes, ...]
    count: Annotated[int, Meta(ge=1, le=SIZE_MAX)]
    directory: Annotated[bytes, Meta(max_length=PATH_MAX)] = b""
    environment: tuple[bytes, ...] = ()
    hosts: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        demand_no_nul(self.program, self.directory, *self.arguments, *self.environment, *self.hosts)


class EndTool(Question, frozen=True, tag="end_tool"):
    """To the node of a tool: kill it. Its end answers the question that started it."""

    world: World


class Spawn(Question, frozen=True, tag="spawn"):
    """To yod, by way of the root: start more ranks, as a world of their own.

    The reply has the number of the new world, in decimal, as the value of its one pair.

    Attributes:
        parent: who asks.
        pairs: for the new world's key-value space, before its ranks begin.
        is_tool: a launcher's daemon: it joins no world, and the reply is its wait status.
    """

    parent: Process
    commands: Annotated[tuple[SpawnCommand, ...], Meta(min_length=1, max_length=COMMANDS_MAX)]
    pairs: tuple[KeyValue, ...]
    is_tool: bool = False


class Ask(JobMessage, frozen=True, tag="pmi.ask"):
    """To a place of the job's tree, over the nodes on the way.

    Attributes:
        source: the place that asks.
        target: the place that answers.
        serial: of the question, chosen by the source.
    """

    source: Place
    target: Place
    serial: U32
    question: Publish | Lookup | Unpublish | Modex | EndTool | Spawn


class Reply(JobMessage, frozen=True, tag="pmi.reply"):
    """The answer to an ask, on its way to the place that asked.

    Attributes:
        text: why it failed, for people.
    """

    target: Place
    serial: U32
    status: Status
    pairs: tuple[KeyValue, ...]
    text: Text = ""


class Lost(JobMessage, frozen=True, tag="pmi.lost"):
    """Down: ranks of the job have ended abnormally; libraries that asked are told."""

    ranks: tuple[Rank, ...]
    wait_status: U32


class Alone(JobMessage, frozen=True, tag="pmi.alone"):
    """Up, once from a node: a rank has an MPI library and has joined no world.

    Attributes:
        rank: of the job.
        library: the path of its MPI library.
        text: what was offered, what the library speaks, and what to do.
    """

    rank: Rank
    library: Annotated[bytes, Meta(max_length=PATH_MAX)]
    text: Text


class Excess(JobMessage, frozen=True, tag="pmi.excess"):
    """Up, once from a node: the ranks have asked a node to keep more than it may.

    Attributes:
        name: of the node.
        text: the limit, and how it is set.
    """

    name: Name
    text: Text
