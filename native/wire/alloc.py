"""Conversation `alloc`: nodes for a job, and back.

yod asks bebopd for nodes and releases them. The root PCT tells bebopd that a
job is hosted and that its nodes are free. bebopd asks a PCT to give up a grant
that nobody used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from native.errors import Refusal
from native.text import plural
from native.wire.base import (
    MEMBERS_MAX,
    NO_DEPENDENCY,
    NO_TERMS,
    NODE_MAX,
    SIZE_MAX,
    SLOTS_MAX,
    U32,
    U63,
    Attempt,
    Dependency,
    Digest,
    GpuCount,
    JobEnd,
    JobId,
    JobMessage,
    Memory,
    Message,
    Name,
    NodeCount,
    NodeNumber,
    OfAttempt,
    Part,
    Seconds,
    Terms,
    Text,
    Uid,
)
from native.wire.placed import (
    JobNodes,
    NodeLoans,
    NumberRanges,
    OfNodes,
    demand_ascending,
    demand_fitting,
    numbers_in,
    ranges_of,
    spans_of,
)
from native.wire.runs import Binding, CoreCounts, CoreRows, JobRuns, summed

LISTED = 64  # nodes of a request that are listed one by one, however regular
LISTED_MAX = NODE_MAX + 1  # nodes that all lists of a request name together
CREDENTIAL_MAX = 128 * 1024  # a user may be in very many groups
SHARES_MAX = 2048  # pieces of nodes with equal memory and GPUs, in one credential

Nodes = Annotated[tuple[NodeNumber, ...], Meta(max_length=NODE_MAX + 1)]


class Needs(Part, frozen=True):
    """Memory, GPUs and cores of their own that a member's ranks need beside slots.

    Attributes:
        memory: bytes on each of its nodes.
        rank_memory: bytes for each rank.
        node_gpus: on each of its nodes, for all of its ranks there.
        gpus: for each rank.
        binding: how they lie on cores; None: they are bound to none.
    """

    memory: Memory = 0
    rank_memory: Memory = 0
    node_gpus: GpuCount = 0
    gpus: GpuCount = 0
    binding: Binding | None = None

    @property
    def contradiction(self) -> str:
        """Why no nodes whatever can meet it; empty: some could."""
        if self.memory and self.rank_memory:
            return "memory for each node and memory for each rank"
        if self.node_gpus and self.gpus:
            return "GPUs for each node and GPUs for each rank"
        return ""

    def share(self, ranks: int) -> Share:
        """What so many ranks need of one node, without cores."""
        return Share(self.memory + ranks * self.rank_memory, self.node_gpus + ranks * self.gpus)

    def room(self, memory: int, gpus: int) -> int:
        """How many ranks a node with so much left has room for, as far as its slots allow."""
        memory, gpus = memory - self.memory, gpus - self.node_gpus
        if memory < 0 or gpus < 0:
            return 0
        room = memory // self.rank_memory if self.rank_memory else SLOTS_MAX
        return min(room, gpus // self.gpus) if self.gpus else room


NO_NEEDS = Needs()


class Share(Part, frozen=True):
    """Memory, in bytes, GPUs, and cores by group, of one node."""

    memory: Memory = 0
    gpus: GpuCount = 0
    cores: CoreCounts = ()

    def less(self, given: Iterable[Share]) -> Share:
        """What is left behind these; never less than nothing."""
        memory, gpus, cores = self.memory, self.gpus, list(self.cores)
        for each in given:
            memory, gpus = memory - each.memory, gpus - each.gpus
            for group, count in enumerate(each.cores[: len(cores)]):
                cores[group] -= count
        return Share(max(0, memory), max(0, gpus), tuple([max(0, count) for count in cores]))

    def __str__(self) -> str:
        parts = [plural(self.gpus, "GPU")] if self.gpus else []
        if self.memory:
            from native.memory import memory_text  # for refusals

            parts.append(f"{memory_text(self.memory)} of memory")
        return " and ".join(parts) or "nothing"


NO_SHARE = Share()


class NodeShare(Part, frozen=True):
    """What a job has of each of some consecutive nodes.

    Attributes:
        node: the first.
        memory: bytes on each.
        gpus: on each; the node's PCT chooses which.
        cores: on each, to which ranks are bound: member, group and count; likewise.
    """

    node: NodeNumber
    count: NodeCount
    memory: Memory = 0
    gpus: GpuCount = 0
    cores: CoreRows = ()

    @property
    def share(self) -> Share:
        """Of each node."""
        return Share(self.memory, self.gpus, summed(self.cores) if self.cores else ())


def node_share_of(shares: tuple[NodeShare, ...], node: int) -> NodeShare | None:
    """The piece that a node is in; None: the job has nothing of it."""
    for each in shares:
        if each.node <= node < each.node + each.count:
            return each
    return None


def share_of(shares: tuple[NodeShare, ...], node: int) -> Share:
    """What a job has of a node."""
    found = node_share_of(shares, node)
    return NO_SHARE if found is None else found.share


class NodeSpec(Part, frozen=True):
    """What one member asks for.

    Attributes:
        size: ranks.
        nodes: only these, in this order; empty: any.
        one_per_node: one rank on each of ``nodes`` (a list without a size).
        node_count: on so many nodes; 0: on any number.
        per_node: at most so many ranks on each node; 0: as many as it has slots for.
        cores: slots that each rank takes, all of one node.
        plane: ranks are dealt to the nodes in turn, so many at a time; 0: each node's ranks
            follow one another.
        ranges: more nodes behind ``nodes``, as first numbers and counts; only in messages.
        needs: memory, GPUs and cores to be bound to; None: none that is counted.
    """

    size: Annotated[int, Meta(ge=1, le=SIZE_MAX)]
    nodes: Nodes = ()
    one_per_node: bool = False
    node_count: Annotated[int, Meta(ge=0, le=NODE_MAX + 1)] = 0
    per_node: Annotated[int, Meta(ge=0, le=SLOTS_MAX)] = 0
    cores: Annotated[int, Meta(ge=1, le=SLOTS_MAX)] = 1
    plane: Annotated[int, Meta(ge=0, le=SIZE_MAX)] = 0
    ranges: NumberRanges = ()
    needs: Needs | None = None

    @property
    def slots(self) -> int:
        """Slots of all its ranks."""
        return self.size * self.cores

    @property
    def contradiction(self) -> str:
        """Why no nodes whatever can meet it; empty: some could."""
        size, listed, count, most = self.size, len(self.nodes), self.node_count, self.per_node
        if self.one_per_node and size != listed:
            return f"{plural(size, 'rank')}, one on each of {plural(listed, 'node')}"
        if self.nodes and count > listed:
            return f"{plural(count, 'node')} of a list of {listed}"
        if count > size:
            return f"{plural(size, 'rank')} on {plural(count, 'node')}"
        binding = self.needs.binding if self.needs else None
        if binding is not None and binding.per_node:
            most = min(most or binding.per_node, binding.per_node)
        on = count or listed
        if most and on and size > on * most:
            return f"{plural(size, 'rank')} on {plural(on, 'node')}, at most {most} on each"
        if self.plane and count and size <= self.plane * (count - 1):
            planes = plural(self.plane, "rank")
            return f"{plural(size, 'rank')} on {plural(count, 'node')} in turn, {planes} at a time"
        return self.needs.contradiction if self.needs else ""

    @property
    def listed(self) -> int:
        """How many nodes it names."""
        return len(self.nodes) + sum(count for _, count in self.ranges)

    def packed(self) -> NodeSpec:
        """The same with a long list as ranges, for a message."""
        if len(self.nodes) <= LISTED:
            return self
        spans = spans_of((number, 0) for number in self.nodes)
        if 2 * len(spans) > len(self.nodes):
            return self
        return replace(self, nodes=(), ranges=tuple((span.node, span.count) for span in spans))

    def unpacked(self) -> NodeSpec:
        """The same with every node in ``nodes``, as it is used."""
        if not self.ranges:
            return self
        return replace(self, nodes=(*self.nodes, *numbers_in(self.ranges)), ranges=())


class NodeRequest(Message, frozen=True, tag="alloc.request"):
    """yod asks bebopd for nodes, one spec a member, in rank order.

    Attributes:
        waits: where too few slots are free, it waits for its turn.
        asker: the step, in this allocation, in which the yod runs; 0: in none.
        overlaps: the step shares the slots that other steps have.
        is_exclusive: it takes whole nodes, that no other job has slots of.
        after: the jobs, of a step the other steps, that it waits for before it waits for slots.
        terms: its queue and the like, as its user wants them.
        time_s: how long it is to have them; 0: any time, or as long as its queue lets it.
    """

    specs: Annotated[tuple[NodeSpec, ...], Meta(min_length=1, max_length=MEMBERS_MAX)]
    program: Text = ""  # for pingd and logs
    batch_job: Name = ""  # the batch system's id; empty: none
    waits: bool = False
    asker: Annotated[int, Meta(ge=0, lt=1 << 47)] = 0
    overlaps: bool = False
    is_exclusive: bool = False
    after: Dependency = NO_DEPENDENCY
    terms: Terms = NO_TERMS
    time_s: Seconds = 0.0

    @property
    def slots(self) -> int:
        """Slots that all specs ask for."""
        return sum(spec.slots for spec in self.specs)

    def __post_init__(self) -> None:
        if (listed := sum(spec.listed for spec in self.specs)) > LISTED_MAX:
            raise ValueError(f"{listed} nodes in lists contradict the limit of {LISTED_MAX}")


class Grant(JobMessage, frozen=True, tag="alloc.grant"):
    """bebopd gives nodes; they are pending until the job's PCTs hear from yod.

    Attributes:
        nodes: and the slots given on each.
        job_key: proves the job to the PCTs.
        expires: unix time, whole seconds; part of the key's id.
        credential: an encoded :class:`Credential`, and its MAC by the partition's key.
        addresses: the address table entries that ``nodes`` use: (index, address).
        allocation: the id of the allocation whose step the job is; empty: it is none.
        time_s: how long it may have them, by the request or its queue; 0: any time.
        attempt: as in the credential.
    """

    uid: Uid
    nodes: JobNodes
    runs: JobRuns
    job_key: Annotated[bytes, Meta(max_length=32)]
    expires: U63
    credential: Annotated[bytes, Meta(max_length=CREDENTIAL_MAX)]
    credential_mac: Annotated[bytes, Meta(max_length=32)]
    pending_s: Seconds
    addresses: tuple[tuple[U32, Name], ...] = ()
    allocation: Name = ""
    time_s: Seconds = 0.0
    attempt: Attempt = 0

    def __post_init__(self) -> None:
        demand_fitting(self.nodes, self.runs)


class Credential(Part, frozen=True):
    """What a PCT must see, MACed, before it starts anything.

    Attributes:
        epoch: of the bebopd that granted; a PCT takes none of an earlier one than its own.
        expires: unix time after which no PCT takes it.
        nodes_digest: of the grant's nodes: which they are, the slots on each, and the
            addresses, so that nobody makes a PCT dial another one.
        allocation: as in the grant.
        overlaps: the slots are not taken from the node's; others may have them.
        shares: memory, GPUs and cores on the nodes, which nobody else has; ascending.
        attempt: how often the job was placed before; a PCT takes a job anew with a higher one.
        gives_way: as in its terms; the PCT tells a later bebopd.
        loans: of the slots, those of others; ascending.
    """

    job_id: JobId
    uid: Uid
    gid: Uid
    groups: tuple[Uid, ...]
    epoch: U63
    expires: U63
    nodes_digest: Digest
    allocation: Name = ""
    overlaps: bool = False
    shares: Annotated[tuple[NodeShare, ...], Meta(max_length=SHARES_MAX)] = ()
    attempt: Attempt = 0
    gives_way: bool = False
    loans: NodeLoans = ()

    def __post_init__(self) -> None:
        if self.shares:
            demand_ascending("shares", [(share.node, share.count) for share in self.shares])


class Refused(Message, frozen=True, tag="alloc.refused"):
    """bebopd says no, with numbers in the text.

    Attributes:
        spec: the spec that cannot be met; -1: the request as a whole.
    """

    code: Refusal
    text: Text
    spec: Annotated[int, Meta(ge=-1, lt=MEMBERS_MAX)] = -1


class Queued(Message, frozen=True, tag="alloc.queued"):
    """bebopd has put a request in the line; its yod need only stay to be answered.

    Attributes:
        place: how many are answered first, and one; 0: it is not in the line yet, and waits
            for other jobs.
        text: what it waits for, with numbers.
    """

    place: Annotated[int, Meta(ge=0, le=1 << 20)]
    text: Text


class GiveWay(JobMessage, frozen=True, tag="alloc.give_way"):
    """bebopd ends a launch that gives way, and tells its yod for whom, and how."""

    text: Text


class Release(JobMessage, frozen=True, tag="alloc.release"):
    """yod is through with a job's nodes, or never used them.

    Attributes:
        end: how the job has ended; None: it is not told.
        attempt: as in the grant.
        lost: nodes that did not confirm its end, and that nobody waits for.
    """

    end: JobEnd | None = None
    attempt: Attempt = 0
    lost: Nodes = ()


class Released(JobMessage, frozen=True, tag="alloc.released"):
    """The answer to a release, once every slot is free or its node is known lost.

    Attributes:
        unreachable_ranges: nodes that could not be asked; their slots stay held until then.
    """

    unreachable_ranges: NumberRanges = ()

    def __post_init__(self) -> None:
        demand_ascending("nodes", self.unreachable_ranges)

    @classmethod
    def of(cls, job_id: int, unreachable: Iterable[int]) -> Released:
        """The answer that names these nodes."""
        return cls(job_id, ranges_of(unreachable))

    @property
    def unreachable(self) -> tuple[int, ...]:
        """Their numbers, ascending."""
        return numbers_in(self.unreachable_ranges)


class Hosting(OfAttempt, frozen=True, tag="alloc.hosting"):
    """The root PCT: every node of the job has heard from its yod."""


class Freed(OfNodes, frozen=True, tag="alloc.freed"):
    """A root PCT for its tree, or one for itself: nothing of the job is left on these nodes."""

    attempt: Attempt = 0


class Unfit(JobMessage, frozen=True, tag="alloc.unfit"):
    """A PCT: something of the job has shown that the node is not fit for others. It is drained.

    Attributes:
        text: why, for people.
    """

    node: NodeNumber
    text: Text


class Revoke(OfAttempt, frozen=True, tag="alloc.revoke"):
    """bebopd asks a PCT to refuse a job up to this attempt, unless it hosts one of these."""


class Revoked(JobMessage, frozen=True, tag="alloc.revoked"):
    """The answer to a revoke."""

    node: NodeNumber
    is_hosting: bool
    attempt: Attempt = 0
