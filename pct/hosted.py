"""A node and its jobs, as they are announced to bebopd and shown to people. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from native.ids import PortalId
from native.machine import Action, Send
from native.nodelist import format_nodes
from native.wire import alloc, status
from native.wire.base import OfAttempt, clipped
from pct.brokers import Brokers
from pct.events import HealthChecked, TellBebopd
from pct.job.machine import Job
from pct.rare_events import FeaturesSeen, RoguesSeen
from pct.reservation import Reservation

Seen = HealthChecked | RoguesSeen | FeaturesSeen

_OF_ATTEMPTS = (OfAttempt, alloc.Freed)


class Condition:
    """What has been seen of a node.

    Attributes:
        trouble: why it is to be given to no job; empty: it is well.
        rogues: processes that its batch system does not end; empty: there are none.
        features: what its host can do.
    """

    def __init__(self, features: tuple[status.Feature, ...] = ()) -> None:
        self.trouble = self.rogues = ""
        self.features = features

    def take(self, event: Seen) -> str:
        """Take in what has been seen; the line for the log, empty if it is nothing new."""
        if isinstance(event, FeaturesSeen):
            before, self.features = self.features, event.features
            return event.text if self.features != before else ""
        was = (self.trouble, self.rogues)
        if isinstance(event, RoguesSeen):
            self.rogues = clipped(event.rogues)
            text = f"rogue processes {self.rogues}" if self.rogues else "no rogue process is left"
        else:
            self.trouble = clipped(event.trouble)
            text = f"in trouble: {self.trouble}" if self.trouble else "well again"
        return text if (self.trouble, self.rogues) != was else ""

    def __str__(self) -> str:
        trouble = f", in trouble: {self.trouble}" if self.trouble else ""
        return trouble + (f", rogue processes {self.rogues}" if self.rogues else "")


def announcement(
    number: int,
    name: str,
    address: PortalId,
    incarnation: int,
    jobs: Iterable[Job],
    reservation: Reservation,
    brokers: Brokers,
    condition: Condition,
    now: float,
) -> status.Announce:
    """All that bebopd is told of a node."""
    return status.Announce(
        number,
        name,
        reservation.slots,
        *address,
        incarnation,
        tuple([hosted(job, reservation, now) for job in jobs]),
        brokers.job_ids,
        reservation.memory,
        tuple([gpu.kind for gpu in reservation.gpus]),
        reservation.groups,
        condition.trouble,
        brokers.attempts,
        condition.rogues,
        condition.features,
    )


def stamped(action: Action, attempt: int) -> Action:
    """What a job decides, with the attempt named where others must know which it is."""
    if isinstance(action, (Send, TellBebopd)) and isinstance(action.message, _OF_ATTEMPTS):
        return replace(action, message=replace(action.message, attempt=attempt))
    return action


def hosted(job: Job, reservation: Reservation, now: float) -> status.HostedJob:
    """What bebopd is told of a job with every announcement."""
    memory, gpus = reservation.share(job.job_id)
    return status.HostedJob(
        job.job_id,
        job.uid,
        job.slots,
        status.distances(job.ranks),
        now - job.started_at,
        memory,
        len(gpus),
        reservation.core_counts(job.job_id),
        reservation.gives_way(job.job_id),
        reservation.attempt(job.job_id),
        reservation.loans(job.job_id),
    )


def line_of(job: Job, now: float) -> str:
    """For people who ask for the state of a node."""
    ranks, age = format_nodes(job.ranks) or "none", now - job.started_at
    return f"job {job.job_id}: uid {job.uid}, {job.state.value}, ranks {ranks}, for {age:.0f} s"
