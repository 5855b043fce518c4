"""Who waits for the ends of batch jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from native.ids import PortalId


class Waiters:
    """The questions that are answered when jobs have ended: one of each user's connection."""

    def __init__(self) -> None:
        self._questions: dict[PortalId, tuple[tuple[int, ...], set[int]]] = {}
        self._of_job: dict[int, set[PortalId]] = {}

    def __len__(self) -> int:
        return len(self._questions)

    def check(self, unfinished: Iterable[int]) -> None:
        """Assert what must always hold: each waits for a job that has not ended."""
        pairs = {(job_id, peer) for job_id, peers in self._of_job.items() for peer in peers}
        questions = self._questions.items()
        assert pairs == {(job_id, peer) for peer, (_, left) in questions for job_id in left}
        assert all(left for _, left in self._questions.values())
        assert self._of_job.keys() <= set(unfinished)

    def add(self, source: PortalId, asked: tuple[int, ...], left: set[int]) -> None:
        """A user waits; an earlier question of the same connection is forgotten.

        Args:
            asked: the jobs of the question.
            left: those of them that have not ended; at least one.
        """
        self.gone(source)
        self._questions[source] = (asked, left)
        for job_id in left:
            self._of_job.setdefault(job_id, set()).add(source)

    def gone(self, peer: PortalId) -> None:
        """A user is gone, and waits for no job."""
        for job_id in self._questions.pop(peer, ((), set()))[1]:
            self._of_job[job_id].discard(peer)
            if not self._of_job[job_id]:
                del self._of_job[job_id]

    def ended(self, job_id: int) -> Iterator[tuple[PortalId, tuple[int, ...]]]:
        """A job has ended: whose question is to be answered now, and its jobs."""
        for source in sorted(self._of_job.pop(job_id, ())):
            asked, left = self._questions[source]
            left.discard(job_id)
            if not left:
                del self._questions[source]
                yield source, asked
