"""The batch jobs of a partition, from the submission to the end.

::

    (asked) --on the disk--> PENDING --slots--> CONFIGURING --its broker runs--> RUNNING
                       ^        |                    |                              |
                       |        `--cancelled---------'--the broker ends, or its-----'--> final
                       `--waits again (requeues.py)--'  node is lost for too long

A job is answered when it is on the disk, its broker is started when its grant is, and a PCT
hears that bebopd knows of the broker's end when that is. So a bebopd that is killed at any
instruction neither loses a job nor runs one twice: a later one finds it as it was, and the
PCT of its first node says whether it runs there. Pure: no clock, no transport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from allocator.batch import running
from allocator.batch.arrays import Arrays
from allocator.batch.dependencies import Dependencies
from allocator.batch.entrance import Entrance
from allocator.batch.holds import Holds
from allocator.batch.job import (
    BatchJob,
    BatchRecorded,
    Earlier,
    Fate,
    RecordBatchJob,
    RecordEvent,
    StartBroker,
)
from allocator.batch.outcome import outcome_of
from allocator.batch.placed import Placed
from allocator.batch.priorities import Priorities
from allocator.batch.questions import Questions
from allocator.batch.queue import Queue
from allocator.batch.requeues import Requeues, is_by_loss
from allocator.batch.submissions import Submissions
from allocator.batch.times import TimeLimits
from allocator.jobs.grants import Owner
from allocator.jobs.ids import JobIds
from allocator.jobs.job import JobState
from allocator.jobs.table import JobTable
from allocator.nodes.node import Node
from allocator.nodes.table import NodeTable
from allocator.queue.admission import Admission
from native.deadlines import Deadlines, earliest
from native.limits import Limits
from native.machine import Action, Log, Send
from native.text import shown
from native.wire import batch
from native.wire.alloc import Grant
from native.wire.base import Array, State, clipped

RECORD_AGAIN_S = 20.0  # after the disk has refused


class BatchJobs:
    """Every batch job that has not ended. Methods return the actions to carry out.

    Attributes:
        submissions, admission: take what users hand in.
        questions: of users, which are not answered yet.
        dependencies: what jobs wait for, and how others have ended.
        times, holds, priorities: changes of these, which are not on the disk yet.
        requeues: jobs that wait again, and what nodes still hold of them.
        news: jobs that have begun or ended, for whoever waits for that and is no batch job.

    Args:
        admission, ids: as for :class:`Submissions`.
        earlier: what an earlier bebopd has left.
    """

    def __init__(
        self,
        nodes: NodeTable,
        slots: JobTable,
        queue: Queue,
        limits: Limits,
        *,
        admission: Admission,
        ids: JobIds,
        owner_of: Callable[[int], Owner | None],
        unix_time: Callable[[], float],
        earlier: Earlier,
    ) -> None:
        self._nodes = nodes
        self._slots = slots
        self._queue = queue
        self._limits = limits
        self.admission = admission
        self._owner_of = owner_of
        self._unix_time = unix_time
        self._jobs = {job.job_id: job for job in earlier.jobs}
        self.dependencies = Dependencies(self._jobs, earlier)
        self._arrays = Arrays(self._jobs, self.dependencies.corresponding)
        self._entrance = Entrance(self.dependencies, self._arrays, queue, owner_of, unix_time)
        known = self._jobs, self.dependencies, earlier, limits
        self.submissions = Submissions(*known, queue, admission, ids, unix_time)
        self._placed = Placed(slots, admission)
        self._due = Deadlines[int]()
        where = self._jobs, self._due, queue, nodes, slots
        self.requeues = Requeues(*where, self._placed, admission, limits, unix_time)
        self.questions = Questions(self._jobs, slots, queue)
        self.times = TimeLimits(self._jobs, nodes, limits, unix_time)
        self.holds = Holds(queue)
        self.priorities = Priorities(queue)
        self.news: set[int] = set()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[BatchJob]:
        return iter(self._jobs.values())

    def get(self, job_id: int) -> BatchJob | None:
        """A job that has not ended."""
        return self._jobs.get(job_id)

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do."""
        return earliest(self._due.earliest(), self.times.deadline())

    def check(self) -> None:
        """Assert what must always hold."""
        for job in self._jobs.values():
            assert (job.state is State.PENDING) == (not job.nodes) or job.state.is_final, job
        self._placed.check(self._jobs.values())
        self.requeues.check()
        self.submissions.check(self._jobs)
        self.dependencies.check()
        self._arrays.check()
        assert self._due.keys() <= self._jobs.keys()
        self.questions.check()
        self.times.check()

    def begin(self, now: float) -> list[Action]:
        """Go on with the jobs of an earlier bebopd, in the order of their submission."""
        actions: list[Action] = []
        for job_id, job in sorted(self._jobs.items()):
            job.is_recorded = True
            if job.state is not State.PENDING:
                self._placed.add(job)
                self.times.begins(job, now)
                self._due.set(job_id, now + self._limits.node_fail_s)
            elif job.attempt:  # its nodes may still be ending it
                self.requeues.rest(job)
                self._due.set(job_id, now + self._limits.end_s)
            else:
                actions += self._enqueue(job, now)
        return actions

    def recorded(self, event: BatchRecorded, now: float) -> list[Action]:
        """The disk has written jobs, or refused to."""
        actions: list[Action] = []
        jobs = [self._jobs[each] for each in event.job_ids if each in self._jobs]
        ended = {job.job_id for job in jobs if job.state.is_final}  # others may end by that
        self._arrays.recorded([] if event.error else jobs)
        for job in reversed(jobs) if event.error else jobs:
            changed = self.times.recorded(job, event.error, now)
            changed += self.holds.recorded(job, event.error)
            actions += [*changed, *self.priorities.recorded(job, event.error)]
            if changed and job.state is State.PENDING:
                actions += self._enqueue(job, now)
            if event.error:
                actions += self._not_recorded(job, event.error, now)
            elif not job.is_recorded:
                actions += self._accept(job, now)
            elif job.job_id in ended:
                actions += self._forget(job, now)
            elif job.job_id in self.requeues:
                actions += [*self.requeues.recorded(job), *self._enqueue(job, now)]
            elif job.state is State.CONFIGURING and job.grant is not None and not job.is_granted:
                job.is_granted = True
                actions += self._start(job, now)
        return actions

    def _accept(self, job: BatchJob, now: float) -> list[Action]:
        job.is_recorded = True
        actions = [RecordBatchJob(job)] if job.state.is_final else self._enqueue(job, now)
        said, answer = self.submissions.accepted(job)
        return [*said, *actions, *answer]

    def _enqueue(self, job: BatchJob, now: float) -> list[Action]:
        """Let a job wait for what it needs next."""
        if self.requeues.holds_back(job):
            self._queue.withdraw(job.job_id)
            return []
        if (fate := self._arrays.fate(job)) is not None:
            return self._end(job, fate.state, fate.text, now)
        found = self._entrance.look(job, now)
        if found.end is not None:
            return self._give_up(job, found.end, found.text, now)
        self._due.set(job.job_id, found.again)
        job.reason = found.text
        return [RecordBatchJob(job)] if found.is_met and job.is_recorded else []

    def _look_at_dependents(self, job: BatchJob, now: float) -> list[Action]:
        """A job has begun or ended: others may have waited for that."""
        self.news.add(job.job_id)
        pending = (each for each in self.dependencies.of(job) if each.state is State.PENDING)
        return [action for each in pending for action in self._enqueue(each, now)]

    def _not_recorded(self, job: BatchJob, error: str, now: float) -> list[Action]:
        text = clipped(f"job {job.job_id} is not recorded: {error}")
        actions: list[Action] = [Log(text)]
        if not job.is_recorded:
            self._drop(job)
            actions += [*self.submissions.refused(job, text), *self.questions.ended(job.job_id)]
            return actions + self._look_at_dependents(job, now)
        if job.state is State.CONFIGURING and job.grant is not None and not job.is_granted:
            actions += self._withdraw(job, text, now)
            if job.is_cancelled:
                return actions + self._end(job, State.CANCELLED, job.reason, now)
            self._due.set(job.job_id, now + RECORD_AGAIN_S)
            if (array := job.of) is not None:  # nor would its next element be written
                self._queue.withdraw(array.job_id)
                self._due.set(array.job_id, now + RECORD_AGAIN_S)
        elif job.state.is_final or job.job_id in self.requeues:
            self._due.set(job.job_id, now + RECORD_AGAIN_S)
        return actions

    def granted(self, job_id: int, grant: Grant, now: float) -> list[Action]:
        """A job, or the next element of an array, has slots. They are used when the disk knows."""
        job = self._jobs[job_id]
        if job.elements is not None:
            job.began = job.began or self._unix_time()
            job = self._jobs[grant.job_id] = self._arrays.begin(job, grant.job_id)
            self.submissions.began(job)
        self._due.set(job.job_id, None)
        node = self._nodes.get(grant.nodes.spans[0].node)
        assert node is not None
        job.place(grant, node.incarnation, self._unix_time())
        self._placed.add(job)
        self.times.begins(job, now)
        return [RecordBatchJob(job)]

    def refused(self, job_id: int, text: str, now: float) -> list[Action]:
        """A job that waited cannot be given slots any more."""
        return self._give_up(self._jobs[job_id], State.FAILED, text, now)

    def _start(self, job: BatchJob, now: float) -> list[Action]:
        """Have the broker started."""
        if job.is_cancelled:
            return self._end(job, State.CANCELLED, job.reason, now)
        node, owner = self._nodes.get(job.root), self._owner_of(job.uid)
        assert node is not None
        is_there = node.is_up and node.incarnation == job.incarnation
        if not is_there or owner is None or self.requeues.is_awaited(job):
            withdrawn = self._withdraw(job, f"{node} was lost", now)
            return [*withdrawn, *self._enqueue(job, now), RecordBatchJob(job)]
        job.is_sent = job.is_told = True
        return [StartBroker(node.peer, job, owner.gid, owner.groups)]

    def _start_again(self, job: BatchJob, node: Node, now: float) -> list[Action]:
        """The message may have been lost; a second one does no harm."""
        held, owner = self._slots.get(job.job_id), self._owner_of(job.uid)
        if job.is_cancelled:
            return self._end(job, State.CANCELLED, job.reason, now)
        if held is None or held.state is not JobState.PENDING or owner is None:
            return self._fail(job, f"{node} has not started it in time", now, has_broker=True)
        if self.requeues.is_awaited(job):
            return []  # an earlier attempt is to end first
        return [StartBroker(node.peer, job, owner.gid, owner.groups)]

    def _withdraw(self, job: BatchJob, text: str, now: float) -> list[Action]:
        """Nobody has heard of a job's grant: its slots are free at once."""
        self._placed.remove(job)
        self._due.set(job.job_id, None)
        job.state = State.PENDING
        job.waits_for(text)
        return self._slots.forget(job.job_id, now)

    def started(self, node: Node, message: batch.Started, now: float) -> list[Action]:
        """The broker runs, or can be attached to."""
        job = self._jobs.get(message.job_id)
        if job is None or job.root != node.number or job.state.is_final:
            return []
        actions = self._runs(job, now) if job.state is State.CONFIGURING else []
        if message.address:
            job.reach = (message.address, message.key)
            actions += self.questions.told_reach(job)
        return actions

    def _runs(self, job: BatchJob, now: float) -> list[Action]:
        job.run()
        self._queue.one_runs()
        actions = [RecordEvent(job.job_id, "its script's broker runs"), RecordBatchJob(job)]
        actions += self._look_at_dependents(job.of, now) if job.of is not None else []
        return [*actions, *self._look_at_dependents(job, now)]

    def broker_ended(self, node: Node, message: batch.BrokerEnded, now: float) -> list[Action]:
        """The broker of a job has ended."""
        job = self._jobs.get(message.job_id)
        self.requeues.broker_ended(node, message.job_id)
        if message.job_id in self.requeues or (job is not None and job.state.is_final):
            return []  # heard before, not on the disk yet
        if job is None or job.root != node.number or job.attempt != message.attempt:
            return [Send(node.peer, batch.Heard(message.job_id, message.attempt))]  # given up
        outcome, is_again = self.requeues.judged(job, outcome_of(message, job.is_cancelled))
        if is_again:
            return self.requeues.begin(job, outcome.reason, now, is_lost=is_by_loss(outcome))
        job.exit_status, job.signal = outcome.exit_status, outcome.signal
        return self._end(job, outcome.state, outcome.reason, now)

    def announced(self, node: Node, running: Mapping[int, int], now: float) -> list[Action]:
        """A PCT says of which jobs it has brokers, also such that have ended, and the attempts."""
        actions: list[Action] = []
        for job_id in self._placed.on(node.number):
            job = self._jobs[job_id]
            if job.state.is_final or (job.grant is not None and not job.is_sent):
                continue  # nobody has heard of it
            if job.incarnation == node.incarnation and not job.is_to_be_killed:
                self._due.set(job_id, None)
            if running.get(job_id) == job.attempt:
                actions += self._goes_on(job, node, now)
            elif job.incarnation != node.incarnation:
                text = f"{node}, where its script ran, has restarted"
                actions += self._fail(job, text, now)
            elif job.state is State.RUNNING:
                actions += self._fail(job, f"{node} no longer has it", now)
            elif job.is_sent:
                actions += self._start_again(job, node, now)
            else:
                actions += self._again(job, now)
        return actions + self.requeues.announced(node, running)

    def _goes_on(self, job: BatchJob, node: Node, now: float) -> list[Action]:
        """A PCT has the job's broker, also after it was out of reach."""
        actions = self._runs(job, now) if job.state is State.CONFIGURING else []
        job.waits_for("")
        return actions + running.tell_again(job, node)

    def _again(self, job: BatchJob, now: float) -> list[Action]:
        """An earlier bebopd meant to start it, and its PCT has never heard of it."""
        self._placed.remove(job)
        if job.is_cancelled:
            return self._end(job, State.CANCELLED, job.reason, now)
        job.state = State.PENDING
        said = RecordEvent(job.job_id, "waits again: it was not started")
        return [said, *self._enqueue(job, now)]

    def slots_gone(self, job_id: int, attempt: int, now: float) -> None:
        """An attempt holds no slot any more: its broker is to end, and does so by itself."""
        if (job := self._jobs.get(job_id)) is not None and job.is_out(attempt):
            job.has_no_slots = True
            self._due.set(job_id, now + self._limits.end_s)

    def end_at(self, job: BatchJob, at: float) -> None:
        """A job was told to end: if it has not by then its broker is ended, or killed."""
        self._due.set(job.job_id, at)

    def node_down(self, node: Node, now: float) -> None:
        """The node of some brokers is out of reach; they may go on there."""
        for job_id in self._placed.on(node.number):
            if self._jobs[job_id].lose(f"{node} is down: {node.down_text}"):
                self._due.set(job_id, now + self._limits.node_fail_s)

    def due(self, now: float) -> list[Action]:
        """Nodes have been down for too long, or jobs run; or the disk is asked again."""
        actions = self.times.due(self._due, now)
        for job_id in self._due.due(now):
            job = self._jobs[job_id]
            self._due.set(job_id, None)
            if job.state.is_final or job_id in self.requeues:
                actions.append(RecordBatchJob(job))
            elif job.state is State.PENDING:
                self.requeues.rested(job)
                actions += self._enqueue(job, now)
            elif job.is_to_be_killed and (node := self._nodes.get(job.root)) and node.is_up:
                actions += running.insist(job, node, self._due, now, self._limits)
            else:
                why = job.reason or "its node has not come back"
                actions += self._fail(job, why, now, has_broker=True)
        return actions

    def cancel(self, job: BatchJob, by: str, now: float, only: Array | None = None) -> list[Action]:
        """End a job, or only those elements of an array, which have not begun."""
        if only is not None:
            said = self._arrays.withdrawn(job, only, by, self._queue)
            return [said, *(self._enqueue(job, now) or [RecordBatchJob(job)])]
        if job.state.is_final:
            return []
        is_again, job.is_cancelled = job.is_cancelled, True
        job.is_suspended = False  # what is to end is continued
        node = self._nodes.get(job.root)
        if job.state is State.PENDING:
            living = [self._jobs[each] for each in self._arrays.of(job)]
            actions = self._give_up(job, State.CANCELLED, f"by {by}", now)
            return sum((self.cancel(each, by, now) for each in living), actions)
        job.reason, actions = f"by {by}", [RecordEvent(job.job_id, f"cancelled by {by}")]
        if job.grant is not None and not job.is_sent:
            return actions  # it ends instead of its start
        if node is None or not node.is_up:
            return actions + self._end(job, State.CANCELLED, f"by {by}, its node is down", now)
        sent = Send(node.peer, batch.EndBroker(job.job_id, is_again, job.attempt))
        return [*actions, RecordBatchJob(job), sent]

    def _give_up(self, job: BatchJob, state: State, reason: str, now: float) -> list[Action]:
        """A job does not begin any more; an array ends with its last element that has."""
        self._queue.withdraw(job.job_id)
        if self._arrays.give_up(job, Fate(state, reason)):
            return self._end(job, state, reason, now)
        job.reason = reason
        return [RecordBatchJob(job)]

    def _fail(self, job: BatchJob, text: str, now: float, has_broker: bool = False) -> list[Action]:
        """Nodes of a job are lost: it waits again if it is to, else it has ended."""
        if self.requeues.outlives_loss(job):
            return self.requeues.begin(job, text, now, is_lost=True, has_broker=has_broker)
        return self._end(job, State.TIMEOUT if job.is_overdue else State.NODE_FAIL, text, now)

    def _end(self, job: BatchJob, state: State, reason: str, now: float) -> list[Action]:
        """A job has ended; it is forgotten when the disk knows."""
        job.finish(state, reason, self._unix_time())
        if job.of is not None:
            self._arrays.ended(job)
        self._due.set(job.job_id, None)
        job.charge = self.admission.ended(job.used()) if job.began and not job.elements else None
        said = f"{state.value}: {shown(reason)}" if reason else state.value
        actions: list[Action] = [RecordEvent(job.job_id, said), Log(said, job.job_id)]
        actions += self.questions.told_reach(job)
        if (held := self._slots.get(job.job_id)) is not None:
            actions += self._slots.release(held, None, now)
        if job.is_recorded:
            actions.append(RecordBatchJob(job))
        return actions

    def _forget(self, job: BatchJob, now: float) -> list[Action]:
        """The disk knows of a job's end: tell its PCT, and those who wait."""
        node, heard = self._nodes.get(job.root), batch.Heard(job.job_id, job.attempt)
        actions: list[Action] = [Send(node.peer, heard)] if node is not None and node.is_up else []
        self._drop(job)
        self.dependencies.ended(job)
        actions += self.questions.ended(job.job_id)
        if job.of is not None:
            self._arrays.gone(job)
            actions += self._enqueue(job.of, now)
        return actions + self._look_at_dependents(job, now)

    def _drop(self, job: BatchJob) -> None:
        self._placed.remove(job)
        self.requeues.discard(job.job_id)
        self.dependencies.forget(job)
        del self._jobs[job.job_id]
        self.times.forget(job.job_id)
        self._due.set(job.job_id, None)
        self.submissions.ended(job)
