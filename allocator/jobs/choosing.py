"""Which slots a request may have, and which it gets: by who asks and for what. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from allocator.jobs.assign import (
    Picks,
    RequestRefused,
    assign,
    fits,
    picks_of,
    shared_slots,
    slots_on,
)
from allocator.nodes.access import Claim
from allocator.nodes.table import NodeTable, Placement
from native.errors import Refusal
from native.wire.alloc import NodeRequest, NodeSpec
from native.wire.placed import NodeSpan, spans_of


def claim_of(
    uid: int, request: NodeRequest, is_batch: bool, nodes: frozenset[int] = frozenset()
) -> Claim:
    """Who asks.

    Args:
        is_batch: it is a batch job of ours; one of a batch system's has its id in the request.
        nodes: those of its queue; empty: all.
    """
    return Claim(uid, is_batch or bool(request.batch_job), nodes)


class Chooser:
    """Chooses the slots of one partition. It holds none.

    Args:
        name: the partition's, for texts.

    Attributes:
        held: why nobody gets anything; empty: they do.
    """

    def __init__(self, nodes: NodeTable, placement: Placement, name: str) -> None:
        self._nodes = nodes
        self._placement = placement
        self._name = name
        self.held = ""

    def fits(self, request: NodeRequest, claim: Claim) -> bool:
        """Whether a request that the partition could meet can be met now."""
        placement = self._placement_of(request, claim)
        return not self.held and fits(request.specs, self._nodes, placement)

    def assign(
        self, request: NodeRequest, claim: Claim, placement: Placement | None = None
    ) -> list[Picks]:
        """Slots for a request.

        Args:
            placement: those that it may have; None: all that are free.

        Raises:
            RequestRefused: it cannot be met, now or ever.
        """
        if self.held:
            raise RequestRefused(Refusal.BUSY, self.held)
        if placement is None:
            placement = self._placement_of(request, claim)
        try:
            return assign(request.specs, self._nodes, placement, self._name, claim)
        except RequestRefused as refused:
            if not (request.is_exclusive and refused.code is Refusal.BUSY):
                raise
            text = f"{refused}; --exclusive takes unused nodes only"
            raise RequestRefused(refused.code, text, refused.spec) from None

    def lacks(self, request: NodeRequest, claim: Claim) -> str:
        """Why a request cannot be met now; empty: it can."""
        try:
            self.assign(request, claim)
        except RequestRefused as refused:
            return str(refused)
        return ""

    def demand_possible(self, specs: Sequence[NodeSpec], claim: Claim) -> None:
        """Refuse what the partition can never give.

        Raises:
            RequestRefused: the text has the numbers.
        """
        unpacked = tuple(spec.unpacked() for spec in specs)
        picks_of(unpacked, self._nodes, self._placement.admitting(claim), self._name, claim)

    def is_shut_out(self, request: NodeRequest, claim: Claim) -> bool:
        """Whether the nodes that others alone may have stand in the way of a request for ever."""
        if self._placement.admitting(claim) is self._placement:
            return False
        try:
            self.demand_possible(request.specs, claim)
        except RequestRefused:
            return True
        return False

    def free(self, claim: Claim) -> int:
        """The free slots that this claim may have."""
        return sum(node.free() for node in self._nodes if not node.closed_text(claim))

    def given(self, request: NodeRequest, picks: list[Picks]) -> dict[int, int]:
        """The slots that a request gets with these picks, by node."""
        slots = slots_on(request.specs, picks)
        for number in slots:
            node = self._nodes.get(number)
            if node is not None and (request.is_exclusive or node.is_exclusive):
                slots[number] = node.slots
        return slots

    def widened(
        self, spans: list[NodeSpan], request: NodeRequest, picks: list[Picks]
    ) -> list[NodeSpan]:
        """The same nodes with all slots that the request gets there."""
        slots = self.given(request, picks)
        numbers = (number for span in spans for number in range(span.node, span.node + span.count))
        return spans_of((number, slots[number]) for number in numbers)

    def _placement_of(self, request: NodeRequest, claim: Claim) -> Placement:
        """The slots that a request may have now."""
        if request.overlaps:
            return shared_slots(self._nodes)
        placement = self._placement.admitting(claim)
        return placement.unused() if request.is_exclusive else placement
