"""Batch jobs that stand still while others have their slots. Pure.

The rule: a job stands still as long as another has slots of it on a node that is up. It follows
from what is on the nodes, so a later bebopd comes to the same as soon as they have announced
themselves. Its broker is told so, which stops the script and the steps (``yodjob suspend`` goes the
same way), and its time limit does not count the time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from allocator.batch import running
from allocator.batch.job import BatchJob, RecordBatchJob, RecordEvent
from allocator.batch.preempted import Preempted, whom_of
from allocator.batch.table import BatchJobs
from allocator.lending.loans import borrowers
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable
from allocator.queue.policy import Preemption
from native.limits import Limits
from native.machine import Action
from native.text import plural
from native.wire.base import State


class Lenders:
    """Suspends jobs that a policy has chosen, and has them go on.

    Args:
        batch: gives the batch jobs, which are made later than this.
        of_batch: knows the nodes of their brokers.
    """

    def __init__(
        self,
        batch: Callable[[], BatchJobs],
        of_batch: Preempted,
        nodes: NodeTable,
        limits: Limits,
        unix_time: Callable[[], float],
    ) -> None:
        self._batch = batch
        self._of_batch = of_batch
        self._nodes = nodes
        self._node_fail_s = limits.node_fail_s
        self._unix_time = unix_time
        self._ids: set[int] = set()  # of jobs that stand still
        self._has_begun = False
        self._heard_by = -inf  # when the nodes of an earlier bebopd's are here, or lost

    def deadline(self) -> float | None:
        """When :meth:`look` has something to do, whatever happens; None: it has not."""
        return self._heard_by if self._ids and self._heard_by > -inf else None

    def check(self) -> None:
        """Assert what must always hold."""
        for job in self._batch():
            assert not job.lent_since or not self._has_begun or job.job_id in self._ids, job

    def stands_still(self, job_id: int) -> bool:
        """Whether a job does, and is not to end."""
        job = self._batch().get(job_id)
        return job is not None and job.stands_still

    def can_stand_still(self, job_id: int) -> bool:
        """Whether a job can; not one that has slots of others itself."""
        job = self._batch().get(job_id)
        if job is None or job.is_ending or job.lent_since or self._of_batch.host_of(job) is None:
            return False
        there = (self._nodes.get(number) for number in self._nodes.lending)
        return not any(node is not None and job_id in node.loans for node in there)

    def suspend(self, preemption: Preemption, now: float) -> list[Action]:
        """Have the jobs stand still that were chosen."""
        waiting, actions = preemption.waiting, list[Action]()
        to = f"{whom_of(waiting)} (queue {waiting.request.terms.queue})"
        for job_id in preemption.stopped:
            job = self._batch().get(job_id)
            assert job is not None, "it can stand still"
            node = self._of_batch.host_of(job)
            assert node is not None, "it can stand still"
            actions += self._stop(job, node, to, now)
        if waiting.job_id and preemption.stopped:
            numbers = ", ".join(map(str, preemption.stopped[:8]))
            numbers += ", ..." if len(preemption.stopped) > 8 else ""
            said = f"suspends {plural(len(preemption.stopped), 'job')}: {numbers}"
            actions.append(RecordEvent(waiting.job_id, said))
        return actions

    def look(self, now: float) -> list[Action]:
        """Nodes have freed slots that were lent, or are down, or tell of such slots."""
        if not self._has_begun:
            self._has_begun = True
            self._ids = {job.job_id for job in self._batch() if job.lent_since}
            self._heard_by = now + self._node_fail_s if self._ids else -inf
        if not (self._ids or self._nodes.lending):
            return []
        lent, actions = borrowers(self._nodes, only_up=True), list[Action]()
        for job_id in sorted(self._ids | lent.keys()):
            job = self._batch().get(job_id)
            if job is None or not (job.lent_since or job_id in lent):
                self._ids.discard(job_id)
            elif bool(job.lent_since) != (job_id in lent) and not job.is_ending:
                node = self._of_batch.host_of(job)
                if node is None:
                    continue  # when it is back
                if job_id in lent:
                    actions += self._stop(job, node, f"job {min(lent[job_id])}", now)
                elif now >= self._heard_by or self._are_heard(job):
                    actions += self._go_on(job, node, now)
        if now >= self._heard_by:
            self._heard_by = -inf
        return actions

    def _are_heard(self, job: BatchJob) -> bool:
        """Whether all nodes of a job have announced themselves to this bebopd."""
        numbers = (number for first, count in job.nodes for number in range(first, first + count))
        return all(self._nodes.get(number) is not None for number in numbers)

    def _stop(self, job: BatchJob, node: Node, to: str, now: float) -> list[Action]:
        self._ids.add(job.job_id)
        job.lend(to, self._unix_time())
        self._batch().times.begins(job, now)
        said = RecordEvent(job.job_id, f"suspended for {to}")
        return [said, RecordBatchJob(job), *running.stand(job, node)]

    def _go_on(self, job: BatchJob, node: Node, now: float) -> list[Action]:
        self._ids.discard(job.job_id)
        job.take_back(self._unix_time())
        self._batch().times.begins(job, now)
        still = job.state is State.RUNNING and job.is_suspended
        said = "the others have left its slots" + ("" if not still else "; it is suspended still")
        return [RecordEvent(job.job_id, said), RecordBatchJob(job), *running.stand(job, node)]
