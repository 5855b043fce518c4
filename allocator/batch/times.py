"""Time limits of batch jobs: those that are changed after the submission, and those that are over.

A change is answered when it is on the disk, and the broker hears of it then.

The broker of a job, a process of its owner, ends it when its time is over. It may be stopped, or
have been made not to: so bebopd has the broker killed, with all that is below it, ``overtime_s``
after the time in which the broker was to have done so. The deadline is monotonic: steps of the
clock do not move it. A later bebopd counts from the beginning of the job, which is on the disk.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allocator.batch import running
from allocator.batch.changes import Changes
from allocator.batch.job import BatchJob, RecordBatchJob, RecordEvent
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable
from native.deadlines import Deadlines
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, Log
from native.wire.base import State

OVERDUE = "its time limit was over, and its broker has not ended it: bebopd did"


class TimeLimits:
    """The limits of jobs, and the changes that are not on the disk yet.

    Args:
        jobs: those that have not ended, by id.
    """

    def __init__(
        self,
        jobs: Mapping[int, BatchJob],
        nodes: NodeTable,
        limits: Limits,
        unix_time: Callable[[], float],
    ) -> None:
        self._jobs = jobs
        self._nodes = nodes
        self._grace_s = limits.kill_wait_s + limits.overtime_s
        self._unix_time = unix_time
        self._changes = Changes[float]()
        self._over: Deadlines[int] = Deadlines()  # of jobs that have slots and a limit

    def left(self, job_id: int) -> float | None:
        """Until the limit of a job, in seconds; negative: it should be over. None: any time.

        Of one that stands still for others it is what it has left when it goes on.
        """
        job = self._jobs.get(job_id)
        if job is not None and job.is_preempted:
            return 0.0
        if job is None or not job.time_s or not job.began:
            return None
        return job.began + job.time_s + job.paused_s - (job.lent_since or self._unix_time())

    # -- what is over --------------------------------------------------------

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do."""
        return self._over.earliest()

    def check(self) -> None:
        """Assert what must always hold."""
        assert self._over.keys() <= self._jobs.keys()

    def begins(self, job: BatchJob, now: float) -> None:
        """A job has slots, maybe of an earlier bebopd; or it stands still, or goes on."""
        left = self.left(job.job_id) if not job.lent_since else None
        self._over.set(job.job_id, None if left is None else now + left + self._grace_s)

    def forget(self, job_id: int) -> None:
        """A job is over."""
        self._over.set(job_id, None)

    def due(self, at: Deadlines[int], now: float) -> list[Action]:
        """Jobs are there long after their time: their brokers are to be killed.

        Args:
            at: when jobs are looked at; such a job is at once, or when its node is back.
        """
        actions: list[Action] = []
        for job_id in self._over.due(now):
            job = self._jobs[job_id]
            self._over.set(job_id, None)
            if job.state not in (State.CONFIGURING, State.RUNNING) or job.is_preempted:
                continue  # it waits again; or its broker is killed already
            if job.state is State.CONFIGURING and job.grant is not None and not job.is_sent:
                self._over.set(job_id, now + self._grace_s)  # nobody has heard of it
                continue
            job.is_overdue = True
            node = self._nodes.get(job.root)
            if node is not None and node.is_up:
                at.set(job_id, now)
            said = f"not ended by its broker {self._grace_s:g} s after its time limit: killed"
            actions += [RecordEvent(job_id, said), Log(said, job_id)]
        return actions

    # -- changes -------------------------------------------------------------

    def change(self, job: BatchJob, time_s: float, source: PortalId, by: str) -> list[Action]:
        """A user changes a job's limit; it counts from the job's beginning."""
        self._changes.add(job, source, by, job.time_s)
        job.time_s = time_s
        return [RecordBatchJob(job)]

    def recorded(self, job: BatchJob, error: str, now: float) -> list[Action]:
        """The disk has written a job as it is, or refused to."""
        if not (changes := self._changes.taken(job)):
            return []
        if error:
            job.time_s = changes[0].before
            job.is_told = False  # it may have heard of another one meanwhile
            return self._changes.refused(job, changes, f"its time limit stays: {error}")
        from native.duration import written  # few jobs have theirs changed

        if job.state is not State.PENDING and not job.state.is_final and not job.is_overdue:
            self.begins(job, now)
        actions = self._changes.done(job, changes, f"time limit {written(job.time_s)}, set")
        has_broker = job.is_sent or job.state is State.RUNNING
        node: Node | None = self._nodes.get(job.root)
        if has_broker and node is not None and node.is_up:
            actions += running.limit_time(job, node)
        return actions
