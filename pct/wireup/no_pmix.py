"""The replacement of :class:`pct.wireup.pmix.PmixLink` in a job that is offered no PMIx.

It imports nothing of PMIx, which most launches do not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from native.errors import PeerProtocolError
from native.wire import pmi
from native.wire.pmi import KeyValue
from pct.wireup.questions import NOT_FOUND, Questions, Step
from pct.wireup.world import World

if TYPE_CHECKING:
    from native.wire import pmix


class NoPmix:
    """A job without a PMIx server: nothing is sent, nothing is awaited."""

    why_not = ""
    is_lacking = False

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def is_ready(self, world: World) -> bool:
        """Always: no rank waits for a server."""
        return True

    def begin(self, name: str, uid: int, gid: int) -> None:
        """None: no server is to be started."""

    def add(self, world: World, step: Step) -> None:
        """There is one more world."""

    def fence_over(self, fence: pmi.Fence, pairs: list[KeyValue], step: Step) -> None:
        """A fence of PMIx is over; no rank of this node was in it."""

    def modex(self, ask: pmi.Ask, process: pmi.Process, step: Step) -> None:
        """No rank of this node has put anything."""
        self._questions.reply(ask, NOT_FOUND, (), step)

    def rank_ended(
        self, world: World, rank: int, wait_status: int, step: Step, *, is_local: bool
    ) -> None:
        """A rank has ended."""

    def received(self, message: pmix.FromServer, step: Step) -> None:
        """Raises:
        PeerProtocolError: always; there is no server.
        """
        raise PeerProtocolError("pmix: a message of a server that was not started")

    def ended(self, text: str, step: Step) -> None:
        """A server that was not started has ended."""

    def clear(self) -> None:
        """Nothing is kept."""

    def check(self) -> None:
        """Nothing can be wrong."""
