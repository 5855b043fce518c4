"""Batch jobs that wait for others to begin or to end. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from msgspec.structs import replace

from allocator.batch.job import OUTCOMES_COUNT, BatchJob, Earlier
from allocator.jobs.assign import RequestRefused
from allocator.jobs.corresponding import Corresponding, corresponding
from allocator.jobs.dependencies import Judgement, Progress, Verdict, judge
from native.errors import Refusal
from native.wire.base import AfterKind, Array, Dependency, State


class Dependencies:
    """What jobs wait for, and how the jobs ended that others may name.

    Args:
        jobs: those that have not ended, by id.
        earlier: what an earlier bebopd has left.

    Attributes:
        corresponding: what elements of arrays wait for.
    """

    def __init__(self, jobs: Mapping[int, BatchJob], earlier: Earlier) -> None:
        self._jobs = jobs
        self._outcomes = dict(earlier.outcomes)
        self.corresponding = Corresponding(jobs, earlier.elements)
        self._dependents: dict[int, set[int]] = {}  # by the job that they wait for
        self._named: dict[tuple[int, str], list[int]] = {}  # by user and name; ids ascending
        self._behind: dict[int, int] = {}  # by its name: the last before it that has not ended
        for _, job in sorted(jobs.items()):
            self.add(job)

    def check(self) -> None:
        """Assert what must always hold."""
        for job_id, dependents in self._dependents.items():
            assert dependents, job_id
            for dependent in dependents:
                job = self._jobs[dependent]
                assert job.state is State.PENDING or job.state.is_final, job
                named = {each.job_id for each in job.after.on}
                assert job_id in named or job_id == self._behind[dependent]
        self.corresponding.check()
        with_name = sorted(each for ids in self._named.values() for each in ids)
        assert with_name == sorted(job.job_id for job in self._jobs.values() if job.element is None)
        for dependent, job_id in self._behind.items():
            assert dependent in self._dependents[job_id], (dependent, job_id)

    def add(self, job: BatchJob) -> None:
        """A job is handed in. Elements of an array do not count: the array does."""
        if job.element is not None:
            return
        self._named.setdefault((job.uid, job.name), []).append(job.job_id)

    def forget(self, job: BatchJob) -> None:
        """A job has ended, or never was."""
        self.discard(job)
        if job.element is not None:
            return
        same = self._named[job.uid, job.name]
        same.remove(job.job_id)
        if not same:
            del self._named[job.uid, job.name]

    def demand_possible(self, dependency: Dependency, array: Array | None = None) -> None:
        """Refuse what names jobs that are not there, or could never begin.

        Args:
            array: the elements of an array that is to wait; None: of another job.

        Raises:
            RequestRefused: the text names the job.
        """
        for each in dependency.on:
            if self.progress_of(each.job_id) is None:
                text = f"{each.text(str(each.job_id))}: no batch job {each.job_id} is here"
                raise RequestRefused(Refusal.UNKNOWN_JOB, text)
        self.corresponding.demand_possible(dependency, array)
        found = self._judge(dependency)
        has_other = dependency.is_any and dependency.is_singleton
        if found.verdict is Verdict.NEVER and not has_other:
            raise RequestRefused(Refusal.BAD_REQUEST, found.text)

    def look(self, job: BatchJob) -> tuple[Verdict, str]:
        """Whether a job may have slots; and what it waits for, or why it never may.

        Of an array whose elements wait for others: whether they alone decide.
        """
        self._forget(job)
        found = self._judge(job.after)
        before = self._before(job) if job.after.is_singleton else 0
        if job.after.is_singleton:
            found = _with_name(job.after, found, before)
        of_elements = corresponding(job.after)
        for job_id in of_elements:
            self._dependents.setdefault(job_id, set()).add(job.job_id)
        if found.verdict is Verdict.WAITS:
            for each in job.after.on:
                self._dependents.setdefault(each.job_id, set()).add(job.job_id)
            if before:
                self._behind[job.job_id] = before
                self._dependents.setdefault(before, set()).add(job.job_id)
        return found.verdict, found.text

    def _before(self, job: BatchJob) -> int:
        """The last job of its name and user before it that has not ended; 0: there is none."""
        same = self._named[job.uid, job.name]
        place = bisect_left(same, job.job_id)
        return same[place - 1] if place else 0

    def waits_for(self, dependency: Dependency) -> str:
        """What a job with this dependency would wait for; empty: for nothing."""
        found = self._judge(dependency)
        return found.text if found.verdict is Verdict.WAITS else ""

    def progress_of(self, job_id: int) -> Progress | None:
        """How far a job is; None: it is none that is known."""
        if (job := self._jobs.get(job_id)) is not None:
            if not job.is_recorded:
                return None
            return Progress.RUNS if job.has_begun else Progress.WAITS
        if (is_well := self._outcomes.get(job_id)) is None:
            return None
        return Progress.WELL if is_well else Progress.FAILED

    def of(self, job: BatchJob) -> list[BatchJob]:
        """The jobs that wait for this one, or for elements as this one, ids ascending."""
        found = self._dependents.get(job.job_id, set())
        if job.element is not None and (of_array := self._dependents.get(job.element.array)):
            found = found | of_array
        return [self._jobs[each] for each in sorted(found)]

    def ended(self, job: BatchJob) -> None:
        """The disk knows how a job has ended."""
        self._outcomes[job.job_id] = job.state is State.COMPLETED
        self.corresponding.ended(job)
        if len(self._outcomes) > OUTCOMES_COUNT:
            oldest = next(iter(self._outcomes))
            del self._outcomes[oldest]
            if oldest not in self._dependents:
                self.corresponding.forget(oldest)

    def discard(self, job: BatchJob) -> None:
        """A job waits for no other any more."""
        self._forget(job)
        self.corresponding.discard(job.job_id)

    def _forget(self, job: BatchJob) -> None:
        """Nobody has to tell a job anything."""
        before = self._behind.pop(job.job_id, None)
        for job_id in {*(each.job_id for each in job.after.on), before}:
            if job_id is not None and (dependents := self._dependents.get(job_id)):
                dependents.discard(job.job_id)
                if not dependents:
                    del self._dependents[job_id]

    def _judge(self, dependency: Dependency) -> Judgement:
        kind = AfterKind.CORRESPONDS
        if any(each.kind is kind for each in dependency.on):  # they keep back no other element
            others = tuple(each for each in dependency.on if each.kind is not kind)
            dependency = replace(dependency, on=others)
        return judge(dependency, lambda job_id: self.progress_of(job_id) or Progress.FORGOTTEN)


def _with_name(dependency: Dependency, found: Judgement, before: int) -> Judgement:
    """The same for a job that also waits for those of its name.

    Args:
        before: the last of these that has not ended; 0: there is none.
    """
    own = Judgement(Verdict.READY)
    if before:
        text = f"job {before}, which has the same name, is to end first (singleton)"
        own = Judgement(Verdict.WAITS, text)
    if not dependency.on:
        return own
    if dependency.is_any:
        if Verdict.READY in (found.verdict, own.verdict):
            return Judgement(Verdict.READY)
        return own if found.verdict is Verdict.NEVER else found
    return own if found.verdict is Verdict.READY else found
