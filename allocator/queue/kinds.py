"""What is the same about many requests that wait, by small numbers: they compare fast. Pure.

A pass over a long line asks of each request whether one that asks for the same was looked at. To
compare what they ask for costs more than to look at them, so each has numbers for it.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from allocator.jobs.line import Waiting
from allocator.nodes.access import ANYBODY, Claim, Where
from allocator.queue.admission import fewest_nodes
from native.wire.alloc import NodeRequest

KINDS_MAX = 20_000  # that are remembered; then numbers begin anew, and less is seen to be the same


class Kind(Struct, frozen=True):
    """What a request asks for.

    Attributes:
        request, where: from which this was found.
        slots, nodes: how many it asks for, at least.
        limited: of all that the rules of the queues see alike.
        alike: of all that find the same slots.
        anyones: the same where no node is kept for some users.
    """

    request: NodeRequest
    where: Where
    claim: Claim
    slots: int
    nodes: int
    limited: int
    alike: int
    anyones: int


class Kinds:
    """Those of the requests of one line."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._next = count(1)

    def of(self, waiting: Waiting) -> Kind:
        """What a request asks for; remembered with it."""
        kind = waiting.kind
        if (
            isinstance(kind, Kind)
            and kind.request is waiting.request
            and kind.where is waiting.where
        ):
            return kind
        request, claim = waiting.request, waiting.claim
        slots, nodes = request.slots, fewest_nodes(request.specs)
        asked = (request.specs, request.is_exclusive)
        kind = waiting.kind = Kind(
            request,
            waiting.where,
            claim,
            slots,
            nodes,
            limited=self._number((claim.uid, request.terms, slots, nodes)),
            alike=self._number((*asked, claim)),
            anyones=self._number((*asked, replace(claim, uid=ANYBODY, is_batch=False))),
        )
        return kind

    def _number(self, asked: Hashable) -> int:
        """The number of what is asked for; no two have the same."""
        if (number := self._numbers.get(asked)) is None:
            if len(self._numbers) >= KINDS_MAX:
                self._numbers.clear()
            number = self._numbers[asked] = next(self._next)
        return number
