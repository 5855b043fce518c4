"""Conversation `status`: which node is there, and what it is doing.

Every PCT announces itself to bebopd when it starts and every heartbeat after
that. pingd asks bebopd for the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import accumulate
from typing import Annotated

from msgspec import Meta

from native.wire.base import (
    NODE_MAX,
    SIZE_MAX,
    SLOTS_MAX,
    U32,
    U63,
    Attempt,
    Count,
    GpuCount,
    Gpus,
    Interval,
    JobId,
    JobMessage,
    Memory,
    Message,
    Name,
    NodeNumber,
    Part,
    Rank,
    Seconds,
    Text,
    Uid,
    demand_distinct,
    demand_same_length,
)
from native.wire.placed import NodeLoans
from native.wire.runs import CoreCounts, CoreGroups

PhaseName = Annotated[str, Meta(max_length=16)]


class HostedJob(Part, frozen=True):
    """One job on one node.

    The ranks of all jobs of a node travel in one message. As distances they fit: a node
    has at most SLOTS_MAX ranks, each distance has 3 bytes or fewer, but for the few above
    65535 that a job can have.

    Attributes:
        distances: the lowest rank that it has here, then from each rank to the next.
        elapsed_s: since the load message came.
        memory: bytes that it has here.
        gpus: likewise.
        cores: likewise, by group.
        gives_way: as its credential says.
        attempt: as in the job's credential.
        loans: likewise, those of this node of which the lender is here.
    """

    job_id: JobId
    uid: Uid
    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX)]
    distances: Annotated[tuple[Rank, ...], Meta(max_length=SLOTS_MAX)]
    elapsed_s: Seconds
    memory: Memory = 0
    gpus: GpuCount = 0
    cores: CoreCounts = ()
    gives_way: bool = False
    attempt: Attempt = 0
    loans: NodeLoans = ()

    def __post_init__(self) -> None:
        if 0 in self.distances[1:] or sum(self.distances) >= SIZE_MAX:
            raise ValueError("distances contradict: a rank twice, or too high")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks it has here, ascending."""
        return tuple(accumulate(self.distances))


def distances(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """What :class:`HostedJob` tells of ranks, which ascend."""
    return tuple(_differences(ranks))


def _differences(ranks: tuple[int, ...]) -> Iterator[int]:
    before = 0
    for rank in ranks:
        yield rank - before
        before = rank


class Feature(Enum):
    """What a PCT says that its host can do; jobs ask for it as for features of the nodes file."""

    CRIU = "criu"  # have CRIU write down ranks of root's
    CRIU_USERS = "criu-users"  # and of anybody else


class Announce(Message, frozen=True, tag="status.announce"):
    """A PCT: I am here. Repeated every heartbeat; the first one joins.

    Attributes:
        node: its number, or -1: bebopd chooses (the nodes file, then the lowest
            number not in use).
        incarnation: random, new at each start of the PCT.
        jobs: what it hosts now.
        brokers: batch jobs whose brokers run here, or have ended and bebopd has not said
            that it has heard.
        memory: bytes that jobs may have; 0: none can be asked for.
        gpus: the kind of each; empty where it is not known.
        cores: that ranks can be bound to; empty: to none.
        trouble: why it is to be given to no job; empty: it is well.
        attempts: of the brokers, in their order; empty: the first of each job.
        rogues: processes there that its batch system does not end; empty: there are none.
        features: what its host can do.
    """

    node: Annotated[int, Meta(ge=-1, le=NODE_MAX)]
    name: Name
    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX)]
    nid: U32
    pid: U32
    incarnation: U63
    jobs: tuple[HostedJob, ...] = ()
    brokers: Annotated[tuple[JobId, ...], Meta(max_length=SLOTS_MAX)] = ()
    memory: Memory = 0
    gpus: Gpus = ()
    cores: CoreGroups = ()
    trouble: Text = ""
    attempts: Annotated[tuple[Attempt, ...], Meta(max_length=SLOTS_MAX)] = ()
    rogues: Text = ""
    features: Annotated[tuple[Feature, ...], Meta(max_length=len(Feature))] = ()

    def __post_init__(self) -> None:
        if self.jobs:  # most nodes have none
            demand_distinct("jobs", tuple(job.job_id for job in self.jobs))
        if self.brokers:
            demand_distinct("brokers", self.brokers)
        if self.attempts:
            demand_same_length(brokers=self.brokers, attempts=self.attempts)

    @property
    def hosted_attempts(self) -> dict[int, int]:
        """The attempts of the jobs that it hosts."""
        return {job.job_id: job.attempt for job in self.jobs}

    @property
    def attempt_of(self) -> dict[int, int]:
        """The attempts of jobs whose brokers run here, or have ended."""
        return dict(zip(self.brokers, self.attempts or (0,) * len(self.brokers), strict=True))


class Accepted(Message, frozen=True, tag="status.accepted"):
    """bebopd: you are this node of my partition.

    Attributes:
        epoch: of this bebopd, larger than those before it; grants of an earlier one are stale.
        heartbeat_s: announce again at this interval.
    """

    node: NodeNumber
    epoch: U63
    heartbeat_s: Interval


class Rejected(Message, frozen=True, tag="status.rejected"):
    """bebopd: not in my partition; the text says why."""

    text: Text


class NodeState(Enum):
    """What pingd shows of a node. Other programs read these words."""

    FREE = "free"
    PENDING = "pending"
    BUSY = "busy"
    DOWN = "down"
    DRAINING = "draining"
    DRAINED = "drained"
    TROUBLE = "trouble"


class Portion(Enum):
    """Which jobs a node is for. Other programs read the words."""

    ANY = "any"
    BATCH = "batch"
    INTERACTIVE = "interactive"


class NodeJob(Part, frozen=True):
    """One job on a node, as bebopd knows it.

    Attributes:
        batch_job: the id of the batch system's job that its yod runs in; empty: none.
        phase, come, total, ranks_come: of a launch that takes long, as :class:`Progress` has
            them; only with the node of its rank 0.
    """

    job_id: JobId
    owner: Name
    ranks: tuple[Rank, ...]
    elapsed_s: Seconds
    is_pending: bool
    batch_job: Name = ""
    phase: PhaseName = ""
    come: Count = 0
    total: Count = 0
    ranks_come: Count = 0


class Progress(JobMessage, frozen=True, tag="status.progress"):
    """How far a launch is that takes long, for those who look at the partition.

    Attributes:
        phase: as users are told it; empty: its ranks run, or it is over.
        come: of its nodes, those that nobody waits for.
        total: its nodes; 0: it is not known which are waited for.
        ranks_come: the ranks of the nodes that have come; 0: not known.
    """

    phase: PhaseName
    come: Count = 0
    total: Count = 0
    ranks_come: Count = 0


def is_batch_job(batch_job: str, wanted: str) -> bool:
    """Is this the batch job that is meant by an id, or by the number that ids of PBS begin with?"""
    return wanted != "" and wanted in (batch_job, batch_job.partition(".")[0])


class NodeDrain(Part, frozen=True):
    """Why a node is given to no job.

    Attributes:
        by: who has said so.
        since: unix time.
    """

    reason: Name
    by: Name
    since: Seconds


class NodeReservation(Part, frozen=True):
    """For whom a node is reserved.

    Attributes:
        owner: the users, of whom alone it is given to jobs.
        reason: empty: none was given.
        by: who has reserved it.
        since: unix time.
        start, end: unix time; 0: it is since then, and until it is given back.
    """

    owner: Name
    reason: Name
    by: Name
    since: Seconds
    start: Seconds = 0.0
    end: Seconds = 0.0


class NodeRow(Part, frozen=True):
    """One line of pingd.

    Attributes:
        drain: None: the node is given to jobs.
        is_restarting: its PCT restarts when its jobs have ended.
        why: it is down, or in trouble; empty: it is not, or has not announced itself.
        reservation: None: it is given to jobs of all users.
        portion: which jobs it is for.
        nid, pid: where its PCT listens; 0, 0: nowhere that others could connect to.
        rogues: processes there that its batch system does not end; empty: there are none.
    """

    node: NodeNumber
    name: Name
    state: NodeState
    slots: U32
    slots_used: U32
    silent_s: Seconds  # since its last word
    jobs: tuple[NodeJob, ...] = ()
    drain: NodeDrain | None = None
    is_restarting: bool = False
    why: Text = ""
    reservation: NodeReservation | None = None
    portion: Portion = Portion.ANY
    nid: U32 = 0
    pid: U32 = 0
    rogues: Text = ""

    @property
    def has_orders(self) -> bool:
        """Operators have said something of it."""
        kept = self.reservation is not None or self.portion is not Portion.ANY
        return self.drain is not None or kept


class Query(Message, frozen=True, tag="status.query"):
    """pingd asks for the table."""


class Table(Message, frozen=True, tag="status.table"):
    """A piece of the table, nodes ascending.

    Attributes:
        is_last: nothing follows.
        at: bebopd's unix time.
    """

    rows: tuple[NodeRow, ...]
    is_last: bool
    at: Seconds = 0.0


class Watch(Message, frozen=True, tag="status.watch"):
    """pingd waits for a later version of the table than this; 0: it has none."""

    since: U63


class Changes(Message, frozen=True, tag="status.changes"):
    """A piece of what is different in a version of the table, nodes ascending.

    Attributes:
        rows: of the nodes that have changed; none: jobs or the history have.
        is_whole: nodes of which there is no row are not there.
        is_last: nothing follows.
    """

    rows: tuple[NodeRow, ...]
    version: U63
    is_whole: bool
    is_last: bool
