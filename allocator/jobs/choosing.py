"""Which slots a request may have, and which it gets: by who asks and for what. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from allocator.jobs.assign import (
    Picks,
    RequestRefused,
    assign,
    fits,
    node_count,
    picks_of,
    shared_slots,
    slots_on,
)
from allocator.nodes.access import ANYWHERE, NOWHERE, Claim, Where
from allocator.nodes.table import NodeTable, Placement
from native.errors import Refusal, UsageError
from native.wire.alloc import NodeRequest, NodeSpec
from native.wire.base import Terms
from native.wire.placed import NodeSpan, spans_of

NO_NODES: frozenset[int] = frozenset()
MEANINGS_MAX = 256  # of constraints that are remembered
Means = tuple[
    object, dict[tuple[str, frozenset[int]], Where]
]  # features of nodes, and what each constraint means by them
_NOTHING: Means = (None, {})


def claim_of(uid: int, request: NodeRequest, is_batch: bool, where: Where = ANYWHERE) -> Claim:
    """Who asks.

    Args:
        is_batch: it is a batch job of ours; one of a batch system's has its id in the request.
        where: the nodes that it may have.
    """
    of_batch = is_batch or bool(request.batch_job)
    return Claim.to(where, uid, of_batch)


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
        self._means = _NOTHING  # expressions by what they say, and among which nodes

    def where(self, terms: Terms, among: frozenset[int], *, was_taken: bool = False) -> Where:
        """The nodes that a job may have by its terms.

        Args:
            among: those of its queue; empty: all.
            was_taken: nodes to exclude may be unknown, and come later.

        Raises:
            RequestRefused: what is said of their features, or of nodes to exclude, is wrong.
        """
        without, may_grow = NO_NODES, False
        if terms.exclude:
            from allocator.jobs.excluding import excluded  # few requests have any

            them = excluded(terms.exclude, self._nodes, may_lack=was_taken)
            without, may_grow = them.nodes, not them.is_whole
        more = (terms.switches, without, may_grow)
        if not terms.constraint:
            return Where(among, (), "", (), *more)
        from allocator.nodes.features import where  # likewise

        features, known = self._means
        if features is not self._nodes.features or len(known) >= MEANINGS_MAX:
            features, known = self._means = self._nodes.features, {}
        try:
            if (found := known.get((terms.constraint, among))) is None:
                found = where(features, terms.constraint, among)
                known[terms.constraint, among] = found  # so that equal sets are one, which is fast
            return Where(found.nodes, found.one_of, found.constraint, found.least, *more)
        except UsageError as error:
            raise RequestRefused(Refusal.BAD_REQUEST, str(error)) from None

    def where_by_now(self, terms: Terms, among: frozenset[int]) -> Where:
        """The same of a job that was taken: nowhere, if they mean nothing any more."""
        try:
            return self.where(terms, among, was_taken=True)
        except RequestRefused:
            return Where(NOWHERE, (), terms.constraint)

    def fits(self, request: NodeRequest, claim: Claim) -> bool:
        """Whether a request that the partition could meet can be met now."""
        if self.held:
            return False
        places = (self._placement_of(request, each) for each in claim.choices())
        return any(fits(request.specs, self._nodes, placement) for placement in places)

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
            if claim.one_of:
                return self._best(request, claim)
            placement = self._placement_of(request, claim)
        try:
            return assign(request.specs, self._nodes, placement, self._name, claim)
        except RequestRefused as refused:
            if not (request.is_exclusive and refused.code is Refusal.BUSY):
                raise
            text = f"{refused}; --exclusive takes unused nodes only"
            raise RequestRefused(refused.code, text, refused.spec) from None

    def _best(self, request: NodeRequest, claim: Claim) -> list[Picks]:
        """Slots in that one of the sets of nodes where fewest are needed.

        Raises:
            RequestRefused: it can be met in none of them; the text is of one where it could later.
        """
        found: list[list[Picks]] = []
        refusals: list[RequestRefused] = []
        for each in claim.choices():
            try:
                found.append(self.assign(request, each))
            except RequestRefused as refused:
                refusals.append(refused)
        if found:
            return min(found, key=node_count)
        raise min(refusals, key=lambda refused: refused.code is not Refusal.BUSY)

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
        refusals: list[RequestRefused] = []
        for each in (choices := claim.choices()):
            placement = self._placement.admitting(each)
            try:
                picks_of(unpacked, self._nodes, placement, self._name, each)
            except RequestRefused as refused:
                refusals.append(refused)
        if len(refusals) == len(choices):
            raise refusals[0]

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
            return shared_slots(self._nodes, claim.without)
        placement = self._placement.admitting(claim)
        return placement.unused() if request.is_exclusive else placement
