"""What yods ask of a partition: nodes are given, or refused, or waited for.

Pure: no clock, no transport, no key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec.structs import replace

from allocator.batch.job import RecordEvent
from allocator.jobs import grants, ids
from allocator.jobs.accounting import Accounting, row_of
from allocator.jobs.assign import RequestRefused, fits_beside, shares_on, unpacked
from allocator.jobs.batch import BatchLimits, over_limit
from allocator.jobs.choosing import Chooser, claim_of
from allocator.jobs.grants import Keys, Owner, make_grant, permitted, runs_of
from allocator.jobs.ids import JobIds
from allocator.jobs.job import Job, JobState
from allocator.jobs.line import Line, RankingMaker, Waiting
from allocator.jobs.table import JobTable
from allocator.nodes.access import ANYWHERE, Claim, Where
from allocator.nodes.table import NodeTable, Placement
from allocator.queue.admission import Admission
from allocator.queue.passes import Passes
from allocator.queue.policy import Policy, Preemption, Turn
from allocator.waiting import BatchLine
from native.errors import Refusal
from native.ids import PortalId, Principal, name_of_job
from native.limits import Limits
from native.machine import Action, Log, Send
from native.nodelist import format_spans
from native.text import plural
from native.wire.alloc import Grant, NodeRequest, NodeSpec, Refused
from native.wire.base import NO_TERMS, clipped
from native.wire.placed import NodeLoan

_RUNS_MAX = 1 << 14  # ranges of runs in one grant: some 8 bytes each
_SOON_S = 1e-3  # after which the line is looked at again at the earliest: clocks differ a little


class ReserveJobIds(Action, frozen=True):
    """Note on the disk that ids below ``end`` are used."""

    end: int


class Requests:
    """The requests for nodes of one partition. Methods return the actions to carry out.

    The arguments are those of :class:`allocator.bebopd.Bebopd`, and:

    Args:
        policy: who is next.
        admission: the rules of the queues.
        ranking: makes the order of the line; None: it is that of arrival.
        on_granted: takes the grant of a batch job, instead of a yod.
        on_refused: takes the reason why a batch job can be given nothing any more.
        on_preempted: has jobs end for one that waits.

    Attributes:
        of_batch: the batch jobs that wait in the line.
    """

    def __init__(
        self,
        nodes: NodeTable,
        jobs: JobTable,
        accounting: Accounting,
        placement: Placement,
        *,
        epoch: int,
        job_ids: JobIds,
        keys: Keys,
        owner_of: Callable[[int], Owner | None],
        wall_clock: Callable[[], float],
        limits: Limits,
        name: str,
        only_uid: int | None,
        batch: BatchLimits,
        began: float,
        allocation: str,
        expected: int,
        policy: Callable[[Chooser], Policy],
        admission: Admission,
        ranking: RankingMaker | None,
        on_granted: Callable[[int, Grant, float], list[Action]],
        on_refused: Callable[[int, str, float], list[Action]],
        on_preempted: Callable[[Preemption, float], list[Action]],
    ) -> None:
        self._nodes = nodes
        self._jobs = jobs
        self._accounting = accounting
        self._slots = Chooser(nodes, placement, name)
        self._policy = policy(self._slots)
        self._passes = Passes(self._policy.pass_s)
        self._epoch = epoch
        self._ids = job_ids
        self._keys = keys
        self.owner_of = owner_of
        self._wall_clock = wall_clock
        self._limits = limits
        self._name = name
        self._only_uid = only_uid
        self._batch = batch
        self._began = began
        self._allocation = allocation
        self._expected = expected
        self._early: list[tuple[PortalId, Principal, NodeRequest]] = []  # until nodes are there
        self._on_granted = on_granted
        self._on_refused = on_refused
        self._on_preempted = on_preempted
        self._admission = admission
        self._line = Line(limits, None if ranking is None else ranking(nodes.slots))
        line = self._line, self._policy, self._slots, admission
        self.of_batch = BatchLine(*line, wall_clock, self._look_again)
        self._look_at: float | None = None  # at which others may begin
        self._found_at = (0, 0)  # likewise of what hosts can do, and of names of nodes
        self._served_at = (0, 0)  # the counts of changes, when the line was last looked at

    def state(self, now: float) -> list[str]:
        """The requests that wait, as text for the log."""
        return self._line.state(now)

    def check(self) -> None:
        """Assert what must always hold: nobody waits whose turn it is."""
        if not self._slots.held and not self._passes.is_put_off:
            self._policy.check(self._line, self._wall_clock())

    def requested(
        self, source: PortalId, principal: Principal, request: NodeRequest, now: float
    ) -> list[Action]:
        """A yod asks: it is granted nodes, refused, or waits in the line."""
        is_early = len(self._nodes) < self._expected or self._passes.is_put_off
        if is_early and len(self._early) < self._limits.waiting_count:
            self._early.append((source, principal, request))
            return []
        try:
            owner, asked = self.permitted(principal), unpacked(request, self._nodes)
            return self._answer(source, owner, asked, now)
        except RequestRefused as refused:
            return self.refuse(source, principal.uid, refused, now)

    def _answer(
        self, source: PortalId, owner: Owner, request: NodeRequest, now: float
    ) -> list[Action]:
        grants.demand_sound(request, self._allocation)
        wanted = (request.terms, request.specs, request.time_s)
        terms, time_s = self._admission.terms(owner, *wanted, is_launch=True)
        request = replace(request, terms=terms, time_s=time_s)
        if terms.gives_way and self._allocation:
            text = "a step has nodes of its own allocation: it does not give way (-nice)"
            raise RequestRefused(Refusal.BAD_REQUEST, text)
        where = self._slots.where(terms, self._admission.nodes_of(terms))
        claim = claim_of(owner.uid, request, is_batch=False, where=where)
        asked = request, claim, self._line, self._wall_clock()
        try:
            placement = self._policy.demand_turn(*asked)
            job_id = self._ids.next
            actions = self._give(source, owner, request, now, job_id, None, placement, where)
            self._policy.given(*asked, job_id)
            return actions
        except RequestRefused as refused:
            if refused.code is not Refusal.BUSY:
                raise
            if not (request.waits or self._policy.ends_others(*asked)):
                raise
            self._demand_others(request, str(refused))
            waiting = Waiting(source, owner, request, now, str(refused), where=where)
            waiting.submitted, waiting.time_s = asked[-1], request.time_s
            self._look_again()  # others may end for it
            return self._wait(waiting)

    def deadline(self) -> float | None:
        """When the line is to be looked at, whatever happens; None: it need not be."""
        return self._look_at

    def hold(self, text: str) -> None:
        """Give nothing for this reason; empty: give again."""
        self._slots.held = text
        self.limits_changed()

    def limits_changed(self) -> None:
        """Look at the line anew: how long jobs run is not what it was, or the rules of queues."""
        self._policy.changed()
        self._look_again()

    def _look_again(self) -> None:
        """Look at the line though no slot is free that was not before."""
        self._served_at = (-1, -1)

    def refuse(
        self, source: PortalId, uid: int, refused: RequestRefused, now: float
    ) -> list[Action]:
        """Say no to a user."""
        more = grants.excuse(refused.code, now - self._began, self._limits.heartbeat_s)
        text = clipped(str(refused) + more)
        return [
            Send(source, Refused(refused.code, text, refused.spec)),
            Log(f"refused uid {uid}: {text}"),
        ]

    def name_of(self, uid: int) -> str:
        """A user's name, or number where there is no such user."""
        owner = self.owner_of(uid)
        return owner.name if owner else str(uid)

    def could(self, claim: Claim, *specs: NodeSpec) -> None:
        """Refuse what the partition can never give to somebody.

        Raises:
            RequestRefused: the text has the numbers.
        """
        self._slots.demand_possible(specs, claim)

    def rules_changed(self) -> None:
        """The site's rules are others."""
        self._find_anew()
        self._line.rank_anew()
        self.limits_changed()

    def _find_anew(self, *, is_all: bool = True, is_featured: bool = True) -> None:
        found = cache(self._slots.where_by_now)  # many wait on the same terms
        for waiting in self._line:
            terms = waiting.request.terms
            if is_all or (is_featured and terms.constraint) or waiting.where.may_grow:
                waiting.follow(found(terms, self._admission.nodes_of(terms)))

    # The line

    def _demand_others(self, request: NodeRequest, text: str) -> None:
        """Refuse a step that would wait for the step that waits for it.

        Raises:
            RequestRefused: the end of others would not make room for it.
        """
        asking = [] if request.overlaps else self._jobs.askers(request.asker)
        if (
            asking
            and not self._slots.held
            and not fits_beside(request.specs, self._nodes, asking, request.is_exclusive)
        ):
            name = name_of_job(asking[0], self._allocation)
            text += f"; only the end of job {name}, which asks, could make room"
            raise RequestRefused(Refusal.BUSY, f"{text}; with --overlap it runs beside it")

    def _wait(self, waiting: Waiting) -> list[Action]:
        self._line.add(waiting)
        self._line.rank(self._wall_clock())
        return [*self._tell_line(), Log(f"{waiting.owner.name} waits: {waiting.text}")]

    def serve(self, now: float) -> list[Action]:
        """Grant what fits now, up to the first that is to be waited for."""
        before, self._found_at = self._found_at, (self._nodes.featured.changes, self._nodes.named)
        if before != self._found_at:
            self._find_anew(is_all=False, is_featured=before[0] != self._found_at[0])
        actions = self._serve_line(now)
        if early := self._serve_early(now):
            actions += [*early, *self._serve_line(now)]
        return actions

    def _serve_early(self, now: float) -> list[Action]:
        """Answer the requests that came before the nodes, or while a pass was put off."""
        if not self._early or len(self._nodes) < self._expected or self._passes.is_put_off:
            return []
        early, self._early = self._early, []
        return [action for asked in early for action in self.requested(*asked, now)]

    def _serve_line(self, now: float) -> list[Action]:
        if not self._line:
            self._look_at = None
            self._passes.forget()
            return []
        unix_time = self._wall_clock()
        is_due = self._look_at is not None and now >= self._look_at
        if not is_due and self._served_at == (self._nodes.changes, self._admission.freed):
            return []
        next_at = self._passes.put_off(now)
        self._policy.is_put_off = next_at is not None
        if next_at is not None:
            self._look_at = next_at
            return []
        actions: list[Action] = []
        self._line.rank(unix_time)
        for turn in self._policy.turns(self._line, unix_time):
            if isinstance(turn, Preemption):
                actions += self._on_preempted(turn, now)
                continue
            self._line.served_one(turn.waiting)
            actions += self._serve_one(turn, now)
        self._served_at = (self._nodes.changes, self._admission.freed)
        change = self._policy.next_change(unix_time) if self._line else None
        self._look_at = None if change is None else now + max(change - unix_time, _SOON_S)
        return [*actions, *self._tell_line()]

    def _serve_one(self, turn: Turn, now: float) -> list[Action]:
        waiting, waiting.lenders = turn.waiting, turn.lenders
        source, owner, request = waiting.source, waiting.owner, waiting.request
        is_new = waiting.is_array or source is not None
        waiting.given = self._ids.next if is_new else waiting.job_id
        which = (waiting.given, waiting.since, turn.placement, waiting.where, waiting)
        try:
            return self._give(source, owner, request, now, *which)
        except RequestRefused as refused:
            if source is None:
                return self._on_refused(waiting.job_id, str(refused), now)
            return self.refuse(source, owner.uid, refused, now)

    def gone(self, peer: PortalId) -> None:
        """A yod is gone, and waits no more."""
        self._early = [asked for asked in self._early if asked[0] != peer]
        if self._line and self._line.gone(peer):
            self._served_at = (-1, -1)  # it may have held others back

    def _tell_line(self) -> list[Action]:
        first = self._line.first
        if first is not None and first.told_place > 1:
            first.text = self._awaited(first)
        return [Send(source, queued) for source, queued in self._line.news()]

    def _awaited(self, waiting: Waiting) -> str:
        """What a request waits for now."""
        return self.of_batch.awaited(waiting) or waiting.text

    # Permission, and the grant

    def permitted(self, principal: Principal) -> Owner:
        """The owner of the principal's job.

        Raises:
            RequestRefused: the principal may not run jobs here.
        """
        return permitted(principal, self._only_uid, self.owner_of, self._name)

    def _give(
        self,
        source: PortalId | None,
        owner: Owner,
        request: NodeRequest,
        now: float,
        job_id: int = 0,
        since: float | None = None,
        placement: Placement | None = None,
        where: Where = ANYWHERE,
        batch: Waiting | None = None,
    ) -> list[Action]:
        """Give slots to a yod, which has asked at ``since``, or to the batch job with this id.

        Args:
            batch: what it gave in the line; an array has another id than its element, which is new.
            placement: the slots that it may have; None: all that are free.
            where: the nodes that it may have.
        """
        claim = claim_of(owner.uid, request, source is None, where)
        picks = self._slots.assign(request, claim, placement)
        spans, runs = runs_of(picks)
        if (changes := len(runs.ranges)) > _RUNS_MAX:
            raise RequestRefused(
                Refusal.BAD_REQUEST,
                f"{runs.size} ranks lie in {changes} pieces on their nodes, at most {_RUNS_MAX}:"
                " deal more at a time (--distribution=plane=K)",
            )
        is_whole = request.is_exclusive or (self._nodes.has_exclusive and not request.overlaps)
        if is_whole or any(spec.cores > 1 for spec in request.specs):
            spans = self._slots.widened(spans, request, picks)
        nodes = self._nodes.placed(spans)
        slots = 0 if request.overlaps else sum(span.slots * span.count for span in spans)
        blocked = self._admission.blocked
        if since is None and (text := blocked(owner.uid, request.terms, slots, len(nodes))):
            raise RequestRefused(Refusal.BUSY, text)
        if (limit := self._batch.limit(request.batch_job)) is not None:
            held = self._jobs.nodes_of_batch(request.batch_job)
            if text := over_limit(request.batch_job, limit, held, nodes.numbers()):
                raise RequestRefused(Refusal.BATCH_LIMIT, text)
        supply = None if placement is None else placement.supply
        shares = shares_on(request.specs, picks, self._nodes, supply)
        if self._ids.next >= ids.END:
            raise RequestRefused(Refusal.NOT_PERMITTED, "this partition has used all job ids")
        loans: tuple[NodeLoan, ...] = ()
        if batch is not None and batch.lenders:
            from allocator.queue.borrowing import loans_for  # few take slots of others

            loans = loans_for(
                nodes.spans, self._nodes, [self._jobs[each] for each in batch.lenders]
            )
        grant = make_grant(
            job_id or self._ids.next,
            owner,
            nodes,
            runs,
            self._keys,
            epoch=self._epoch,
            wall_s=self._wall_clock(),
            pending_s=self._limits.pending_s,
            allocation=self._allocation,
            overlaps=request.overlaps,
            shares=shares,
            attempt=0 if batch is None else batch.attempt,
            time_s=request.time_s,
            gives_way=source is not None and request.terms.gives_way,
            loans=loans,
        )
        if text := grants.why_unsendable(grant, len(loans)):
            raise RequestRefused(Refusal.BAD_REQUEST, text)
        if (job_id := grant.job_id) == self._ids.next:
            self._ids.take()
        job = Job(
            job_id=job_id,
            uid=owner.uid,
            owner=owner.name,
            state=JobState.PENDING,
            since=now,
            granted=now,
            requester=source,
            program=request.program,
            batch_job=request.batch_job,
            asker=request.asker if self._jobs.get(request.asker) else 0,
            root=nodes.spans[0].node,
            is_adopted=not self._ids.is_given(job_id),
            attempt=0 if batch is None else batch.attempt,
            terms=NO_TERMS if source is None else request.terms,
            loans=loans,
        )
        self._jobs.add(job, nodes, runs, request.overlaps, now, shares)
        began = self._wall_clock()
        self._admission.begins(job_id, owner.uid, request.terms, slots, len(nodes), began)
        on = format_spans([(span.node, span.count) for span in nodes.spans])
        if source is not None:
            answer: list[Action] = [Send(source, grant)]
            asked = began - (0.0 if since is None else now - since)
            words = (job_id, owner.uid, owner.name, request.program, slots, nodes, asked, began)
            row = row_of(*words, request.terms, request.time_s)
            recorded = self._accounting.granted(row, source)
        else:
            answer, recorded = self._on_granted(batch.job_id if batch else 0, grant, now), []
        noun = "node" if len(nodes) == 1 else "nodes"
        return [
            *answer,
            *self.reserve(),
            *recorded,
            RecordEvent(job_id, f"granted: {plural(slots, 'slot')} on {noun} {on}"),
            Log(f"granted to {owner.name}: ranks {runs.size}, nodes {on}", job_id),
        ]

    def reserve(self) -> list[Action]:
        """Note on the disk that ids will be used, ahead of use: no grant waits for a disk."""
        end = self._ids.reserve()
        return [ReserveJobIds(end)] if end else []
