"""Time limits of batch jobs that are changed after their submission. Pure.

A change is answered when it is on the disk, and the broker hears of it then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allocator.batch import running
from allocator.batch.changes import Changes
from allocator.batch.job import BatchJob, RecordBatchJob
from allocator.nodes.node import Node
from native.ids import PortalId
from native.machine import Action
from native.wire.base import State


class TimeLimits:
    """The limits of jobs, and the changes that are not on the disk yet.

    Args:
        jobs: those that have not ended, by id.
    """

    def __init__(self, jobs: Mapping[int, BatchJob], unix_time: Callable[[], float]) -> None:
        self._jobs = jobs
        self._unix_time = unix_time
        self._changes = Changes[float]()

    def left(self, job_id: int) -> float | None:
        """Until the limit of a job, in seconds; negative: it should be over. None: any time."""
        job = self._jobs.get(job_id)
        if job is not None and job.is_preempted:
            return 0.0
        if job is None or not job.time_s or not job.began:
            return None
        return job.began + job.time_s - self._unix_time()

    def change(self, job: BatchJob, time_s: float, source: PortalId, by: str) -> list[Action]:
        """A user changes a job's limit; it counts from the job's beginning."""
        self._changes.add(job, source, by, job.time_s)
        job.time_s = time_s
        return [RecordBatchJob(job)]

    def recorded(self, job: BatchJob, error: str, node: Node | None) -> list[Action]:
        """The disk has written a job as it is, or refused to."""
        if not (changes := self._changes.taken(job)):
            return []
        if error:
            job.time_s = changes[0].before
            job.is_told = False  # it may have heard of another one meanwhile
            return self._changes.refused(job, changes, f"its time limit stays: {error}")
        from native.duration import written  # few jobs have theirs changed

        actions = self._changes.done(job, changes, f"time limit {written(job.time_s)}, set")
        has_broker = job.is_sent or job.state is State.RUNNING
        if has_broker and node is not None and node.is_up:
            actions += running.limit_time(job, node)
        return actions
