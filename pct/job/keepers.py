"""The keepers of a job on one node: one for each world, and one for its PMIx server."""

from __future__ import annotations

from native.machine import Action
from native.wire import load
from pct.events import PMIX_SERVER, KeeperSignal, PmixServerEnded
from pct.tree.group import Group


class Keepers:
    """Which of them run, and what is known of their processes.

    Attributes:
        unix_pids: of ranks of this node, by the rank of the job.
        last_signal: the last that the ranks were sent; 0: none.
    """

    def __init__(self, job_id: int, group: Group) -> None:
        self.unix_pids: dict[int, int] = {}
        self.last_signal = 0
        self._job_id = job_id
        self._group = group
        self._is_running: dict[int, bool] = {}  # by world, or PMIX_SERVER

    def __contains__(self, world: int) -> bool:
        """The keeper has been started; it may have ended since."""
        return world in self._is_running

    @property
    def has_any(self) -> bool:
        """At least one runs."""
        return True in self._is_running.values()

    @property
    def has_server(self) -> bool:
        """The PMIx server runs."""
        return self._is_running.get(PMIX_SERVER, False)

    def start(self, world: int) -> None:
        """A keeper is being started."""
        self._is_running[world] = True

    def end(self, world: int) -> None:
        """Nothing is left of a keeper and its processes."""
        self._is_running[world] = False

    def server_ended(self, event: PmixServerEnded, now: float) -> list[Action]:
        """The PMIx server has ended, and nobody needs it any more."""
        self.end(PMIX_SERVER)
        return []

    def signal(self, message: load.Signal, now: float) -> list[Action]:
        """yod sends all ranks a signal."""
        self.last_signal = message.signal_number
        actions = self._group.down(message)
        if self.has_any:
            actions.append(KeeperSignal(self._job_id, message.signal_number))
        return actions
