"""Fences over the job's tree: merged on the way up, turned round at the root."""

from __future__ import annotations

from collections.abc import Callable

from native.wire import pmi
from native.wire.pmi import KeyValue
from pct.account import Account, OverLimit
from pct.wireup import kvs
from pct.wireup.questions import ROOT, Step
from pct.wireup.world import Worlds

OnOver = Callable[[pmi.Fence, list[KeyValue], Step], None]


class TreeFences:
    """The fences of a job at one place of its tree.

    Args:
        child_of: for each place below, the child on the way to it.
        on_over: called with a fence that is over, and all that was put.
        account: charged for what is kept of fences. When it is exceeded the job fails,
            because the other participants would wait for ever.
    """

    def __init__(
        self,
        job_id: int,
        place: int,
        child_of: dict[int, int],
        worlds: Worlds,
        on_over: OnOver,
        account: Account,
    ) -> None:
        self._job_id = job_id
        self._place = place
        self._child_of = child_of
        self._worlds = worlds
        self._on_over = on_over
        self._fences = kvs.Fences(self._awaited, account)

    def enter(self, meeting: kvs.Meeting, pairs: tuple[KeyValue, ...], step: Step) -> None:
        """All participants of this node have entered a fence."""
        try:
            self._fences.enter(meeting, pairs)
        except OverLimit as over:
            step.failure = str(over)
        else:
            self.look(step)

    def come_in(self, child: int, message: pmi.FenceIn, step: Step) -> None:
        """All participants of a child's subtree have entered a fence."""
        try:
            is_present = self._fences.merge(child, message.fence, message.pairs, message.is_last)
        except OverLimit as over:
            step.failure = str(over)
        else:
            if is_present:
                self.look(step)

    def come_down(self, message: pmi.FenceOut, step: Step) -> None:
        """All participants have entered a fence: this is what they have put."""
        step.down.append(message)
        try:
            pairs = self._fences.come_down(message.fence, message.pairs, message.is_last)
        except OverLimit as over:
            step.failure = str(over)
            return
        if pairs is not None:
            self._on_over(message.fence, pairs, step)

    def look(self, step: Step) -> None:
        """Pass up the fences that are complete here, also after a participant has ended."""
        for fence, pieces in self._fences.take_full():
            for index, pairs in enumerate(pieces):
                is_last = index == len(pieces) - 1
                if self._place == ROOT:
                    self.come_down(pmi.FenceOut(self._job_id, fence, pairs, is_last), step)
                else:
                    step.up.append(pmi.FenceIn(self._job_id, fence, pairs, is_last))

    def clear(self) -> None:
        """Free everything that is kept."""
        self._fences.clear()
        self._on_over = _over

    def check(self) -> None:
        """Assert the invariants."""
        self._fences.check()

    def _awaited(self, meeting: kvs.Meeting) -> tuple[bool, set[int]]:
        """Whether a fence waits for ranks of this node, and which children have some."""
        _, participants = meeting
        waits_here, children = False, set()
        for each in participants:
            world = self._worlds.get(each.world)
            if world is None:
                continue
            if each.ranks:
                waits_here |= not world.alive.isdisjoint(each.ranks)
                living = (rank for rank in each.ranks if rank not in world.ended_below)
                places = {world.places[rank] for rank in living if rank < world.size}
                children |= {self._child_of[where] for where in places if where in self._child_of}
            else:
                waits_here |= bool(world.alive)
                children |= {child for child, count in world.alive_below.items() if count > 0}
        return waits_here, children


def _over(fence: pmi.Fence, pairs: list[KeyValue], step: Step) -> None:
    """The job has ended before a fence."""
