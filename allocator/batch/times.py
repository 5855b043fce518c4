"""Time limits of batch jobs that are changed after their submission. Pure.

A change is answered when it is on the disk, and the broker hears of it then; again when its
PCT comes back, since what was sent may have been lost.
"""

from __future__ import annotations

from allocator.batch.job import BatchJob, RecordBatchJob, RecordEvent
from allocator.nodes.table import Node
from native.errors import Refusal
from native.ids import PortalId
from native.machine import Action, Send
from native.wire import batch
from native.wire.alloc import Refused
from native.wire.base import clipped
from native.wire.batch import State


class Asked:
    """One user's change.

    Attributes:
        before_s: the limit before it.
    """

    def __init__(self, source: PortalId, by: str, before_s: float) -> None:
        self.source = source
        self.by = by
        self.before_s = before_s


class TimeLimits:
    """The changes that are not on the disk yet, by job."""

    def __init__(self) -> None:
        self._asked: dict[int, list[Asked]] = {}

    def change(self, job: BatchJob, time_s: float, source: PortalId, by: str) -> list[Action]:
        """A user changes a job's limit; it counts from the job's beginning."""
        self._asked.setdefault(job.job_id, []).append(Asked(source, by, job.time_s))
        job.time_s, job.is_time_told = time_s, False
        return [RecordBatchJob(job)]

    def recorded(self, job: BatchJob, error: str, node: Node | None) -> list[Action]:
        """The disk has written a job as it is, or refused to."""
        asked = self._asked.pop(job.job_id, [])
        if not asked:
            return []
        if error:
            job.time_s = asked[0].before_s
            text = clipped(f"job {job.job_id}: its time limit stays: {error}")
            return [Send(each.source, Refused(Refusal.NOT_RECORDED, text)) for each in asked]
        from native.duration import written  # few jobs have theirs changed

        said = f"time limit {written(job.time_s)}, set by {asked[-1].by}"
        actions: list[Action] = [RecordEvent(job.job_id, said)]
        actions += [Send(each.source, batch.Done(job.job_id)) for each in asked]
        return actions + (self.tell(job, node) if node is not None and node.is_up else [])

    def tell(self, job: BatchJob, node: Node) -> list[Action]:
        """Let the broker know, if it has been started and does not know."""
        if job.is_time_told or not (job.is_sent or job.state is State.RUNNING):
            return []
        job.is_time_told = True
        return [Send(node.peer, batch.LimitTime(job.job_id, job.time_s))]
