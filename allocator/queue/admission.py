"""Whether a job may be taken, and may begin, by the rules of its queue. Pure.

Here where a partition has no queues: all may, and there is none to be named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from allocator.jobs.assign import RequestRefused
from allocator.jobs.charges import Charge
from allocator.jobs.grants import Owner
from allocator.nodes.bookings import Booking
from native.errors import Refusal
from native.text import shown
from native.wire.alloc import NodeSpec
from native.wire.base import NO_TERMS, Terms
from native.wire.batch import Row

Claimed = Mapping[str, int]  # licences that others have a claim on
NOBODYS: Claimed = {}
WITHOUT_QUEUES = (
    "nice",
    "requeue_on",
    "constraint",
    "gives_way",
    "requeue_lost",
    "switches",
    "switches_s",
    "exclude",
    "checkpoint_s",
)  # terms of a job where there are none
ANY_NODES: frozenset[int] = frozenset()


class Admission(Protocol):
    """The rules of a partition's queues, and what their jobs have."""

    @property
    def freed(self) -> int:
        """Rises when a limit or a licence is free again: the line is looked at, as after slots."""

    def terms(
        self, owner: Owner, wanted: Terms, specs: Sequence[NodeSpec], time_s: float, is_launch: bool
    ) -> tuple[Terms, float]:
        """The terms of a new job, with its queue and account, and its time limit; 0: none.

        Args:
            is_launch: it is none of batch.

        Raises:
            RequestRefused: it may not be there, or could never begin.
        """

    @property
    def bookings(self) -> tuple[Booking, ...]:
        """Nodes that the site keeps for some users for a time."""

    def demand_time(self, terms: Terms, time_s: float) -> None:
        """Refuse a time limit that a job may not have; 0: any time.

        Raises:
            RequestRefused: it exceeds that of its queue.
        """

    def nodes_of(self, terms: Terms) -> frozenset[int]:
        """The nodes that a job may have; empty: all."""

    def blocked(
        self, uid: int, terms: Terms, slots: int, nodes: int, claimed: Claimed = NOBODYS
    ) -> str:
        """Why a job may not begin now, were there slots; empty: it may.

        Args:
            nodes: that it would have.
            claimed: licences that those before it have a claim on.
        """

    @property
    def preempts(self) -> bool:
        """Some jobs may end others."""

    def may_preempt(self, terms: Terms, job_id: int) -> bool:
        """Whether a request may have a job ended that has slots."""

    def is_suspended_for_others(self, job_id: int) -> bool:
        """Whether a job that has slots stands still where another needs them, and does not end."""

    def waits_again(self, terms: Terms) -> bool:
        """Whether a job that was preempted waits again; else it is over."""

    def preempt_grace(self, terms: Terms) -> float:
        """Seconds from SIGTERM until it is ended; 0: it is ended at once."""

    def taken(self, uid: int, terms: Terms) -> None:
        """A batch job is there."""

    def dropped(self, uid: int, terms: Terms) -> None:
        """It is there no more."""

    def begins(
        self, job_id: int, uid: int, terms: Terms, slots: int, nodes: int, unix_time: float
    ) -> None:
        """A job has got its slots."""

    def slots_freed(self, job_id: int) -> None:
        """It has no slot any more."""

    def withdrawn(self, job_id: int, has_slots: bool) -> None:
        """A job's use is not counted any more: it used nothing, or its use was charged."""

    def ended(self, row: Row) -> Charge | None:
        """A job that had slots has ended: what its user has used; None: nobody counts that."""


class NoQueues:
    """A partition without queues."""

    freed = 0
    preempts = False
    bookings: tuple[Booking, ...] = ()

    def terms(
        self, owner: Owner, wanted: Terms, specs: Sequence[NodeSpec], time_s: float, is_launch: bool
    ) -> tuple[Terms, float]:
        """Refuse to whoever names a queue, an account or a licence."""
        demand_launch(wanted, is_launch)
        named = {"queue": wanted.queue, "account": wanted.account}
        named["licence"] = wanted.licences[0][0] if wanted.licences else ""
        for what, name in named.items():
            if name:
                text = f"no {what} {shown(name)}: this partition has no queues (bebopd --queues)"
                raise RequestRefused(Refusal.NO_QUEUES, text)
        kept = replace(NO_TERMS, **{name: getattr(wanted, name) for name in WITHOUT_QUEUES})
        return (NO_TERMS if kept == NO_TERMS else kept), time_s

    def demand_time(self, terms: Terms, time_s: float) -> None:
        """It may have any."""

    def nodes_of(self, terms: Terms) -> frozenset[int]:
        """All."""
        return ANY_NODES

    def blocked(
        self, uid: int, terms: Terms, slots: int, nodes: int, claimed: Claimed = NOBODYS
    ) -> str:
        """It may."""
        return ""

    def may_preempt(self, terms: Terms, job_id: int) -> bool:
        """It may not."""
        return False

    def is_suspended_for_others(self, job_id: int) -> bool:
        """None is."""
        return False

    def waits_again(self, terms: Terms) -> bool:
        """None is preempted."""
        return False

    def preempt_grace(self, terms: Terms) -> float:
        """None is."""
        return 0.0

    def taken(self, uid: int, terms: Terms) -> None:
        """Nothing is counted."""

    def dropped(self, uid: int, terms: Terms) -> None:
        """Nothing is counted."""

    def begins(
        self, job_id: int, uid: int, terms: Terms, slots: int, nodes: int, unix_time: float
    ) -> None:
        """Nothing is counted."""

    def slots_freed(self, job_id: int) -> None:
        """Nothing is counted."""

    def withdrawn(self, job_id: int, has_slots: bool) -> None:
        """Nothing is counted."""

    def ended(self, row: Row) -> Charge | None:
        """Nothing is counted."""
        return None


NO_QUEUES = NoQueues()


def demand_launch(wanted: Terms, is_launch: bool) -> None:
    """Refuse a batch job that would give way.

    Raises:
        RequestRefused: it would.
    """
    if wanted.gives_way and not is_launch:
        text = "only a launch gives way (yod -nice), no batch job: see preempt_mode of its queue"
        raise RequestRefused(Refusal.BAD_REQUEST, text)


def fewest_nodes(specs: Sequence[NodeSpec]) -> int:
    """How many nodes a job has at least."""
    return max(spec.listed if spec.one_per_node else spec.node_count or 1 for spec in specs)
