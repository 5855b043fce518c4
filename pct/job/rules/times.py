"""When a node and those below it have come to the end of each phase of a job, for a trace.

Each node counts from the arrival of its load message; :class:`native.wire.group.Times` says how
that is placed on the clock of its parent. Imported for launches that are traced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from native.ids import PortalId
from native.wire import group, load

Step = Literal["joined", "loaded", "started", "held", "went", "ended", "told", "left"]


class Times:
    """The times of one node, and of those below that have sent theirs.

    Args:
        message: the job's.
        started_at: when it came.
    """

    def __init__(self, message: load.Load, started_at: float) -> None:
        self._job_id = message.job_id
        self._here = message.nodes[message.place].node
        self._started_at = started_at
        self._most = len(message.nodes)
        self._own: dict[str, int] = {}
        self._voted: tuple[PortalId | None, int] = (None, -1)  # to whom, and when
        self._votes: dict[int, int] = {}  # place of a child -> when its vote came
        self._below: dict[int, group.NodeTimes] = {}

    def note(self, step: Step, now: float) -> None:
        """The node has come to the end of a phase; the first time counts."""
        self._own.setdefault(step, self._micros(now))

    def rank_ended(self, now: float) -> None:
        """A rank of this node has ended; the last one counts."""
        self._own["ended"] = self._micros(now)

    def voted(self, parent: PortalId | None, now: float) -> None:
        """The vote of this subtree is being sent."""
        self._voted = parent, self._micros(now)

    def vote_came(self, place: int, now: float) -> None:
        """That of a child's has come."""
        self._votes.setdefault(place, self._micros(now))

    def come_up(self, place: int, message: group.Times) -> None:
        """Take the times of nodes below a child.

        Raises:
            PeerProtocolError: they are more nodes than the job has.
        """
        message.add_to(self._below, self._votes.get(place, -1), self._most)

    def go_up(self, parent: PortalId | None) -> Iterator[group.Times]:
        """The messages with the times of this node and of all below it."""
        to, voted_us = self._voted
        nodes = [group.NodeTimes(self._here, 0, **self._own), *self._below.values()]
        for start in range(0, len(nodes), group.TIMES_MAX):
            piece = tuple(nodes[start : start + group.TIMES_MAX])
            yield group.Times(self._job_id, voted_us if to == parent else -1, piece)

    def _micros(self, now: float) -> int:
        return round((now - self._started_at) * group.MICRO)
