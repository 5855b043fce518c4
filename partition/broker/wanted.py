"""What the user of an allocation asks for. Pure."""

from __future__ import annotations

from math import inf

from msgspec import Struct

from native.wire.alloc import NodeRequest, NodeSpec
from native.wire.base import NO_TERMS, Terms
from native.wire.batch import EarlySignal
from yod.launch.allocation import PROGRAM_MAX


class Wanted(Struct, frozen=True):
    """What the user asks for.

    Attributes:
        spec: slots, and of which nodes.
        words: the command; empty: the program that reads our output has the allocation.
        wait_s: how long to wait for nodes that others have; infinity: any time.
        time_s: how long the allocation may last; infinity: any time.
        warning: a signal before the time is over; None: there is none.
        is_exclusive: all slots of nodes that nobody else uses.
        batch_job: of the batch system that yod runs in; empty: none.
        terms: its queue and the like.
    """

    spec: NodeSpec
    words: tuple[str, ...]
    wait_s: float = inf
    time_s: float = inf
    warning: EarlySignal | None = None
    is_exclusive: bool = False
    batch_job: str = ""
    terms: Terms = NO_TERMS

    def request(self) -> NodeRequest:
        """The message that asks bebopd."""
        return NodeRequest(
            (self.spec.packed(),),
            " ".join(self.words)[:PROGRAM_MAX],
            self.batch_job,
            waits=self.wait_s > 0,
            is_exclusive=self.is_exclusive,
            terms=self.terms,
            time_s=self.time_s if self.time_s < inf else 0.0,
        )
