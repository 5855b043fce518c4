"""What users change of batch jobs, until it is on the disk: then they are answered. Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from allocator.batch.job import BatchJob, RecordEvent
from allocator.jobs.assign import RequestRefused
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action, Send
from native.wire import batch
from native.wire.alloc import Refused
from native.wire.base import State, clipped

T = TypeVar("T")


class Change(Struct, Generic[T], frozen=True):
    """One user's change.

    Attributes:
        before: what it has changed, as it was.
    """

    source: PortalId
    by: str
    before: T


class Changes(Generic[T]):
    """The changes of one kind that are not on the disk yet, by job."""

    def __init__(self) -> None:
        self._changes: dict[int, list[Change[T]]] = {}

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._changes

    def add(self, job: BatchJob, source: PortalId, by: str, before: T) -> None:
        """A user changes a job."""
        self._changes.setdefault(job.job_id, []).append(Change(source, by, before))

    def taken(self, job: BatchJob) -> list[Change[T]]:
        """The changes of a job, the first of them first; they are not waited for any more."""
        return self._changes.pop(job.job_id, [])

    def refused(self, job: BatchJob, changes: list[Change[T]], text: str) -> list[Action]:
        """The disk has refused changes: so do we."""
        text = clipped(f"job {job.job_id}: {text}")
        return [Send(each.source, Refused(Refusal.NOT_RECORDED, text)) for each in changes]

    def done(self, job: BatchJob, changes: list[Change[T]], said: str) -> list[Action]:
        """Changes are on the disk.

        Args:
            said: for the job's history, before who has done it.
        """
        happened = RecordEvent(job.job_id, f"{said} by {changes[-1].by}")
        return [happened, *(Send(each.source, batch.Done(job.job_id)) for each in changes)]


def demand_waits(job: BatchJob) -> None:
    """Refuse to change what only matters to a job that waits.

    Raises:
        RequestRefused: it does not.
    """
    if job.state is not State.PENDING or job.is_cancelled:
        why = job.reason or job.shown_state.value
        raise RequestRefused(Refusal.BUSY, f"job {job.job_id} does not wait: {why}")
