"""Who waits for an answer about batch jobs: for their ends, or for where to attach.

Each user who is connected has at most one question of each kind. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from allocator.batch.job import BatchJob, SendRows
from native.ids import PortalId
from native.machine import Action, Send
from native.wire import batch


class Questions:
    """The questions that are not answered yet. Methods return the answers.

    Args:
        jobs: those that have not ended, by id.
        row: what is told of a job.
    """

    def __init__(self, jobs: Mapping[int, BatchJob], row: Callable[[BatchJob], batch.Row]) -> None:
        self._jobs = jobs
        self._row = row
        self._waiters: dict[PortalId, tuple[tuple[int, ...], set[int]]] = {}
        self._waited: dict[int, set[PortalId]] = {}  # by job
        self._attaching: dict[PortalId, int] = {}

    def asked(self, source: PortalId, message: batch.Ask) -> list[Action]:
        """A user asks about jobs, or waits for their ends."""
        if not message.jobs:
            return [SendRows(source, tuple(map(self._row, self._jobs.values())), ())]
        left = {job_id for job_id in message.jobs if job_id in self._jobs}
        if message.waits and left:
            self._no_longer_waits(source)  # a later question takes the place of an earlier one
            self._waiters[source] = (message.jobs, left)
            for job_id in left:
                self._waited.setdefault(job_id, set()).add(source)
            return []
        return [self._answer(source, message.jobs)]

    def reach_asked(self, source: PortalId, job: BatchJob) -> list[Action]:
        """Its owner wants to attach to a job."""
        self._attaching[source] = job.job_id
        return self.told_reach(job) if job.reach[0] else []

    def told_reach(self, job: BatchJob) -> list[Action]:
        """It is known where to attach to a job, or that one cannot."""
        told = [peer for peer, job_id in self._attaching.items() if job_id == job.job_id]
        for peer in told:
            del self._attaching[peer]
        return [Send(peer, batch.Reach(job.job_id, job.uid, *job.reach)) for peer in told]

    def ended(self, job_id: int) -> list[Action]:
        """A job has ended, and is no longer among the others."""
        actions: list[Action] = []
        for source in sorted(self._waited.pop(job_id, ())):
            asked, left = self._waiters[source]
            left.discard(job_id)
            if not left:
                del self._waiters[source]
                actions.append(self._answer(source, asked))
        return actions

    def gone(self, peer: PortalId) -> None:
        """A user is gone."""
        self._attaching.pop(peer, None)
        self._no_longer_waits(peer)

    def _no_longer_waits(self, peer: PortalId) -> None:
        for job_id in self._waiters.pop(peer, ((), set()))[1]:
            self._waited[job_id].discard(peer)
            if not self._waited[job_id]:
                del self._waited[job_id]

    def _answer(self, source: PortalId, job_ids: Iterable[int]) -> SendRows:
        ids = dict.fromkeys(job_ids)
        known = tuple(self._row(job) for job_id in ids if (job := self._jobs.get(job_id)))
        return SendRows(source, known, tuple(job_id for job_id in ids if job_id not in self._jobs))
