"""What a batch job waits for, one thing after another, before and while it is in the line.

Its release by whoever holds it, the jobs that it waits for, its begin time; then it is in the
line. All the time it may have a deadline: where it cannot be over by then, it ends without
having begun.

Times that users name are those of the clock on the wall. A timer runs for the seconds that are
left, and then the clock is read again: a clock that is set back delays a begin, one that is set
forward does not bring it nearer. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from allocator.batch.arrays import Arrays, full
from allocator.batch.dependencies import Dependencies
from allocator.batch.holds import text_of
from allocator.batch.job import BatchJob, Held
from allocator.batch.queue import Queue
from allocator.jobs.assign import RequestRefused
from allocator.jobs.corresponding import corresponding, of_elements
from allocator.jobs.dependencies import Verdict
from allocator.jobs.grants import Owner
from native.errors import Refusal
from native.wire.base import State

LATER_S = 0.01  # a job is looked at again, at the earliest: sums of times are rounded


class Found(Struct, frozen=True):
    """How far a job is.

    Attributes:
        text: what it waits for, or why it has ended; empty: it waits for nothing.
        end: the state in which it ends now; None: it waits.
        again: when it is to be looked at again, though nothing happens; None: never.
        is_met: the jobs that it waited for are as it wanted: it waits for them no more, whatever
            is forgotten of them.
    """

    text: str
    end: State | None = None
    again: float | None = None
    is_met: bool = False


class Entrance:
    """Lets jobs into the line when nothing else keeps them.

    Args:
        owner_of: a user, by uid; None: there is no such user.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        arrays: Arrays,
        queue: Queue,
        owner_of: Callable[[int], Owner | None],
        unix_time: Callable[[], float],
    ) -> None:
        self._dependencies = dependencies
        self._arrays = arrays
        self._queue = queue
        self._owner_of = owner_of
        self._unix_time = unix_time

    def look(self, job: BatchJob, now: float) -> Found:
        """Let a job that is pending into the line; one that is there stays where it is."""
        if not job.left:
            return Found(full(job))
        owner, unix_time = self._owner_of(job.uid), self._unix_time()
        if owner is None:
            return Found(f"no user has uid {job.uid} any more", State.FAILED)
        if job.deadline and unix_time > job.latest:
            return Found("it could not be over by its deadline", State.DEADLINE)
        due = [job.latest] if job.deadline else []
        if job.held is not Held.BY_NOBODY:
            return _waits(text_of(job), due, unix_time, now)
        verdict, text = self._dependencies.look(job)
        if verdict is Verdict.NEVER:
            return Found(text, State.CANCELLED)
        if verdict is Verdict.WAITS:
            return _waits(text, due, unix_time, now)
        is_met = job.after.is_singleton or len(job.after.on) > len(corresponding(job.after))
        job.after = of_elements(job.after)
        if text := self._arrays.lost(job):
            is_met = True
            if not job.left:
                return Found(text, State.CANCELLED)
        return replace(self._let_in(job, owner, due, now), is_met=is_met)

    def _let_in(self, job: BatchJob, owner: Owner, due: list[float], now: float) -> Found:
        unix_time = self._unix_time()
        if job.begins > unix_time:
            return _waits("its begin time has not come", [*due, job.begins], unix_time, now)
        if not (room := self._arrays.room(job)):
            self._queue.withdraw(job.job_id)
            return _waits(self._arrays.why_none(job), due, unix_time, now)
        if not self._queue.refresh(job, room):
            return _waits(self._queue.enqueue(job, room, owner, now), due, unix_time, now)
        return _waits(job.reason, due, unix_time, now)


def demand_sensible(begins: float, deadline: float, time_s: float, unix_time: float) -> None:
    """Refuse times that no job can keep.

    Args:
        begins, deadline: unix time; 0: there is none.
        time_s: the job's limit; 0: it has none.

    Raises:
        RequestRefused: the text says which.
    """
    if not deadline:
        return
    if not time_s:
        text = "a job with a deadline needs a time limit (-time)"
        raise RequestRefused(Refusal.BAD_REQUEST, text)
    if (late_s := max(begins, unix_time) + time_s - deadline) > 0:
        text = f"the job would be over {late_s:.0f} s after its deadline (-begin, -time, -deadline)"
        raise RequestRefused(Refusal.BAD_REQUEST, text)


def _waits(text: str, due: list[float], unix_time: float, now: float) -> Found:
    left_s = max(min(due) - unix_time, LATER_S) if due else None
    return Found(text, again=None if left_s is None else now + left_s)
