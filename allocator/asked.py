"""What users ask of jobs and of the history, and what brokers tell. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from allocator.batch import running
from allocator.batch.job import Viewer
from allocator.batch.table import BatchJobs
from allocator.jobs.accounting import Accounting
from allocator.jobs.assign import RequestRefused
from allocator.jobs.job import Job, JobState
from allocator.jobs.table import JobTable
from allocator.nodes.table import NodeTable
from allocator.overtime import Overtime
from allocator.requests import Requests
from native.deadlines import earliest
from native.errors import Refusal
from native.ids import PortalId, Principal
from native.limits import Limits
from native.machine import Action, Send
from native.wire import batch
from native.wire.alloc import Refused
from native.wire.base import JobMessage, Message, Terms
from native.wire.nodes import EndJobs
from native.wire.status import Progress

if TYPE_CHECKING:
    from allocator.ending import Endings
    from allocator.past import StepsTold


class BatchRequests:
    """The requests of one partition's users. Methods return the actions to carry out.

    Args:
        name: the partition's, for texts.
        is_taken: the partition takes batch jobs, and keeps a history.

    Attributes:
        overtime: the time limits of the other jobs.
    """

    def __init__(
        self,
        nodes: NodeTable,
        jobs: JobTable,
        accounting: Accounting,
        batch_jobs: BatchJobs,
        requests: Requests,
        limits: Limits,
        name: str,
        unix_time: Callable[[], float],
        *,
        is_taken: bool,
    ) -> None:
        self._nodes = nodes
        self._jobs = jobs
        self._accounting = accounting
        self._batch = batch_jobs
        self._requests = requests
        self._name = name
        self._is_taken = is_taken
        self._limits = limits
        self.overtime = Overtime(jobs, accounting, limits, unix_time)
        self._steps: StepsTold | None = None  # none has been told
        self._endings: Endings | None = None  # nobody has asked for any

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do."""
        ends_at = self._endings.deadline() if self._endings is not None else None
        return earliest(self.overtime.deadline(), ends_at)

    def due(self, now: float) -> list[Action]:
        """The next step of ending jobs, where it has come."""
        ended = self._endings.due(now) if self._endings is not None else []
        return ended + self.overtime.due(now)

    def endings(self) -> Endings:
        """The jobs that are being ended."""
        if self._endings is None:
            from allocator.ending import Endings

            parts = self._nodes, self._jobs, self._accounting, self._batch
            self._endings = Endings(*parts, self._limits)
        return self._endings

    def asked(
        self,
        source: PortalId,
        principal: Principal,
        message: Message,
        viewer: int | None,
        now: float,
    ) -> list[Action]:
        """A user hands a batch job in, or asks something of jobs or about them.

        Args:
            viewer: whose jobs the user sees; None: an operator, who sees those of all users.
        """
        try:
            return self._answer(source, principal, message, viewer, now)
        except RequestRefused as refused:
            return self._requests.refuse(source, principal.uid, refused, now)

    def _answer(
        self,
        source: PortalId,
        principal: Principal,
        message: Message,
        viewer: int | None,
        now: float,
    ) -> list[Action]:
        if isinstance(message, EndJobs):
            by = self._requests.name_of(principal.uid)
            return self.endings().asked(source, message, viewer, by, now)
        if isinstance(message, batch.LimitTime) and (launch := self._launch(message.job_id)):
            return self._limit(launch, source, principal, message.time_s, viewer)
        if not self._is_taken:
            raise RequestRefused(Refusal.BAD_REQUEST, f"{self._name} takes no batch jobs")
        match message:
            case batch.Submit():
                owner = self._requests.permitted(principal)
                actions = self._batch.submissions.submitted(source, owner, message)
                return [*actions, *self._requests.reserve()]
            case batch.Ask():
                seen = Viewer(viewer, sees_batch=True)
                return self._batch.questions.asked(source, message, seen)
            case batch.History():
                from allocator.past import history_asked

                return history_asked(source, message, viewer, self._batch, self._accounting)
            case batch.AskEvents(job_id):
                from allocator.past import events_asked

                job = self._batch.get(job_id)
                return events_asked(source, job_id, viewer, job, self._accounting)
            case JobMessage(job_id):
                job = self._batch.get(job_id)
                if job is None or job.state.is_final or not job.is_recorded:
                    text = f"no batch job {job_id} waits or runs here"
                    raise RequestRefused(Refusal.UNKNOWN_JOB, text)
                if viewer not in (None, job.uid):
                    text = f"job {job_id} belongs to {job.owner}"
                    raise RequestRefused(Refusal.NOT_PERMITTED, text)
                by = self._requests.name_of(principal.uid)
                match message:
                    case batch.AskReach():
                        return self._batch.questions.reach_asked(source, job)
                    case batch.LimitTime(_, time_s):
                        if viewer is not None:
                            self._batch.admission.demand_time(job.terms, time_s)
                        self._requests.limits_changed()
                        return self._batch.times.change(job, time_s, source, by)
                    case batch.SignalScript(_, number):
                        actions = running.signal(job, running.host_of(job, self._nodes), number)
                    case batch.Hold(_, is_on):
                        is_other = principal.uid != job.uid
                        return self._batch.holds.change(job, is_on, source, by, is_other)
                    case batch.Prioritise():
                        whose = (source, by, viewer is None)
                        return self._batch.priorities.change(job, message, *whose)
                    case batch.Requeue():
                        host = running.host_of(job, self._nodes)
                        actions = running.requeue(job, host, by)
                    case batch.Suspend(_, is_on):
                        host = running.host_of(job, self._nodes)
                        actions = running.suspend(job, host, is_on, by)
                    case batch.Cancel(_, only):
                        actions = self._batch.cancel(job, by, now, only)
                    case _:
                        raise AssertionError(f"no case for {message!r}")
                return [*actions, Send(source, batch.Done(job_id))]
        raise AssertionError(f"no case for {message!r}")

    def _launch(self, job_id: int) -> Job | None:
        """A job that has slots and is none of batch; None: there is no such job."""
        return self._jobs.get(job_id) if self._batch.get(job_id) is None else None

    def _limit(
        self, job: Job, source: PortalId, principal: Principal, time_s: float, viewer: int | None
    ) -> list[Action]:
        """Change the time limit of a launch or an allocation."""
        if viewer not in (None, job.uid):
            text = f"job {job.job_id} belongs to {job.owner}"
            raise RequestRefused(Refusal.NOT_PERMITTED, text)
        if self._accounting.owner_of(job.job_id) is None or job.state is JobState.RELEASING:
            raise RequestRefused(Refusal.UNKNOWN_JOB, f"job {job.job_id} ends")
        if viewer is not None:
            queue = self._accounting.queue_of(job.job_id)
            self._batch.admission.demand_time(Terms(queue), time_s)
        self._requests.limits_changed()
        by = self._requests.name_of(principal.uid)
        return self.overtime.change(job, time_s, source, by)

    def told(
        self, source: PortalId, principal: Principal, message: batch.Steps | Progress
    ) -> list[Action]:
        """The broker of an allocation tells of ended steps, or a yod how far its launch is."""
        if isinstance(message, Progress):
            launch = self._jobs.get(message.job_id)
            if launch is not None and launch.requester == source:
                launch.progress = message if message.phase else None
            return []
        job_id, uid = message.job_id, principal.uid
        job = self._jobs.get(job_id) or self._batch.get(job_id)
        owner = job.uid if job is not None else self._accounting.owner_of(job_id)
        if principal.job_id != job_id and owner != uid:
            text = f"job {job_id} is none of uid {uid}'s that run here"
            return [Send(source, Refused(Refusal.NOT_PERMITTED, text))]
        batch_job = self._batch.get(job_id)
        if batch_job is not None and batch_job.attempt != message.attempt:  # it was placed again
            return [Send(source, batch.StepsHeard(job_id, message.first))]
        if self._steps is None:
            from allocator.past import StepsTold

            self._steps = StepsTold(self._limits.history_each_count)
        return self._steps.told(source, message, uid, self._requests.name_of(uid))
