"""One job as bebopd knows it: its state, and what it holds on each node."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from native.ids import PortalId
from native.wire.base import NO_TERMS, Terms
from native.wire.placed import JobNodes, NodeLoan
from native.wire.runs import JobRuns
from native.wire.status import HostedJob, Progress

Key = tuple[int, int]  # the id of a job, and its attempt


class JobState(Enum):
    """Where a job stands between its grant and its last slot freed."""

    PENDING = "pending"  # granted; no word from its PCTs
    RUNNING = "running"
    REVOKING = "revoking"  # lapsed, or its yod lost: its PCTs are being asked
    RELEASING = "releasing"  # yod is through with it


class Evidence(Enum):
    """How sure bebopd is that a node hosts the job. It only rises."""

    GRANTED = "granted"  # a load message may be on its way
    REPORTED = "reported"  # the root says that this node has heard from yod
    SEEN = "seen"  # the node itself has reported the job


class Holding(Struct, frozen=True):
    """One job on one node. Nodes of which the same is known share it.

    Attributes:
        slots: that it takes from the node; 0: it shares those of other steps.
        ranks: as the node says, ascending; None: as they were granted.
        is_asked: a revoke is on its way, no answer yet.
        is_stuck: the node's PCT has said that it does not get rid of the job.
    """

    slots: int
    ranks: tuple[int, ...] | None = None
    evidence: Evidence = Evidence.GRANTED
    is_asked: bool = False
    is_stuck: bool = False


class Job(Struct):
    """One job.

    Attributes:
        since: seconds; when it began to be pending, then to run.
        granted: seconds; when it got its slots.
        slot_s: of the slots that are free again: each times the seconds that it was held.
        requester: its yod; None: not known, or gone.
        asker: the job in which its yod runs; 0: none that is known.
        root: the node of rank 0; -1: not known.
        is_adopted: its id is an earlier bebopd's.
        has_run: its PCTs have hosted it.
        attempt: how often it was placed before.
        is_given_up: its PCTs are to end it, whatever its yod or broker wants.
        lost: nodes that its yod has lost: who is answered does not wait for them.
        terms: of a launch.
        loans: slots that it had from others when it was granted.
        progress: of a launch that takes long; None: its yod has told none.
        holdings: by node number; never empty while bebopd knows the job.
        placed: where its ranks are; None: it was granted by an earlier bebopd.
    """

    job_id: int
    uid: int
    owner: str
    state: JobState
    since: float
    granted: float = 0.0
    slot_s: float = 0.0
    requester: PortalId | None = None
    program: str = ""
    batch_job: str = ""
    asker: int = 0
    root: int = -1
    is_adopted: bool = False
    has_run: bool = False
    attempt: int = 0
    is_given_up: bool = False
    lost: frozenset[int] = frozenset()
    terms: Terms = NO_TERMS
    loans: tuple[NodeLoan, ...] = ()
    progress: Progress | None = None
    holdings: dict[int, Holding] = {}
    placed: tuple[JobNodes, JobRuns] | None = None

    @property
    def key(self) -> Key:
        """Which attempt of which job."""
        return self.job_id, self.attempt

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Where it holds slots: a first node, how many nodes, and the slots of each."""
        if self.placed is not None and len(self.placed[0]) == len(self.holdings):
            for span in self.placed[0].spans:
                yield span.node, span.count, span.slots
        else:
            for number, holding in self.holdings.items():
                yield number, 1, holding.slots

    def ranks_on(self, number: int) -> tuple[int, ...]:
        """The ranks of a node that it holds, ascending."""
        ranks = self.holdings[number].ranks
        if ranks is not None or self.placed is None:
            return ranks or ()
        nodes, runs = self.placed
        place = nodes.place_of(number)
        return () if place is None else runs.ranks_at(place)


def adopted(hosted: HostedJob, owner: str, queue: str, now: float) -> Job:
    """A job of an earlier bebopd, as a node tells of it.

    Args:
        queue: of the job, where that is known.
    """
    return Job(
        job_id=hosted.job_id,
        uid=hosted.uid,
        owner=owner,
        state=JobState.RUNNING,
        since=now - hosted.elapsed_s,
        granted=now - hosted.elapsed_s,
        is_adopted=True,
        has_run=True,
        attempt=hosted.attempt,
        terms=Terms(queue=queue, gives_way=True) if hosted.gives_way else NO_TERMS,
    )
