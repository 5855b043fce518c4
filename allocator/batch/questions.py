"""What users ask about batch jobs, and who waits for their ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allocator.batch.job import BatchJob, SendRows
from allocator.jobs.table import JobTable
from native.ids import PortalId
from native.machine import Action
from native.wire import batch


class Questions:
    """The questions about jobs. One of each connection may wait for the end of some.

    Args:
        jobs: those that have not ended, by id.
        slots: which of them hold any.
    """

    def __init__(self, jobs: Mapping[int, BatchJob], slots: JobTable) -> None:
        self._jobs = jobs
        self._slots = slots
        self._waiting: dict[PortalId, tuple[tuple[int, ...], set[int]]] = {}  # asked, left of it
        self._of_job: dict[int, set[PortalId]] = {}

    def check(self) -> None:
        """Assert what must always hold: each waits for a job that has not ended."""
        pairs = {(job_id, peer) for job_id, peers in self._of_job.items() for peer in peers}
        questions = self._waiting.items()
        assert pairs == {(job_id, peer) for peer, (_, left) in questions for job_id in left}
        assert all(left for _, left in self._waiting.values())
        assert self._of_job.keys() <= self._jobs.keys()

    def asked(self, source: PortalId, message: batch.Ask) -> list[Action]:
        """A user asks about jobs, or waits for their ends."""
        if not message.jobs:
            return [SendRows(source, tuple(map(self._row, self._jobs.values())), ())]
        left = {job_id for job_id in message.jobs if job_id in self._jobs}
        if not message.waits or not left:
            return [self._answer(source, message.jobs)]
        self.gone(source)  # a later question takes the place of an earlier one
        self._waiting[source] = (message.jobs, left)
        for job_id in left:
            self._of_job.setdefault(job_id, set()).add(source)
        return []

    def gone(self, peer: PortalId) -> None:
        """A user is gone, and waits for no job."""
        for job_id in self._waiting.pop(peer, ((), set()))[1]:
            self._of_job[job_id].discard(peer)
            if not self._of_job[job_id]:
                del self._of_job[job_id]

    def ended(self, job_id: int) -> list[Action]:
        """A job has ended, and is not among ``jobs`` any more: answer who waited for it."""
        actions: list[Action] = []
        for source in sorted(self._of_job.pop(job_id, ())):
            asked, left = self._waiting[source]
            left.discard(job_id)
            if not left:
                del self._waiting[source]
                actions.append(self._answer(source, asked))
        return actions

    def _answer(self, source: PortalId, job_ids: Iterable[int]) -> SendRows:
        ids = dict.fromkeys(job_ids)
        known = tuple(self._row(job) for job_id in ids if (job := self._jobs.get(job_id)))
        return SendRows(source, known, tuple(job_id for job_id in ids if job_id not in self._jobs))

    def _row(self, job: BatchJob) -> batch.Row:
        return job.row(is_held=self._slots.get(job.job_id) is not None)
