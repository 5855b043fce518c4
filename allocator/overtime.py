"""Time limits of launches and allocations: bebopd ends those that are there long after their time.

The process of its owner that holds a job, yod or `yodjob alloc`, ends it when its time is over. It
may be stopped, or have been made not to. So its nodes are told to end the job at once,
``overtime_s`` after the time in which its owner was to have ended it::

    granted --time_s--> its owner ends it, in kill_wait_s --overtime_s--> reset, TIMEOUT

The deadline is monotonic: steps of the clock do not move it. A later bebopd counts from the grant,
which is on the disk, and so does whoever's limit is changed. Batch jobs: allocator.batch.times.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allocator.batch.job import RecordEvent
from allocator.jobs.accounting import Accounting, RecordGrant, RecordPast
from allocator.jobs.job import Job
from allocator.jobs.table import JobTable
from native.deadlines import Deadlines
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, Log, Send
from native.wire.batch import Done

OVERDUE = "its time limit was over, and its owner's process has not ended it: bebopd did"


class Overtime:
    """The limits of the jobs that are none of batch. Methods return the actions to carry out."""

    def __init__(
        self,
        jobs: JobTable,
        accounting: Accounting,
        limits: Limits,
        unix_time: Callable[[], float],
    ) -> None:
        self._jobs = jobs
        self._accounting = accounting
        self._grace_s = limits.kill_wait_s + limits.overtime_s
        self._unix_time = unix_time
        self._due: Deadlines[int] = Deadlines()

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do."""
        return self._due.earliest()

    def left(self, job_id: int) -> float | None:
        """Until the limit of a job, in seconds; negative: it should be over. None: any time."""
        end = self._accounting.end_of(job_id)
        return None if end is None else end - self._unix_time()

    def check(self) -> None:
        """Assert what must always hold: no job is there longer than it may be."""
        limited = {row.job_id for row in self._accounting if row.time_s}
        assert self._due.keys() <= limited
        for job_id in limited - self._due.keys():
            job = self._jobs.get(job_id)
            assert job is None or job.is_given_up, job

    def begin(self, now: float) -> None:
        """An earlier bebopd has granted jobs that have no final row."""
        for row in self._accounting:
            self._limit(row.job_id, now)

    def look(self, actions: Iterable[Action], now: float) -> None:
        """Jobs begin, have other limits, or are over."""
        for action in actions:
            match action:
                case RecordGrant(row):
                    self._limit(row.job_id, now)
                case RecordPast(row):
                    self._due.set(row.job_id, None)

    def _limit(self, job_id: int, now: float) -> None:
        left = self.left(job_id)
        self._due.set(job_id, None if left is None else now + left + self._grace_s)

    def due(self, now: float) -> list[Action]:
        """Jobs are there long after their time: their nodes end them."""
        actions: list[Action] = []
        for job_id in self._due.due(now):
            job = self._jobs.get(job_id)
            self._due.set(job_id, None if job else now + self._grace_s)  # its nodes are not back
            if job is not None:
                said = f"not ended by its owner {self._grace_s:g} s after its time limit: killed"
                self._accounting.overdue(job_id, OVERDUE)
                actions += [RecordEvent(job_id, said), Log(said, job_id)]
                actions += self._jobs.give_up(job, now)
        return actions

    def change(self, job: Job, time_s: float, source: PortalId, by: str) -> list[Action]:
        """The owner of a job, or an operator, changes its limit; it counts from the grant."""
        from native.duration import written  # few jobs have theirs changed

        said = f"time limit {written(time_s)}, set by {by}"
        limited = self._accounting.limited(job.job_id, time_s)
        return [*limited, RecordEvent(job.job_id, said), Send(source, Done(job.job_id))]
