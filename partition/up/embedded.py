"""The embedded partition: bebopd and one PCT inside a process of the user's, joined by memory.

The user needs to install, configure, start and clean up nothing. The machines are those
of the daemons; only the port differs. The process may be yod itself, for its one launch, or one
that has many launches at a time, each with a port of its own.
"""

from __future__ import annotations

import os
import time
from _blake2 import blake2b
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allocator.bebopd import Bebopd
from allocator.driver import Driver as AllocatorDriver
from allocator.jobs.grants import Owner
from allocator.nodes.placement_list import ListPlacement
from allocator.records import MemoryLedger
from native.host.rlimits import raise_soft, restore
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.loop.closing import close_all
from native.loop.reactor import Reactor
from native.machine import Contain, propagate
from native.port.port import Hub, Port
from native.wire.alloc import Grant
from native.wire.base import SLOTS_MAX, TIME_MAX_S
from pct.driver import Driver as PctDriver
from pct.host.spawn.spawner import Departed, OwnSpawner, Spawner
from pct.host.store import Store, default_directories
from pct.node import Node

if TYPE_CHECKING:
    from pct.host.capacity import Capacity
    from pct.host.pmix_process import PmixServer


class EmbeddedPartition:
    """A partition of one node, this host, for any number of launches at a time.

    Args:
        spawner: starts the keepers of PMIx servers, and those of launches that bring no other
            parent for theirs.
        pmix_server: one that was started early for the first job; None: none was.
        slots: how many ranks all jobs may have together; a job that finds too few is refused.
            None: as many as a job may have, and no count of jobs.
        share: memory, GPUs and cores that all jobs may have together; None: none that is counted.
        first_job_id: job ids are counted from it; None: this process's id, which is unique
            among the living, and easy to find.

    Attributes:
        bebopd: where launches send requests.
    """

    def __init__(
        self,
        reactor: Reactor,
        limits: Limits,
        spawner: OwnSpawner,
        pmix_server: PmixServer | None = None,
        *,
        slots: int | None = None,
        share: Capacity | None = None,
        first_job_id: int | None = None,
        contain: Contain = propagate,
    ) -> None:
        raise_soft()
        key = os.urandom(32)

        def sign(data: bytes) -> bytes:
            return blake2b(data, key=key, digest_size=32).digest()

        # Memory loses no message and no peer falls silent: nobody needs to announce again. An
        # announcement of more jobs than a node of daemons has would be too long for a message.
        limits = replace(
            limits,
            heartbeat_s=TIME_MAX_S,
            silent_s=TIME_MAX_S,
            jobs_per_node_count=SLOTS_MAX,
        )
        self._hub = Hub()
        self._principal = Principal(PrincipalKind.PARTITION, os.getuid())
        self._spawner = spawner
        self._spawners: dict[int, Spawner] = {}  # by job id, from its grant to its load
        self._allocator_port = self._hub.port(self._principal)
        self._node_port = self._hub.port(self._principal)
        self.bebopd: PortalId = self._allocator_port.id
        self._bebopd = Bebopd(
            ListPlacement(),
            epoch=1,
            next_job_id=os.getpid() if first_job_id is None else first_job_id,
            sign=sign,
            job_key=lambda job_id, uid, expires: b"",
            owner_of=lambda uid: Owner(uid=uid, gid=os.getgid(), groups=(), name=str(uid)),
            wall_clock=time.time,
            limits=limits,
            name="embedded",
        )
        self._allocator = AllocatorDriver(
            self._bebopd, self._allocator_port, reactor, MemoryLedger(), contain=contain
        )
        self._node = Node(
            name=host_name(),
            slots=SLOTS_MAX if slots is None else slots,
            address=self._node_port.id,
            bebopd=self._allocator_port.id,
            wanted=0,
            incarnation=1,
            limits=limits,
            is_signed=lambda data, mac: sign(data) == mac,  # no other process can send one
            unix_time=time.time,
            memory=share.memory if share else 0,
            gpus=share.gpus if share else (),
            cores=share.cores if share else (),
        )
        self._pct = PctDriver(
            self._node,
            self._node_port,
            reactor,
            Store(default_directories(), reactor),
            own_spawner=spawner,
            spawner_of=self._spawner_of,
            contain=contain,
            early_server=pmix_server,
        )
        self._pct.start()

    @property
    def is_idle(self) -> bool:
        """Nothing is left of any job: no process, no slot."""
        return not len(self._bebopd.jobs) and not self._node.jobs

    def open(
        self, spawner: Spawner | None = None, on_close: Callable[[], None] | None = None
    ) -> EmbeddedLaunch:
        """Let a launch in. It may be closed in any phase: what is left of its job ends then.

        Args:
            spawner: the parent of its keepers; None: the partition's.
            on_close: called when the launch has been closed.
        """
        port = self._hub.port(self._principal)
        return EmbeddedLaunch(self.bebopd, port, self._spawners, spawner or self._spawner, on_close)

    def close(self) -> None:
        """End whatever is left of all jobs."""
        ports = self._allocator_port.close, self._node_port.close
        close_all([restore, *ports, self._allocator.close, self._pct.close])

    def _spawner_of(self, job_id: int) -> Spawner:
        # The load message of a launch that has been closed may still be in the node's queue.
        return self._spawners.pop(job_id, None) or Departed()


class EmbeddedLaunch:
    """One launch's place in an embedded partition.

    Attributes:
        bebopd: where to send requests.
        port: the launch's own port.
    """

    def __init__(
        self,
        bebopd: PortalId,
        port: Port,
        spawners: dict[int, Spawner],
        spawner: Spawner,
        on_close: Callable[[], None] | None,
    ) -> None:
        self.bebopd = bebopd
        self.port = port
        self._spawners = spawners
        self._spawner = spawner
        self._on_close = on_close
        self._job_ids: list[int] = []

    def use_grant(self, grant: Grant) -> None:
        """Say who is to be the parent of the job's keepers. The peers are in this process."""
        self._spawners[grant.job_id] = self._spawner
        self._job_ids.append(grant.job_id)

    def close(self) -> None:
        """Leave: bebopd and the PCT end what is left of the job."""
        for job_id in self._job_ids:
            self._spawners.pop(job_id, None)
        self.port.close()
        if self._on_close is not None:
            self._on_close()


def host_name() -> str:
    """This host's name, without its domain."""
    return os.uname().nodename.partition(".")[0]
