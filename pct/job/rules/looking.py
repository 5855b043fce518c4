"""Where the ranks of a node are: a process of their owner's looks at their stacks.

One looks at a time. Who asks meanwhile is answered with what it finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from native.machine import Action
from native.nodelist import format_nodes
from native.wire import alloc, load
from native.wire.group import Look, Seen
from pct.rare_events import KillLooker, LookerEnded, RunLooker
from pct.tree.group import Group

LOOK_S = 20.0  # it has so long for all ranks of the node


class Looking:
    """Looks at the ranks of this node, and passes on what others have seen.

    Args:
        unix_pids: of the ranks of this node that have been started.
        ended: ranks that have ended.
    """

    def __init__(
        self,
        message: load.Load,
        credential: alloc.Credential,
        group: Group,
        unix_pids: Mapping[int, int],
        ended: Set[int],
    ) -> None:
        self._job_id = message.job_id
        self._node = message.nodes[message.place].node
        self._owner = (credential.uid, credential.gid, credential.groups)
        self._group = group
        self._unix_pids = unix_pids
        self._ended = ended
        self._number: int | None = None  # of the request that is being answered; None: none is
        self._until: float | None = None

    @property
    def is_over(self) -> bool:
        """No process that looks is left here."""
        return self._number is None

    def deadline(self) -> float | None:
        """When the process that looks is to be killed; None: none runs."""
        return self._until

    def look(self, message: Look, now: float) -> list[Action]:
        """The parent asks."""
        down = self._group.down(message)
        was_over, self._number = self.is_over, message.number
        if not was_over:
            return down
        ranks = sorted(self._unix_pids.keys() - self._ended)
        if not ranks:
            return [*down, *self._answer(b"", "")]
        self._until = now + LOOK_S
        unix_pids = ",".join(str(self._unix_pids[rank]) for rank in ranks)
        words = (format_nodes(ranks).encode(), unix_pids.encode())
        return [*down, RunLooker(self._job_id, words, *self._owner)]

    def ended(self, event: LookerEnded, now: float) -> list[Action]:
        """No process is left."""
        self._until = None
        return [] if self.is_over else self._answer(event.stacks, event.trouble)

    def seen_below(self, place: int, message: Seen, now: float) -> list[Action]:
        """A node of a child's subtree has answered."""
        return self._group.up(message)

    def due(self, now: float) -> list[Action]:
        """Time has passed: what is late is killed."""
        if self._until is None or now < self._until:
            return []
        self._until = None
        return [KillLooker(self._job_id)]

    def hurry(self) -> list[Action]:
        """The job ends: what looks is killed."""
        if self._until is None:
            return []
        self._until = None
        return [KillLooker(self._job_id)]

    def _answer(self, stacks: bytes, trouble: str) -> list[Action]:
        number, self._number = self._number, None
        assert number is not None
        return self._group.up(Seen(self._job_id, number, self._node, stacks, trouble))
