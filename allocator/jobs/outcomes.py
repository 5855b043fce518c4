"""How the jobs of yods have ended, for those that wait for them.

A job has ended when it holds no slot, and its yod has said how it ended or is gone. The two are
told by different peers, so either may come first. A job whose yod has said nothing counts as
failed. Pure.
"""

from __future__ import annotations

from msgspec import Struct

from native.ids import PortalId
from native.wire.base import JobEnd, State


class _Open(Struct):
    """A job that has not ended.

    Attributes:
        yod: that is to say how it ends; None: it has, or is gone.
        has_run: its program has begun, as far as it is known.
        has_ended_well: as far as it is known.
    """

    uid: int
    yod: PortalId | None
    has_slots: bool = True
    has_run: bool = False
    has_ended_well: bool = False


class Outcomes:
    """The jobs of yods that have not ended, and how the last ones have.

    Attributes:
        news: jobs that have ended, for whoever waits for that.

    Args:
        most: so many that have ended are remembered, and so many that hold no slot are waited for.
    """

    def __init__(self, most: int) -> None:
        self.news: set[int] = set()
        self._most = most
        self._open: dict[int, _Open] = {}
        self._of_yod: dict[PortalId, set[int]] = {}
        self._awaited: dict[int, None] = {}  # they hold no slot; the longest waiting first
        self._ended: dict[int, bool] = {}  # whether well, the oldest first

    def check(self) -> None:
        """Assert what must always hold."""
        assert len(self._ended) <= self._most and len(self._awaited) <= self._most
        assert not self._open.keys() & self._ended.keys()
        for job_id, job in self._open.items():
            assert job.has_slots or job.yod is not None, job_id
            assert (job_id in self._awaited) == (not job.has_slots), job_id
            assert job.yod is None or job_id in self._of_yod[job.yod], job_id
        assert sum(map(len, self._of_yod.values())) == sum(
            job.yod is not None for job in self._open.values()
        )

    def is_awaited(self, job_id: int) -> bool:
        """It holds no slot, and its yod has yet to say how it has ended."""
        return job_id in self._awaited

    def has_run(self, job_id: int) -> bool:
        """Whether a job that is awaited has begun before its end."""
        return self._open[job_id].has_run

    def has_ended_well(self, job_id: int) -> bool | None:
        """How a job has ended; None: it has not, or is forgotten."""
        return self._ended.get(job_id)

    def granted(self, job_id: int, uid: int, yod: PortalId) -> None:
        """A yod has got slots."""
        self._open[job_id] = _Open(uid, yod)
        self._of_yod.setdefault(yod, set()).add(job_id)

    def told(self, job_id: int, uid: int, end: JobEnd | None) -> None:
        """A job is released; its owner says how it has ended, and nobody else is heard."""
        job = self._open.get(job_id)
        if job is not None and job.uid == uid and job.yod is not None:
            job.has_ended_well = end is not None and end.state is State.COMPLETED
            self._forget_yod(job_id, job)
            self._look(job_id, job)

    def slots_gone(self, job_id: int, has_run: bool) -> None:
        """A job holds no slot any more.

        Args:
            has_run: its program had begun.
        """
        if (job := self._open.get(job_id)) is None:
            return
        job.has_slots, job.has_run = False, has_run
        self._awaited[job_id] = None
        self._look(job_id, job)
        if len(self._awaited) > self._most:
            longest = next(iter(self._awaited))
            self._end(longest, self._open[longest])

    def gone(self, yod: PortalId) -> None:
        """A yod is gone: it says nothing any more."""
        for job_id in sorted(self._of_yod.get(yod, ())):
            job = self._open[job_id]
            self._forget_yod(job_id, job)
            self._look(job_id, job)

    def _look(self, job_id: int, job: _Open) -> None:
        if job.yod is None and not job.has_slots:
            self._end(job_id, job)

    def _end(self, job_id: int, job: _Open) -> None:
        self._forget_yod(job_id, job)
        del self._open[job_id], self._awaited[job_id]
        self.news.add(job_id)
        self._ended[job_id] = job.has_ended_well
        while len(self._ended) > self._most:
            del self._ended[next(iter(self._ended))]

    def _forget_yod(self, job_id: int, job: _Open) -> None:
        yod, job.yod = job.yod, None
        if yod is not None:
            self._of_yod[yod].discard(job_id)
            if not self._of_yod[yod]:
                del self._of_yod[yod]
