"""Batch jobs that end so that others have their slots. Pure.

A queue may give its jobs a grace: the script gets SIGTERM first, and can write down what it has.
Then, or else at once, a job ends as one does whose time is over: its script and its steps get
SIGTERM, and SIGKILL after ``YOD_KILL_WAIT_S``. Its broker sees to that, a process of the job's
owner, who may stop it: after ``YOD_END_S`` more it is killed, with all that is below it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from allocator.batch import running
from allocator.batch.job import BatchJob, RecordEvent
from allocator.batch.table import BatchJobs
from allocator.jobs.line import Waiting
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable
from allocator.queue.admission import Admission
from allocator.queue.policy import Preemption
from native.limits import Limits
from native.machine import Action
from native.text import plural
from native.wire.base import ATTEMPT_MAX, State


def whom_of(waiting: Waiting) -> str:
    """For whom others end or stand still, for their users."""
    if waiting.job_id:
        return f"job {waiting.job_id} of {waiting.owner.name}"
    return waiting.owner.name


class Preempted:
    """Ends batch jobs that a policy has chosen. See :class:`allocator.giving_way.GivingWay`.

    Args:
        batch: gives the batch jobs, which are made later than this.
    """

    def __init__(
        self,
        batch: Callable[[], BatchJobs],
        nodes: NodeTable,
        admission: Admission,
        limits: Limits,
    ) -> None:
        self._batch = batch
        self._nodes = nodes
        self._admission = admission
        self._within_s = limits.kill_wait_s + limits.end_s

    def left(self, job_id: int) -> float | None:
        """Until the limit of a job, in seconds; None: it has none."""
        return self._batch().times.left(job_id)

    def can_end(self, job_id: int) -> bool:
        """Whether a job can be told to end, and was not told so already."""
        job = self._batch().get(job_id)
        if job is None or job.is_cancelled or job.is_requeued or self.host_of(job) is None:
            return False
        return job.attempt < ATTEMPT_MAX or not self._admission.waits_again(job.terms)

    def end(self, preemption: Preemption, launches: Collection[int], now: float) -> list[Action]:
        """Tell the victims to end, but for those that are launches."""
        waiting, victims = preemption.waiting, preemption.victims
        why = f"preempted for {whom_of(waiting)} (queue {waiting.request.terms.queue})"
        actions: list[Action] = []
        for job_id in victims:
            if job_id in launches:
                continue
            job = self._batch().get(job_id)
            assert job is not None, "it can end"
            node = self.host_of(job)
            assert node is not None, "it can end"
            waits_again = self._admission.waits_again(job.terms)
            grace_s = self._admission.preempt_grace(job.terms)
            actions += running.preempt(job, node, waits_again, grace_s > 0, why)
            self._batch().end_at(job, now + (grace_s or self._within_s))
        if waiting.job_id:
            numbers = ", ".join(map(str, victims[:8])) + (", ..." if len(victims) > 8 else "")
            said = f"preempts {plural(len(victims), 'job')}: {numbers}"
            actions.append(RecordEvent(waiting.job_id, said))
        return actions

    def host_of(self, job: BatchJob) -> Node | None:
        """The node of the broker of a job that runs and can be reached."""
        node = self._nodes.get(job.root)
        return node if job.state is State.RUNNING and node is not None and node.is_up else None
