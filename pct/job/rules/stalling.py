"""Whether the ranks of a node stand still: none uses processor time, and none writes.

A node looks at its ranks some times while they may stand still for as long as yod wants to know.
At first it asks for what each rank's own process has used; only if that is nothing, for what
all processes of the ranks have. It tells yod when they have stood still for so long, and when they
do so no more.

Ranks that are stopped, or whose output waits for its reader, do not stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from native.machine import Action
from native.wire import load
from native.wire.group import STILL_CHECKS, Still
from pct.rare_events import ReadUse, UseRead
from pct.tree.group import Group

TICK_MS = 10  # the kernel counts in these
SHARE = 1e-3  # of a processor: a rank that uses less stands still, as one that wakes and sleeps on


class Signs(NamedTuple):
    """What the job's other parts know.

    Attributes:
        is_running: the ranks have been let go, and the job does not end.
        is_held: they are stopped, or their output waits for its reader.
        wrote_at: when one has last written.
    """

    is_running: bool
    is_held: bool
    wrote_at: float


class Stalling:
    """The signs of life of this node's ranks.

    Args:
        unix_pids: of the ranks of this node that have been started.
        ended: ranks that have ended.
        signs: asked whenever time has passed.
    """

    def __init__(
        self,
        message: load.Load,
        group: Group,
        unix_pids: Mapping[int, int],
        ended: Set[int],
        signs: Callable[[], Signs],
    ) -> None:
        assert message.stacks is not None
        self._job_id = message.job_id
        self._node = message.nodes[message.place].node
        self._stall_s = message.stacks.stall_s
        self._group = group
        self._unix_pids = unix_pids
        self._ended = ended
        self._signs = signs
        self._ranks: dict[int, int] = {}  # process ids, when they were last looked at
        self._since = 0.0  # no sign of life after this
        self._used: dict[bool, tuple[float, dict[int, int]]] = {}  # is_whole: when, what
        self._is_still = False
        self._due: float | None = None

    def deadline(self) -> float | None:
        """When the ranks are to be looked at; None: they do not run."""
        if not self._signs().is_running:
            return None
        return 0.0 if self._due is None else self._due  # 0: they have just begun

    def due(self, now: float) -> list[Action]:
        """Time has passed: look."""
        until = self.deadline()
        if until is None or now < until:
            return []
        self._due = now + self._stall_s / STILL_CHECKS
        signs = self._signs()
        ranks = {rank: pid for rank, pid in self._unix_pids.items() if rank not in self._ended}
        has_changed, self._ranks = ranks != self._ranks, ranks
        if has_changed or signs.is_held or signs.wrote_at >= self._since:
            return self._lives(now)
        if not ranks:
            return self._stands(now)
        return [ReadUse(self._job_id, ranks, False)]

    def used(self, event: UseRead, now: float) -> list[Action]:
        """What the ranks have used."""
        is_whole, used_ms = event.is_whole, event.used_ms
        if is_whole not in self._used:  # what comes later is compared with it
            self._used[is_whole] = (now, used_ms)
            self._since = now
            return []
        at, before = self._used[is_whole]
        least_ms = max(TICK_MS, (now - at) * 1000 * SHARE)
        if any(abs(ms - before.get(rank, ms)) >= least_ms for rank, ms in used_ms.items()):
            actions = self._lives(now)
            self._used[is_whole] = (now, used_ms)
            return actions
        return self._stands(now) if is_whole else [ReadUse(self._job_id, self._ranks, True)]

    def _lives(self, now: float) -> list[Action]:
        self._since = now
        self._used.clear()
        was_still, self._is_still = self._is_still, False
        return self._tell(0.0) if was_still else []

    def _stands(self, now: float) -> list[Action]:
        if self._is_still or now - self._since < self._stall_s:
            return []
        self._is_still = True
        return self._tell(now - self._since)

    def _tell(self, still_s: float) -> list[Action]:
        return self._group.up(Still(self._job_id, self._node, still_s))
