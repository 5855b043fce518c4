"""Opens the chosen partition: brings up the embedded one, or prepares to reach bebopd."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import Opened
from yod.plan.reach import Reach

if TYPE_CHECKING:
    from pct.host.capacity import Capacity
    from pct.host.pmix_process import PmixServer
    from pct.host.spawn.spawner import OwnSpawner


def open_partition(
    reach: Reach | None,
    reactor: Reactor,
    limits: Limits,
    *,
    slots: int | None = None,
    will_offer_pmix: bool = False,
    has_needs: bool = False,
) -> Opened:
    """Bring up the embedded partition, or prepare to reach another one.

    Args:
        reach: None: the embedded one.
        slots: of the embedded one; None: any number.
        will_offer_pmix: the coming job offers PMIx. Its server in an embedded partition
            then starts while the partition's modules are imported, which takes as long.
        has_needs: the coming job asks for memory, GPUs or cores of its own.
    """
    if reach is None:
        spawner = own_spawner(reactor)
        server = _early_pmix_server(reactor, limits, spawner) if will_offer_pmix else None
        from partition.up.embedded import EmbeddedPartition

        share: Capacity | None = None
        if has_needs:
            from pct.host.capacity import here

            share = here(os.environ)
        partition = EmbeddedPartition(reactor, limits, spawner, server, slots=slots, share=share)
        return partition.open(on_close=partition.close)
    from partition.find.remote import RemotePartition

    return RemotePartition(reach, limits)


def own_spawner(reactor: Reactor) -> OwnSpawner:
    """The parent of keepers in this process, which may have children of its own."""
    from native.host.process import become_subreaper
    from pct.host.spawn.orphans import children_of
    from pct.host.spawn.spawner import OwnSpawner

    strangers = children_of(os.getpid())  # of the program that has become yod
    # Orphans come to this process only from a keeper.
    return OwnSpawner(reactor, lambda: strangers, on_first=become_subreaper)


def _early_pmix_server(reactor: Reactor, limits: Limits, spawner: OwnSpawner) -> PmixServer | None:
    """A PMIx server, started early; None: it cannot start, and the PCT will say why."""
    from native.host.files import Owner
    from pct.host.pmix_process import PmixServer

    try:
        owner = Owner(os.getuid(), os.getgid(), ())
        return PmixServer(os.getpid(), owner, reactor, spawner, limits.pmix_server_bytes)
    except (OSError, ValueError):
        return None
