"""Requests for nodes on their way in, where a batch system says what batch jobs may have.

A request of a batch job waits until the batch system has spoken of that job: not longer ago than
its word is believed. While jobs of a batch job hold nodes it is asked again; the jobs of one that
has ended are ended, too: their session is a rogue (Cplant: bebopd_pbs.c).

Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from allocator.jobs.accounting import Accounting
from allocator.jobs.assign import RequestRefused
from allocator.jobs.batch import BatchLimits, Word, Words, demand_no_list
from allocator.jobs.table import JobTable
from allocator.requests import Requests
from native.errors import Refusal
from native.ids import PortalId, Principal
from native.limits import Limits
from native.machine import Action, Event, Log
from native.text import shown
from native.wire.alloc import NodeRequest

ASKED_MAX = 16  # questions at a time

Take = Callable[[PortalId, Principal, NodeRequest, float], list[Action]]


class AskBatchSystem(Action, frozen=True):
    """Ask the batch system about a batch job; a ``BatchSystemSaid`` follows."""

    batch_job: str


class BatchSystemSaid(Event, frozen=True):
    """The batch system has answered, or has not.

    Attributes:
        word: None: it has no such job, or that does not run.
        error: why there is no answer; empty: there is one.
    """

    batch_job: str
    word: Word | None = None
    error: str = ""


class Gate:
    """Lets requests through, at once or when the batch system has spoken.

    Args:
        limits_of: what the batch system has said; those of no system let all through.
        take: takes a request that may be answered.
    """

    def __init__(
        self,
        limits_of: BatchLimits,
        requests: Requests,
        jobs: JobTable,
        accounting: Accounting,
        limits: Limits,
        take: Take,
    ) -> None:
        self._words = limits_of if isinstance(limits_of, Words) else None
        self._requests = requests
        self._jobs = jobs
        self._accounting = accounting
        self._limits = limits
        self._take = take
        self._waiting: dict[str, list[tuple[PortalId, Principal, NodeRequest]]] = {}
        self._asked: set[str] = set()
        self._look_at: float | None = None  # when those that hold nodes are asked about

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do."""
        return self._look_at

    def requested(
        self, source: PortalId, principal: Principal, request: NodeRequest, now: float
    ) -> list[Action]:
        """A yod asks for nodes."""
        words = self._words
        if words is None or not request.batch_job:
            return self._take(source, principal, request, now)
        try:
            demand_no_list(request, words.system)
            if words.is_known(request.batch_job, now):
                words.demand_owner(request.batch_job, self._requests.name_of(principal.uid))
                return self._let_in(source, principal, request, now)
            self._demand_room(principal)
        except RequestRefused as refused:
            return self._requests.refuse(source, principal.uid, refused, now)
        self._waiting.setdefault(request.batch_job, []).append((source, principal, request))
        return self._ask()

    def said(self, event: BatchSystemSaid, now: float) -> list[Action]:
        """The batch system has answered."""
        words, batch_job = self._words, event.batch_job
        assert words is not None
        self._asked.discard(batch_job)
        actions: list[Action] = []
        if event.error:
            actions.append(Log(f"{words.system} job {shown(batch_job)}: {event.error}"))
        else:
            words.take(batch_job, event.word, now)
            if event.word is None:
                actions += self._end_rogue(batch_job, now)
        for source, principal, request in self._waiting.pop(batch_job, []):
            try:
                if event.error:
                    text = f"{words.system} does not say what job {shown(batch_job)} has"
                    raise RequestRefused(Refusal.BUSY, f"{text}: {event.error}")
                words.demand_owner(batch_job, self._requests.name_of(principal.uid))
            except RequestRefused as refused:
                actions += self._requests.refuse(source, principal.uid, refused, now)
            else:
                actions += self._let_in(source, principal, request, now)
        return [*actions, *self._ask()]

    def due(self, now: float) -> list[Action]:
        """The deadline has come: ask about the batch jobs that hold nodes."""
        if self._look_at is None or now < self._look_at:
            return []
        held = dict.fromkeys(job.batch_job for job in self._jobs if job.batch_job)
        self._look_at = now + self._limits.batch_word_s if held else None
        for batch_job in held:
            self._waiting.setdefault(batch_job, [])
        return self._ask()

    def gone(self, peer: PortalId) -> None:
        """A yod is gone, and waits no more."""
        for batch_job, waiting in self._waiting.items():
            self._waiting[batch_job] = [each for each in waiting if each[0] != peer]

    def _let_in(
        self, source: PortalId, principal: Principal, request: NodeRequest, now: float
    ) -> list[Action]:
        if self._look_at is None:
            self._look_at = now + self._limits.batch_word_s
        return self._take(source, principal, request, now)

    def _demand_room(self, principal: Principal) -> None:
        waiting = [by.uid for each in self._waiting.values() for _, by, _ in each]
        if (
            len(waiting) >= self._limits.waiting_count
            or waiting.count(principal.uid) >= self._limits.waiting_each_count
        ):
            text = "too many requests of batch jobs wait for the batch system"
            raise RequestRefused(Refusal.BUSY, text)

    def _ask(self) -> list[Action]:
        """Ask about as many as may be asked at a time, in the order in which they came."""
        room = ASKED_MAX - len(self._asked)
        asked = [batch_job for batch_job in self._waiting if batch_job not in self._asked]
        self._asked.update(asked[:room])
        return [AskBatchSystem(batch_job) for batch_job in asked[:room]]

    def _end_rogue(self, batch_job: str, now: float) -> list[Action]:
        """End the jobs of a batch job that the batch system knows no more."""
        assert self._words is not None
        actions: list[Action] = []
        for job in [job for job in self._jobs if job.batch_job == batch_job]:
            why = f"{self._words.system} job {shown(batch_job)} has ended"
            actions.append(Log(f"released: {why}", job.job_id))
            actions += self._accounting.told(job.job_id, None, self._words.system, now)
            actions += [*self._jobs.reset(job), *self._jobs.release(job, None, now)]
        return actions
