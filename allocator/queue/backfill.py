"""Backfill: a later request goes first where that delays none of the first ones. Pure.

The first requests in the line that do not fit have an expected start each, with slots that are
kept for it (conservative backfill; with one such request it is EASY). Others may have slots that
are free for all of their time, whatever the first ones get then. What has no time limit, as a
launch by yod, needs its slots for ever: it passes nobody who could need them.

See D. Lifka, *The ANL/IBM SP scheduling system* (EASY), and A. Mu'alem, D. Feitelson, *Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling*.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from math import inf

from msgspec.structs import replace

from allocator.jobs.assign import RequestRefused
from allocator.jobs.choosing import Chooser
from allocator.jobs.job import Job, JobState
from allocator.jobs.line import Line, Waiting, kept_text
from allocator.jobs.table import JobTable
from allocator.lending.loans import borrowers
from allocator.nodes.access import Claim
from allocator.nodes.bookings import Booking, against
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.table import NodeTable, Placement
from allocator.queue.admission import NOBODYS, Admission, fewest_nodes
from allocator.queue.kinds import Kinds
from allocator.queue.plan import Plan
from allocator.queue.policy import Preemption, Running, Turn
from allocator.queue.preemption import Preempting
from allocator.queue.profile import OVERDUE_S, UNLIMITED_S, Profile, Start
from allocator.queue.supply import HeldSlots, stocks_of
from allocator.queue.switches import few_or_more
from native.duration import written
from native.errors import Refusal
from native.limits import Limits
from native.wire.alloc import NodeRequest
from native.wire.base import Terms

Asked = tuple[NodeRequest, Claim, Line, float]  # and the unix time

_ENDING = (JobState.REVOKING, JobState.RELEASING)


class Backfill:
    """Decides who is next on a partition.

    Args:
        running: the jobs that have slots.
        admission: the rules of the queues.
    """

    def __init__(
        self,
        nodes: NodeTable,
        jobs: JobTable,
        placement: ArrayPlacement,
        slots: Chooser,
        limits: Limits,
        running: Running,
        admission: Admission,
    ) -> None:
        self._nodes = nodes
        self._jobs = jobs
        self._placement = placement
        self._slots = slots
        self._limits = limits
        self._running = running
        self._admission = admission
        self._preempting = Preempting(jobs, running, admission, self._profile)
        self._stocks = stocks_of(nodes, jobs)
        self._held = HeldSlots()
        self._kinds = Kinds()
        self._plan: Plan | None = None
        self._turned = 0  # the count of the jobs, when it was made
        self._found: Start | None = None  # of the request that has its turn, in the plan
        self.pass_s, self.is_put_off = limits.pass_s, False

    def changed(self) -> None:
        """Plan anew."""
        self._plan = None

    def turns(self, line: Line, unix_time: float) -> Iterator[Turn | Preemption]:
        """All that fit and delay nobody; notes when the first of the others are expected."""
        if self._slots.held or not line:
            return
        plan = self._plan
        if plan is None or not plan.is_of(self._nodes, line, self._admission.freed, unix_time):
            if plan is not None:
                self._expect_nothing(plan)
            plan = self._plan = Plan(self._profile(unix_time), unix_time)
            self._turned = self._jobs.turned
        has_given = False
        plan.allowed.clear()
        for waiting in line:
            if waiting.plan == plan.number:
                continue
            if plan.is_full(self._limits):
                break
            plan.look_at(waiting)
            if self._is_kept_back(plan, waiting):
                continue
            while (start := self._start(plan, waiting, unix_time)) is not None:
                before = self._nodes.changes
                yield Turn(waiting, start.placement)
                plan.allowed.clear()
                if self._nodes.changes != before:  # it was given them
                    has_given = True
                    time_s = (waiting.time_s or UNLIMITED_S) + unix_time - plan.at
                    plan.profile.take(start, waiting.request, time_s, waiting.given)
                if not waiting.count:
                    break
            else:
                plan.count += 1
        plan.keep(self._nodes, line, self._admission.freed)
        if has_given and any(self._is_kept_for_nobody(plan, waiting) for waiting in plan.first):
            plan.expire()
            yield from self.turns(line, unix_time)
        elif self._preempting.is_possible and (found := self._preempting.find(plan)) is not None:
            yield found
            if found.turn is not None:
                yield found.turn
            plan.expire()
            yield from self.turns(line, unix_time)

    def _is_kept_for_nobody(self, plan: Plan, waiting: Waiting) -> bool:
        """Whether one for which slots are kept may not begin after what others were given."""
        kind = self._kinds.of(waiting)
        if kind.limited in plan.blocked:
            return False  # licences alone are
        asked = (kind.claim.uid, waiting.request.terms, kind.slots, kind.nodes)
        return bool(self._admission.blocked(*asked))

    def _expect_nothing(self, plan: Plan) -> None:
        """A plan is made anew: what it promised is promised again, or is not."""
        for waiting in plan.first:
            waiting.expected = 0.0

    def _is_kept_back(self, plan: Plan, waiting: Waiting) -> bool:
        """Whether the rules of its queue keep one back, which delays nobody behind it."""
        kind, request = self._kinds.of(waiting), waiting.request
        if kind.limited in plan.allowed:
            return False
        if kind.limited not in plan.blocked:
            if not self._is_blocked(plan, request, kind.claim, kind.slots, kind.nodes):
                plan.allowed.add(kind.limited)
                return False
            is_first = not waiting.gives_way
            if is_first and request.terms.licences and plan.kept < self._limits.backfill_count:
                plan.claim(waiting)
            plan.blocked.add(kind.limited)
        waiting.expected = 0.0
        return True

    def _start(self, plan: Plan, waiting: Waiting, unix_time: float) -> Start | None:
        """Where a request begins now; None: it does not, and may have slots kept for later."""
        request, waiting.expected = waiting.request, 0.0
        is_kept = plan.kept < self._limits.backfill_count and not waiting.gives_way
        kind, time_s = self._kinds.of(waiting), waiting.time_s or inf
        alike = kind.anyones if plan.profile.is_anyones else kind.alike
        failed_s = plan.too_much.get(alike, inf)
        wants_few = kind.claim.switches > 0
        if time_s >= failed_s and alike in plan.too_much and not is_kept and not wants_few:
            return None
        elapsed_s, before = unix_time - plan.at, inf if is_kept else OVERDUE_S
        if wants_few:
            more_s = waiting.more_at - plan.at
            earliest = partial(
                plan.profile.earliest, request, time_s=time_s + elapsed_s, before=before
            )
            asked = earliest, kind.claim, self._patience_s(request.terms), more_s, elapsed_s
            start, more_s = few_or_more(*asked)
            if not plan.is_trial:
                self._note_more(plan, waiting, plan.at + more_s, unix_time)
        else:
            start = plan.profile.earliest(request, kind.claim, time_s + elapsed_s, before)
        if start is None or start.at >= OVERDUE_S:
            plan.too_much[alike] = min(failed_s, time_s)
        if start is None:
            return None
        if not start.at:
            if self._is_blocked(plan, request, kind.claim, *self._given(request, start)):
                return None
            return start
        if is_kept:
            plan.kept += 1
            plan.claim(waiting)
            plan.profile.take(start, request, (waiting.time_s or UNLIMITED_S) + elapsed_s)
            waiting.expected = plan.at + start.at if start.at < UNLIMITED_S else 0.0
        return None

    def _note_more(self, plan: Plan, waiting: Waiting, more_at: float, unix_time: float) -> None:
        """When one takes more leaf switches than it wants, and whether it does now."""
        waiting.more_at = more_at
        if more_at <= unix_time:
            waiting.where = replace(waiting.where, switches=0)
        else:
            plan.due = min(plan.due, more_at)

    def _patience_s(self, terms: Terms) -> float:
        """How long one waits for few leaf switches, when more would do."""
        most = self._limits.switches_wait_s
        return min(terms.switches_s or most, most)

    def check(self, line: Line, unix_time: float) -> None:
        """Assert that nobody waits whose turn it is, also by a new plan.

        Not while jobs are to end of which the last plan does not know: their slots will tell.
        """
        if self._plan is not None and self._turned != self._jobs.turned:
            return
        plan, self._plan = self._plan, None
        before = [(each.expected, each.plan, each.looked_at, each.more_at) for each in line]
        for turn in self.turns(line, unix_time):
            raise AssertionError(turn)
        self._plan = plan
        for waiting, state in zip(line, before, strict=True):
            waiting.expected, waiting.plan, waiting.looked_at, waiting.more_at = state

    def demand_turn(
        self, request: NodeRequest, claim: Claim, line: Line, unix_time: float
    ) -> Placement | None:
        """Slots that nobody who waits is expected to need."""
        self._found = None
        if self._slots.held or not (line or self._bookings(unix_time)):
            self._demand_allowed(request, claim, None)
            return None
        start = self._left((request, claim, line, unix_time), request.time_s or inf)
        self._demand_allowed(request, claim, start)
        if start is None and self._slots.fits(request, claim):
            kept = self.booked(request, claim, unix_time, request.time_s)
            raise RequestRefused(Refusal.BUSY, kept or self._kept_text(line, claim))
        return None if start is None else start.placement

    def given(
        self, request: NodeRequest, claim: Claim, line: Line, unix_time: float, job_id: int
    ) -> None:
        """The plan holds on, without the slots of this one."""
        plan, start, self._found = self._plan, self._found, None
        if plan is not None and start is not None:
            time_s = (request.time_s or UNLIMITED_S) + unix_time - plan.at
            plan.profile.take(start, request, time_s, job_id)
            plan.allowed.clear()
            plan.keep(self._nodes, line, self._admission.freed)
            if any(self._is_kept_for_nobody(plan, waiting) for waiting in plan.first):
                plan.expire()

    def ends_others(self, request: NodeRequest, claim: Claim, line: Line, unix_time: float) -> bool:
        """Whether it would fit behind those that wait, did none that gives way have slots."""
        giving_way = {job.job_id for job in self._jobs if job.terms.gives_way}
        if not giving_way or request.terms.gives_way or self._slots.held:
            return False
        giving_way.update(job.job_id for job in self._jobs if self._running.ends(job.job_id))
        asked = (claim.uid, request.terms, request.slots, fewest_nodes(request.specs))
        if self._admission.blocked(*asked):
            return False
        profile = self._profile(unix_time, giving_way)
        first = [each for each in line if not each.gives_way][: self._limits.backfill_count]
        for each in first:
            start = profile.earliest(each.request, each.claim, each.time_s or inf)
            if start is not None:
                profile.take(start, each.request, each.time_s or UNLIMITED_S)
        start = profile.earliest(request, claim, request.time_s or inf)
        return start is not None and start.at <= OVERDUE_S

    def why_not(
        self, request: NodeRequest, claim: Claim, line: Line, unix_time: float, time_s: float
    ) -> str:
        """What the first in the line lacks; of a later one its place, which costs little."""
        if text := self._admission.blocked(
            claim.uid, request.terms, request.slots, fewest_nodes(request.specs)
        ):
            return text
        if not line or self._slots.held:
            kept = self.booked(request, claim, unix_time, time_s)
            return kept or self._slots.lacks(request, claim)
        asked = request, claim, line, unix_time
        if self._left(asked, time_s or inf, self.is_put_off) is not None:
            return ""
        if self._slots.fits(request, claim):
            kept = self.booked(request, claim, unix_time, time_s)
            return kept or self._kept_text(line, claim)
        return "others are before it in the line"  # how many is another number soon

    def forecast(
        self,
        request: NodeRequest,
        claim: Claim,
        line: Line,
        unix_time: float,
        time_s: float,
        since_s: float,
    ) -> Start | None:
        """After all that wait: it delays nobody, and its time is the latest that it may be."""
        profile = self._planned(line, unix_time).profile
        earliest = partial(profile.earliest, request, time_s=time_s or inf, since=since_s)
        if claim.switches:
            start, _ = few_or_more(earliest, claim, self._patience_s(request.terms), inf)
        else:
            start = earliest(claim)
        return start if start is not None and start.at < UNLIMITED_S else None

    def _left(self, asked: Asked, time_s: float, is_rough: bool = False) -> Start | None:
        """Where one begins now if all that wait have what they are to; roughly: as last planned."""
        (request, claim, line, unix_time), plan = asked, self._plan
        state = self._nodes, line, self._admission.freed, unix_time
        if plan is None or not (is_rough or plan.is_of(*state)):
            plan = self._planned(line, unix_time)
        start = plan.profile.earliest(request, claim, time_s + unix_time - plan.at, OVERDUE_S)
        self._found = None if plan.is_trial else start
        return start

    def _kept_text(self, line: Line, claim: Claim) -> str:
        assert line.first is not None
        return kept_text(line.first, int(self._placement.admitting(claim).free_slots().sum()))

    def _planned(self, line: Line, unix_time: float) -> Plan:
        """What is left when all that wait have what they are to have."""
        plan = Plan(self._profile(unix_time), unix_time, is_trial=True)
        for plan.count, waiting in enumerate(line):
            if plan.is_full(self._limits):
                break
            if self._is_kept_back(plan, waiting):
                continue
            if (start := self._start(plan, waiting, unix_time)) is not None:
                plan.profile.take(start, waiting.request, waiting.time_s or UNLIMITED_S)
        return plan

    def _is_blocked(
        self, plan: Plan, request: NodeRequest, claim: Claim, slots: int, nodes: int
    ) -> bool:
        """Whether the rules of its queue keep a request back."""
        asked = (claim.uid, request.terms, slots, nodes)
        return bool(self._admission.blocked(*asked, plan.claimed))

    def _demand_allowed(self, request: NodeRequest, claim: Claim, start: Start | None) -> None:
        """Refuse what the rules of its queue keep back.

        Raises:
            RequestRefused: the text names the limit.
        """
        share = request.slots, fewest_nodes(request.specs)
        if start is not None:
            share = self._given(request, start)
        claimed = NOBODYS if self._plan is None else self._plan.claimed
        if text := self._admission.blocked(claim.uid, request.terms, *share, claimed):
            raise RequestRefused(Refusal.BUSY, text)

    def _given(self, request: NodeRequest, start: Start) -> tuple[int, int]:
        """How many slots and nodes a request would be given."""
        slots = self._slots.given(request, start.picks)
        return sum(slots.values()), len(slots)

    def _profile(self, unix_time: float, gone: Container[int] = ()) -> Profile:
        """The free slots.

        Args:
            gone: jobs that are to end now.
        """
        lent = borrowers(self._nodes) if self._nodes.lending else {}
        ends = (
            (OVERDUE_S, job) if job.job_id in gone else self._end_of(job, lent)
            for job in self._jobs
        )
        kept = self._bookings(unix_time)
        return Profile(
            self._nodes, self._placement, self._stocks, ends, kept, unix_time, self._held
        )

    def _bookings(self, unix_time: float) -> list[Booking]:
        """What is kept for some users, now or later."""
        every = (*self._admission.bookings, *self._nodes.bookings)
        return [booking for booking in every if booking.end > unix_time]

    def booked(self, request: NodeRequest, claim: Claim, unix_time: float, time_s: float) -> str:
        """The first of what is kept for others, if what is free now is too little without it."""
        bookings, lasts_s = self._bookings(unix_time), time_s or inf
        kept = against(bookings, claim.uid, unix_time, unix_time + lasts_s) if bookings else []
        if not kept or not self._slots.fits(request, claim):
            return ""
        profile = Profile(self._nodes, self._placement, self._stocks, (), kept, unix_time)
        if profile.earliest(request, claim, lasts_s, OVERDUE_S) is not None:
            return ""
        limit = f"it may need them for {written(time_s)}" if time_s else "it has no time limit"
        return f"{kept[0].text(unix_time)}; {limit}"

    def next_change(self, unix_time: float) -> float | None:
        """When the first of them ends, or somebody takes more leaf switches."""
        changes = [each.end for each in self._bookings(unix_time)]
        if self._plan is not None and unix_time < self._plan.due < inf:
            changes.append(self._plan.due)
        return min(changes, default=None)

    def _end_of(self, job: Job, lent: Mapping[int, Iterable[int]]) -> tuple[float, Job]:
        """When a job is expected to end; one that stands still goes on behind the last of others.

        Args:
            lent: who has slots of whom.
        """
        if job.state in _ENDING:
            return OVERDUE_S, job
        left = self._running.left(job.job_id)
        ends = UNLIMITED_S if left is None else max(left, OVERDUE_S)
        if job.job_id in lent and self._running.stands_still(job.job_id):
            others = filter(None, map(self._jobs.get, lent[job.job_id]))
            ends += max((self._end_of(each, lent)[0] for each in others), default=0.0)
        return ends, job
