"""The keepers of a job on one node: one for each world, and one for its PMIx server."""

from __future__ import annotations

import signal
from enum import Enum

from native.machine import Action, Log
from native.wire import load
from pct.events import (
    PMIX_SERVER,
    KeeperSignal,
    KillOrphans,
    LeftoversRemoved,
    OrphansKilled,
    RemoveLeftovers,
)
from pct.pmi_events import PmixServerEnded
from pct.rare_events import LetSpread
from pct.tree.group import Group

# How long a signal that ends ranks may take to reach all nodes of a job: for each, and at most.
# 0.5 ms of a processor each has been measured where they share two; others have some, too.
SPREAD_NODE_S = 0.0008
SPREAD_MAX_S = 0.05
_ENDING = frozenset({signal.SIGTERM, signal.SIGKILL, signal.SIGINT})


class KeeperState(Enum):
    """What is left of a keeper and its processes."""

    RUNNING = "running"
    CLEARING = "what it has left is being removed"
    GONE = "gone"


class Stopper(Enum):
    """Who may have the ranks stopped. What one has stopped the other does not continue."""

    YOD = "yod, or a command that speaks to it"
    ALLOCATION = "the allocation that the job is a step of"


class Keepers:
    """The state of each keeper of the job on this node, and the processes they have started.

    A keeper ends when none of its processes is left. A lost keeper leaves orphans, which are
    killed first. Then the shared memory that killed ranks have left is removed. After that
    nothing is left of the keeper.

    Attributes:
        unix_pids: of the ranks of this node, by rank of the job.
        last_signal: the last signal that yod has sent to the ranks; 0: none.
        stopped_by: who has had the ranks stopped. They run when nobody has.
    """

    def __init__(self, job_id: int, group: Group) -> None:
        self.unix_pids: dict[int, int] = {}
        self.last_signal = 0
        self.stopped_by: set[Stopper] = set()
        self._job_id = job_id
        self._group = group
        self._states: dict[int, KeeperState] = {}  # by world, or PMIX_SERVER

    def __contains__(self, world: int) -> bool:
        """Has this keeper been started? It may have ended since."""
        return world in self._states

    @property
    def has_any(self) -> bool:
        """Something is left of at least one."""
        return any(state is not KeeperState.GONE for state in self._states.values())

    @property
    def has_server(self) -> bool:
        """The PMIx server runs."""
        return self._states.get(PMIX_SERVER) is KeeperState.RUNNING

    def start(self, world: int) -> None:
        """A keeper is being started."""
        self._states[world] = KeeperState.RUNNING

    def gone(self, world: int) -> None:
        """Nothing is left of a keeper and its processes."""
        self._states[world] = KeeperState.GONE

    def lost(self, world: int) -> list[Action]:
        """A keeper has ended before its processes."""
        self._states[world] = KeeperState.CLEARING
        return [KillOrphans(self._job_id, world)]

    def empty(self, world: int) -> list[Action]:
        """A keeper has ended, and its processes before it."""
        self._states[world] = KeeperState.CLEARING
        return [RemoveLeftovers(self._job_id, world)]

    def orphans_killed(self, event: OrphansKilled, now: float) -> list[Action]:
        """No process of a lost keeper is left."""
        return self.empty(event.world)

    def leftovers_removed(self, event: LeftoversRemoved, now: float) -> list[Action]:
        """No file of a keeper's ranks is left."""
        self.gone(event.world)
        texts = [f"removed {name}, which nobody has mapped" for name in event.names]
        return [Log(text, self._job_id) for text in texts]

    def server_ended(self, event: PmixServerEnded, now: float) -> list[Action]:
        """The PMIx server has ended."""
        if event.has_orphans:
            return self.lost(PMIX_SERVER)
        self.gone(PMIX_SERVER)
        return []

    def signal(self, message: load.Signal, now: float) -> list[Action]:
        """yod sends a signal to all ranks."""
        number = self.last_signal = message.signal_number
        actions = [*self._group.down(message), *self.pass_on(number, Stopper.YOD)]
        if number in _ENDING and self.has_any and self._group.size > 1:
            spread_s = min(SPREAD_NODE_S * self._group.size, SPREAD_MAX_S)
            actions.append(LetSpread(self._job_id, spread_s))
        return actions

    def pass_on(self, number: int, by: Stopper) -> list[Action]:
        """Send the ranks of this node a signal. SIGTERM continues those that are stopped."""
        match number:
            case signal.SIGSTOP:
                self.stopped_by.add(by)
            case signal.SIGCONT:
                self.stopped_by.discard(by)
                if self.stopped_by:
                    return []
            case signal.SIGTERM:
                self.stopped_by.clear()
        return [KeeperSignal(self._job_id, number)] if self.has_any else []

    def let_go(self) -> list[Action]:
        """Ranks have been let go: those of a suspended allocation are stopped at once."""
        return [KeeperSignal(self._job_id, signal.SIGSTOP)] if self.stopped_by else []
