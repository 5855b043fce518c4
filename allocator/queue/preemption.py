"""Which of the jobs that run end or stand still, so that one that waits can begin. Pure.

They are so few that none of them could go on, and the youngest, which lose least. Jobs stand still
only where this alone makes room, and else jobs end only where that alone does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from math import inf

from allocator.jobs.job import Job
from allocator.jobs.line import Waiting
from allocator.jobs.table import JobTable
from allocator.queue.admission import Admission, fewest_nodes
from allocator.queue.plan import Plan
from allocator.queue.policy import Preemption, Running, Turn
from allocator.queue.profile import OVERDUE_S, UNLIMITED_S, Profile, Start
from native.wire.base import Terms

SPARED_COUNT = 32  # at most so many are tried one by one, whether they can go on


def victims_of(jobs: Sequence[Job], makes_room: Callable[[Sequence[Job]], bool]) -> list[Job]:
    """The jobs that are to end; none: the end of all would not do.

    Args:
        jobs: that may be ended.
        makes_room: whether the end of some would do. More than these would do as well.
    """
    if not jobs or not makes_room(jobs):
        return []
    youngest = sorted(jobs, key=lambda job: (-job.granted, -job.job_id))
    few, enough = 1, len(youngest)
    while few < enough:
        middle = (few + enough) // 2
        if makes_room(youngest[:middle]):
            enough = middle
        else:
            few = middle + 1
    chosen = youngest[:enough]
    for job in chosen[-2::-1][:SPARED_COUNT]:  # without the last the others do not do
        others = [each for each in chosen if each is not job]
        if makes_room(others):
            chosen = others
    return chosen


class Preempting:
    """Finds out who ends or stands still for whom.

    Args:
        running: the jobs that have slots.
        profile: the free slots as of a unix time, some jobs being gone.
    """

    def __init__(
        self,
        jobs: JobTable,
        running: Running,
        admission: Admission,
        profile: Callable[[float, Container[int]], Profile],
    ) -> None:
        self._jobs = jobs
        self._running = running
        self._admission = admission
        self._profile = profile

    @property
    def is_possible(self) -> bool:
        """Some jobs may be ended for others."""
        return self._admission.preempts or any(job.terms.gives_way for job in self._jobs)

    def _ends_for(self, terms: Terms, job: Job) -> bool:
        """Whether a job may be ended for a request on these terms."""
        if self._jobs.get(job.job_id) is not job:
            return False  # others end already
        if job.terms.gives_way and not terms.gives_way:
            return True
        return self._admission.may_preempt(terms, job.job_id)

    def find(self, plan: Plan) -> Preemption | None:
        """Whose end would let the first of those begin that may have others ended."""
        for waiting in plan.first:
            request, claim = waiting.request, waiting.claim
            if waiting.expected and waiting.expected - plan.at <= OVERDUE_S:
                continue  # others end already, or are to have ended
            victims = [job for job in self._jobs if self._ends_for(request.terms, job)]
            asked = (claim.uid, request.terms, request.slots, fewest_nodes(request.specs))
            if not victims or self._admission.blocked(*asked):
                continue
            told = [job for job in self._jobs if self._running.ends(job.job_id)]
            if told and self._is_soon(plan, waiting, told, ()):
                continue  # they are in their grace
            suspended = self._admission.is_suspended_for_others
            still = [job for job in victims if suspended(job.job_id) and not job.terms.gives_way]
            if still and (found := self._standing_still(plan, waiting, still)) is not None:
                return found
            victims = [
                job for job in victims if job not in still and self._running.can_end(job.job_id)
            ]
            chosen = victims_of(victims, partial(self._is_soon, plan, waiting, told))
            if chosen:
                return Preemption(waiting, tuple(job.job_id for job in chosen))
        return None

    def _is_soon(
        self, plan: Plan, waiting: Waiting, told: Sequence[Job], victims: Sequence[Job]
    ) -> bool:
        """Whether a request begins at once where these jobs end, and those before it begin.

        Args:
            told: launches that end already.
        """
        gone = {job.job_id for job in (*told, *victims)}
        profile = self._before(plan, waiting, gone)
        start = profile.earliest(waiting.request, waiting.claim, waiting.time_s or inf)
        return start is not None and start.at <= OVERDUE_S

    def _before(self, plan: Plan, waiting: Waiting, gone: Container[int] = ()) -> Profile:
        """What those leave that are before one that waits."""
        profile = self._profile(plan.at, gone)
        for each in plan.first:
            if each is waiting:
                break
            start = profile.earliest(each.request, each.claim, each.time_s or inf)
            if start is not None:
                profile.take(start, each.request, each.time_s or UNLIMITED_S)
        return profile

    def _standing_still(
        self, plan: Plan, waiting: Waiting, jobs: Sequence[Job]
    ) -> Preemption | None:
        """Which of these jobs are suspended, so that a request begins now; None: it does not."""
        spare = [job for job in jobs if self._running.stands_still(job.job_id)]
        others = [job for job in jobs if self._running.can_stand_still(job.job_id)]

        def begins(some: Sequence[Job]) -> Start | None:
            profile = self._before(plan, waiting)
            profile.lend((*spare, *some))
            time_s = waiting.time_s or inf
            start = profile.earliest(waiting.request, waiting.claim, time_s, OVERDUE_S)
            return None if start is None or start.at else start

        chosen: list[Job] = []
        if not spare or (start := begins(chosen)) is None:
            chosen = victims_of(others, lambda some: begins(some) is not None)
            if not chosen or (start := begins(chosen)) is None:
                return None
        stopped = tuple(job.job_id for job in chosen)
        lenders = (*(job.job_id for job in spare), *stopped)
        return Preemption(waiting, (), stopped, Turn(waiting, start.placement, lenders))
