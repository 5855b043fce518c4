"""The wire-up of one job on one node: PMI-1, PMI-2 and PMIx over the job's tree.

Clients of PMI talk to this node (:mod:`pct.wireup.clients`). Clients of PMIx talk to a
server process of the job's user, which talks to this node (:mod:`pct.wireup.pmix`). Both use
the same pairs, fences and names (:mod:`pct.wireup.kvs`). A question that this node cannot
answer goes through the tree to the place that can (:mod:`pct.wireup.questions`): for names
the root, for a rank's data its node, for a spawn yod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from native import outer
from native.wire import load, pmi
from native.wire.agent import FIRST_WORD
from native.wire.base import PATH_MAX, clipped
from native.wire.load import Protocol
from native.wire.pmi import FenceKind, KeyValue
from pct.account import RANK_BYTES, WORLD_BYTES, Account, Charge
from pct.tree import tree
from pct.wireup import environment, foreign
from pct.wireup.fences import TreeFences
from pct.wireup.no_pmix import NoPmix
from pct.wireup.questions import Questions, Step, cost_of
from pct.wireup.world import World, Worlds

if TYPE_CHECKING:
    from native.wire import pmix
    from pct.pmi_events import PmiOpened
    from pct.wireup.clients import PmiClients
    from pct.wireup.pmix import PmixLink
    from pct.wireup.tools import Tools


class Wireup:
    """The wire-up of one job on one node.

    Args:
        message: the load, with this node's place in it.
        members: the member of each rank of the load.
        users: the user's environment.
        account: what is kept for the ranks is taken from it.

    Attributes:
        users: the same.
        host_files: what a launcher inside is to read; empty: the job is on one node.
    """

    def __init__(
        self,
        message: load.Load,
        members: list[int],
        users: environment.Users,
        account: Account,
    ) -> None:
        self._account = account
        self._charge = Charge(account)  # of spawned worlds, and of those that may come
        self._spawning: dict[tuple[int, int], int] = {}  # asked of yod: what each costs
        self._spawned_bytes = 0
        self._job_id = message.job_id
        self._place = place = message.place
        self._mpi = message.mpi
        self.users = users
        size, arity = len(message.nodes), message.arity
        self._child_of = {
            below: child
            for child in tree.children(place, size, arity)
            for below in tree.subtree(child, size, arity)
        }
        self._host = message.nodes[place].name
        self._shares_host = message.nodes.count_at(message.nodes[place].nid) > 1
        # mpich names shared memory after the key space: no two jobs may share one.
        self._name = f"yod_{message.job_id}_{message.credential_mac[:8].hex()}"
        self._worlds = worlds = Worlds()
        self._questions = Questions(self._job_id, place, self._child_of, self._answer, account)
        self._fences = TreeFences(
            self._job_id, place, self._child_of, worlds, self._fence_over, account
        )
        self._clients: PmiClients | None = None  # until one comes
        self._pmix = self._link(message)
        self._tools: Tools | None = None  # until an agent comes
        self._new_connections: set[int] = set()  # of which nothing has been heard
        self._port: bytes | None = None  # None: not opened yet
        hosts = foreign.nodes_of(message)
        # What is for its own host, a launcher starts by itself.
        self.host_files = foreign.host_files(hosts) if len(hosts) > 1 else ()
        self._launcher_variables: tuple[bytes, ...] = ()
        self._lacks_fabric = self._lacks_devices = False
        self._has_told = self._has_told_of_limit = False
        self.add_world(0, 0, list(message.runs.places()), members)

    # -- worlds and what their ranks need ---------------------------------

    def add_world(
        self,
        number: int,
        first_rank: int,
        places: list[int],
        applications: list[int],
        parent: pmi.Process | None = None,
        pairs: tuple[KeyValue, ...] = (),
    ) -> Step:
        """Take in a world, with or without ranks on this node."""
        name = f"{self._name}_{number}" if number else self._name
        ancestor = (parent.world, parent.rank) if parent else None
        of_node = (self._place, self._child_of, self._account)
        world = World(number, name, first_rank, places, applications, *of_node, ancestor)
        world.space.spread(pairs)
        self._worlds.add(world)
        step = Step()
        self._pmix.add(world, step)
        return step

    def is_ready(self, number: int) -> bool:
        """May the ranks of a world start? All that their environment names must be ready."""
        return self._port is not None and self._pmix.is_ready(self._worlds[number])

    @property
    def offered(self) -> tuple[Protocol, ...]:
        """The protocols of the load that this node can offer."""
        lacking = {Protocol.PMIX} if self._pmix.is_lacking else set()
        return tuple(each for each in self._mpi.offered if each not in lacking)

    @property
    def wants_sockets(self) -> bool:
        """Does each rank get a socket (PMI_FD)? For PMI-2, and where PMI_PORT is not possible."""
        offers = self._mpi.offered
        return Protocol.PMI2 in offers or (Protocol.PMI1 in offers and not self._port)

    def shared_environment(self) -> tuple[bytes, ...]:
        """Variables of all ranks for launchers inside the job and for MPI libraries.

        Open MPI names its shared memory after the host: two nodes on one host would take
        each other's, and crash. Libraries also wait for fabrics, and prepare for devices,
        that the node does not have.
        """
        variables: tuple[bytes, ...] = ()
        if self._port:
            variables += (b"YOD_AGENT=" + self._port, *self._launcher_variables)
        if self._lacks_devices and self._mpi.library:
            variables += environment.without_devices(self.users.names)
        if Protocol.PMIX not in self._mpi.offered:
            return variables
        if self._shares_host:
            variables += (b"OMPI_MCA_btl=tcp,self",)
        if self._lacks_fabric:
            names = self.users.names.union(map(outer.name_of, variables))
            variables += environment.without_fabric(names)
        return variables

    def environment(self, number: int, rank: int) -> tuple[bytes, ...]:
        """The variables with which a local rank of a world joins it."""
        world = self._worlds[number]
        job_rank = world.first_rank + rank
        variables = environment.for_protocols(
            self.offered, rank, world.size, job_rank, self._port or b"", self.users.names
        )
        if world.parent is not None:
            variables += (b"PMI_SPAWNED=1",)
        return variables + world.environments.get(rank, ())

    def port_opened(self, opened: PmiOpened) -> None:
        """The listener of PMI_PORT is open, or cannot be; the event also describes the node.

        A launcher inside is helped where the node has all that it needs.
        """
        self._port = opened.address
        if opened.agent and len(opened.host_files) == len(self.host_files):
            self._launcher_variables = foreign.variables(opened.agent, *opened.host_files)
        if (devices := opened.devices) is not None:
            self._lacks_devices = not devices.has_any
            self._lacks_fabric = not devices.has_fabric and not devices.has_settings

    # -- connections ------------------------------------------------------

    def connected(self, connection: int, rank: int | None) -> Step:
        """A client of PMI, or an agent, has a connection.

        Args:
            rank: of the job, where the connection is known to be one's.
        """
        step = Step()
        self._pmi_clients().connected(connection, rank, step)
        if not step.hang_ups:
            self._new_connections.add(connection)
        return step

    def received(self, connection: int, data: bytes) -> Step:
        """Bytes of a connection; the first ones tell whether it is an agent's."""
        step = Step()
        if connection in self._new_connections:
            self._new_connections.discard(connection)
            if data.startswith(FIRST_WORD):
                self._pmi_clients().closed(connection)
                self._agent_came(connection, step)
        if self._tools is not None and connection in self._tools:
            self._tools.received(connection, data, step)
        else:
            self._pmi_clients().received(connection, data, step)
        return step

    def closed(self, connection: int) -> Step:
        """A connection has been closed, by either end."""
        step = Step()
        self._new_connections.discard(connection)
        self._pmi_clients().closed(connection)
        if self._tools is not None and connection in self._tools:
            self._tools.closed(connection, step)
        return step

    def spawn_comes(self, message: load.StartWorld) -> None:
        """A spawn makes one more world, or tool; the root has charged its account for it."""
        cost = self._spawning.pop((message.source, message.serial), None)
        if cost is None:
            cost = _of_world(sum(run.count for run in message.runs))
            self._charge.owe(cost)
        self._spawned_bytes += cost

    def tool_started(self, message: load.StartWorld) -> Step:
        """A tool has been started somewhere in the job."""
        step = Step()
        if self._tools is not None:
            self._tools.started(message, step)
        return step

    def _pmi_clients(self) -> PmiClients:
        if self._clients is None:
            from pct.wireup.clients import PmiClients  # needed only once a client connects

            of_job = (self._worlds, self._fences, self._questions)
            self._clients = PmiClients(*of_job, self._account)
        return self._clients

    def _agent_came(self, connection: int, step: Step) -> None:
        if self._tools is None:
            from pct.wireup.tools import Tools  # few applications start a launcher

            self._tools = Tools(self._place, self._worlds, self._questions, self._account)
        self._tools.connected(connection, step)

    # -- the PMIx server --------------------------------------------------

    def _link(self, message: load.Load) -> PmixLink | NoPmix:
        if Protocol.PMIX not in self._mpi.offered:
            return NoPmix(self._questions)
        from pct.wireup.pmix import PmixLink  # many jobs need none

        return PmixLink(message, self._worlds, self._fences, self._questions, self._account)

    def server_begin(self, uid: int, gid: int) -> pmix.Begin | None:
        """The first message to a PMIx server; None: the job needs no server."""
        return self._pmix.begin(self._name, uid, gid)

    def from_server(self, message: pmix.FromServer) -> Step:
        """A message of the PMIx server.

        Raises:
            PeerProtocolError: the server may not send it now.
        """
        step = Step()
        self._pmix.received(message, step)
        return step

    def server_ended(self, text: str) -> Step:
        """The PMIx server's process has ended."""
        step = Step()
        self._pmix.ended(text, step)
        return step

    # -- the tree ---------------------------------------------------------

    def fence_in(self, child: int, message: pmi.FenceIn) -> Step:
        """All participants of a child's subtree have entered a fence."""
        step = Step()
        self._fences.come_in(child, message, step)
        return step

    def fence_out(self, message: pmi.FenceOut) -> Step:
        """All participants have entered a fence: this is what they have put."""
        step = Step()
        self._fences.come_down(message, step)
        return step

    def _fence_over(self, fence: pmi.Fence, pairs: list[KeyValue], step: Step) -> None:
        if fence.kind is FenceKind.PMI:
            self._pmi_clients().leave_barrier(fence.participants[0].world, pairs, step)
        else:
            self._pmix.fence_over(fence, pairs, step)

    def asked(self, message: pmi.Ask, child: int | None) -> Step:
        """A question on its way; see :meth:`pct.wireup.questions.Questions.asked`."""
        step = Step()
        self._questions.asked(message, child, step)
        return step

    def replied(self, message: pmi.Reply) -> Step:
        """An answer on its way."""
        step = Step()
        cost = self._spawning.pop((message.target, message.serial), None)
        if cost is not None:  # yod has refused the spawn
            self._charge.drop(cost)
        self._questions.replied(message, step)
        return step

    def _answer(self, ask: pmi.Ask, step: Step) -> None:
        """Answer a question that is not about names.

        Raises:
            OverLimit: the account has no room for what it asks.
        """
        match ask.question:
            case pmi.Modex(process):
                self._pmix.modex(ask, process, step)
            case pmi.EndTool(number):
                step.ended_tools.append(number)
            case pmi.Spawn(_, commands):
                ranks = sum(command.count for command in commands)
                cost = _of_world(ranks) + cost_of(ask.question)
                self._charge.add(cost)
                asked = (ask.source, ask.serial)
                self._spawning[asked] = self._spawning.get(asked, 0) + cost
                step.up.append(ask)  # yod is the root's parent

    # -- ends -------------------------------------------------------------

    def left(self, job_rank: int, wait_status: int, library: str) -> Step:
        """A rank of this node has ended: fences no longer wait for it.

        Args:
            library: the MPI library that it had mapped when it ended by itself.
        """
        step = Step()
        found = self._worlds.of(job_rank)
        if found is None or found[1] not in found[0].alive:
            return step
        world, rank = found
        world.alive.discard(rank)
        world.inside.discard(rank)
        if self._clients is not None:
            self._clients.look_at_barrier(world, step)
        self._fences.look(step)
        self._pmix.rank_ended(world, rank, wait_status, step, is_local=True)
        has_exited = wait_status & 0x7F == 0
        if has_exited and not world.joined and world.size > 1:
            self._tell_of_alone(job_rank, library, step)
        return step

    def _tell_of_alone(self, job_rank: int, library: str, step: Step) -> None:
        """Report a rank that has ended without joining its world, if it should have joined.

        Some ranks report no library: static ones, and those that became another program.
        Then the protocol that yod saw in the program counts, if it was not offered.
        """
        speaks = self._mpi.speaks  # of a program that is linked to the library
        if not library and self._mpi.offered and speaks and not set(speaks) & set(self.offered):
            library = self._mpi.library.decode(errors="replace")
        if library and not self._has_told:
            from pct.wireup.guard import why_alone  # few launches need it

            self._has_told = True
            text = why_alone(library, self._mpi, self.offered, self._pmix.why_not)
            path = library.encode(errors="replace")[:PATH_MAX]
            step.up.append(pmi.Alone(self._job_id, job_rank, path, clipped(text)))

    def lost(self, message: pmi.Lost) -> Step:
        """Ranks somewhere in the job have ended abnormally."""
        step = Step()
        step.down.append(message)
        for job_rank in message.ranks:
            found = self._worlds.of(job_rank)
            if found is not None and found[1] not in found[0].local:
                self._pmix.rank_ended(*found, message.wait_status, step, is_local=False)
        return step

    def alone(self, message: pmi.Alone) -> Step:
        """A node below reports ranks that are alone; pass on one report of the subtree."""
        step = Step()
        if not self._has_told:
            self._has_told = True
            step.up.append(message)
        return step

    def excess(self) -> pmi.Excess | None:
        """The report that the job's account has been exceeded; given once."""
        if self._has_told_of_limit or not self._account.has_refused:
            return None
        self._has_told_of_limit = True
        return pmi.Excess(self._job_id, self._host, self._account.text)

    def excess_below(self, message: pmi.Excess) -> Step:
        """A node below has exceeded the account; pass on one report of the subtree."""
        step = Step()
        if not self._has_told_of_limit:
            self._has_told_of_limit = True
            step.up.append(message)
        return step

    def end(self) -> None:
        """The job is over: free everything now, without waiting for the garbage collector."""
        self._charge.clear()
        self._spawning.clear()
        self._spawned_bytes = 0
        self._worlds.clear()
        self._fences.clear()
        self._questions.clear()
        self._pmix.clear()
        for clients in (self._clients, self._tools):
            if clients is not None:
                clients.clear()

    def check(self) -> None:
        """Assert the invariants: the account equals the sum of what the stores keep."""
        spawning = sum(self._spawning.values())
        assert self._charge.held_bytes == self._spawned_bytes + spawning
        self._worlds.check()
        self._fences.check()
        self._questions.check()
        self._pmix.check()
        for clients in (self._clients, self._tools):
            if clients is not None:
                clients.check()

    def ended_below(self, child: int, job_ranks: tuple[int, ...]) -> Step:
        """Ranks of a child's subtree have ended; fences wait for the child until the last has."""
        step = Step()
        for world in self._worlds:
            ranks = {world.rank_of(rank) for rank in job_ranks}
            ended = {rank for rank in ranks if rank is not None} - world.ended_below
            if ended and child in world.alive_below:
                world.alive_below[child] -= len(ended)
                world.ended_below |= ended
        self._fences.look(step)
        return step


def _of_world(ranks: int) -> int:
    """The charge for one more world."""
    return WORLD_BYTES + RANK_BYTES * ranks
