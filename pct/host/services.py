"""What a node offers the ranks of one job: a listener for PMI, a PMIx server, host files.

Carries out the actions of the job's machine, and reports what clients and the server say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from native.host.files import Owner
from native.loop.closing import close_all
from native.loop.reactor import Reactor
from native.machine import Event
from native.wire import keeper as wire
from pct import pmi_events
from pct.account import Account
from pct.host import fabrics, hostfiles
from pct.host.connections import Connections
from pct.host.store import Store

if TYPE_CHECKING:
    from native.wire import pmix
    from pct.host.pmix_process import PmixServer


class JobServices:
    """The services of one job.

    Args:
        account: what clients and the server have not taken is taken from it.
        handle: takes the events.
        say: takes a line for the log.
    """

    def __init__(
        self,
        job_id: int,
        owner: Owner,
        reactor: Reactor,
        store: Store,
        account: Account,
        handle: Callable[[Event], None],
        say: Callable[[str], None],
    ) -> None:
        self._job_id = job_id
        self._owner = owner
        self._reactor = reactor
        self._store = store
        self._account = account
        self._handle = handle
        self._say = say
        self._connections = Connections(job_id, reactor, handle, say, account)
        self._pmix: PmixServer | None = None
        self._host_files: tuple[bytes, ...] = ()

    # -- PMI, and launchers inside -----------------------------------------

    def open_pmi(self, action: pmi_events.OpenPmi, connections: int) -> None:
        """Listen for clients, and look at what their environment shall say of this node.

        Args:
            connections: for which there is room, however few the ranks.
        """
        address = self._connections.listen(self._owner.uid, action.ranks, connections)
        agent = hostfiles.find_agent()
        files = self._write_host_files(action.host_files) if action.host_files else ()
        devices = fabrics.look(action.home, self._owner) if action.home is not None else None
        self._handle(pmi_events.PmiOpened(self._job_id, address, agent, files, devices))

    def _write_host_files(self, texts: tuple[bytes, ...]) -> tuple[bytes, ...]:
        owner = self._owner
        try:
            parent = self._store.directory()
            self._host_files = hostfiles.write(parent, owner.uid, owner.gid, texts)
        except OSError as error:
            self._say(f"no host files for a launcher inside: {error}")
        return self._host_files

    def add_client(self, fd: int, rank: int) -> None:
        """A rank has its end of a socket (PMI_FD); this is ours."""
        self._connections.add(fd, rank)

    def reply(self, connection: int, data: bytes) -> None:
        """Write to a client."""
        self._connections.reply(connection, data)

    def hang_up(self, connection: int) -> None:
        """Close a client's connection."""
        self._connections.hang_up(connection)

    # -- PMIx -------------------------------------------------------------

    def start_pmix(self, begin: pmix.Begin, make: Callable[[], PmixServer]) -> None:
        """Have a PMIx server serve the job.

        Args:
            make: gives one that has been started.
        """
        server = None
        try:
            server = make()
            server.begin(
                begin,
                self._store.directory(),
                self._from_pmix,
                self._pmix_ended,
                self._say,
                self._store.slices,
                self._account,
            )
        except (OSError, ValueError) as error:
            if server is not None:
                server.close()
            text = f"its keeper could not be started: {error}"
            self._handle(pmi_events.PmixServerEnded(self._job_id, text))
        else:
            self._pmix = server

    def send_pmix(self, message: pmix.FromPct) -> None:
        """Tell the PMIx server something."""
        if self._pmix is not None:
            self._pmix.send(message)

    def end_pmix(self) -> None:
        """Have the PMIx server exit."""
        if self._pmix is not None:
            self._pmix.end()

    def kill_pmix(self) -> None:
        """Kill the keeper of the PMIx server."""
        if self._pmix is not None:
            self._pmix.keeper.kill()

    def _from_pmix(self, message: pmix.FromServer) -> None:
        self._handle(pmi_events.PmixReceived(self._job_id, message))

    def _pmix_ended(self, report: wire.Report, text: str) -> None:
        if isinstance(report, wire.KeeperLost):
            self._pmix = None  # nobody is there who would take a message
            event = pmi_events.PmixServerEnded(self._job_id, report.reason, has_orphans=True)
        else:
            event = pmi_events.PmixServerEnded(self._job_id, text)
        self._handle(event)

    def close(self) -> None:
        """End everything."""
        calls: list[Callable[[], None]] = []
        if self._host_files:
            calls.append(partial(hostfiles.remove, self._host_files))
        calls.append(self._connections.close)
        if self._pmix is not None:
            calls.append(self._pmix.close)
        close_all(calls)
