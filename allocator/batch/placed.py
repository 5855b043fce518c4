"""Which batch jobs have their brokers on which nodes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from allocator.batch.job import BatchJob
from allocator.jobs.table import JobTable
from allocator.queue.admission import Admission


class Placed:
    """The jobs that have slots or had them, by the node of their brokers.

    Args:
        slots: the jobs that hold slots.
        admission: hears of those that have none any more.
    """

    def __init__(self, slots: JobTable, admission: Admission) -> None:
        self._slots = slots
        self._admission = admission
        self._by_root: defaultdict[int, set[int]] = defaultdict(set)

    def check(self, jobs: Iterable[BatchJob]) -> None:
        """Assert what must always hold."""
        for job in jobs:
            assert job.root < 0 or job.job_id in self._by_root.get(job.root, ()), job

    def add(self, job: BatchJob) -> None:
        """A job has its nodes."""
        self._by_root[job.root].add(job.job_id)

    def remove(self, job: BatchJob) -> None:
        """A job has no nodes any more."""
        self._by_root[job.root].discard(job.job_id)
        job.unplace()
        self._admission.withdrawn(job.job_id, self._slots.get(job.job_id) is not None)

    def on(self, number: int) -> list[int]:
        """The jobs with their brokers on a node, ids ascending."""
        return sorted(self._by_root.get(number, ()))
