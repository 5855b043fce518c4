"""Standard input on its way to the ranks that have it, and the credit for more. Pure."""

from __future__ import annotations

from collections.abc import Collection

from native.errors import PeerProtocolError
from native.wire.load import Load
from pct.tree.collective import SELF

ONLY_RANK_0 = ((0, 0),)


def has_input(message: Load, rank: int) -> bool:
    """Whether a rank of the load reads yod's standard input."""
    return any(first <= rank <= last for first, last in message.input_ranks)


class InputFlow:
    """The input of a subtree. The slowest rank in it decides when more may come.

    Where only rank 0 has input, it goes no further than the root, and no more is asked for when
    the rank has closed it. Where others have it, too, every node gets all of it: one without a
    rank that reads takes what comes at once.

    Attributes:
        goes_on: children get it, too.
        is_read: a rank of this node reads it.
    """

    def __init__(self, message: Load, room_bytes: int) -> None:
        ranks = message.runs.ranks_at(message.place)
        self.goes_on = message.input_ranks not in ((), ONLY_RANK_0)
        self.is_read = any(has_input(message, rank) for rank in ranks)
        self.has_any = bool(message.input_ranks)
        self.room_bytes = room_bytes  # that the parent may send
        self._passed = 0  # bytes that have come
        self._taken = {SELF: 0}  # by the ranks of this node, and by the subtrees of its children
        self._credited = 0

    def arrived(self, count_bytes: int) -> None:
        """The parent has sent input.

        Raises:
            PeerProtocolError: more than the credit.
        """
        if count_bytes > self.room_bytes:
            raise PeerProtocolError(f"{count_bytes} bytes of input, {self.room_bytes} due")
        self.room_bytes -= count_bytes
        self._passed += count_bytes

    def taken(self, place: int, count_bytes: int) -> None:
        """The ranks of this node, or those of a child's subtree, have taken so many bytes more.

        Raises:
            PeerProtocolError: more than they were sent.
        """
        taken = self._taken.get(place, self._credited) + count_bytes
        if taken > self._passed:
            raise PeerProtocolError(f"{taken} bytes of input taken, {self._passed} sent")
        self._taken[place] = taken

    def closed(self) -> None:
        """No rank of this node reads it any more."""
        self.is_read = False
        if self.goes_on:
            self._taken[SELF] = self._passed

    def credit(self, children: Collection[int]) -> int:
        """How many bytes more the parent may send, now that all have taken theirs.

        Args:
            children: places of those that are there; one that is lost is not waited for.
        """
        if self.goes_on and not self.is_read:
            self._taken[SELF] = self._passed
        places = (SELF, *children) if self.goes_on else (SELF,)
        for place in places:  # one that was adopted begins where all have come to
            self._taken.setdefault(place, self._credited)
        count = max(0, min(self._taken[place] for place in places) - self._credited)
        self._credited += count
        self.room_bytes += count
        return count
