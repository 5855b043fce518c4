"""The embedded partition: bebopd and one PCT inside yod, joined by memory.

The user needs to install, configure, start and clean up nothing. The machines are those
of the daemons; only the port differs.
"""

from __future__ import annotations

import os
import time
from _blake2 import blake2b
from typing import TYPE_CHECKING

from allocator.bebopd import Bebopd
from allocator.driver import Driver as AllocatorDriver
from allocator.jobs.grants import Owner
from allocator.nodes.placement_list import ListPlacement
from allocator.records import MemoryLedger
from native.host.process import become_subreaper
from native.host.rlimits import raise_soft, restore
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import Hub, Port
from native.wire.alloc import Grant
from native.wire.base import SLOTS_MAX
from pct.driver import Driver as PctDriver
from pct.host.orphans import children_of
from pct.host.store import Store, default_directories
from pct.node import Node

if TYPE_CHECKING:
    from pct.host.pmix_process import PmixServer


class EmbeddedPartition:
    """A partition of one node, this host, which accepts a job of any size.

    Args:
        pmix_server: one that was started early for the job; None: none was.

    Attributes:
        bebopd: where to send requests.
        port: yod's own port.
    """

    def __init__(
        self, reactor: Reactor, limits: Limits, pmix_server: PmixServer | None = None
    ) -> None:
        self._soft_limits = raise_soft()
        key = os.urandom(32)

        def sign(data: bytes) -> bytes:
            return blake2b(data, key=key, digest_size=32).digest()

        hub = Hub()
        uid = os.getuid()
        daemon = Principal(PrincipalKind.PARTITION, uid)
        allocator_port, node_port = hub.port(daemon), hub.port(daemon)
        self.port: Port = hub.port(Principal(PrincipalKind.PARTITION, uid))
        self.bebopd: PortalId = allocator_port.id
        machine = Bebopd(
            ListPlacement(),
            epoch=1,
            next_job_id=os.getpid(),  # unique among the living, and easy to find
            sign=sign,
            job_key=lambda job_id, uid, expires: b"",
            owner_of=lambda uid: Owner(uid=uid, gid=os.getgid(), groups=(), name=str(uid)),
            wall_clock=time.time,
            limits=limits,
            name="embedded",
        )
        self._allocator = AllocatorDriver(machine, allocator_port, reactor, MemoryLedger())
        node = Node(
            name=host_name(),
            slots=SLOTS_MAX,
            address=node_port.id,
            bebopd=allocator_port.id,
            wanted=0,
            incarnation=1,
            limits=limits,
            is_signed=lambda data, mac: sign(data) == mac,  # no other process can send one
            unix_time=time.time,
        )
        store = Store(default_directories(), reactor)
        strangers = children_of(os.getpid())  # children of the program that uses yod.api
        self._pct = PctDriver(
            node,
            node_port,
            reactor,
            store,
            strangers,
            early_server=pmix_server,
            on_keeper=become_subreaper,  # orphans come to yod only from a keeper
        )
        self._pct.start()

    def use_grant(self, grant: Grant) -> None:
        """Do nothing: the peers are in this process."""

    def close(self) -> None:
        """End whatever is left of a job."""
        self._pct.close()
        self._allocator.close()
        restore(self._soft_limits)


def host_name() -> str:
    """This host's name, without its domain."""
    return os.uname().nodename.partition(".")[0]
