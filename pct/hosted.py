"""A job on this node, as it is announced to bebopd and shown to people. Pure."""

from __future__ import annotations

from native.nodelist import format_nodes
from native.wire import status
from pct.job.machine import Job
from pct.reservation import Reservation


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
    )


def line_of(job: Job, now: float) -> str:
    """For people who ask for the state of a node."""
    ranks, age = format_nodes(job.ranks) or "none", now - job.started_at
    return f"job {job.job_id}: uid {job.uid}, {job.state.value}, ranks {ranks}, for {age:.0f} s"
