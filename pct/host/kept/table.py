"""The brokers of this node as processes: carries out what their machine decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from native.host.files import Owner
from native.loop.reactor import Reactor
from native.loop.slices import Slices
from native.machine import Contain, fault_text
from pct import brokers
from pct.host.kept.brokers import BrokerProcess
from pct.host.kept.processes import NOT_STARTED, Place
from pct.host.spawn.orphans import described
from pct.host.spawn.spawner import Spawner

if TYPE_CHECKING:
    from pct.host.cgroups.own import Cgroup


class BrokerProcesses:
    """The process of each broker, by job.

    Args:
        slices: where control groups are removed.
        handle: takes what happens.
        contain: takes an exception that was raised on behalf of one; that one ends.
        cgroup: in which each has a control group of its own; None: none has.
    """

    def __init__(
        self,
        reactor: Reactor,
        spawner: Spawner,
        slices: Slices,
        handle: Callable[[brokers.BrokerEvent], None],
        contain: Contain,
        cgroup: Cgroup | None,
    ) -> None:
        self._reactor = reactor
        self._spawner = spawner
        self._slices = slices
        self._handle = handle
        self._contain = contain
        self._cgroup = cgroup
        self._processes: dict[int, BrokerProcess] = {}

    def perform(self, action: brokers.BrokerAction) -> None:
        """Carry out an action."""
        faulty = partial(self._fault, action.job_id)
        self._reactor.run_for(faulty, self._perform, action)

    def close(self) -> None:
        """Hang up on each: it ends."""
        for process in self._processes.values():
            process.close()

    def _perform(self, action: brokers.BrokerAction) -> None:
        process = self._processes.get(action.job_id)
        match action:
            case brokers.BeginBroker(job_id):
                around = self._reactor, self._spawner, self._happened, self._place(action)
                self._processes[job_id] = BrokerProcess(action, *around)
            case brokers.TellBroker(_, message) if process is not None:
                process.tell(message)
            case brokers.KillBroker() if process is not None:
                process.kill()
            case brokers.KillBrokerKeeper() if process is not None:
                process.kill_keeper()
            case brokers.NameLeft(job_id) if process is not None:
                self._handle(brokers.BrokerLeft(job_id, described(process.left())))

    def _place(self, action: brokers.BeginBroker) -> Place | None:
        """A control group for it; None: there are none here."""
        if self._cgroup is None:
            return None
        start = action.start
        owner = Owner(start.uid, start.gid, start.groups)
        return Place(self._cgroup.begin_broker(start.job_id, owner), self._slices)

    def _happened(self, event: brokers.BrokerEvent) -> None:
        if isinstance(event, brokers.BrokerGone):
            self._processes.pop(event.job_id).close()
        self._handle(event)

    def _fault(self, job_id: int, error: Exception) -> None:
        """Something that was done for a broker has raised: it ends, and nothing else does."""
        self._contain(f"broker of job {job_id}", error)
        if (process := self._processes.pop(job_id, None)) is not None:
            process.close()
        self._handle(brokers.BrokerGone(job_id, NOT_STARTED, fault_text(error).encode()))
