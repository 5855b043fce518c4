"""Batch jobs that wait for others to begin or to end. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from allocator.batch.job import OUTCOMES_COUNT, BatchJob
from allocator.jobs.assign import RequestRefused
from allocator.jobs.dependencies import Judgement, Progress, Verdict, judge
from native.errors import Refusal
from native.wire.base import Dependency, State

_BEGUN = (State.RUNNING, State.COMPLETING)


class Dependencies:
    """What jobs wait for, and how the jobs ended that others may name.

    Args:
        jobs: those that have not ended, by id.
        outcomes: of past jobs, by id, the oldest first: whether they have ended well.
    """

    def __init__(self, jobs: Mapping[int, BatchJob], outcomes: Mapping[int, bool]) -> None:
        self._jobs = jobs
        self._outcomes = dict(outcomes)
        self._dependents: dict[int, set[int]] = {}  # by the job that they wait for

    def check(self) -> None:
        """Assert what must always hold."""
        for job_id, dependents in self._dependents.items():
            assert dependents, job_id
            for dependent in dependents:
                job = self._jobs[dependent]
                assert job.state is State.PENDING or job.state.is_final, job
                assert job_id in {each.job_id for each in job.after.on}

    def demand_possible(self, dependency: Dependency) -> None:
        """Refuse what names jobs that are not there, or could never begin.

        Raises:
            RequestRefused: the text names the job.
        """
        for each in dependency.on:
            if self.progress_of(each.job_id) is None:
                text = f"{each.text(str(each.job_id))}: no batch job {each.job_id} is here"
                raise RequestRefused(Refusal.UNKNOWN_JOB, text)
        found = self._judge(dependency)
        if found.verdict is Verdict.NEVER:
            raise RequestRefused(Refusal.BAD_REQUEST, found.text)

    def look(self, job: BatchJob) -> tuple[Verdict, str]:
        """Whether a job may have slots; and what it waits for, or why it never may."""
        self.discard(job)
        found = self._judge(job.after)
        if found.verdict is Verdict.WAITS:
            for each in job.after.on:
                self._dependents.setdefault(each.job_id, set()).add(job.job_id)
        return found.verdict, found.text

    def waits_for(self, dependency: Dependency) -> str:
        """What a job with this dependency would wait for; empty: for nothing."""
        found = self._judge(dependency)
        return found.text if found.verdict is Verdict.WAITS else ""

    def progress_of(self, job_id: int) -> Progress | None:
        """How far a job is; None: it is none that is known."""
        if (job := self._jobs.get(job_id)) is not None:
            if not job.is_recorded:
                return None
            return Progress.RUNS if job.shown_state in _BEGUN else Progress.WAITS
        if (is_well := self._outcomes.get(job_id)) is None:
            return None
        return Progress.WELL if is_well else Progress.FAILED

    def of(self, job_id: int) -> list[BatchJob]:
        """The jobs that wait for this one, ids ascending."""
        return [self._jobs[each] for each in sorted(self._dependents.get(job_id, ()))]

    def ended(self, job: BatchJob) -> None:
        """The disk knows how a job has ended."""
        self._outcomes[job.job_id] = job.state is State.COMPLETED
        if len(self._outcomes) > OUTCOMES_COUNT:
            del self._outcomes[next(iter(self._outcomes))]

    def discard(self, job: BatchJob) -> None:
        """A job waits for no other any more."""
        for each in job.after.on:
            if dependents := self._dependents.get(each.job_id):
                dependents.discard(job.job_id)
                if not dependents:
                    del self._dependents[each.job_id]

    def _judge(self, dependency: Dependency) -> Judgement:
        return judge(dependency, lambda job_id: self.progress_of(job_id) or Progress.FORGOTTEN)
