"""Priorities of batch jobs that are changed while they wait. Pure.

A change is answered when it is on the disk, and the job has its new place then.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from allocator.batch.job import BatchJob, RecordBatchJob, RecordEvent
from allocator.batch.queue import Queue
from allocator.jobs.assign import RequestRefused
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action, Send
from native.wire import batch
from native.wire.alloc import Refused
from native.wire.base import State, Terms, clipped
from native.wire.batch import BY_FACTORS


class Change(Struct, frozen=True):
    """One user's change.

    Attributes:
        priority, terms: of the job, before it.
    """

    source: PortalId
    by: str
    priority: int
    terms: Terms


class Priorities:
    """The changes that are not on the disk yet, by job."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._changes: dict[int, list[Change]] = {}

    def change(
        self,
        job: BatchJob,
        message: batch.Prioritise,
        source: PortalId,
        by: str,
        is_operator: bool,
    ) -> list[Action]:
        """Give a job another priority.

        Raises:
            RequestRefused: it does not wait, or only operators may.
        """
        if job.state is not State.PENDING or job.is_cancelled:
            why = job.reason or job.shown_state.value
            raise RequestRefused(Refusal.BUSY, f"job {job.job_id} does not wait: {why}")
        nice = job.terms.nice if message.nice is None else message.nice
        if not is_operator and message.priority is not None:
            text = f"only operators set the priority of job {job.job_id} (-prio); see -nice"
            raise RequestRefused(Refusal.NOT_PERMITTED, text)
        if not is_operator and nice < job.terms.nice:
            text = f"job {job.job_id} has given up {job.terms.nice} points, only operators lower it"
            raise RequestRefused(Refusal.NOT_PERMITTED, text)
        change = Change(source, by, job.priority, job.terms)
        self._changes.setdefault(job.job_id, []).append(change)
        job.terms = replace(job.terms, nice=nice)
        if message.priority is not None:
            job.priority = message.priority
        return [RecordBatchJob(job)]

    def recorded(self, job: BatchJob, error: str) -> list[Action]:
        """The disk has written a job as it is, or refused to."""
        changes = self._changes.pop(job.job_id, [])
        if not changes:
            return []
        if error:
            job.priority, job.terms = changes[0].priority, changes[0].terms
            text = clipped(f"job {job.job_id}: its priority stays: {error}")
            return [Send(each.source, Refused(Refusal.NOT_RECORDED, text)) for each in changes]
        self._queue.prioritised(job)
        said = f"nice {job.terms.nice}"
        if job.priority != BY_FACTORS:
            said = f"priority {job.priority}, {said}"
        done = [Send(each.source, batch.Done(job.job_id)) for each in changes]
        return [RecordEvent(job.job_id, f"{said}, set by {changes[-1].by}"), *done]
