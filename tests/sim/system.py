"""A node's operating system, faked: the processes of a host, and who may call whom there."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from pct.pmi_events import Devices
from tests.sim.clients import Socket
from tests.sim.clock import Clock
from tests.sim.pmix import Health, PmixServer
from tests.sim.processes import UnixProcess
from tests.sim.ranks import RankProcess

if TYPE_CHECKING:
    from tests.sim.keeper import FakeKeeper

_pids = itertools.count  # a host numbers its own


class Host:
    """A machine of the partition: what outlives its PCT."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self.name = name
        self.slowness = 1.0
        self.pids = _pids(1000)
        self.processes: dict[int, UnixProcess] = {}
        self.keepers: list[FakeKeeper | PmixServer] = []
        self.objects: set[bytes] = set()  # digests of what is here already
        self.has_room = True
        self.has_memory = True  # for arguments
        self.publish_error = ""  # why an object cannot be given its name
        self.has_listeners = True  # else PMI_PORT cannot be offered
        self.devices = Devices(has_fabric=False, has_any=False, has_settings=False)
        self.pmix_health = Health.SOUND
        self.pmix: dict[int, PmixServer] = {}  # by job
        self.listeners: dict[int, Callable[[Socket], None]] = {}  # by job
        self.leftovers: set[int] = set()  # jobs whose killed ranks have left shared memory

    def call(self, job_id: int, socket: Socket) -> None:
        """A process calls its PCT, which hears of it in a while, or never."""

        def arrive() -> None:
            if (accept := self.listeners.get(job_id)) is not None:
                accept(socket)
            else:
                socket.hang_up()

        self.clock.after(self.clock.rng.uniform(1e-5, 5e-4) * self.slowness, arrive)

    def slots_used(self) -> dict[int, int]:
        """Ranks alive by job; spawned ones take no slots."""
        used: dict[int, int] = {}
        for process in self.processes.values():
            if isinstance(process, RankProcess) and not process.world.number:
                used[process.job_id] = used.get(process.job_id, 0) + 1
        return used

    def orphans(self) -> list[UnixProcess]:
        """Processes without a keeper: they are children of the PCT."""
        kept = {id(p) for k in self.keepers for p in (*k.ranks.values(), *k.children)}
        return [process for process in self.processes.values() if id(process) not in kept]

    def power_off(self) -> None:
        """Everything on it is gone at once."""
        for keeper in list(self.keepers):
            keeper.is_alive = False
            keeper.hang_up()
        self.keepers.clear()
        for process in list(self.processes.values()):
            process.stuck_s = 0.0
            if isinstance(process, RankProcess):
                process.ended(int(signal.SIGKILL))
            else:
                process.is_dying = True
                process.ended(int(signal.SIGKILL))
        self.pmix.clear()
        self.listeners.clear()
        self.leftovers.clear()

    def pct_died(self) -> None:
        """Every keeper sees its socket close. Where one is dead too, the cgroup does it."""
        for keeper in self.keepers:
            keeper.hang_up()
        self.listeners.clear()
        for process in self.orphans():
            process.die(int(signal.SIGKILL))
