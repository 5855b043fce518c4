"""Batch jobs are handed in: each once, and not too many. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from allocator.batch.dependencies import Dependencies
from allocator.batch.entrance import demand_sensible
from allocator.batch.job import (
    TOKENS_COUNT,
    BatchJob,
    Earlier,
    Elements,
    Held,
    RecordBatchJob,
    RecordEvent,
)
from allocator.batch.queue import Queue
from allocator.jobs.assign import RequestRefused
from allocator.jobs.grants import Owner
from allocator.jobs.ids import JobIds
from allocator.queue.admission import Admission
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, Log, Send
from native.text import plural, shown
from native.wire import batch
from native.wire.alloc import Refused
from native.wire.base import Array, clipped


class Submissions:
    """What users hand in, known by its token when they do so again.

    Args:
        jobs: those that have not ended, by id; new ones are added.
        queue: where they will wait.
        admission: the rules of the queues.
        ids: gives those of new jobs.
    """

    def __init__(
        self,
        jobs: dict[int, BatchJob],
        dependencies: Dependencies,
        earlier: Earlier,
        limits: Limits,
        queue: Queue,
        admission: Admission,
        ids: JobIds,
        unix_time: Callable[[], float],
    ) -> None:
        self._jobs = jobs
        self._dependencies = dependencies
        self._tokens = dict(earlier.tokens)
        self._count_of = Counter(job.uid for job in jobs.values())
        self._limits = limits
        self._queue = queue
        self._admission = admission
        for job in jobs.values():
            admission.taken(job.uid, job.terms)
            if job.nodes:
                admission.begins(job.job_id, job.uid, job.terms, *_share_of(job), job.began)
        self._ids = ids
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
        job = self._job(owner, message)
        if message.is_test:
            return [Send(source, self._forecast(job, owner))]
        job.job_id, job.asker = self._ids.take(), source
        self._jobs[job.job_id] = job
        self._dependencies.add(job)
        self._tokens[job.uid, job.token] = job.job_id
        if len(self._tokens) > TOKENS_COUNT:
            del self._tokens[next(iter(self._tokens))]
        self._count_of[job.uid] += 1
        self._admission.taken(job.uid, job.terms)
        return [RecordBatchJob(job, message.task)]

    def _job(self, owner: Owner, message: batch.Submit) -> BatchJob:
        """A job that could be taken, without an id.

        Raises:
            RequestRefused: it could not.
        """
        asked = (message.terms, (message.spec,), message.time_s)
        terms, time_s = self._admission.terms(owner, *asked, is_launch=False)
        self._queue.could(owner.uid, terms, message.spec)
        if message.array is not None:
            self._demand_elements(message.array)
        self._dependencies.demand_possible(message.after, message.array)
        unix_time = self._unix_time()
        demand_sensible(message.begins, message.deadline, time_s, unix_time)
        self._demand_room(owner)
        return BatchJob(
            job_id=0,
            uid=owner.uid,
            owner=owner.name,
            name=message.name,
            token=message.token,
            spec=message.spec,
            time_s=time_s,
            after=message.after,
            is_exclusive=message.is_exclusive,
            begins=message.begins,
            deadline=message.deadline,
            held=Held.BY_USER if message.is_held else Held.BY_NOBODY,
            terms=terms,
            elements=None if message.array is None else Elements(message.array),
            submitted=unix_time,
        )

    def _forecast(self, job: BatchJob, owner: Owner) -> batch.Forecast:
        """When and where a job would begin."""
        if job.held is not Held.BY_NOBODY:
            return batch.Forecast(0.0, text="begins when it is released")
        if text := self._dependencies.waits_for(job.after):
            return batch.Forecast(0.0, text=clipped(text))
        if (found := self._queue.forecast(job, owner)) is None:
            return batch.Forecast(0.0, text="what runs or waits before it has no time limit")
        count = sum(count for _, count in found.nodes)
        return batch.Forecast(found.at, found.nodes[: batch.SPANS_MAX], count)

    def _submitted_again(self, source: PortalId, job_id: int, token: bytes) -> list[Action]:
        """The answer was lost, or is not given yet."""
        job = self._jobs.get(job_id)
        if job is not None and not job.is_recorded:
            job.asker = source
            return []
        return [Send(source, batch.Submitted(job_id, token, clipped(job.reason if job else "")))]

    def _demand_elements(self, array: Array) -> None:
        if not array.count or not array.is_sound:
            raise RequestRefused(Refusal.BAD_REQUEST, f"no elements: {array.text}")
        if array.count > (most := self._limits.array_count):
            text = f"{array.count} elements, at most {most} (YOD_ARRAY_COUNT of bebopd)"
            raise RequestRefused(Refusal.BAD_REQUEST, text)

    def _demand_room(self, owner: Owner) -> None:
        full = ""
        if (total := len(self._jobs)) >= self._limits.submitted_count:
            full = f"{total} batch jobs have not ended (YOD_SUBMITTED_COUNT of bebopd)"
        elif (count := self._count_of[owner.uid]) >= self._limits.submitted_each_count:
            full = f"{count} batch jobs of {owner.name} have not ended"
            full += " (YOD_SUBMITTED_EACH_COUNT of bebopd)"
        if full:
            raise RequestRefused(Refusal.BUSY, full)

    def accepted(self, job: BatchJob) -> tuple[list[Action], list[Action]]:
        """The disk has a new job, that waits now: what is said of that, and the user's answer."""
        of = "" if job.elements is None else f", {plural(job.left, 'element')}"
        said = f"submitted by {job.owner}: {job.size_text}{of}, {shown(job.name)}"
        told: list[Action] = [RecordEvent(job.job_id, said), Log(said, job.job_id)]
        if (asker := job.asker) is None:
            return told, []
        job.asker = None
        return told, [Send(asker, batch.Submitted(job.job_id, job.token, clipped(job.reason)))]

    def refused(self, job: BatchJob, text: str) -> list[Action]:
        """The disk has not taken a new job: it never was."""
        self._tokens.pop((job.uid, job.token), None)
        self._ids.put_back(job.job_id)
        return [] if job.asker is None else [Send(job.asker, Refused(Refusal.NOT_RECORDED, text))]

    def began(self, element: BatchJob) -> None:
        """An element of an array is among ``jobs``."""
        self._count_of[element.uid] += 1
        self._admission.taken(element.uid, element.terms)

    def ended(self, job: BatchJob) -> None:
        """A job is not among ``jobs`` any more."""
        self._count_of[job.uid] -= 1
        self._admission.dropped(job.uid, job.terms)


def _share_of(job: BatchJob) -> tuple[int, int]:
    """Slots and nodes that a job has."""
    return job.given or job.spec.slots, sum(count for _, count in job.nodes)
