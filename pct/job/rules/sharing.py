"""Standard input that all ranks share: a rank asks, and yod gives it a line. Pure."""

from __future__ import annotations

from native.machine import Action
from native.wire import io, load
from pct.rare_events import GiveLine, LineWanted
from pct.tree.group import Group


class SharedFlow:
    """What the ranks of one node ask for and are given.

    Each has one piece of a line at most that it has not read, so nothing is counted here.
    """

    def __init__(self, message: load.Load, group: Group) -> None:
        self._job_id = message.job_id
        self._group = group
        self._ranks = message.runs.ranks_at(message.place)

    def begin(self) -> list[Action]:
        """The ranks run: each asks for its first line."""
        return [action for rank in self._ranks for action in self.wanted(rank)]

    def happened(self, event: LineWanted) -> list[Action]:
        """A rank has read its line, or reads no more."""
        return self.wanted(event.rank, event.unread, event.is_closed)

    def wanted(self, rank: int, unread: bytes = b"", is_closed: bool = False) -> list[Action]:
        """Tell yod."""
        asked = io.LineAsked(self._job_id, self._group.place, rank, unread, is_closed)
        return self._group.up(asked)

    def given(self, message: io.Line) -> list[Action]:
        """yod has answered a rank, here or below."""
        if message.place == self._group.place:
            return [GiveLine(self._job_id, message.rank, message.data)]
        return self._group.towards(message.place, message)
