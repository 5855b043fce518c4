"""Batch jobs that somebody keeps from the line. Pure.

A job is out of the line at once when it is held, and is in it again when its release is on the
disk; a user is answered then.
"""

from __future__ import annotations

from allocator.batch.changes import Changes, demand_waits
from allocator.batch.job import BatchJob, Held, RecordBatchJob
from allocator.batch.queue import Queue
from allocator.jobs.assign import RequestRefused
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action, Send
from native.wire import batch


class Holds:
    """The changes that are not on the disk yet, by job."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._changes = Changes[Held]()

    def change(
        self, job: BatchJob, is_on: bool, source: PortalId, by: str, is_operator: bool
    ) -> list[Action]:
        """Hold a job, or release it.

        Args:
            is_operator: an operator does, for somebody else's job: nobody else may release it.

        Raises:
            RequestRefused: it does not wait, or an operator holds it.
        """
        demand_waits(job)
        if job.held is Held.BY_OPERATOR and not is_operator and not is_on:
            text = f"an operator holds job {job.job_id}"
            raise RequestRefused(Refusal.NOT_PERMITTED, text)
        held = Held.BY_OPERATOR if is_operator else Held.BY_USER
        held = max(job.held, held) if is_on else Held.BY_NOBODY
        if job.held is held and job.job_id not in self._changes:
            return [Send(source, batch.Done(job.job_id))]
        self._changes.add(job, source, by, job.held)
        job.held = held
        if is_on:
            self._queue.withdraw(job.job_id)
            job.since, job.reason = None, text_of(job)
        return [RecordBatchJob(job)]

    def recorded(self, job: BatchJob, error: str) -> list[Action]:
        """The disk has written a job as it is, or refused to; nothing: nobody has changed it."""
        if not (changes := self._changes.taken(job)):
            return []
        if error:
            job.held = changes[0].before
            return self._changes.refused(job, changes, f"nothing is changed: {error}")
        said = "released" if job.held is Held.BY_NOBODY else "held"
        return self._changes.done(job, changes, said)


def text_of(job: BatchJob) -> str:
    """What a job that is held waits for."""
    by = "an operator" if job.held is Held.BY_OPERATOR else job.owner
    return f"held by {by} (yodjob release {job.job_id})"
