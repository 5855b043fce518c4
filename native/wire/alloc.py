"""Conversation `alloc`: nodes for a job, and back.

yod asks bebopd for nodes and releases them. The root PCT tells bebopd that a
job is hosted and that its nodes are free. bebopd asks a PCT to give up a grant
that nobody used.
"""

from typing import Annotated

from msgspec import Meta

from native.errors import Refusal
from native.text import plural
from native.wire.base import (
    MEMBERS_MAX,
    NODE_MAX,
    SIZE_MAX,
    SLOTS_MAX,
    U32,
    U63,
    Digest,
    JobId,
    JobMessage,
    Message,
    Name,
    NodeNumber,
    Part,
    Seconds,
    Text,
    Uid,
    demand_distinct,
    demand_same_length,
)

Nodes = Annotated[tuple[NodeNumber, ...], Meta(max_length=NODE_MAX + 1)]


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
    """

    size: Annotated[int, Meta(ge=1, le=SIZE_MAX)]
    nodes: Nodes = ()
    one_per_node: bool = False
    node_count: Annotated[int, Meta(ge=0, le=NODE_MAX + 1)] = 0
    per_node: Annotated[int, Meta(ge=0, le=SLOTS_MAX)] = 0
    cores: Annotated[int, Meta(ge=1, le=SLOTS_MAX)] = 1
    plane: Annotated[int, Meta(ge=0, le=SIZE_MAX)] = 0

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
        on = count or listed
        if most and on and size > on * most:
            return f"{plural(size, 'rank')} on {plural(on, 'node')}, at most {most} on each"
        if self.plane and count and size <= self.plane * (count - 1):
            planes = plural(self.plane, "rank")
            return f"{plural(size, 'rank')} on {plural(count, 'node')} in turn, {planes} at a time"
        return ""


class NodeRequest(Message, frozen=True, tag="alloc.request"):
    """yod asks bebopd for nodes, one spec a member, in rank order.

    Attributes:
        waits: where too few slots are free, it waits for its turn.
        asker: the step, in this allocation, in which the yod runs; 0: in none.
        overlaps: the step shares the slots that other steps have.
        is_exclusive: it takes whole nodes, that no other job has slots of.
    """

    specs: Annotated[tuple[NodeSpec, ...], Meta(min_length=1, max_length=MEMBERS_MAX)]
    program: Text = ""  # for pingd and logs
    batch_job: Name = ""  # the batch system's id; empty: none
    waits: bool = False
    asker: Annotated[int, Meta(ge=0, lt=1 << 47)] = 0
    overlaps: bool = False
    is_exclusive: bool = False


class GrantedNode(Part, frozen=True):
    """One node of a grant and where its PCT listens."""

    node: NodeNumber
    name: Name
    nid: U32
    pid: U32


class Run(Part, frozen=True):
    """Consecutive ranks on one node.

    Attributes:
        place: index into the grant's nodes.
        count: ranks.
    """

    place: Annotated[int, Meta(ge=0, le=NODE_MAX)]
    count: Annotated[int, Meta(ge=1, le=SIZE_MAX)]


def demand_fitting(nodes: tuple[GrantedNode, ...], runs: tuple[Run, ...]) -> None:
    """Refuse nodes and runs that are no job's.

    Raises:
        ValueError: a node twice, a run elsewhere, more ranks than a job has.
    """
    demand_distinct("node numbers", tuple(node.node for node in nodes))
    demand_distinct("addresses of nodes", tuple((node.nid, node.pid) for node in nodes))
    if (place := max(run.place for run in runs)) >= len(nodes):
        raise ValueError(f"place {place} contradicts {len(nodes)} nodes")
    if (size := sum(run.count for run in runs)) > SIZE_MAX:
        raise ValueError(f"{size} ranks contradict the limit of {SIZE_MAX}")


class Grant(JobMessage, frozen=True, tag="alloc.grant"):
    """bebopd gives nodes; they are pending until the job's PCTs hear from yod.

    Attributes:
        nodes: in the order of their lowest rank; the first is the root's.
        runs: ranks 0, 1, ... in order, over ``nodes``.
        job_key: proves the job to the PCTs.
        expires: unix time, whole seconds; part of the key's id.
        credential: an encoded :class:`Credential`, and its MAC by the partition's key.
        addresses: the address table entries that ``nodes`` use: (index, address).
        allocation: the id of the allocation whose step the job is; empty: it is none.
    """

    uid: Uid
    nodes: Annotated[tuple[GrantedNode, ...], Meta(min_length=1)]
    runs: Annotated[tuple[Run, ...], Meta(min_length=1)]
    job_key: Annotated[bytes, Meta(max_length=32)]
    expires: U63
    credential: Annotated[bytes, Meta(max_length=128 * 1024)]
    credential_mac: Annotated[bytes, Meta(max_length=32)]
    pending_s: Seconds
    addresses: tuple[tuple[U32, Name], ...] = ()
    allocation: Name = ""

    def __post_init__(self) -> None:
        demand_fitting(self.nodes, self.runs)


class Credential(Part, frozen=True):
    """What a PCT must see, MACed, before it starts anything.

    Attributes:
        epoch: of the bebopd that granted; a PCT takes none of an earlier one than its own.
        expires: unix time after which no PCT takes it.
        nodes, slots: each node and the slots given on it.
        nodes_digest: of the grant's nodes, so that nobody makes a PCT dial another address.
        allocation: as in the grant.
        overlaps: the slots are not taken from the node's; others may have them.
    """

    job_id: JobId
    uid: Uid
    gid: Uid
    groups: tuple[Uid, ...]
    epoch: U63
    expires: U63
    nodes: Nodes
    slots: tuple[Annotated[int, Meta(ge=1, le=SLOTS_MAX)], ...]
    nodes_digest: Digest
    allocation: Name = ""
    overlaps: bool = False

    def __post_init__(self) -> None:
        demand_distinct("nodes", self.nodes)
        demand_same_length(nodes=self.nodes, slots=self.slots)


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
        place: how many are answered first, and one.
        text: what it waits for, with numbers.
    """

    place: Annotated[int, Meta(ge=1, le=1 << 20)]
    text: Text


class Release(JobMessage, frozen=True, tag="alloc.release"):
    """yod is through with a job's nodes, or never used them."""


class Released(JobMessage, frozen=True, tag="alloc.released"):
    """The answer to a release, once every slot is free or its node is known lost.

    Attributes:
        unreachable: nodes that could not be asked; their slots stay held until
            they are heard from.
    """

    unreachable: Nodes = ()


class Hosting(JobMessage, frozen=True, tag="alloc.hosting"):
    """The root PCT: every node of the job has heard from its yod."""


class Freed(JobMessage, frozen=True, tag="alloc.freed"):
    """A PCT: nothing of the job is left on these nodes.

    From the root for its whole tree, or from a single node for itself.
    """

    nodes: Nodes


class Revoke(JobMessage, frozen=True, tag="alloc.revoke"):
    """bebopd asks a PCT to refuse a job from now on, unless it hosts it already."""


class Revoked(JobMessage, frozen=True, tag="alloc.revoked"):
    """The answer to a revoke."""

    node: NodeNumber
    is_hosting: bool
