"""What is said of a job by those who hold it, by operators, and by its nodes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from allocator.batch.job import RecordEvent
from allocator.batch.table import BatchJobs
from allocator.jobs.accounting import Accounting
from allocator.jobs.table import JobTable
from allocator.nodes.node import Node
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action, Log, Send
from native.wire.alloc import Freed, Hosting, Refused, Release, Released, Revoked


class Releaser(NamedTuple):
    """Who releases a job.

    Attributes:
        name_of: the name of a user by uid.
    """

    source: PortalId
    uid: int
    is_operator: bool
    name_of: Callable[[int], str]


def release_asked(
    by: Releaser, release: Release, jobs: JobTable, accounting: Accounting, now: float
) -> list[Action]:
    """Release a job whose owner or an operator asks for it."""
    job_id = release.job_id
    job, uid = jobs.of(job_id, release.attempt), accounting.owner_of(job_id)
    is_owner = by.uid == (job.uid if job is not None else uid)
    if job is not None and not (is_owner or by.is_operator):
        text = f"job {job_id} belongs to {job.owner}"
        return [
            Send(by.source, Refused(Refusal.NOT_PERMITTED, text)),
            Log(f"uid {by.uid} may not release it", job_id),
        ]
    told: list[Action] = []
    if is_owner:
        told = accounting.told(job_id, release.end, "", now)
    elif job is not None:
        told = accounting.told(job_id, None, by.name_of(by.uid), now)
    if job is None:  # every slot is free already
        return [*told, Send(by.source, Released(job_id))]
    return [*told, *jobs.release(job, by.source, now, release.lost)]


def reported(
    node: Node, message: Hosting | Freed | Revoked, jobs: JobTable, batch: BatchJobs, now: float
) -> list[Action]:
    """Take a PCT's report about a job; one about a job that has ended is ignored."""
    match message:
        case Hosting(job_id, attempt) if job := jobs.of(job_id, attempt):
            had_run, actions = job.has_run, jobs.hosting(node, job, now)
            is_new = job.has_run and not had_run and batch.get(job_id) is None
            return [*actions, *([RecordEvent(job_id, "runs")] if is_new else [])]
        case Freed(job_id, _, attempt) if job := jobs.of(job_id, attempt):
            return jobs.freed(node, job, message.nodes, now)
        case Revoked(job_id, number, is_here, attempt) if job := jobs.of(job_id, attempt):
            if number == node.number:
                return jobs.revoked(node, job, is_here, now)
            return [Log(f"{node} answered a revoke for node {number}", job_id)]
    return []
