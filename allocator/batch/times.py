"""Time limits of batch jobs that are changed after their submission. Pure.

A change is answered when it is on the disk, and the broker hears of it then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from allocator.batch import running
from allocator.batch.job import BatchJob, RecordBatchJob, RecordEvent
from allocator.nodes.node import Node
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action, Send
from native.wire import batch
from native.wire.alloc import Refused
from native.wire.base import State, clipped


class Change(Struct, frozen=True):
    """One user's change.

    Attributes:
        before_s: the limit before it.
    """

    source: PortalId
    by: str
    before_s: float


class TimeLimits:
    """The limits of jobs, and the changes that are not on the disk yet.

    Args:
        jobs: those that have not ended, by id.
    """

    def __init__(self, jobs: Mapping[int, BatchJob], unix_time: Callable[[], float]) -> None:
        self._jobs = jobs
        self._unix_time = unix_time
        self._changes: dict[int, list[Change]] = {}

    def left(self, job_id: int) -> float | None:
        """Until the limit of a job, in seconds; negative: it should be over. None: any time."""
        job = self._jobs.get(job_id)
        if job is None or not job.time_s or not job.began:
            return None
        return job.began + job.time_s - self._unix_time()

    def change(self, job: BatchJob, time_s: float, source: PortalId, by: str) -> list[Action]:
        """A user changes a job's limit; it counts from the job's beginning."""
        self._changes.setdefault(job.job_id, []).append(Change(source, by, job.time_s))
        job.time_s = time_s
        return [RecordBatchJob(job)]

    def recorded(self, job: BatchJob, error: str, node: Node | None) -> list[Action]:
        """The disk has written a job as it is, or refused to."""
        changes = self._changes.pop(job.job_id, [])
        if not changes:
            return []
        if error:
            job.time_s = changes[0].before_s
            job.is_told = False  # it may have heard of another one meanwhile
            text = clipped(f"job {job.job_id}: its time limit stays: {error}")
            return [Send(each.source, Refused(Refusal.NOT_RECORDED, text)) for each in changes]
        from native.duration import written  # few jobs have theirs changed

        said = f"time limit {written(job.time_s)}, set by {changes[-1].by}"
        actions: list[Action] = [RecordEvent(job.job_id, said)]
        actions += [Send(each.source, batch.Done(job.job_id)) for each in changes]
        has_broker = job.is_sent or job.state is State.RUNNING
        if has_broker and node is not None and node.is_up:
            actions += running.limit_time(job, node)
        return actions
