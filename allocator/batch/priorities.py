"""Priorities of batch jobs that are changed while they wait. Pure.

A change is answered when it is on the disk, and the job has its new place then.
"""

from __future__ import annotations

from msgspec.structs import replace

from allocator.batch.changes import Changes, demand_waits
from allocator.batch.job import BatchJob, RecordBatchJob
from allocator.batch.queue import Queue
from allocator.jobs.assign import RequestRefused
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action
from native.wire import batch
from native.wire.base import Terms
from native.wire.batch import BY_FACTORS


class Priorities:
    """The changes that are not on the disk yet, by job."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._changes = Changes[tuple[int, Terms]]()

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
        demand_waits(job)
        nice = job.terms.nice if message.nice is None else message.nice
        if not is_operator and message.priority is not None:
            text = f"only operators set the priority of job {job.job_id} (-prio); see -nice"
            raise RequestRefused(Refusal.NOT_PERMITTED, text)
        if not is_operator and nice < job.terms.nice:
            text = f"job {job.job_id} has given up {job.terms.nice} points, only operators lower it"
            raise RequestRefused(Refusal.NOT_PERMITTED, text)
        self._changes.add(job, source, by, (job.priority, job.terms))
        job.terms = replace(job.terms, nice=nice)
        if message.priority is not None:
            job.priority = message.priority
        return [RecordBatchJob(job)]

    def recorded(self, job: BatchJob, error: str) -> list[Action]:
        """The disk has written a job as it is, or refused to."""
        if not (changes := self._changes.taken(job)):
            return []
        if error:
            job.priority, job.terms = changes[0].before
            return self._changes.refused(job, changes, f"its priority stays: {error}")
        self._queue.prioritised(job)
        said = f"nice {job.terms.nice}"
        if job.priority != BY_FACTORS:
            said = f"priority {job.priority}, {said}"
        return self._changes.done(job, changes, f"{said}, set")
