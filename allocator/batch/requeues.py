"""Batch jobs that are placed again. Pure.

A node could not be made ready for them: the script has not begun, and the node is drained by the
word of its PCT. Or nodes are lost, and their users want them to wait again then. Or somebody has
asked for it, and the script was ended. Or the script has ended with the status by which it asks
for that: it is written down, and goes on later.

The job waits again, at the place that it had, when the disk knows and when no node that could be
given to it holds anything of it any more, slots or a broker. A node that is lost may hold both:
when it is back they are ended, and the job, if it waits still, waits for that. A bebopd that is
killed before the disk knows hears of the broker's end once more, from the PCT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from allocator.batch.job import BatchJob, ForgetSteps, RecordBatchJob, RecordEvent
from allocator.batch.placed import Placed
from allocator.batch.queue import Queue
from allocator.batch.times import OVERDUE
from allocator.jobs.table import JobTable
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable
from allocator.queue.admission import Admission
from native.deadlines import Deadlines
from native.limits import Limits
from native.machine import Action, Log, Send
from native.text import shown
from native.wire.base import ATTEMPT_MAX, JobEnd, State
from native.wire.batch import EndBroker, Heard


class Left(Struct):
    """A node may have the broker of an earlier attempt of a job.

    Attributes:
        incarnation: of the PCT whose broker it is.
        is_stuck: the PCT has said that it does not get rid of it.
    """

    attempt: int
    incarnation: int
    is_stuck: bool = False


class Requeues:
    """The jobs that wait again, and what is left of them on nodes.

    Args:
        jobs: that have not ended, by id.
        due: when they are looked at again.
        queue: where they wait.
        slots: the jobs that hold slots.
        placed: from which a job is taken that waits again.
        admission: hears what a job has used that had begun.
    """

    def __init__(
        self,
        jobs: Mapping[int, BatchJob],
        due: Deadlines[int],
        queue: Queue,
        nodes: NodeTable,
        slots: JobTable,
        placed: Placed,
        admission: Admission,
        limits: Limits,
        unix_time: Callable[[], float],
    ) -> None:
        self._jobs = jobs
        self._due = due
        self._queue = queue
        self._nodes = nodes
        self._admission = admission
        self._unix_time = unix_time
        self._placed = placed
        self._slots = slots
        self._most = min(limits.requeues_count, ATTEMPT_MAX)
        self._unrecorded: dict[int, int] = {}  # by id: the node whose PCT has said it
        self._resting: set[int] = set()  # of an earlier bebopd, while nodes come back
        self._awaited: set[int] = set()  # kept from the line for what nodes hold of them
        self._left: dict[int, dict[int, Left]] = {}  # by job and node

    def __contains__(self, job_id: int) -> bool:
        """The disk does not know yet that a job waits again."""
        return job_id in self._unrecorded

    def check(self) -> None:
        """Assert what must always hold."""
        assert self._unrecorded.keys() <= self._jobs.keys()
        assert self._left.keys() <= self._jobs.keys() and all(self._left.values())
        assert self._resting <= self._jobs.keys()

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
        if job.is_overdue and not job.is_cancelled and end.state is not State.COMPLETED:
            return JobEnd(State.TIMEOUT, end.exit_status, end.signal, OVERDUE), False
        if is_by_loss(end):
            return end, self.outlives_loss(job)
        if end.state is not State.BOOT_FAIL:
            return end, False
        if job.failures < self._most and job.attempt < ATTEMPT_MAX:
            return end, True
        reason = f"placed {job.attempt + 1} times: {end.reason}" if job.attempt else end.reason
        return JobEnd(State.FAILED, end.exit_status, end.signal, reason), False

    def outlives_loss(self, job: BatchJob) -> bool:
        """Whether a job whose nodes are lost waits again."""
        if job.is_cancelled or job.attempt >= ATTEMPT_MAX:
            return False
        is_wanted = job.terms.requeue_lost and not job.is_overdue
        return job.is_requeued or (is_wanted and job.failures < self._most)

    def begin(
        self,
        job: BatchJob,
        reason: str,
        now: float,
        *,
        is_lost: bool = False,
        has_broker: bool = False,
    ) -> list[Action]:
        """A job is to wait again; it is told to the disk first. Its slots become free.

        Args:
            is_lost: nodes are lost, or the broker: nobody else ends what is left of it.
            has_broker: its broker may run.
        """
        self._unrecorded[job.job_id] = root = job.root
        if job.is_requeued or is_lost:
            job.take_back(self._unix_time())
            job.charge = self._admission.ended(replace(job.used(), ended=self._unix_time()))
        actions: list[Action] = [ForgetSteps(job.job_id)]
        if has_broker:
            left = self._left.setdefault(job.job_id, {})
            left[root] = Left(job.attempt, job.incarnation)
            actions += self._end_broker(job.job_id, root)
        self._placed.remove(job)
        job.attempt += 1
        job.failures += not job.is_requeued
        count = f"{job.attempt}" if job.is_requeued else f"{job.failures} of {self._most}"
        job.reach, job.is_requeued, job.is_preempted = ("", b""), False, False
        job.is_suspended = job.is_warned = job.is_overdue = False
        job.lent_since, job.lent_to, job.paused_s = 0.0, "", 0.0
        job.state, job.reason = State.PENDING, f"waits again: {reason}"
        said = f"waits again ({count}): {shown(reason)}"
        actions += [RecordEvent(job.job_id, said), Log(said, job.job_id)]
        if (held := self._slots.get(job.job_id)) is not None:
            actions += self._slots.place_again(held, is_lost, now)
        return [*actions, RecordBatchJob(job)]

    def recorded(self, job: BatchJob) -> list[Action]:
        """The disk knows: so may the PCT."""
        node = self._nodes.get(self._unrecorded.pop(job.job_id))
        if node is None or not node.is_up:  # it will ask
            return []
        return [Send(node.peer, Heard(job.job_id, job.attempt - 1))]

    # -- what is left of it ------------------------------------------------

    def rest(self, job: BatchJob) -> None:
        """An earlier bebopd had placed a job; its nodes come back and say what they have of it."""
        self._resting.add(job.job_id)

    def rested(self, job: BatchJob) -> None:
        """The nodes that are there have said so."""
        self._resting.discard(job.job_id)

    def holds_back(self, job: BatchJob) -> bool:
        """A job may not be in the line yet: the disk does not know, or nodes hold it still."""
        if not job.attempt:
            return False
        if self.is_awaited(job):
            self._awaited.add(job.job_id)
            return True
        self._awaited.discard(job.job_id)
        if job.job_id in self or job.job_id in self._resting:
            return True
        self._admission.slots_freed(job.job_id)  # what lost nodes hold of it is no use of its
        return False

    def is_awaited(self, job: BatchJob) -> bool:
        """Whether a node that could be given to a job holds something of an earlier attempt."""
        if self._slots.is_awaited(job.job_id):
            return True
        left = self._left.get(job.job_id, {}).items()
        there = ((self._nodes.get(number), each) for number, each in left)
        return any(
            node is not None and node.is_up and (node.is_open or not each.is_stuck)
            for node, each in there
        )

    def look(self, now: float) -> None:
        """Nodes may have given back what they held of jobs that wait, or be back with it."""
        if not (self._left or self._awaited or self._slots.placed_again):
            return
        for job_id in sorted({*self._left, *self._awaited, *self._slots.placed_again}):
            job = self._jobs.get(job_id)
            if job is None or job.state is not State.PENDING or job_id in self._resting:
                continue
            if self.is_awaited(job) != (job_id in self._awaited):
                self._due.set(job_id, now)  # behind those for which it may have been ended
                if self.holds_back(job):
                    self._queue.withdraw(job_id)

    def announced(self, node: Node, running: Mapping[int, int]) -> list[Action]:
        """A PCT has these attempts of brokers: those that bebopd does not know are killed."""
        if not running and not self._left:
            return []
        here = {job_id: self._jobs[job_id].attempt for job_id in self._placed.on(node.number)}
        strange = {key: at for key, at in sorted(running.items()) if here.get(key) != at}
        for job_id, nodes in list(self._left.items()):
            if (left := nodes.get(node.number)) is None:
                continue
            if left.incarnation != node.incarnation:
                self._forget_broker(job_id, node.number)
            else:  # its start may be on the way to the node
                strange[job_id] = left.attempt
        for job_id, attempt in strange.items():
            job = self._jobs.get(job_id)
            if job is not None and attempt < job.attempt:
                left = Left(attempt, node.incarnation)
                self._left.setdefault(job_id, {}).setdefault(node.number, left)
        return [Send(node.peer, EndBroker(key, True, at)) for key, at in strange.items()]

    def broker_ended(self, node: Node, job_id: int) -> None:
        """The broker of some attempt of a job has ended, and nothing of it is left."""
        self._forget_broker(job_id, node.number)

    def stuck(self, node: Node, job_id: int) -> None:
        """A PCT says that it does not get rid of a job."""
        if (left := self._left.get(job_id, {}).get(node.number)) is not None:
            left.is_stuck = True

    def discard(self, job_id: int) -> None:
        """A job is over."""
        self._unrecorded.pop(job_id, None)
        self._left.pop(job_id, None)
        self._awaited.discard(job_id)
        self._resting.discard(job_id)

    def _end_broker(self, job_id: int, number: int) -> list[Action]:
        """Have what is left of a broker killed; its PCT answers also where nothing is."""
        node, left = self._nodes.get(number), self._left[job_id][number]
        if node is None or not node.is_up:  # when it is back
            return []
        return [Send(node.peer, EndBroker(job_id, True, left.attempt))]

    def _forget_broker(self, job_id: int, number: int) -> None:
        if number in (nodes := self._left.get(job_id, {})):
            del nodes[number]
            if not nodes:
                del self._left[job_id]


def is_by_loss(end: JobEnd) -> bool:
    """Whether a job has ended because nodes were lost: its first, or one that its script needed."""
    return end.state is State.NODE_FAIL or (end.state is State.FAILED and end.has_lost_nodes)
