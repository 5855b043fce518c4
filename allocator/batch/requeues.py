"""Batch jobs that are placed again. Pure.

A node could not be made ready for them: the script has not begun, and the node is drained by the
word of its PCT. Or somebody has asked for it, and the script was ended. Or the script has ended
with the status by which it asks for that: it is written down, and goes on later.

The job waits again, at the place that it had, when the disk knows and when it holds no slot any
more. A bebopd that is killed before the disk knows hears of the broker's end once more, from the
PCT.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from allocator.batch.job import BatchJob, ForgetSteps, RecordBatchJob, RecordEvent
from allocator.batch.placed import Placed
from allocator.jobs.table import JobTable
from allocator.nodes.table import NodeTable
from allocator.queue.admission import Admission
from native.limits import Limits
from native.machine import Action, Log, Send
from native.text import shown
from native.wire.base import ATTEMPT_MAX, JobEnd, State
from native.wire.batch import Heard


class Requeues:
    """The jobs of which the disk does not know yet that they wait again.

    Args:
        slots: the jobs that hold slots.
        placed: from which a job is taken that waits again.
        admission: hears what a job has used that had begun.
    """

    def __init__(
        self,
        nodes: NodeTable,
        slots: JobTable,
        placed: Placed,
        admission: Admission,
        limits: Limits,
        unix_time: Callable[[], float],
    ) -> None:
        self._nodes = nodes
        self._admission = admission
        self._unix_time = unix_time
        self._placed = placed
        self._slots = slots
        self._most = min(limits.requeues_count, ATTEMPT_MAX)
        self._unrecorded: dict[int, int] = {}  # by id: the node whose PCT has said it

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._unrecorded

    def judged(self, job: BatchJob, end: JobEnd) -> tuple[JobEnd, bool]:
        """The end of a job's broker, as an end of the job; and whether the job waits again."""
        if job.is_cancelled and end.state is State.CANCELLED:
            is_for_another = job.is_preempted and not job.is_requeued
            state = State.PREEMPTED if is_for_another else State.CANCELLED
            return JobEnd(state, end.exit_status, end.signal, job.reason), False
        if job.is_requeued and not job.is_cancelled:
            return JobEnd(end.state, 0, 0, job.reason), True
        wants_again = bool(end.exit_status) and end.exit_status == job.terms.requeue_on
        if wants_again and not job.is_cancelled and job.attempt < ATTEMPT_MAX:
            job.is_requeued, job.reason = True, f"its script ended with {end.exit_status}"
            return JobEnd(end.state, 0, 0, job.reason), True
        if end.state is not State.BOOT_FAIL:
            return end, False
        if job.attempt < self._most:
            return end, True
        reason = f"placed {job.attempt + 1} times: {end.reason}" if job.attempt else end.reason
        return JobEnd(State.FAILED, end.exit_status, end.signal, reason), False

    def begin(self, job: BatchJob, reason: str, now: float) -> list[Action]:
        """A job is to wait again; it is told to the disk first. Its slots become free."""
        self._unrecorded[job.job_id] = job.root
        of = "" if job.is_requeued else f" of {self._most}"
        if job.is_requeued:
            job.charge = self._admission.ended(replace(job.row(), ended=self._unix_time()))
        self._placed.remove(job)
        self._admission.withdrawn(job.job_id, self._slots.get(job.job_id) is not None)
        job.reach, job.is_requeued, job.is_preempted = ("", b""), False, False
        job.attempt += 1
        job.state, job.reason = State.PENDING, f"waits again: {reason}"
        said = f"waits again ({job.attempt}{of}): {shown(reason)}"
        said_so = [RecordEvent(job.job_id, said), Log(said, job.job_id)]
        actions: list[Action] = [ForgetSteps(job.job_id), *said_so]
        if (held := self._slots.get(job.job_id)) is not None:
            actions += self._slots.release(held, None, now)
        return [*actions, RecordBatchJob(job)]

    def recorded(self, job: BatchJob) -> list[Action]:
        """The disk knows: so may the PCT."""
        node = self._nodes.get(self._unrecorded.pop(job.job_id))
        if node is None or not node.is_up:  # it will ask
            return []
        return [Send(node.peer, Heard(job.job_id, job.attempt - 1))]

    def holds_back(self, job: BatchJob) -> bool:
        """A job may not be in the line yet: the disk does not know, or it still holds slots."""
        return job.attempt > 0 and (job.job_id in self or self._slots.get(job.job_id) is not None)

    def discard(self, job_id: int) -> None:
        """A job is over."""
        self._unrecorded.pop(job_id, None)
