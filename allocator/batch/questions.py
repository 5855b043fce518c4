"""What users ask about batch jobs; who waits for their ends, or for where to attach.

Each user who is connected has at most one question of each kind. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import takewhile

from msgspec.structs import replace

from allocator.batch.job import BatchJob, SendRows, Viewer
from allocator.batch.queue import Queue
from allocator.jobs.table import JobTable
from native.ids import PortalId
from native.machine import Action, Send
from native.wire import batch
from native.wire.base import clipped

SLICE_ROWS = 512  # of an answer about all jobs; others are served before the next
SLICE_JOBS = 1024  # of one whose rows may be those of several: they cost less

_NOTHING: tuple[tuple[int, ...], set[int], Viewer] = ((), set(), Viewer(None))


class Questions:
    """The questions about jobs. Methods return the answers.

    Args:
        jobs: those that have not ended, by id, ascending.
        slots: which of them hold any.
        queue: where they wait.
    """

    def __init__(self, jobs: dict[int, BatchJob], slots: JobTable, queue: Queue) -> None:
        self._jobs = jobs
        self._slots = slots
        self._queue = queue
        # Asked, left of it, who asks.
        self._waiting: dict[PortalId, tuple[tuple[int, ...], set[int], Viewer]] = {}
        self._of_job: dict[int, set[PortalId]] = {}
        self._attaching: dict[PortalId, int] = {}
        self._ids: list[int] = []  # ascending, also some of jobs that have ended

    def check(self) -> None:
        """Assert what must always hold: each waits for a job that has not ended."""
        assert list(self._jobs) == sorted(self._jobs)
        pairs = {(job_id, peer) for job_id, peers in self._of_job.items() for peer in peers}
        questions = self._waiting.items()
        assert pairs == {(job_id, peer) for peer, (_, left, _) in questions for job_id in left}
        assert all(left for _, left, _ in self._waiting.values())
        assert self._of_job.keys() <= self._jobs.keys()
        assert set(self._attaching.values()) <= self._jobs.keys()

    def asked(self, source: PortalId, message: batch.Ask, viewer: Viewer) -> list[Action]:
        """A user asks about jobs, or waits for their ends."""
        if not message.jobs:
            return [self._slice(source, message.after or 0, message.is_grouped)]
        left = {job_id for job_id in message.jobs if job_id in self._jobs}
        if not message.waits or not left:
            return [self._answer(source, message.jobs, viewer)]
        self._no_longer_waits(source)  # a later question takes the place of an earlier one
        self._waiting[source] = (message.jobs, left, viewer)
        for job_id in left:
            self._of_job.setdefault(job_id, set()).add(source)
        return []

    def _slice(self, source: PortalId, after: int, is_grouped: bool) -> SendRows:
        """Of all jobs those with the lowest ids above this one."""
        most = SLICE_JOBS if is_grouped else SLICE_ROWS
        self._learn_ids()
        at, jobs = bisect_right(self._ids, after), list[BatchJob]()
        while at < len(self._ids) and len(jobs) <= most:
            some = map(self._jobs.get, self._ids[at : at + most + 1])
            jobs += filter(None, some)
            at += most + 1
        is_cut, some_jobs = len(jobs) > most, jobs[:most]
        rows = self._grouped(some_jobs) if is_grouped else map(self._row, some_jobs)
        return SendRows(source, tuple(rows), is_cut=is_cut)

    def _grouped(self, jobs: Iterable[BatchJob]) -> Iterator[batch.Row]:
        """One row for all of which the same is to be said, and one for each of the others."""
        alike: dict[tuple[object, ...], list[BatchJob]] = {}
        for job in jobs:
            likeness = job.likeness()
            key = (*likeness, self._queue.expected(job.job_id)) if likeness else (job.job_id,)
            alike.setdefault(key, []).append(job)
        for first, *others in alike.values():
            row = self._row(first)
            also = tuple([(job.job_id, job.submitted) for job in others])
            yield replace(row, also=also) if also else row

    def _learn_ids(self) -> None:
        """Bring ``_ids`` up to date: to go through all jobs for each slice takes too long."""
        last = self._ids[-1] if self._ids else 0
        new = list(takewhile(lambda job_id: job_id > last, reversed(self._jobs)))
        self._ids += reversed(new)
        if len(self._ids) > 2 * len(self._jobs):
            self._ids = list(self._jobs)

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

    def gone(self, peer: PortalId) -> None:
        """A user is gone, and waits for nothing."""
        self._attaching.pop(peer, None)
        self._no_longer_waits(peer)

    def ended(self, job_id: int) -> list[Action]:
        """A job has ended, and is not among ``jobs`` any more: answer who waited for it."""
        actions: list[Action] = []
        for source in sorted(self._of_job.pop(job_id, ())):
            asked, left, viewer = self._waiting[source]
            left.discard(job_id)
            if not left:
                del self._waiting[source]
                actions.append(self._answer(source, asked, viewer))
        return actions

    def _no_longer_waits(self, peer: PortalId) -> None:
        for job_id in self._waiting.pop(peer, _NOTHING)[1]:
            self._of_job[job_id].discard(peer)
            if not self._of_job[job_id]:
                del self._of_job[job_id]

    def _answer(self, source: PortalId, job_ids: Iterable[int], viewer: Viewer) -> SendRows:
        ids = dict.fromkeys(job_ids)
        known = tuple(self._looked_at(job) for job_id in ids if (job := self._jobs.get(job_id)))
        others = tuple(job_id for job_id in ids if job_id not in self._jobs)
        return SendRows(source, known, others, viewer)

    def _looked_at(self, job: BatchJob) -> batch.Row:
        """What is told of a job that somebody asks about: with what it waits for now."""
        reason = self._queue.waits(job.job_id)
        if reason and (elements := job.elements) and elements.lost and elements.fate:
            reason = f"{reason}; {elements.fate.text}"
        row = replace(self._row(job), factors=self._queue.factors(job.job_id))
        return replace(row, reason=clipped(reason)) if reason else row

    def _row(self, job: BatchJob) -> batch.Row:
        is_held = self._slots.get(job.job_id) is not None
        return job.row(is_held=is_held, expected=self._queue.expected(job.job_id))
