"""Batch jobs are handed in: each once, and not too many. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from allocator.batch.dependencies import Dependencies
from allocator.batch.job import TOKENS_COUNT, BatchJob, Earlier, Held, RecordBatchJob
from allocator.jobs.assign import RequestRefused
from allocator.jobs.grants import Owner
from allocator.nodes.access import Claim
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, Send
from native.wire import batch
from native.wire.alloc import NodeSpec, Refused
from native.wire.base import clipped


class Submissions:
    """What users hand in, known by its token when they do so again.

    Args:
        jobs: those that have not ended, by id; new ones are added.
        could: refuses what the partition can never give to somebody; raises RequestRefused.
        new_id: a job id that nobody has had.
        old_id: takes one back of which nobody has heard.
    """

    def __init__(
        self,
        jobs: dict[int, BatchJob],
        dependencies: Dependencies,
        earlier: Earlier,
        limits: Limits,
        *,
        could: Callable[[Claim, NodeSpec], None],
        new_id: Callable[[], int],
        old_id: Callable[[int], None],
        unix_time: Callable[[], float],
    ) -> None:
        self._jobs = jobs
        self._dependencies = dependencies
        self._tokens = dict(earlier.tokens)
        self._count_of = Counter(job.uid for job in jobs.values())
        self._limits = limits
        self._could = could
        self._new_id = new_id
        self._old_id = old_id
        self._unix_time = unix_time

    def check(self, jobs: Mapping[int, BatchJob]) -> None:
        """Assert what must always hold."""
        assert +self._count_of == Counter(job.uid for job in jobs.values())
        assert len(self._tokens) <= TOKENS_COUNT

    def submitted(self, source: PortalId, owner: Owner, message: batch.Submit) -> list[Action]:
        """A user hands a job in.

        Raises:
            RequestRefused: it cannot be taken.
        """
        if (job_id := self._tokens.get((owner.uid, message.token))) is not None:
            return self._submitted_again(source, job_id, message.token)
        self._could(Claim(owner.uid, is_batch=True), message.spec)
        self._dependencies.demand_possible(message.after)
        self._demand_room(owner)
        job = BatchJob(
            job_id=self._new_id(),
            uid=owner.uid,
            owner=owner.name,
            name=message.name,
            token=message.token,
            spec=message.spec,
            time_s=message.time_s,
            after=message.after,
            is_exclusive=message.is_exclusive,
            held=Held.BY_USER if message.is_held else Held.BY_NOBODY,
            submitted=self._unix_time(),
            asker=source,
        )
        self._jobs[job.job_id] = job
        self._dependencies.add(job)
        self._tokens[job.uid, job.token] = job.job_id
        if len(self._tokens) > TOKENS_COUNT:
            del self._tokens[next(iter(self._tokens))]
        self._count_of[job.uid] += 1
        return [RecordBatchJob(job, message.task)]

    def _submitted_again(self, source: PortalId, job_id: int, token: bytes) -> list[Action]:
        """The answer was lost, or is not given yet."""
        job = self._jobs.get(job_id)
        if job is not None and not job.is_recorded:
            job.asker = source
            return []
        return [Send(source, batch.Submitted(job_id, token, clipped(job.reason if job else "")))]

    def _demand_room(self, owner: Owner) -> None:
        full = ""
        if (total := len(self._jobs)) >= self._limits.submitted_count:
            full = f"{total} batch jobs have not ended (YOD_SUBMITTED_COUNT of bebopd)"
        elif (count := self._count_of[owner.uid]) >= self._limits.submitted_each_count:
            full = f"{count} batch jobs of {owner.name} have not ended"
            full += " (YOD_SUBMITTED_EACH_COUNT of bebopd)"
        if full:
            raise RequestRefused(Refusal.BUSY, full)

    def refused(self, job: BatchJob, text: str) -> list[Action]:
        """The disk has not taken a new job: it never was."""
        self._tokens.pop((job.uid, job.token), None)
        self._old_id(job.job_id)
        if job.asker is None:
            return []
        return [Send(job.asker, Refused(Refusal.NOT_RECORDED, text))]

    def ended(self, job: BatchJob) -> None:
        """A job is not among ``jobs`` any more."""
        self._count_of[job.uid] -= 1
