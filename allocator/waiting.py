"""Batch jobs in the line of a partition. Pure."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from msgspec.structs import replace

from allocator.batch.job import BatchJob
from allocator.batch.queue import Expected
from allocator.jobs.choosing import Chooser
from allocator.jobs.grants import Owner, runs_of
from allocator.jobs.line import Line, Waiting
from allocator.nodes.access import Claim
from allocator.queue.admission import Admission, fewest_nodes
from allocator.queue.policy import Policy
from native.duration import written
from native.wire.alloc import NodeRequest, NodeSpec
from native.wire.base import Factor, Terms


class BatchLine:
    """Where they wait. See :class:`allocator.batch.queue.Queue`.

    Args:
        look_again: is called when the line is to be looked at.
    """

    def __init__(
        self,
        line: Line,
        policy: Policy,
        slots: Chooser,
        admission: Admission,
        wall_clock: Callable[[], float],
        look_again: Callable[[], None],
    ) -> None:
        self._line = line
        self._policy = policy
        self._slots = slots
        self._admission = admission
        self._wall_clock = wall_clock
        self._look_again = look_again

    def could(self, uid: int, terms: Terms, spec: NodeSpec) -> None:
        """Refuse what the partition can never give to a batch job of a user."""
        where = self._slots.where(terms, self._admission.nodes_of(terms))
        self._slots.demand_possible((spec,), Claim.to(where, uid, is_batch=True))

    def enqueue(self, job: BatchJob, count: int, owner: Owner, now: float) -> str:
        """Let a batch job wait behind all others; what it waits for, empty: for nothing."""
        waiting = self._waiting(job, owner, now)
        waiting.count, request = count, waiting.request
        asked = (request, waiting.claim, self._line, self._wall_clock(), job.time_s)
        waiting.text = self._policy.why_not(*asked)
        self._line.add_batch(waiting)
        if waiting.since < now:  # a plan has those behind it already
            self._policy.changed()
        self._look_again()
        return waiting.text

    def forecast(self, job: BatchJob, owner: Owner) -> Expected | None:
        """When and where a batch job would begin that came into the line now; None: not known."""
        if self._slots.held:
            return None
        waiting, unix_time = self._waiting(job, owner, 0.0), self._wall_clock()
        times = (unix_time, job.time_s, max(0.0, job.begins - unix_time))
        asked = (waiting.request, waiting.claim, self._line)
        if (start := self._policy.forecast(*asked, *times)) is None:
            return None
        spans, _ = runs_of(start.picks)
        return Expected(unix_time + start.at, tuple((span.node, span.count) for span in spans))

    def _waiting(self, job: BatchJob, owner: Owner, now: float) -> Waiting:
        specs = (job.spec.unpacked(),)
        request = NodeRequest(
            specs, job.name, waits=True, is_exclusive=job.is_exclusive, terms=job.terms
        )
        if job.since is None or not (job.attempt or job.elements):
            job.since = now
        waiting = Waiting(None, owner, request, job.since, "", job_id=job.job_id)
        waiting.attempt = job.attempt
        waiting.time_s, waiting.submitted = job.time_s, job.submitted
        waiting.is_array = job.elements is not None
        waiting.priority, among = job.priority, self._admission.nodes_of(job.terms)
        waiting.where = self._slots.where_by_now(job.terms, among)
        return waiting

    def waits(self, job_id: int) -> str:
        """Why a batch job waits; empty: it is not in the line."""
        if (waiting := self._line.of_batch(job_id)) is None:
            return ""
        lacks = self.awaited(waiting)
        text = f"place {self._line.place_of(waiting)} of {len(self._line)}"
        return f"{text}; {lacks or 'what is free is kept for those before it'}"

    def awaited(self, waiting: Waiting) -> str:
        """What a request lacks now; empty: nothing, but for those before it."""
        request, claim = waiting.request, waiting.claim
        asked = (claim.uid, request.terms, waiting.request.slots, fewest_nodes(request.specs))
        if text := self._admission.blocked(*asked):
            return text
        unix_time = self._wall_clock()
        if text := self._slots.lacks(request, claim):
            is_told = claim.switches and waiting.more_at < inf
            more_s = max(1.0, waiting.more_at - unix_time) if is_told else 0.0
            return f"{text}; it takes more switches in {written(more_s)}" if is_told else text
        return self._policy.booked(request, claim, unix_time, waiting.time_s)

    def expected(self, job_id: int) -> float:
        """When a batch job is expected to have its slots: unix time; 0: not known."""
        waiting = self._line.of_batch(job_id)
        return 0.0 if waiting is None else waiting.expected

    def factors(self, job_id: int) -> tuple[Factor, ...]:
        """What the priority of a batch job that waits is made of."""
        if (waiting := self._line.of_batch(job_id)) is None:
            return ()
        return self._line.factors(waiting, self._wall_clock())

    def prioritised(self, job: BatchJob) -> None:
        """The priority of a batch job is another."""
        if (waiting := self._line.of_batch(job.job_id)) is not None:
            waiting.request = replace(waiting.request, terms=job.terms)
            waiting.priority = job.priority
            self._line.changed(waiting)
            self._look_again()

    def refresh(self, job: BatchJob, count: int) -> bool:
        """Take what a batch job asks for as it is now; whether it is in the line."""
        if (waiting := self._line.of_batch(job.job_id)) is None:
            return False
        if (waiting.time_s, waiting.count) != (job.time_s, count):
            waiting.time_s, waiting.count = job.time_s, count
            self._policy.changed()
            self._look_again()
        return True

    def one_runs(self) -> None:
        """A batch job runs, and may be ended for one that waits."""
        if self._admission.preempts:
            self._look_again()

    def withdraw(self, job_id: int) -> None:
        """A batch job waits no more."""
        if (waiting := self._line.of_batch(job_id)) is not None:
            self._line.remove(waiting)
            self._look_again()
