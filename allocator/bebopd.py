"""bebopd: the nodes of a partition, given to jobs.

Nodes announce themselves (:mod:`allocator.nodes.table`); yod asks for some and gets
a grant (:mod:`allocator.requests`); how they become free again is
:mod:`allocator.jobs.table`. State is soft: after a restart PCTs announce what they host.

Pure: no clock, no transport, no key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from allocator.asked import BatchRequests
from allocator.batch.job import BatchRecorded, Earlier
from allocator.batch.table import BatchJobs
from allocator.dependents import Dependents
from allocator.gate import BatchSystemSaid, Gate
from allocator.giving_way import GivingWay
from allocator.jobs.accounting import Accounting
from allocator.jobs.batch import NO_BATCH, BatchLimits
from allocator.jobs.grants import Keys, Operators, Owner
from allocator.jobs.ids import JobIds
from allocator.jobs.line import RankingMaker
from allocator.jobs.table import HAS_RUN, JobTable, RecordEnd
from allocator.nodes.node import Arrival, Node, NodeConflictError, arrival_news, trouble_news
from allocator.nodes.orders import Orders, OrdersRecorded, SendNodeEvents
from allocator.nodes.table import NodeTable, Placement
from allocator.queue.admission import NO_QUEUES, Admission
from allocator.queue.policy import PolicyMaker, first_in_first_out
from allocator.releases import Releaser, release_asked, reported
from allocator.requests import Requests
from allocator.uses import charges, note_earlier, note_ends
from allocator.violation import OF_JOBS, TOLD, violation
from native.deadlines import earliest
from native.errors import IllegalTransition
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import (
    Action,
    Contain,
    DeadlineReached,
    Event,
    Log,
    MessageReceived,
    PeerGone,
    Send,
    propagate,
)
from native.wire import batch
from native.wire.alloc import Freed, Hosting, NodeRequest, Release, Revoked, Unfit
from native.wire.base import JobMessage, Message, clipped
from native.wire.nodes import AskNodeEvents, NodeEventKind, Order
from native.wire.status import Accepted, Announce, HostedJob, Portion, Query, Rejected, Watch

if TYPE_CHECKING:
    from allocator.watching import Watching

_DAEMON_OR_USER = (PrincipalKind.PARTITION, PrincipalKind.USER)


class Bebopd:
    """State machine of a partition.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.

    Attributes:
        nodes: every node that has announced itself.
        jobs: every job that holds a slot.
        accounting: every other job that has no final row.
        batch: every batch job that has not ended.
        refuses: why no request for nodes is granted any more; empty: they are.
    """

    def __init__(
        self,
        placement: Placement,
        *,
        policy: PolicyMaker = first_in_first_out,
        admission: Admission = NO_QUEUES,
        ranking: RankingMaker | None = None,
        epoch: int,
        next_job_id: int,
        sign: Callable[[bytes], bytes],
        job_key: Callable[[int, int, int], bytes],
        owner_of: Callable[[int], Owner | None],
        wall_clock: Callable[[], float],
        limits: Limits,
        name: str = "local",
        only_uid: int | None = None,
        operators: Operators | None = None,
        fixed_names: Mapping[str, int] | None = None,
        remembered_names: Mapping[str, int] | None = None,
        orders: Mapping[int, Orders] | None = None,
        portions: Mapping[int, Portion] | None = None,
        exclusive: Collection[int] = (),
        batch_limits: BatchLimits = NO_BATCH,
        began: float = float("-inf"),
        allocation: str = "",
        earlier: Earlier | None = None,
        earlier_rows: Iterable[batch.Row] = (),
        expected: int = 0,
        contain: Contain = propagate,
    ) -> None:
        """Begin with no nodes.

        Args:
            placement: chooses nodes; used by this machine only.
            policy: makes what decides who is next.
            admission, ranking: the rules of queues; the order of those that wait, if it is another
                than that in which they came.
            epoch: a larger number for each later bebopd of a partition.
            next_job_id: the first of ``ids.BLOCK`` ids that nobody else uses.
            sign, job_key: a MAC by the partition's key; of a job id, a uid, an expiry (unix time).
            owner_of: a user by uid; None: no such user.
            wall_clock: unix time, seconds.
            name: the partition's, for texts.
            only_uid: the one user whose jobs the PCTs can run; None: any user's.
            operators: beside root and ``only_uid``; None: nobody.
            fixed_names, remembered_names: number by name, by the nodes file; by an earlier bebopd.
            orders: what operators have ordered for nodes, from an earlier bebopd.
            portions, exclusive, batch_limits: as for the nodes; what a batch job may have.
            began: seconds, monotonic; a refusal soon after it says that nodes may still come.
            allocation: whose steps the jobs are; empty: they are none.
            earlier: batch jobs of an earlier bebopd; None: this one takes none.
            earlier_rows: of other jobs that it has granted, and that have no final row.
            expected: so many nodes will come; requests wait for them.
            contain: called with an exception of the deadline of one job.
        """
        names = fixed_names or {}, remembered_names or {}
        self.nodes = NodeTable(placement, *names, orders or {}, portions or {}, exclusive)
        self.jobs = JobTable(self.nodes, limits, contain)
        self.accounting = Accounting(limits, wall_clock, earlier_rows)
        note_earlier(self.accounting, admission)
        self._placement = placement
        self._admission = admission
        self._epoch = epoch
        self._ids = JobIds(next_job_id)
        self._wall_clock = wall_clock
        self._only_uid = only_uid
        self._operators = operators or Operators()
        self._limits = limits
        self._name = name
        asks = self.nodes, self.jobs, self.accounting, admission, limits, wall_clock
        giving_way = GivingWay(lambda: self.batch, lambda: self._asked, *asks)
        self._lenders = giving_way.lenders
        where = self.nodes, self.jobs, placement
        self._requests = Requests(
            self.nodes,
            self.jobs,
            self.accounting,
            placement,
            epoch=epoch,
            job_ids=self._ids,
            keys=Keys(sign, job_key),
            owner_of=owner_of,
            wall_clock=wall_clock,
            limits=limits,
            name=name,
            only_uid=only_uid,
            batch=batch_limits,
            began=began,
            allocation=allocation,
            expected=expected,
            policy=lambda slots: policy(*where, slots, limits, giving_way, admission),
            admission=admission,
            ranking=ranking,
            on_granted=lambda *granted: self.batch.granted(*granted),
            on_refused=lambda *refused: self.batch.refused(*refused),
            on_preempted=giving_way.end,
        )
        self.batch = BatchJobs(
            self.nodes,
            self.jobs,
            self._requests.of_batch,
            limits,
            admission=admission,
            ids=self._ids,
            owner_of=owner_of,
            unix_time=wall_clock,
            earlier=earlier or Earlier(),
        )
        self._dependents = Dependents(
            self._requests, self.jobs, self.batch, limits, lambda: self.refuses, allocation
        )
        take = self._dependents.requested
        self._gate = Gate(batch_limits, self._requests, self.jobs, self.accounting, limits, take)
        parts = self.nodes, self.jobs, self.accounting, self.batch, self._requests, limits, name
        is_taken = earlier is not None
        self._asked: BatchRequests = BatchRequests(*parts, wall_clock, is_taken=is_taken)
        self._watching: Watching | None = None  # nobody has watched
        self.refuses = ""
        self._has_begun = False
        self._sweep_at: float | None = None  # when a node may have been silent too long

    @property
    def next_job_id(self) -> int:
        """The lowest id that no job has had."""
        return self._ids.next

    def hold(self, text: str) -> None:
        """Give nobody nodes for this reason: requests wait; empty: give them again."""
        self._requests.hold(text)

    def rules_changed(self) -> None:
        """The rules of the queues are others."""
        self._requests.rules_changed()

    def deadline(self) -> float | None:
        """When the next ``DeadlineReached`` is due; None: nothing is timed."""
        look_at = self._watching.deadline() if self._watching is not None else None
        mine = earliest(self._sweep_at, look_at, self._gate.deadline(), self.accounting.deadline())
        mine = earliest(mine, self._lenders.deadline())
        asked_at, line_at = self._asked.deadline(), self._requests.deadline()
        return earliest(mine, self.jobs.deadline(), self.batch.deadline(), asked_at, line_at)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Raises:
            IllegalTransition: not an event of this machine. No message does that.
        """
        begun: list[Action] = []
        if not self._has_begun:
            self._has_begun = True
            begun = self.batch.begin(now)
            self.accounting.begin(now)
            self._asked.overtime.begin(now)
        actions = [*begun, *self._changed_by(event, now)]
        noted = note_ends(actions, 0, self._admission, self.jobs)
        self.batch.requeues.look(now)
        actions += self._dependents.serve(actions, now)
        served = self._requests.serve(now)
        self._dependents.note(served)
        actions += [*served, *self._lenders.look(now)]
        for end in [action for action in actions if isinstance(action, RecordEnd)]:
            self.batch.slots_gone(end.job_id, end.attempt, now)
            has_run = end.outcome == HAS_RUN
            actions += self.accounting.slots_gone(end.job_id, has_run, end.slot_s, now)
        note_ends(actions, noted, self._admission, self.jobs)
        actions += charges(actions, self._admission)
        self._asked.overtime.look(actions, now)
        if self._watching is not None:
            actions += self._watching.look(actions, now)
        if self.nodes.to_restart:
            from allocator.operators import due

            numbers, self.nodes.to_restart = self.nodes.to_restart, set()
            actions += due(numbers, self.nodes)
        return actions

    def _changed_by(self, event: Event, now: float) -> list[Action]:
        match event:
            case MessageReceived(source, principal, message):
                return self._received(source, principal, message, now)
            case PeerGone(peer, text):
                node = self.nodes.of_peer(peer)
                down = self._down(node, text, now) if node is not None else []
                if self._watching is not None:
                    self._watching.gone(peer)
                self._gate.gone(peer)
                self._requests.gone(peer)
                self._dependents.gone(peer)
                self.batch.questions.gone(peer)
                gone = self.accounting.gone(peer, text)
                return down + self.jobs.requester_gone(peer, text, now) + gone
            case DeadlineReached():
                due = self._sweep(now) + self.jobs.due(now) + self.batch.due(now)
                due += self.accounting.due(now) + self._gate.due(now)
                return due + self._asked.due(now)
            case BatchRecorded():
                return self.batch.recorded(event, now)
            case BatchSystemSaid():
                return self._gate.said(event, now)
            case OrdersRecorded():
                from allocator.operators import recorded

                return recorded(event, self.nodes, self.jobs, self.batch)
        raise IllegalTransition("bebopd", event)

    def state(self, now: float) -> list[str]:
        """The state as text for the log: a line for each node, and one for each job."""
        from allocator.rows import state_lines  # few logs have it

        lines = state_lines(self._name, self.nodes, self.jobs, now)
        return [*lines, *self._requests.state(now), *self._dependents.state()]

    def check(self) -> None:
        """Assert what must always hold."""
        self.nodes.check()
        self.jobs.check()
        for node in self.nodes:
            assert self._placement.free(node.number) == node.free(), node
        for job in self.jobs:
            assert job.job_id < self._ids.next <= self._ids.reserved, job
        self._requests.check()
        if self._watching is not None:
            self._watching.check()
        self._dependents.check()
        self.batch.check()
        self.accounting.check()
        self._asked.overtime.check()
        self._lenders.check()

    def _received(
        self, source: PortalId, principal: Principal, message: Message, now: float
    ) -> list[Action]:
        is_daemon = principal.kind is PrincipalKind.PARTITION
        node = self.nodes.of_peer(source) if is_daemon else None
        if node is not None:
            node.heard_at = now
        match message:
            case Announce() if is_daemon:
                return self._announced(source, message, now)
            case Hosting() | Freed() | Revoked() if node is not None:
                return reported(node, message, self.jobs, self.batch, now)
            case Unfit(job_id, _, text) if node is not None:
                from allocator.operators import unfit

                self.batch.requeues.stuck(node, job_id)
                return unfit(node, job_id, text, self.nodes, self.jobs, self._wall_clock())
            case batch.Started() if node is not None:
                return self.batch.started(node, message, now)
            case batch.BrokerEnded() if node is not None:
                return self.batch.broker_ended(node, message, now)
            case NodeRequest() if principal.kind in _DAEMON_OR_USER:
                return self._gate.requested(source, principal, message, now)
            case Release(job_id, end) if principal.kind in _DAEMON_OR_USER or (
                principal.job_id == job_id  # the broker of a batch job has no other key
            ):
                self._dependents.told(job_id, principal.uid, end)
                return self._release_asked(source, principal, message, now)
            case JobMessage(job_id) if isinstance(message, TOLD) and (
                principal.kind in _DAEMON_OR_USER or principal.job_id == job_id
            ):
                return self._asked.told(source, principal, message)
            case _ if isinstance(message, OF_JOBS) and principal.kind in _DAEMON_OR_USER:
                viewer = None if self._is_operator(principal) else principal.uid
                return self._asked.asked(source, principal, message, viewer, now)
            case Query() if principal.kind in _DAEMON_OR_USER:
                from allocator.rows import tables  # few launches are looked at

                whole = tables(self.nodes, self.jobs, self._wall_clock(), now)
                return [Send(source, table) for table in whole]
            case Watch(since) if principal.kind in _DAEMON_OR_USER:
                return self._watched(source, principal.uid, since, now)
            case AskNodeEvents(of, count) if principal.kind in _DAEMON_OR_USER:
                return [SendNodeEvents(source, of, count)]
            case Order() if principal.kind in _DAEMON_OR_USER:
                return self._ordered(source, principal, message, now)
        return violation(source, principal, message)

    # Nodes come and go

    def _announced(self, source: PortalId, announce: Announce, now: float) -> list[Action]:
        earlier = self.nodes.of_peer(source)
        trouble = earlier.trouble if earlier is not None else ""
        try:
            node, arrival = self.nodes.admit(announce, source, now)
        except NodeConflictError as error:
            return [Log(f"rejected {source}: {error}"), Send(source, Rejected(clipped(str(error))))]
        actions: list[Action] = []
        if arrival is Arrival.RESTARTED:
            node.note(over=frozenset())
        actions += [*arrival_news(node, arrival), *trouble_news(node, trouble)]
        if earlier is not None and earlier is not node:
            actions += self._down(earlier, f"its PCT is {node} now", now)
        if self._sweep_at is None:
            self._sweep_at = now + self._silent_s
        every_s = self._limits.announced_s(len(self.nodes))
        actions.append(Send(source, Accepted(node.number, self._epoch, every_s)))
        if node.orders.restart is not None:
            from allocator.operators import announced

            actions += announced(node)
        held = set(node.held)
        actions += self.jobs.compare(node, arrival, announce.hosted_attempts, now)
        for hosted in announce.jobs:
            if hosted.job_id not in held:
                actions += self._hosts_unknown(node, hosted, now)
        return actions + self.batch.announced(node, announce.attempt_of, now)

    def _hosts_unknown(self, node: Node, hosted: HostedJob, now: float) -> list[Action]:
        """Take in a job that this bebopd did not place on the node.

        Either an earlier bebopd granted it, or the announcement is older than its end.
        """
        if self._ids.is_given(hosted.job_id) or node.is_over((hosted.job_id, hosted.attempt)):
            return []  # late: it has been freed since
        owner, batch_job = self._requests.name_of(hosted.uid), self.batch.get(hosted.job_id)
        is_earlier = batch_job is not None and hosted.attempt < batch_job.attempt
        queue = self.accounting.queue_of(hosted.job_id)
        actions = self.jobs.adopt(node, hosted, owner, is_earlier, now, queue)
        if batch_job is None:
            actions += self.accounting.adopted(hosted.job_id, hosted.uid, owner, hosted.elapsed_s)
        self._ids.skip(hosted.job_id)
        return actions + self._requests.reserve()

    def _down(self, node: Node, text: str, now: float) -> list[Action]:
        if not node.is_up:
            return []
        self.nodes.mark_down(node, text)
        self.batch.node_down(node, now)
        lost = node.happened(NodeEventKind.LOST, text)
        return [Log(f"{node} is down: {text}"), lost, *self.jobs.node_down(node, now)]

    def _sweep(self, now: float) -> list[Action]:
        """Mark the nodes that have been silent for too long."""
        if self._sweep_at is None or now < self._sweep_at:
            return []
        actions: list[Action] = []
        for node in self.nodes.silent(now - self._silent_s):
            actions += self._down(node, f"silent for {now - node.heard_at:.0f} s", now)
        earliest_s = self.nodes.earliest()
        self._sweep_at = None if earliest_s is None else earliest_s + self._silent_s
        return actions

    @property
    def _silent_s(self) -> float:
        """A node that is not heard from for so long is down."""
        limits = self._limits
        return limits.silent_s * limits.announced_s(len(self.nodes)) / limits.heartbeat_s

    def _watched(self, source: PortalId, uid: int, since: int, now: float) -> list[Action]:
        from allocator.watching import Watching

        self._watching = self._watching or Watching(self.nodes, self.jobs, self._limits)
        return self._watching.asked(source, uid, since, now)

    def _release_asked(
        self, source: PortalId, principal: Principal, release: Release, now: float
    ) -> list[Action]:
        by = Releaser(source, principal.uid, self._is_operator(principal), self._requests.name_of)
        return release_asked(by, release, self.jobs, self.accounting, now)

    def _is_operator(self, principal: Principal) -> bool:
        """Root, the user that bebopd runs as, operators, and who holds the partition's key."""
        is_own = principal.kind is PrincipalKind.PARTITION or principal.uid in (0, self._only_uid)
        return is_own or self._operators.include(principal)

    def _ordered(
        self, source: PortalId, principal: Principal, order: Order, now: float
    ) -> list[Action]:
        from allocator.operators import Orderer, asked

        whose = (self._name, self._only_uid, self._operators.group)
        by = Orderer(source, principal.uid, self._is_operator(principal), *whose)
        return asked(by, order, self.nodes, self._requests, self._wall_clock(), now)
