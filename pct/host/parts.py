"""What a driver holds for one job: keepers, pipes, sockets, objects on their way."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from native.host.files import Owner
from pct import events
from pct.host import hostfiles
from pct.host.connections import Clients
from pct.host.keeper import Keeper
from pct.host.objects import JobObjects
from pct.host.streams import InputPipe, OutputPipe

if TYPE_CHECKING:
    from pct.host.pmix_process import PmixServer


class JobParts:
    """What one job holds on this node.

    Args:
        owner: whose it is.
    """

    def __init__(self, owner: Owner, objects: JobObjects) -> None:
        self.owner = owner
        self.objects = objects
        self.keepers: dict[int, Keeper] = {}  # by world
        self.clients: Clients | None = None
        self.pmix: PmixServer | None = None
        self.outputs: dict[tuple[int, int], OutputPipe] = {}
        self.input: InputPipe | None = None
        self.began = time.time()
        self.host_files = ""  # their directory
        self.portals_fd = -1  # the file for the ranks' map
        self.paused: set[int] = set()  # streams that are not read

    def all_keepers(self) -> dict[int, Keeper]:
        """The keeper of each world, and that of the PMIx server."""
        server = {events.PMIX_SERVER: self.pmix.keeper} if self.pmix else {}
        return self.keepers | server

    def close(self) -> None:
        """Give everything back, also what comes behind something that raises."""
        with ExitStack() as stack:  # the last first
            if self.input:
                stack.callback(self.input.close)
            for output in self.outputs.values():
                stack.callback(output.close)
            if self.portals_fd >= 0:
                stack.callback(os.close, self.portals_fd)
            if self.host_files:
                stack.callback(hostfiles.remove, self.host_files)
            if self.clients:
                stack.callback(self.clients.close)
            if self.pmix:
                stack.callback(self.pmix.close)
            for keeper in self.keepers.values():
                stack.callback(keeper.close)
            stack.callback(self.objects.close)
