"""Opens the chosen partition: brings up the embedded one, or prepares to reach bebopd."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from native.ids import PortalId
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import Port
from native.start import ahead
from native.wire.alloc import Grant
from partition.find.discover import Where

if TYPE_CHECKING:
    from pct.host.pmix_process import PmixServer


class Opened(Protocol):
    """A partition that yod can talk to."""

    bebopd: PortalId

    @property
    def port(self) -> Port:
        """yod's port."""

    def use_grant(self, grant: Grant) -> None:
        """Open connections to the job's PCTs."""

    def close(self) -> None:
        """Leave the partition; end an embedded one."""


def preparation() -> Iterator[None]:
    """The imports for an embedded partition, in pieces of about a millisecond."""
    return ahead.imports(
        "allocator.bebopd",
        "pct.wireup.machine",
        "pct.job.machine",
        "pct.driver",
        "partition.up.embedded",
    )


def open_partition(
    where: Where, reactor: Reactor, limits: Limits, *, will_offer_pmix: bool = False
) -> Opened:
    """Bring up the embedded partition, or prepare to reach another one.

    Args:
        will_offer_pmix: the coming job offers PMIx. Its server in an embedded partition
            then starts while the partition's modules are imported, which takes as long.

    Raises:
        PartitionError: the key cannot be read.
    """
    if where.is_embedded:
        server = _early_pmix_server(reactor, limits) if will_offer_pmix else None
        from partition.up.embedded import EmbeddedPartition

        return EmbeddedPartition(reactor, limits, server)
    from partition.find.remote import RemotePartition

    return RemotePartition(where, limits)


def _early_pmix_server(reactor: Reactor, limits: Limits) -> PmixServer | None:
    """A PMIx server, started early; None: it cannot start, and the PCT will say why."""
    from native.host.files import Owner
    from pct.host.pmix_process import PmixServer

    try:
        owner = Owner(os.getuid(), os.getgid(), ())
        return PmixServer(os.getpid(), owner, reactor, limits.pmix_server_bytes)
    except (OSError, ValueError):
        return None
