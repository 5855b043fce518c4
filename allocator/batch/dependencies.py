"""Batch jobs that wait for others to begin or to end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from allocator.batch.job import OUTCOMES_COUNT, BatchJob
from allocator.jobs.assign import RequestRefused
from native.errors import Refusal
from native.wire.batch import After, AfterKind, Dependency, State

_BEGUN = (State.RUNNING, State.COMPLETING)
_IS_TO = {
    AfterKind.BEGUN: "begin",
    AfterKind.ENDED: "end",
    AfterKind.OK: "end well",
    AfterKind.NOT_OK: "fail",
}


class Verdict(Enum):
    """Whether a job may have slots."""

    READY = "it may"
    WAITS = "not yet"
    NEVER = "it never may"


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
            job = self._jobs.get(each.job_id)
            is_known = job is not None and job.is_recorded
            if not is_known and each.job_id not in self._outcomes:
                text = f"{each.text}: no batch job {each.job_id} is here"
                raise RequestRefused(Refusal.UNKNOWN_JOB, text)
        verdict, text = self._verdict(dependency)
        if verdict is Verdict.NEVER:
            raise RequestRefused(Refusal.BAD_REQUEST, text)

    def look(self, job: BatchJob) -> tuple[Verdict, str]:
        """Whether a job may have slots; and what it waits for, or why it never may."""
        self.discard(job)
        verdict, text = self._verdict(job.after)
        if verdict is Verdict.WAITS:
            for each in job.after.on:
                self._dependents.setdefault(each.job_id, set()).add(job.job_id)
        return verdict, text

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

    def _verdict(self, dependency: Dependency) -> tuple[Verdict, str]:
        if not dependency.on:
            return Verdict.READY, ""
        verdicts = [(self._verdict_of(each), each) for each in dependency.on]
        suffices = any if dependency.is_any else all
        if suffices(verdict is Verdict.READY for verdict, _ in verdicts):
            return Verdict.READY, ""
        open_ones = [each for verdict, each in verdicts if verdict is Verdict.WAITS]
        never = [each for verdict, each in verdicts if verdict is Verdict.NEVER]
        if never and not (dependency.is_any and open_ones):
            first = never[0]
            text = f"job {first.job_id} has ended and was to {_IS_TO[first.kind]} ({first.text})"
            return Verdict.NEVER, text
        first = open_ones[0]
        return Verdict.WAITS, f"job {first.job_id} is to {_IS_TO[first.kind]} first"

    def _verdict_of(self, after: After) -> Verdict:
        if (job := self._jobs.get(after.job_id)) is not None:
            has_begun = after.kind is AfterKind.BEGUN and job.state in _BEGUN
            return Verdict.READY if has_begun else Verdict.WAITS
        if after.kind in (AfterKind.BEGUN, AfterKind.ENDED):
            return Verdict.READY
        is_well = self._outcomes.get(after.job_id)
        if is_well is None:  # it is not among those that are remembered any more
            return Verdict.NEVER
        return Verdict.READY if is_well == (after.kind is AfterKind.OK) else Verdict.NEVER
