"""The embedded partition of a program that uses :mod:`yod.api`.

The process is the program's, which has children, threads and settings of its own. So what a
launch needs of the process is given back after the last one: the raised limits, and that orphans
come to it. A child is killed as an orphan only if its environment says that it descends from a
rank. Several partitions may be open in one process, as in several threads; the numbers of
their jobs differ.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Collection
from contextlib import ExitStack

from native.host import process
from native.limits import Limits
from native.loop.reactor import Reactor
from partition.up.embedded import EmbeddedLaunch, EmbeddedPartition
from pct.host import capacity
from pct.host.spawn.orphans import children_of, not_of_job
from pct.host.spawn.spawner import OwnSpawner

_JOBS_MAX = 1 << 22  # of one partition; Linux has no more process ids
_lock = _thread.allocate_lock()
_taken: set[int] = set()  # numbers of the partitions of this process


class GuestPartition:
    """An embedded partition, for any number of launches at a time.

    Open and close its launches in the thread that made it.
    """

    def __init__(self, reactor: Reactor, limits: Limits) -> None:
        self._reactor = reactor
        self._number = _take_number()
        first = os.getpid() + self._number * _JOBS_MAX
        self._job_ids = range(first, first + _JOBS_MAX)
        self._spawners: list[OwnSpawner] = []
        with ExitStack() as undo:
            undo.callback(_taken.discard, self._number)
            process.need_subreaper()
            undo.callback(process.leave_subreaper)
            self._partition = EmbeddedPartition(
                reactor,
                limits,
                self._spawner(frozenset),
                first_job_id=first,
                share=capacity.here(os.environ),
            )
            undo.callback(self._partition.close)
            self._close = undo.pop_all().close

    @property
    def is_idle(self) -> bool:
        """Nothing is left of any job: no process, no slot."""
        return self._partition.is_idle and not self.has_keepers

    @property
    def has_keepers(self) -> bool:
        """Some keeper has not been reaped."""
        return any(spawner.has_keepers for spawner in self._spawners)

    def open(self, ranks_of: Callable[[], Collection[int]]) -> GuestPlace:
        """Let a launch in; its keepers are of a parent of its own.

        Args:
            ranks_of: gives the process ids of its ranks.
        """
        self._spawners = [self._spawners[0], *(s for s in self._spawners[1:] if s.has_keepers)]
        spawner = self._spawner(ranks_of)
        return GuestPlace(self._partition.open(spawner), spawner)

    def close(self) -> None:
        """End whatever is left."""
        self._close()

    def _spawner(self, ranks_of: Callable[[], Collection[int]]) -> OwnSpawner:
        def strangers() -> Collection[int]:  # a keeper, too: it has no environment
            return not_of_job(children_of(os.getpid()), self._job_ids, ranks_of())

        spawner = OwnSpawner(self._reactor, strangers)
        self._spawners.append(spawner)
        return spawner


class GuestPlace:
    """A launch's place in the partition.

    Attributes:
        bebopd: where to send requests.
        port: the launch's own port.
    """

    def __init__(self, opened: EmbeddedLaunch, spawner: OwnSpawner) -> None:
        self.bebopd = opened.bebopd
        self.port = opened.port
        self.use_grant = opened.use_grant
        self.close = opened.close
        self._spawner = spawner

    @property
    def has_keepers(self) -> bool:
        """Some keeper of the launch has not been reaped."""
        return self._spawner.has_keepers


def _take_number() -> int:
    with _lock:
        number = 0
        while number in _taken:
            number += 1
        _taken.add(number)
        return number
