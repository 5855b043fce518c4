"""Batch jobs that somebody keeps from the line. Pure.

A job is out of the line at once when it is held, and is in it again when its release is on the
disk; a user is answered then.
"""

from __future__ import annotations

from msgspec import Struct

from allocator.batch.job import BatchJob, Held, RecordBatchJob, RecordEvent
from allocator.batch.queue import Queue
from allocator.jobs.assign import RequestRefused
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action, Send
from native.wire import batch
from native.wire.alloc import Refused
from native.wire.base import State, clipped


class Change(Struct, frozen=True):
    """One user's change.

    Attributes:
        before: who held the job before it.
    """

    source: PortalId
    by: str
    before: Held


class Holds:
    """The changes that are not on the disk yet, by job."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._changes: dict[int, list[Change]] = {}

    def change(
        self, job: BatchJob, is_on: bool, source: PortalId, by: str, is_operator: bool
    ) -> list[Action]:
        """Hold a job, or release it.

        Args:
            is_operator: an operator does, for somebody else's job: nobody else may release it.

        Raises:
            RequestRefused: it does not wait, or an operator holds it.
        """
        if job.state is not State.PENDING or job.is_cancelled:
            why = job.reason or job.shown_state.value
            raise RequestRefused(Refusal.BUSY, f"job {job.job_id} does not wait: {why}")
        if job.held is Held.BY_OPERATOR and not is_operator and not is_on:
            text = f"an operator holds job {job.job_id}"
            raise RequestRefused(Refusal.NOT_PERMITTED, text)
        held = Held.BY_OPERATOR if is_operator else Held.BY_USER
        held = max(job.held, held) if is_on else Held.BY_NOBODY
        if job.held is held and job.job_id not in self._changes:
            return [Send(source, batch.Done(job.job_id))]
        self._changes.setdefault(job.job_id, []).append(Change(source, by, job.held))
        job.held = held
        if is_on:
            self._queue.withdraw(job.job_id)
            job.since, job.reason = None, text_of(job)
        return [RecordBatchJob(job)]

    def recorded(self, job: BatchJob, error: str) -> list[Action]:
        """The disk has written a job as it is, or refused to; nothing: nobody has changed it."""
        changes = self._changes.pop(job.job_id, [])
        if not changes:
            return []
        if error:
            job.held = changes[0].before
            text = clipped(f"job {job.job_id}: nothing is changed: {error}")
            return [Send(each.source, Refused(Refusal.NOT_RECORDED, text)) for each in changes]
        said = f"{'released' if job.held is Held.BY_NOBODY else 'held'} by {changes[-1].by}"
        done = [Send(each.source, batch.Done(job.job_id)) for each in changes]
        return [RecordEvent(job.job_id, said), *done]


def text_of(job: BatchJob) -> str:
    """What a job that is held waits for."""
    by = "an operator" if job.held is Held.BY_OPERATOR else job.owner
    return f"held by {by} (yodjob release {job.job_id})"
