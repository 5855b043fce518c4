"""What yods ask of a partition: nodes are given, or refused, or waited for.

Pure: no clock, no transport, no key.
"""

from __future__ import annotations

from collections.abc import Callable

from allocator.jobs import ids
from allocator.jobs.assign import (
    RequestRefused,
    assign,
    fits,
    fits_beside,
    shared_slots,
    slots_on,
    unused_slots,
)
from allocator.jobs.batch import BatchLimits, BatchTable, over_limit
from allocator.jobs.grants import Keys, Owner, make_grant, runs_of
from allocator.jobs.ids import JobIds
from allocator.jobs.job import Holding, Job, JobState
from allocator.jobs.line import Line, Waiting, kept_text
from allocator.jobs.selection import Picks
from allocator.jobs.table import JobTable
from allocator.nodes.table import NodeTable, Placement
from native.errors import Refusal
from native.ids import PortalId, Principal, name_of_job
from native.limits import Limits
from native.machine import Action, Log, Send
from native.nodelist import format_nodes
from native.wire import codec
from native.wire.alloc import NodeRequest, Refused
from native.wire.base import MESSAGE_MAX_BYTES, clipped

_RUNS_MAX = 1 << 14  # of one grant: 8 bytes each at most, in grants and in load messages
_SURELY_FITS = 128  # nodes, and runs, whose grant is below MESSAGE_MAX_BYTES whatever their names


class ReserveJobIds(Action, frozen=True):
    """Note on the disk that ids below ``end`` are used."""

    end: int


class RecordGrant(Action, frozen=True):
    """Keep a record of a job that begins."""

    job_id: int
    uid: int
    program: str
    batch_job: str
    size: int
    nodes: tuple[int, ...]


class Requests:
    """The requests for nodes of one partition. Methods return the actions to carry out.

    The arguments are those of :class:`allocator.bebopd.Bebopd`.
    """

    def __init__(
        self,
        nodes: NodeTable,
        jobs: JobTable,
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
        batch: BatchLimits | None,
        began: float,
        allocation: str,
    ) -> None:
        self._nodes = nodes
        self._jobs = jobs
        self._placement = placement
        self._epoch = epoch
        self._ids = job_ids
        self._keys = keys
        self._owner_of = owner_of
        self._wall_clock = wall_clock
        self._limits = limits
        self._name = name
        self._only_uid = only_uid
        self._batch = batch or BatchTable()
        self._began = began
        self._allocation = allocation
        self._line = Line(limits)
        self._served_at = 0  # the nodes' count of changes, when the line was last looked at

    def state(self, now: float) -> list[str]:
        """The requests that wait, as text for the log."""
        return [
            f"{waiting.owner.name} waits for {waiting.size} ranks, for {now - waiting.since:.0f} s"
            for waiting in self._line
        ]

    def check(self) -> None:
        """Assert what must always hold: nobody waits for what is free and not kept."""
        for waiting in self._line.served():
            assert not self._fits(waiting.request), waiting

    def requested(
        self, source: PortalId, principal: Principal, request: NodeRequest, now: float
    ) -> list[Action]:
        """A yod asks: it is granted nodes, refused, or waits in the line."""
        try:
            return self._answer(source, self._permitted(principal), request, now)
        except RequestRefused as refused:
            return self.refuse(source, principal.uid, refused, now)

    def _answer(
        self, source: PortalId, owner: Owner, request: NodeRequest, now: float
    ) -> list[Action]:
        if request.overlaps and not self._allocation:
            raise RequestRefused(Refusal.BAD_REQUEST, "only steps of an allocation can overlap")
        if request.overlaps and request.is_exclusive:
            raise RequestRefused(Refusal.BAD_REQUEST, "a step that overlaps has no node alone")
        try:
            self._demand_turn(request)
            return self._give(source, owner, request, now)
        except RequestRefused as refused:
            if not (request.waits and refused.code is Refusal.BUSY):
                raise
            self._demand_others(request, str(refused))
            return self._wait(Waiting(source, owner, request, now, str(refused)))

    def refuse(
        self, source: PortalId, uid: int, refused: RequestRefused, now: float
    ) -> list[Action]:
        """Say no to a user."""
        text = clipped(str(refused) + self._excuse(refused.code, now))
        return [
            Send(source, Refused(refused.code, text, refused.spec)),
            Log(f"refused uid {uid}: {text}"),
        ]

    def name_of(self, uid: int) -> str:
        """A user's name, or number where there is no such user."""
        owner = self._owner_of(uid)
        return owner.name if owner else str(uid)

    # The line

    def _demand_turn(self, request: NodeRequest) -> None:
        """Refuse a request that others wait before.

        Raises:
            RequestRefused: free slots are kept for one of them.
        """
        keeper = None if request.overlaps else self._line.keeper
        if keeper is not None and self._fits(request):
            free = sum(node.free() for node in self._nodes)
            raise RequestRefused(Refusal.BUSY, kept_text(keeper, free))

    def _demand_others(self, request: NodeRequest, text: str) -> None:
        """Refuse a step that would wait for the step that waits for it.

        Raises:
            RequestRefused: the end of others would not make room for it.
        """
        asking = []
        job = None if request.overlaps else self._jobs.get(request.asker)
        while job is not None:
            asking.append(job.job_id)
            job = self._jobs.get(job.asker)
        alone = request.is_exclusive
        if asking and not fits_beside(request.specs, self._nodes, asking, alone):
            name = name_of_job(asking[0], self._allocation)
            raise RequestRefused(
                Refusal.BUSY,
                f"{text}; only the end of job {name}, which asks, could make room;"
                " with --overlap it runs beside it",
            )

    def _wait(self, waiting: Waiting) -> list[Action]:
        self._line.add(waiting)
        return [*self._tell_line(), Log(f"{waiting.owner.name} waits: {waiting.text}")]

    def serve(self, now: float) -> list[Action]:
        """Grant what fits now, up to the first that is to be waited for."""
        if not self._line or self._served_at == self._nodes.changes:
            return []
        actions: list[Action] = []
        for waiting in self._line.served():
            if self._fits(waiting.request):
                self._line.remove(waiting)
                try:
                    actions += self._give(waiting.source, waiting.owner, waiting.request, now)
                except RequestRefused as refused:
                    actions += self.refuse(waiting.source, waiting.owner.uid, refused, now)
        self._served_at = self._nodes.changes
        return [*actions, *self._tell_line()]

    def gone(self, peer: PortalId) -> None:
        """A yod is gone, and waits no more."""
        if self._line:
            self._line.gone(peer)
            self._served_at = -1  # it may have held others back

    def _tell_line(self) -> list[Action]:
        first = self._line.first
        if first is not None and first.told_place > 1:
            first.text = self._awaited(first)
        return [Send(source, queued) for source, queued in self._line.news()]

    def _awaited(self, waiting: Waiting) -> str:
        """What a request waits for now."""
        try:
            self._assign(waiting.request)
        except RequestRefused as refused:
            return str(refused)
        return waiting.text

    # Slots

    def _placement_of(self, request: NodeRequest) -> Placement:
        """The slots that a request may have now."""
        if request.overlaps:
            return shared_slots(self._nodes)
        return unused_slots(self._nodes) if request.is_exclusive else self._placement

    def _fits(self, request: NodeRequest) -> bool:
        return fits(request.specs, self._nodes, self._placement_of(request))

    def _assign(self, request: NodeRequest) -> list[Picks]:
        placement = self._placement_of(request)
        try:
            return assign(request.specs, self._nodes, placement, self._name)
        except RequestRefused as refused:
            if not (request.is_exclusive and refused.code is Refusal.BUSY):
                raise
            text = f"{refused}; --exclusive takes unused nodes only"
            raise RequestRefused(refused.code, text, refused.spec) from None

    def _slots_of(self, request: NodeRequest, picks: list[Picks]) -> dict[int, int]:
        """The slots that a request gets on each node."""
        slots = slots_on(request.specs, picks)
        if request.is_exclusive:
            return {node.number: node.slots for node in self._nodes if node.number in slots}
        return slots

    # Permission, and the grant

    def _excuse(self, code: Refusal, now: float) -> str:
        """What is added to a refusal while nodes may still announce themselves; else empty."""
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
            raise RequestRefused(
                Refusal.NOT_PERMITTED,
                f"partition `{self._name}` belongs to {self.name_of(self._only_uid)}"
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
        picks = self._assign(request)
        ranks, runs = runs_of(picks)
        size = sum(run.count for run in runs)
        if len(runs) > _RUNS_MAX:
            raise RequestRefused(
                Refusal.BAD_REQUEST,
                f"{size} ranks change their node {len(runs) - 1} times, at most {_RUNS_MAX - 1}:"
                " deal more at a time (--distribution=plane=K)",
            )
        needed = self._slots_of(request, picks)
        slots = {number: needed[number] for number in ranks}
        held = self._jobs.nodes_of_batch(request.batch_job)
        if text := over_limit(request.batch_job, self._batch, held, ranks):
            raise RequestRefused(Refusal.BATCH_LIMIT, text)
        if self._ids.next >= ids.END:
            raise RequestRefused(Refusal.NOT_PERMITTED, "this partition has used all job ids")
        grant = make_grant(
            self._ids.next,
            owner,
            slots,
            runs,
            self._nodes,
            self._keys,
            epoch=self._epoch,
            wall_s=self._wall_clock(),
            pending_s=self._limits.pending_s,
            allocation=self._allocation,
            overlaps=request.overlaps,
        )
        if len(runs) > _SURELY_FITS and len(codec.encode_part(grant)) > MESSAGE_MAX_BYTES:
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
            asker=request.asker if self._jobs.get(request.asker) else 0,
            root=grant.nodes[0].node,
            holdings={
                number: Holding(0 if request.overlaps else slots[number], here)
                for number, here in ranks.items()
            },
        )
        self._jobs.add(job, now)
        nodes = tuple(ranks)
        return [
            Send(source, grant),
            *self.reserve(),
            RecordGrant(job_id, owner.uid, request.program, request.batch_job, size, nodes),
            Log(f"granted to {owner.name}: ranks {size}, nodes {format_nodes(nodes)}", job_id),
        ]

    def reserve(self) -> list[Action]:
        """Note on the disk that ids will be used, ahead of use: no grant waits for a disk."""
        end = self._ids.reserve()
        return [ReserveJobIds(end)] if end else []
