"""Jobs that hold slots, by their ids and attempts.

A job that is placed again may still hold what it had: on a node that is lost, or that does not
get rid of it. The latest attempt is the job as all others know it; those before it only give back
what they have. On one node at most one attempt of a job holds anything, because a job is placed
again when no node that could be given to it holds anything of it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from allocator.jobs.job import Job, JobState, Key

_NONE: dict[int, Job] = {}


class Attempts:
    """All attempts of all jobs."""

    def __init__(self) -> None:
        self._latest: dict[int, Job] = {}
        self._earlier: dict[int, dict[int, Job]] = {}  # by id and attempt

    def __iter__(self) -> Iterator[Job]:
        """Those that hold slots."""
        for attempts in (self._latest, *list(self._earlier.values())):
            yield from list(attempts.values())

    def __len__(self) -> int:
        return len(self._latest) + sum(map(len, self._earlier.values()))

    def __getitem__(self, job_id: int) -> Job:
        return self._latest[job_id]

    @property
    def placed_again(self) -> Iterable[int]:
        """The ids of jobs of which an earlier attempt still holds slots."""
        return self._earlier.keys()

    def get(self, job_id: int) -> Job | None:
        """The latest attempt of a job; None: it holds no slot, or is to have others."""
        return self._latest.get(job_id)

    def earlier(self, job_id: int) -> Iterable[Job]:
        """The attempts before it that still hold slots."""
        return self._earlier.get(job_id, _NONE).values()

    def of(self, job_id: int, attempt: int) -> Job | None:
        """One attempt of a job; None: it holds no slot."""
        job = self._latest.get(job_id)
        if job is not None and job.attempt == attempt:
            return job
        return self._earlier.get(job_id, _NONE).get(attempt)

    def on(self, number: int, job_id: int) -> Job:
        """The attempt of a job that holds slots of a node."""
        job = self._latest.get(job_id)
        if job is not None and number in job.holdings:
            return job
        return next(each for each in self.earlier(job_id) if number in each.holdings)

    def stuck(self, number: int, job_id: int) -> None:
        """The PCT of a node says that it cannot end a job."""
        for job in (self.get(job_id), *self.earlier(job_id)):
            if job is not None and (holding := job.holdings.get(number)) is not None:
                job.holdings[number] = replace(holding, is_stuck=True)

    def askers(self, asker: int) -> list[int]:
        """A job in which a yod asks, the one in which the yod of that runs, and so on."""
        found = []
        job = self.get(asker)
        while job is not None and job.job_id not in found:
            found.append(job.job_id)
            job = self.get(job.asker)
        return found

    def nodes_of_batch(self, batch_job: str) -> list[int]:
        """Nodes that the jobs of a batch job hold; without a name, those of no batch job."""
        jobs = [job for job in self if job.batch_job == batch_job]
        return [number for job in jobs for number in job.holdings]

    def check(self) -> None:
        """Assert what must always hold."""
        for job_id, job in self._latest.items():
            assert job.job_id == job_id
        for job_id, earlier in self._earlier.items():
            assert earlier, job_id
            assert all(job.state is JobState.RELEASING for job in earlier.values()), job_id
            latest = self._latest.get(job_id)
            among = [*earlier.values(), *([] if latest is None else [latest])]
            numbers = [number for each in among for number in each.holdings]
            assert len(numbers) == len(set(numbers)), "two attempts of a job on one node"
            assert latest is None or latest.attempt > max(earlier), job_id

    def _add_earlier(self, job: Job) -> None:
        """A node still has an attempt of a job that is not the latest."""
        self._earlier.setdefault(job.job_id, {})[job.attempt] = job

    def _supersede(self, job: Job) -> None:
        """What this attempt holds is what is left of it: the job is to be placed again."""
        del self._latest[job.job_id]
        self._add_earlier(job)

    def _of_key(self, key: Key) -> Job:
        job = self.of(*key)
        assert job is not None, key
        return job

    def _remove(self, job: Job) -> None:
        """An attempt holds no slot any more."""
        if self._latest.get(job.job_id) is job:
            del self._latest[job.job_id]
            return
        earlier = self._earlier[job.job_id]
        del earlier[job.attempt]
        if not earlier:
            del self._earlier[job.job_id]
