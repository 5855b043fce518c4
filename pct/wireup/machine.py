"""How the ranks of one job on one node find the others: PMI-1, PMI-2 and PMIx over its tree.

Clients of PMI talk to this node (:mod:`pct.wireup.clients`); those of PMIx to a server
process of the job's user, which talks to us (:mod:`pct.wireup.pmix`). Under both lies one
machine of pairs, fences and names (:mod:`pct.wireup.kvs`). Questions that this node cannot
answer go from node to node to the place that can (:mod:`pct.wireup.questions`): names to the
root, a rank's data to its node, a spawn to yod.
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
from pct.wireup import environment
from pct.wireup.fences import TreeFences
from pct.wireup.no_pmix import NoPmix
from pct.wireup.questions import Questions, Step, cost_of
from pct.wireup.world import World, Worlds

if TYPE_CHECKING:
    from native.wire import pmix
    from pct.events import PmiOpened
    from pct.wireup.clients import PmiClients
    from pct.wireup.pmix import PmixLink
    from pct.wireup.tools import Tools


class Wireup:
    """The wire-up of one job on one node.

    Args:
        message: the load, with this node's place in it.
        members: the member of each rank of the load.
        user_names: variables that the user has set.
        account: what is kept for the ranks is taken from it.

    Attributes:
        user_names: the same.
    """

    def __init__(
        self,
        message: load.Load,
        members: list[int],
        user_names: frozenset[bytes],
        account: Account,
    ) -> None:
        self._account = account
        self._charge = Charge(account)  # of spawned worlds, and of those that may come
        self._spawning: dict[tuple[int, int], int] = {}  # asked of yod: what each costs
        self._spawned_bytes = 0
        self._job_id = message.job_id
        self._place = place = message.place
        self._mpi = message.mpi
        self.user_names = user_names
        size, arity = len(message.nodes), message.arity
        self._child_of = {
            below: child
            for child in tree.children(place, size, arity)
            for below in tree.subtree(child, size, arity)
        }
        self._host = message.nodes[place].name
        nids = [node.nid for node in message.nodes]
        self._shares_host = nids.count(nids[place]) > 1
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
        self._launcher_variables: tuple[bytes, ...] = ()
        self._lacks_fabric = self._lacks_devices = False
        self._has_told = self._has_told_of_limit = False
        places = [run.place for run in message.runs for _ in range(run.count)]
        self.add_world(0, 0, places, members)

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
        """Know of a world, whether it has ranks here or not."""
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
        """The ranks of a world may be started: what their environment names is there."""
        return self._port is not None and self._pmix.is_ready(self._worlds[number])

    @property
    def offered(self) -> tuple[Protocol, ...]:
        """What this node can offer of what the load names."""
        lacking = {Protocol.PMIX} if self._pmix.is_lacking else set()
        return tuple(each for each in self._mpi.offered if each not in lacking)

    @property
    def wants_sockets(self) -> bool:
        """Each rank gets a socket (PMI_FD): for PMI-2, or where there can be no PMI_PORT."""
        offers = self._mpi.offered
        return Protocol.PMI2 in offers or (Protocol.PMI1 in offers and not self._port)

    def shared_environment(self) -> tuple[bytes, ...]:
        """For all ranks: how a launcher inside starts its daemons, and what libraries lack.

        Open MPI names its shared memory after the host: of two nodes on one host each
        would take the other's, and crash. It waits for fabrics that are not there; others
        prepare for devices that are not there.
        """
        variables: tuple[bytes, ...] = ()
        if self._port:
            variables += (b"YOD_AGENT=" + self._port, *self._launcher_variables)
        if self._lacks_devices and self._mpi.library:
            variables += environment.without_devices(self.user_names)
        if Protocol.PMIX not in self._mpi.offered:
            return variables
        if self._shares_host:
            variables += (b"OMPI_MCA_btl=tcp,self",)
        if self._lacks_fabric:
            names = self.user_names.union(map(outer.name_of, variables))
            variables += environment.without_fabric(names)
        return variables

    def environment(self, number: int, rank: int) -> tuple[bytes, ...]:
        """What a local rank of a world needs to join it."""
        world = self._worlds[number]
        job_rank = world.first_rank + rank
        variables = environment.for_protocols(
            self.offered, rank, world.size, job_rank, self._port or b"", self.user_names
        )
        if world.parent is not None:
            variables += (b"PMI_SPAWNED=1",)
        return variables + world.environments.get(rank, ())

    def port_opened(self, opened: PmiOpened) -> None:
        """PMI_PORT is listened at, or cannot be; and this is known of the node."""
        self._port = opened.address
        self._launcher_variables = opened.variables
        self._lacks_fabric = opened.lacks_fabric
        self._lacks_devices = opened.lacks_devices

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
        """Bytes of a connection; the first ones tell what it is."""
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
        """Somebody has hung up, or has been hung up on."""
        step = Step()
        self._new_connections.discard(connection)
        self._pmi_clients().closed(connection)
        if self._tools is not None and connection in self._tools:
            self._tools.closed(connection, step)
        return step

    def spawn_comes(self, message: load.Spawn) -> None:
        """There will be one more world, or tool; the root has had room for it."""
        cost = self._spawning.pop((message.source, message.serial), None)
        if cost is None:
            cost = _of_world(sum(run.count for run in message.runs))
            self._charge.owe(cost)
        self._spawned_bytes += cost

    def tool_started(self, message: load.Spawn) -> Step:
        """A tool runs, or will in a moment."""
        step = Step()
        if self._tools is not None:
            self._tools.started(message, step)
        return step

    def _pmi_clients(self) -> PmiClients:
        if self._clients is None:
            from pct.wireup.clients import PmiClients  # no rank needs it to be started

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
        """What a PMIx server is to be told first; None: none is needed."""
        return self._pmix.begin(self._name, uid, gid)

    def from_server(self, message: pmix.FromServer) -> Step:
        """What the PMIx server says.

        Raises:
            PeerProtocolError: not what a server says now.
        """
        step = Step()
        self._pmix.received(message, step)
        return step

    def server_ended(self, text: str) -> Step:
        """The PMIx server's process is gone."""
        step = Step()
        self._pmix.ended(text, step)
        return step

    # -- the tree ---------------------------------------------------------

    def fence_in(self, child: int, message: pmi.FenceIn) -> Step:
        """A child's subtree is in a fence."""
        step = Step()
        self._fences.come_in(child, message, step)
        return step

    def fence_out(self, message: pmi.FenceOut) -> Step:
        """All participants of a fence are in."""
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
        if cost is not None:  # yod starts nothing
            self._charge.drop(cost)
        self._questions.replied(message, step)
        return step

    def _answer(self, ask: pmi.Ask, step: Step) -> None:
        """A question that is not about names.

        Raises:
            OverLimit: what it asks for cannot be kept.
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
        """A rank of this node has ended: fences do not wait for it.

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
        """Tell of a rank that has ended without having joined, if it should have.

        Some ranks claim no library (static ones, those that another program has become);
        what the program was seen to speak stands in, where that was not offered.
        """
        speaks = self._mpi.speaks  # of a program that is linked to the library
        if not library and self._mpi.offered and speaks and not set(speaks) & set(self.offered):
            library = self._mpi.library.decode(errors="replace")
        if library and not self._has_told:
            from pct.wireup.guard import why_alone  # few programs need to be told

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
        """A node below has told of ranks that are alone; one line of a subtree is enough."""
        step = Step()
        if not self._has_told:
            self._has_told = True
            step.up.append(message)
        return step

    def excess(self) -> pmi.Excess | None:
        """What is to be told of the limit, once it has been reached; once."""
        if self._has_told_of_limit or not self._account.has_refused:
            return None
        self._has_told_of_limit = True
        return pmi.Excess(self._job_id, self._host, self._account.text)

    def excess_below(self, message: pmi.Excess) -> Step:
        """A node below has reached the limit; one line of a subtree is enough."""
        step = Step()
        if not self._has_told_of_limit:
            self._has_told_of_limit = True
            step.up.append(message)
        return step

    def end(self) -> None:
        """The job is over: let go of what was kept, before the collector comes round."""
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
        """Assert the invariants: the account has what the stores have, no more."""
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
        """Ranks of a child's subtree have ended; with the last it is waited for no longer."""
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
    """What it costs to have one more world."""
    return WORLD_BYTES + RANK_BYTES * ranks
