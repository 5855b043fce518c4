"""Requests that wait for their turn, in the order in which they came, or in that of a ranking.

The first that does not fit holds back all later ones, so that a large request is not passed
over for ever. A request that names nodes holds back nobody: it may wait for one that is
down. Nor does a step that shares the slots of others: it waits for a node, and for no slot. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from allocator.jobs.assign import RequestRefused
from allocator.jobs.choosing import claim_of
from allocator.jobs.grants import Owner
from allocator.nodes.access import ANYWHERE, Claim, Where
from native.errors import Refusal
from native.ids import PortalId
from native.limits import Limits
from native.wire.alloc import NodeRequest, Queued
from native.wire.base import Factor, clipped
from native.wire.batch import BY_FACTORS


class Waiting(Struct, eq=False):
    """A request in the line.

    Attributes:
        source: its yod; None: it is a batch job's, which nobody waits with.
        since: when it came; seconds, monotonic.
        text: what it waits for, for the user.
        told_place: the place that its yod was told last; 0: none.
        job_id: of the batch job; 0: of none.
        attempt: how often this was placed before.
        is_shut_out: nodes that only others may have stand in its way: it holds back nobody.
        time_s: how long it has its slots; 0: any time.
        expected: unix time at which it is expected to have them, at the latest; 0: not known.
        where: the nodes that it may have.
        submitted: unix time; of a batch job that of its submission.
        priority: an operator's; ``BY_FACTORS``: none.
        count: how many times it is to be given slots; 0: it is not in the line any more.
        is_array: each time to another job, which is new.
        given: the job that was given them last; 0: none.
        lenders: jobs that stand still for it, and lend it theirs.
        plan, looked_at: the number of the policy's plan in which it was looked at, and when among
            the others; 0: in none.
        kind: what the policy remembers of what it asks for; None: nothing.
        more_at: unix time from which it takes more leaf switches than it asks for, at the latest;
            infinity: that is not known yet.
    """

    source: PortalId | None
    owner: Owner
    request: NodeRequest
    since: float
    text: str
    told_place: int = 0
    job_id: int = 0
    attempt: int = 0
    is_shut_out: bool = False
    time_s: float = 0.0
    expected: float = 0.0
    where: Where = ANYWHERE
    submitted: float = 0.0
    priority: int = BY_FACTORS
    count: int = 1
    is_array: bool = False
    given: int = 0
    lenders: tuple[int, ...] = ()
    plan: int = 0
    looked_at: int = 0
    kind: object = None
    more_at: float = inf

    @property
    def size(self) -> int:
        """Ranks that it asks for."""
        return sum(spec.size for spec in self.request.specs)

    @property
    def holds_back(self) -> bool:
        """Later requests wait for it."""
        names_nodes = any(spec.nodes for spec in self.request.specs)
        is_any = not (self.request.overlaps or names_nodes or self.is_shut_out)
        return is_any and not self.gives_way

    @property
    def gives_way(self) -> bool:
        """It ends for others when it has slots, and does not come before them in the line."""
        return self.request.terms.gives_way

    def follow(self, where: Where) -> None:
        """The nodes that it may have are others; of switches it takes as many as it did."""
        takes_more = self.request.terms.switches and not self.where.switches
        self.where = replace(where, switches=0) if takes_more else where

    @property
    def claim(self) -> Claim:
        """Who asks."""
        return claim_of(self.owner.uid, self.request, self.source is None, self.where)


class Ranking(Protocol):
    """Gives a line another order than that in which requests came."""

    def clear(self) -> None:
        """Nobody waits."""

    def added(self, waiting: Waiting) -> None:
        """One waits, behind all others."""

    def removed(self, place: int) -> None:
        """The one at this place, from 0 on, waits no more."""

    def changed(self, place: int, waiting: Waiting) -> None:
        """The priority of one is another."""

    def order(self, unix_time: float) -> Sequence[int] | None:
        """The places in the order that is due; None: it is that already."""

    def factors(self, waiting: Waiting, unix_time: float) -> tuple[Factor, ...]:
        """What the priority of one is made of."""


RankingMaker = Callable[[Callable[[], int]], Ranking]  # from the slots of the partition


class Line:
    """The requests of a partition that wait.

    Args:
        ranking: their order; None: that in which they came.

    Attributes:
        removed: how many were, so far.
    """

    def __init__(self, limits: Limits, ranking: Ranking | None = None) -> None:
        self._limits = limits
        self._ranking = ranking
        self._waiting: list[Waiting] = []
        self._batch: dict[int, Waiting] = {}  # the batch jobs among them
        self._count_of: Counter[int] = Counter()  # the others, by user
        self._untold: list[Waiting] = []  # who has not been told a place
        self._giving_way = 0  # how many of them give way
        self.removed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        """In their order. The line may change meanwhile."""
        return iter(self._ordered())

    def _ordered(self) -> list[Waiting]:
        """In their order; those that give way come last."""
        if not self._giving_way:
            return list(self._waiting)
        return sorted(self._waiting, key=lambda waiting: waiting.gives_way)

    def rank(self, unix_time: float) -> None:
        """Put them in their order."""
        if self._ranking is not None and (places := self._ranking.order(unix_time)) is not None:
            self._waiting = [self._waiting[place] for place in places]

    def rank_anew(self) -> None:
        """What their order depends on has changed."""
        if self._ranking is not None:
            self._ranking.clear()
            for waiting in self._waiting:
                self._ranking.added(waiting)

    def changed(self, waiting: Waiting) -> None:
        """The priority of one is another."""
        if self._ranking is not None:
            self._ranking.changed(self._waiting.index(waiting), waiting)

    def factors(self, waiting: Waiting, unix_time: float) -> tuple[Factor, ...]:
        """What the priority of one is made of; nothing: the order is that of arrival."""
        return () if self._ranking is None else self._ranking.factors(waiting, unix_time)

    def served(self) -> Iterator[Waiting]:
        """Those that free slots may be given to, the longest waiting first.

        The line may change meanwhile: one that holds back others, and is removed before the
        next is asked for, holds back nobody.
        """
        keeper = None
        for waiting in self:
            if keeper is None or waiting.request.overlaps:
                yield waiting
            if keeper is None and waiting.holds_back and waiting in self._waiting:
                keeper = waiting

    def state(self, now: float) -> list[str]:
        """Who waits, as text for the log."""
        return [
            f"{each.owner.name} waits for {each.size} ranks, for {now - each.since:.0f} s"
            for each in self
        ]

    @property
    def first(self) -> Waiting | None:
        """The longest waiting; None: nobody waits."""
        if not self._giving_way:
            return self._waiting[0] if self._waiting else None
        return self._ordered()[0]

    @property
    def keeper(self) -> Waiting | None:
        """The first for which free slots are kept; None: they are free for anybody."""
        return next((each for each in self._waiting if each.holds_back), None)

    def add(self, waiting: Waiting) -> None:
        """Wait, behind all others.

        Raises:
            RequestRefused: too many wait, of all users or of this one.
        """
        total = len(self._waiting) - len(self._batch)
        of_user = self._count_of[waiting.owner.uid]
        full = ""
        if total >= self._limits.waiting_count:
            full = f"{total} requests wait already (YOD_WAITING_COUNT)"
        elif of_user >= self._limits.waiting_each_count:
            name = waiting.owner.name
            full = f"{of_user} requests of {name} wait already (YOD_WAITING_EACH_COUNT)"
        if full:
            raise RequestRefused(Refusal.BUSY, f"{waiting.text}; {full}")
        self._count_of[waiting.owner.uid] += 1
        self._untold.append(waiting)
        self._append(waiting)

    def add_batch(self, waiting: Waiting) -> None:
        """A batch job waits, behind all that have come before; how many do is limited elsewhere.

        One that is placed again, or has more elements to begin, has the place that it had.
        """
        self._batch[waiting.job_id] = waiting
        place = len(self._waiting)
        while place and _is_before(waiting, self._waiting[place - 1]):
            place -= 1
        self._insert(waiting, place)

    def _append(self, waiting: Waiting) -> None:
        self._insert(waiting, len(self._waiting))

    def _insert(self, waiting: Waiting, place: int) -> None:
        self._giving_way += waiting.gives_way
        if self._ranking is None:
            self._waiting.insert(place, waiting)
        else:  # which gives it its place
            self._waiting.append(waiting)
            self._ranking.added(waiting)

    def place_of(self, waiting: Waiting) -> int:
        """How many come up to this one."""
        return self._ordered().index(waiting) + 1

    def of_batch(self, job_id: int) -> Waiting | None:
        """The request of a batch job; None: it does not wait."""
        return self._batch.get(job_id)

    def remove(self, waiting: Waiting) -> None:
        """It has been answered, or is withdrawn."""
        waiting.count = 0
        place = self._waiting.index(waiting)
        del self._waiting[place]
        self._giving_way -= waiting.gives_way
        if self._ranking is not None:
            self._ranking.removed(place)
        self.removed += 1
        if waiting.source is None:
            del self._batch[waiting.job_id]
        else:
            self._count_of[waiting.owner.uid] -= 1

    def served_one(self, waiting: Waiting) -> None:
        """It is given slots, and stays where it is when it is to be given more."""
        if waiting.count > 1:
            waiting.count -= 1
        else:
            self.remove(waiting)

    def gone(self, peer: PortalId) -> bool:
        """A yod is gone, and waits no more. Whether it has waited."""
        gone = [each for each in self._waiting if each.source == peer]
        for waiting in gone:
            self.remove(waiting)
        return bool(gone)

    def news(self) -> Iterator[tuple[PortalId, Queued]]:
        """What yods are to be told of their places: when they come, and when they are first."""
        untold, self._untold = self._untold, []
        first = self.first
        if first is not None and first.told_place > 1:
            untold.append(first)
        for waiting in untold:
            if waiting.source is not None and waiting in self._waiting:
                waiting.told_place = self.place_of(waiting)
                yield waiting.source, Queued(waiting.told_place, clipped(waiting.text))


def _is_before(one: Waiting, other: Waiting) -> bool:
    if one.since == other.since and other.job_id:  # this bebopd has found both
        return one.job_id < other.job_id
    return one.since < other.since


def kept_text(keeper: Waiting, free: int) -> str:
    """Why a request that does not wait gets nothing, though slots are free."""
    slots = "1 free slot is" if free == 1 else f"{free} free slots are"
    ranks = "1 rank" if keeper.size == 1 else f"{keeper.size} ranks"
    name = keeper.owner.name
    if keeper.job_id:
        return f"{slots} kept for job {keeper.job_id} of {name}, which waits for {ranks}"
    return f"{slots} kept for {name}, who waits for {ranks}"
