"""Backfill: a later request goes first where that delays none of the first ones. Pure.

The first requests in the line that do not fit have an expected start each, with slots that are
kept for it (conservative backfill; with one such request it is EASY). Others may have slots that
are free for all of their time, whatever the first ones get then. A job without a time limit, and a
yod, is taken to run for a year: it passes nobody whose slots it could need.

See D. Lifka, *The ANL/IBM SP scheduling system* (EASY), and A. Mu'alem, D. Feitelson, *Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling*.
"""

from __future__ import annotations

from collections.abc import Iterator

from allocator.jobs.assign import RequestRefused
from allocator.jobs.choosing import Chooser
from allocator.jobs.job import Job, JobState
from allocator.jobs.line import Line, Waiting, kept_text
from allocator.jobs.table import JobTable
from allocator.nodes.access import Claim
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.table import NodeTable, Placement
from allocator.queue.policy import TimeLeft, Turn
from allocator.queue.profile import Profile
from native.errors import Refusal
from native.limits import Limits
from native.wire.alloc import NodeRequest

UNLIMITED_S = 365 * 86400.0  # that is taken for the time of what has no limit
OVERDUE_S = 1.0  # that one is expected to need which ends, or should have ended

_ENDING = (JobState.REVOKING, JobState.RELEASING)


class Backfill:
    """Decides who is next on a partition.

    Args:
        time_left: of a job, until its limit; seconds; None: it has no limit.
    """

    def __init__(
        self,
        nodes: NodeTable,
        jobs: JobTable,
        placement: ArrayPlacement,
        slots: Chooser,
        limits: Limits,
        time_left: TimeLeft,
    ) -> None:
        self._nodes = nodes
        self._jobs = jobs
        self._placement = placement
        self._slots = slots
        self._limits = limits
        self._time_left = time_left

    def turns(self, line: Line, unix_time: float) -> Iterator[Turn]:
        """All that fit and delay nobody; notes when the first of the others are expected."""
        if self._slots.held:
            return
        profile, kept, failed = self._profile(), 0, set[tuple[object, ...]]()
        for count, waiting in enumerate(line):
            waiting.expected = 0.0
            is_kept = kept < self._limits.backfill_count
            if not is_kept and count >= self._limits.backfill_tested_count:
                continue
            request = waiting.request
            alike = (request.specs, request.is_exclusive, waiting.claim, waiting.time_s)
            if alike in failed and not is_kept:
                continue
            time_s = _time_of(waiting)
            before = float("inf") if is_kept else OVERDUE_S
            start = profile.earliest(request, waiting.claim, time_s, before)
            if start is None:
                failed.add(alike)
            elif not start.at:
                yield Turn(waiting, start.placement)
                profile.take(start, request, time_s, is_given=True)
            elif is_kept:
                kept += 1
                profile.take(start, request, time_s, is_given=False)
                waiting.expected = unix_time + start.at if start.at < UNLIMITED_S else 0.0

    def demand_turn(
        self, request: NodeRequest, claim: Claim, line: Line, time_s: float = 0.0
    ) -> Placement | None:
        """Slots that nobody who waits is expected to need."""
        if not line or self._slots.held:
            return None
        profile, keeper = self._profile(), None
        for count, waiting in enumerate(line):
            if count >= self._limits.backfill_count:
                break
            start = profile.earliest(waiting.request, waiting.claim, _time_of(waiting))
            if start is not None:
                keeper = keeper or waiting
                profile.take(start, waiting.request, _time_of(waiting), is_given=False)
        start = profile.earliest(request, claim, time_s or UNLIMITED_S, OVERDUE_S)
        if start is not None:
            return start.placement
        if keeper is not None and self._slots.fits(request, claim):
            raise RequestRefused(Refusal.BUSY, kept_text(keeper, self._slots.free(claim)))
        return None

    def _profile(self) -> Profile:
        return Profile(self._nodes, self._placement, map(self._end_of, self._jobs))

    def _end_of(self, job: Job) -> tuple[float, Job]:
        if job.state in _ENDING:
            return OVERDUE_S, job
        left = self._time_left(job.job_id)
        return (UNLIMITED_S if left is None else max(left, OVERDUE_S)), job


def _time_of(waiting: Waiting) -> float:
    return waiting.time_s or UNLIMITED_S
