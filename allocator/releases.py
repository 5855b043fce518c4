"""Whoever holds a job, or an operator, is through with it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from allocator.jobs.accounting import Accounting
from allocator.jobs.table import JobTable
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action, Log, Send
from native.wire.alloc import Refused, Release, Released


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
    return [*told, *jobs.release(job, by.source, now)]
