"""bebopd: the nodes of a partition, given to jobs.

Nodes announce themselves (:mod:`allocator.nodes.table`); yod asks for some and gets
a grant (:mod:`allocator.jobs.assign`, :mod:`allocator.jobs.grants`); how they become free
again is :mod:`allocator.jobs.table`. State is soft: after a restart PCTs announce
what they host.

Pure: no clock, no transport, no key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allocator.jobs import ids
from allocator.jobs.assign import RequestRefused, assign
from allocator.jobs.batch import BatchLimits, BatchTable, over_limit
from allocator.jobs.grants import Keys, Owner, make_grant, runs_of
from allocator.jobs.ids import JobIds
from allocator.jobs.job import Holding, Job, JobState
from allocator.jobs.table import JobTable
from allocator.nodes.table import Arrival, Node, NodeConflictError, NodeTable, Placement
from native.errors import IllegalTransition, Refusal
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
from native.nodelist import format_nodes
from native.wire import codec
from native.wire.alloc import Freed, Hosting, NodeRequest, Refused, Release, Released, Revoked
from native.wire.base import MESSAGE_MAX_BYTES, Message, clipped
from native.wire.status import Accepted, Announce, HostedJob, Query, Rejected

_SURELY_FITS = 128  # nodes whose grant is below MESSAGE_MAX_BYTES whatever their names

_DAEMON_OR_USER = (PrincipalKind.PARTITION, PrincipalKind.USER)


class ReserveJobIds(Action, frozen=True):
    """Note on the disk that ids below ``end`` are used."""

    end: int


class RecordNode(Action, frozen=True):
    """Record a node's number under its name, for a later bebopd."""

    number: int
    name: str


class RecordGrant(Action, frozen=True):
    """Keep a record of a job that begins."""

    job_id: int
    uid: int
    program: str
    batch_job: str
    size: int
    nodes: tuple[int, ...]


class Bebopd:
    """State machine of a partition.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.

    Attributes:
        nodes: every node that has announced itself.
        jobs: every job that holds a slot.
    """

    def __init__(
        self,
        placement: Placement,
        *,
        epoch: int,
        next_job_id: int,
        sign: Callable[[bytes], bytes],
        job_key: Callable[[int, int, int], bytes],
        owner_of: Callable[[int], Owner | None],
        wall_clock: Callable[[], float],
        limits: Limits,
        name: str = "local",
        only_uid: int | None = None,
        fixed_names: Mapping[str, int] | None = None,
        remembered_names: Mapping[str, int] | None = None,
        batch: BatchLimits | None = None,
        began: float = float("-inf"),
        contain: Contain = propagate,
    ) -> None:
        """Begin with no nodes.

        Args:
            placement: chooses nodes; used by this machine only.
            epoch: a larger number for each later bebopd of a partition.
            next_job_id: the first of ``ids.BLOCK`` ids that nobody else uses.
            sign: the MAC of bytes by the partition's key.
            job_key: of a job id, a uid and an expiry (unix time).
            owner_of: a user by uid; None: no such user.
            wall_clock: unix time, seconds.
            name: the partition's, for texts.
            only_uid: the one user whose jobs the PCTs can run; None: any user's.
            fixed_names: number by node name, from the nodes file.
            remembered_names: the same, from an earlier bebopd.
            began: seconds, monotonic; a refusal soon after this says that nodes may still
                announce themselves.
            contain: called with an exception that the deadline of one job raised.
        """
        self._began = began
        self.nodes = NodeTable(placement, fixed_names or {}, remembered_names or {})
        self.jobs = JobTable(self.nodes, limits, contain)
        self._placement = placement
        self._epoch = epoch
        self._ids = JobIds(next_job_id)
        self._keys = Keys(sign, job_key)
        self._owner_of = owner_of
        self._wall_clock = wall_clock
        self._limits = limits
        self._name = name
        self._only_uid = only_uid
        self._batch = batch or BatchTable()
        self._sweep_at: float | None = None  # when a node may have been silent too long

    @property
    def next_job_id(self) -> int:
        """The lowest id that no job has had."""
        return self._ids.next

    def deadline(self) -> float | None:
        """When the next ``DeadlineReached`` is due; None: nothing is timed."""
        dues = [due for due in (self._sweep_at, self.jobs.deadline()) if due is not None]
        return min(dues) if dues else None

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Raises:
            IllegalTransition: not an event of this machine. No message does that.
        """
        match event:
            case MessageReceived(source, principal, message):
                return self._received(source, principal, message, now)
            case PeerGone(peer, text):
                node = self.nodes.of_peer(peer)
                down = self._down(node, text, now) if node is not None else []
                return down + self.jobs.requester_gone(peer, text, now)
            case DeadlineReached():
                return self._sweep(now) + self.jobs.due(now)
        raise IllegalTransition("bebopd", event)

    def state(self, now: float) -> list[str]:
        """The state as text for the log: a line for each node, and one for each job."""
        lines = [f"partition {self._name}: {len(self.nodes)} nodes, {len(self.jobs)} jobs"]
        for node in self.nodes:
            how = "up" if node.is_up else f"down: {node.down_text}"
            lines.append(f"{node}: {how}, {node.used()} of {node.slots} slots in use")
        for job in self.jobs:
            held, age = format_nodes(job.holdings), now - job.since
            said = f"of {job.owner}: {job.state.value}, nodes {held}, for {age:.0f} s"
            lines.append(f"job {job.job_id} {said}")
        return lines

    def check(self) -> None:
        """Assert what must always hold."""
        self.nodes.check()
        self.jobs.check()
        for node in self.nodes:
            assert self._placement.free(node.number) == node.free(), node
        for job in self.jobs:
            assert job.job_id < self._ids.next <= self._ids.reserved, job

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
                return self._from_node(node, message, now)
            case NodeRequest() if principal.kind in _DAEMON_OR_USER:
                return self._requested(source, principal, message, now)
            case Release(job_id) if principal.kind in _DAEMON_OR_USER:
                return self._release_asked(source, principal, job_id, now)
            case Query() if principal.kind in _DAEMON_OR_USER:
                from allocator.rows import tables  # few launches are looked at

                return [Send(source, table) for table in tables(self.nodes, self.jobs, now)]
        return _violation(source, principal, message)

    def _from_node(self, node: Node, message: Message, now: float) -> list[Action]:
        """Take a PCT's report about a job; one about a job that has ended is ignored."""
        match message:
            case Hosting(job_id) if job := self.jobs.get(job_id):
                return self.jobs.hosting(node, job, now)
            case Freed(job_id, numbers) if job := self.jobs.get(job_id):
                return self.jobs.freed(node, job, numbers)
            case Revoked(job_id, number, is_hosting) if job := self.jobs.get(job_id):
                if number == node.number:
                    return self.jobs.revoked(node, job, is_hosting, now)
                return [Log(f"{node} answered a revoke for node {number}", job_id)]
        return []

    # Nodes come and go

    def _announced(self, source: PortalId, announce: Announce, now: float) -> list[Action]:
        earlier = self.nodes.of_peer(source)
        try:
            node, arrival = self.nodes.admit(announce, source, now)
        except NodeConflictError as error:
            return [Log(f"rejected {source}: {error}"), Send(source, Rejected(clipped(str(error))))]
        actions: list[Action] = []
        match arrival:
            case Arrival.FIRST:
                actions.append(Log(f"{node} is here, slots: {node.slots}, at {node.address}"))
                actions.append(RecordNode(node.number, node.name))
            case Arrival.BACK:
                actions.append(Log(f"{node} is back"))
            case Arrival.RESTARTED:
                actions.append(Log(f"{node} has restarted, at {node.address}"))
                actions.append(RecordNode(node.number, node.name))
                node.over.clear()
        if earlier is not None and earlier is not node:
            actions += self._down(earlier, f"its PCT is {node} now", now)
        if self._sweep_at is None:
            self._sweep_at = now + self._limits.silent_s
        actions.append(Send(source, Accepted(node.number, self._epoch, self._limits.heartbeat_s)))
        held = set(node.held)
        actions += self.jobs.compare(node, arrival, {job.job_id for job in announce.jobs}, now)
        for hosted in announce.jobs:
            if hosted.job_id not in held:
                actions += self._hosts_unknown(node, hosted, now)
        return actions

    def _hosts_unknown(self, node: Node, hosted: HostedJob, now: float) -> list[Action]:
        """Take in a job that this bebopd did not place on the node.

        Either an earlier bebopd granted it, or the announcement is older than its end.
        """
        if self._ids.is_given(hosted.job_id) or hosted.job_id in node.over:
            return []  # late: it has been freed since
        owner = self._owner_of(hosted.uid)
        name = owner.name if owner else str(hosted.uid)
        actions = self.jobs.adopt(node, hosted, name, now)
        self._ids.skip(hosted.job_id)
        return actions + self._reserve()

    def _down(self, node: Node, text: str, now: float) -> list[Action]:
        if not node.is_up:
            return []
        self.nodes.mark_down(node, text)
        return [Log(f"{node} is down: {text}"), *self.jobs.node_down(node, now)]

    def _sweep(self, now: float) -> list[Action]:
        """Mark the nodes that have been silent for too long."""
        if self._sweep_at is None or now < self._sweep_at:
            return []
        actions: list[Action] = []
        for node in self.nodes:
            if now - node.heard_at >= self._limits.silent_s:
                actions += self._down(node, f"silent for {now - node.heard_at:.0f} s", now)
        heard = [node.heard_at for node in self.nodes if node.is_up]
        self._sweep_at = min(heard) + self._limits.silent_s if heard else None
        return actions

    # yod asks

    def _requested(
        self, source: PortalId, principal: Principal, request: NodeRequest, now: float
    ) -> list[Action]:
        try:
            return self._give(source, self._permitted(principal), request, now)
        except RequestRefused as refused:
            text = clipped(str(refused) + self._excuse(refused.code, now))
            return [
                Send(source, Refused(refused.code, text, refused.spec)),
                Log(f"refused uid {principal.uid}: {text}"),
            ]

    def _excuse(self, code: Refusal, now: float) -> str:
        """The end of a refusal's text when nodes may still announce themselves."""
        is_new = now - self._began < self._limits.heartbeat_s
        if is_new and code in (Refusal.NOT_ENOUGH_NODES, Refusal.UNKNOWN_NODE):
            return f" (bebopd began {now - self._began:.0f} s ago, more nodes may come)"
        return ""

    def _permitted(self, principal: Principal) -> Owner:
        """The owner of the principal's job.

        Raises:
            RequestRefused: the principal may not run jobs here.
        """
        if self._only_uid is not None and self._only_uid != principal.uid:
            ours = self._owner_of(self._only_uid)
            raise RequestRefused(
                Refusal.NOT_PERMITTED,
                f"partition `{self._name}` belongs to {ours.name if ours else self._only_uid}"
                " and runs nobody else's jobs",
            )
        owner = self._owner_of(principal.uid)
        if owner is None:
            raise RequestRefused(
                Refusal.NOT_PERMITTED, f"no user has uid {principal.uid} on bebopd's host"
            )
        return owner

    def _give(
        self, source: PortalId, owner: Owner, request: NodeRequest, now: float
    ) -> list[Action]:
        picks = assign(request.specs, self.nodes, self._placement, self._name)
        ranks, runs = runs_of(picks)
        size = sum(run.count for run in runs)
        if text := over_limit(request.batch_job, self._batch, self._of_batch(request), ranks):
            raise RequestRefused(Refusal.BATCH_LIMIT, text)
        if self._ids.next >= ids.END:
            raise RequestRefused(Refusal.NOT_PERMITTED, "this partition has used all job ids")
        grant = make_grant(
            self._ids.next,
            owner,
            ranks,
            runs,
            self.nodes,
            self._keys,
            epoch=self._epoch,
            wall_s=self._wall_clock(),
            pending_s=self._limits.pending_s,
        )
        if len(ranks) > _SURELY_FITS and len(codec.encode_part(grant)) > MESSAGE_MAX_BYTES:
            raise RequestRefused(
                Refusal.BAD_REQUEST, f"a grant of {len(ranks)} nodes does not fit in a message"
            )
        job_id = self._ids.take()
        job = Job(
            job_id=job_id,
            uid=owner.uid,
            owner=owner.name,
            state=JobState.PENDING,
            since=now,
            requester=source,
            program=request.program,
            batch_job=request.batch_job,
            root=grant.nodes[0].node,
            holdings={number: Holding(len(here), here) for number, here in ranks.items()},
        )
        self.jobs.add(job, now)
        nodes = tuple(ranks)
        return [
            Send(source, grant),
            *self._reserve(),  # ahead of use: no grant waits for a disk
            RecordGrant(job_id, owner.uid, request.program, request.batch_job, size, nodes),
            Log(f"granted to {owner.name}: ranks {size}, nodes {format_nodes(nodes)}", job_id),
        ]

    def _of_batch(self, request: NodeRequest) -> list[int]:
        """Nodes that the request's batch job holds."""
        if not request.batch_job:
            return []
        jobs = [job for job in self.jobs if job.batch_job == request.batch_job]
        return [number for job in jobs for number in job.holdings]

    def _reserve(self) -> list[Action]:
        end = self._ids.reserve()
        return [ReserveJobIds(end)] if end else []

    def _release_asked(
        self, source: PortalId, principal: Principal, job_id: int, now: float
    ) -> list[Action]:
        job = self.jobs.get(job_id)
        if job is None:  # every slot is free already
            return [Send(source, Released(job_id))]
        is_operator = principal.kind is PrincipalKind.PARTITION or principal.uid == 0
        if principal.uid == job.uid or is_operator:
            return self.jobs.release(job, source, now)
        text = f"job {job_id} belongs to {job.owner}"
        return [
            Send(source, Refused(Refusal.NOT_PERMITTED, text)),
            Log(f"uid {principal.uid} may not release it", job_id),
        ]


def _violation(source: PortalId, principal: Principal, message: Message) -> list[Action]:
    """A message that its sender may not send."""
    text = f"{type(message).__name__} is not for this peer ({principal.kind.name}) to send"
    actions: list[Action] = [Log(f"{source}: {text}")]
    match message:
        case NodeRequest() | Release():
            actions.append(Send(source, Refused(Refusal.NOT_PERMITTED, text)))
        case Announce():
            actions.append(Send(source, Rejected("a PCT needs the partition's key")))
    return actions
