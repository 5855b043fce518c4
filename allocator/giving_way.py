"""Jobs that give way, so that others have their slots: batch jobs and launches. Pure.

A batch job is ended by its broker (:mod:`allocator.batch.preempted`), or stands still
(:mod:`allocator.batch.lenders`). A launch that gives way
(``yod -nice``) has none: its PCTs are told to signal its ranks, as at a nicekill
(:mod:`allocator.ending`), and its yod is told why; one that makes a checkpoint then is asked for
that first. A later bebopd knows from the PCTs which of the
running launches give way. What was planned is kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from allocator.batch.lenders import Lenders
from allocator.batch.preempted import Preempted, whom_of
from allocator.batch.table import BatchJobs
from allocator.jobs.accounting import Accounting
from allocator.jobs.job import Job, JobState
from allocator.jobs.table import JobTable
from allocator.nodes.table import NodeTable
from allocator.queue.admission import Admission
from allocator.queue.policy import Preemption
from native.limits import Limits
from native.machine import Action

if TYPE_CHECKING:
    from allocator.asked import BatchRequests

_HELD = (JobState.PENDING, JobState.RUNNING, JobState.REVOKING)


class GivingWay:
    """Ends jobs that a policy has chosen. See :class:`allocator.queue.policy.Running`.

    Args:
        batch, asked: give what is made later than this: the batch jobs; what ends launches, and
            their time limits.
    """

    def __init__(
        self,
        batch: Callable[[], BatchJobs],
        asked: Callable[[], BatchRequests],
        nodes: NodeTable,
        jobs: JobTable,
        accounting: Accounting,
        admission: Admission,
        limits: Limits,
        unix_time: Callable[[], float],
    ) -> None:
        self._of_batch = Preempted(batch, nodes, admission, limits)
        self.lenders = Lenders(batch, self._of_batch, nodes, limits, unix_time)
        self._asked = asked
        self._jobs = jobs
        self._accounting = accounting
        self._admission = admission
        self._limits = limits
        self._unix_time = unix_time
        self._kill_at: dict[int, float] = {}  # unix time, by the launch that was told to end

    def left(self, job_id: int) -> float | None:
        """Until the limit of a job, or its SIGKILL, in seconds; None: it has none."""
        if (kill_at := self._kill_at.get(job_id)) is not None:
            return kill_at - self._unix_time()
        left = self._asked().overtime.left(job_id)
        return self._of_batch.left(job_id) if left is None else left

    def can_end(self, job_id: int) -> bool:
        """Whether a job can be told to end, and was not told so already."""
        job = self._jobs.get(job_id)
        if job is None or not job.terms.gives_way:
            return self._of_batch.can_end(job_id)
        return job.state in _HELD and not self.ends(job_id)

    def can_stand_still(self, job_id: int) -> bool:
        """Whether a job can be suspended for others, and is not yet."""
        return self.lenders.can_stand_still(job_id)

    def stands_still(self, job_id: int) -> bool:
        """Whether a job is suspended for others."""
        return self.lenders.stands_still(job_id)

    def ends(self, job_id: int) -> bool:
        """Whether a launch was told to end, for others or by somebody's request."""
        return job_id in self._kill_at or self._asked().endings().is_ending(job_id)

    def end(self, preemption: Preemption, now: float) -> list[Action]:
        """Tell the victims to end, or to stand still."""
        if preemption.stopped:
            return self.lenders.suspend(preemption, now)
        there = map(self._jobs.get, preemption.victims)
        launches = [job for job in there if job is not None and job.terms.gives_way]
        actions = self._of_batch.end(preemption, {job.job_id for job in launches}, now)
        self._kill_at = {
            job_id: at for job_id, at in self._kill_at.items() if self._jobs.get(job_id)
        }
        for job in launches:
            actions += self._end_launch(job, f"for {whom_of(preemption.waiting)}", now)
        return actions

    def _end_launch(self, job: Job, why: str, now: float) -> list[Action]:
        grace_s = self._admission.preempt_grace(job.terms) or self._limits.nice_kill_s
        checkpoint_s = 0.0
        if job.state is JobState.RUNNING and job.requester is not None:
            checkpoint_s = min(job.terms.checkpoint_s, self._limits.nice_checkpoint_s)
        self._kill_at[job.job_id] = self._unix_time() + checkpoint_s + grace_s
        self._accounting.preempted(job.job_id, f"gave way {why}")
        endings = self._asked().endings()
        return endings.give_way(job, f"gives way {why}", checkpoint_s, grace_s, now)
