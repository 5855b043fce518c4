"""How the ranks of one job on one node find the others: PMI-1, PMI-2 and PMIx over its tree.

The clients of PMI talk to this node, each by a :class:`pct.pmi.Conversation`; those of
PMIx to a server process of the job's user, which talks to us
(:mod:`native.wire.pmix`). Under both lies one machine of pairs, fences and names
(:mod:`pct.kvs`). Questions that this node cannot answer go from node to node to the
place that can: names to the root, a rank's data to its node, a spawn to yod.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from native.errors import PeerProtocolError
from native.wire import agent as agent_wire
from native.wire import load, pmi, pmix
from native.wire.load import Protocol
from native.wire.pmi import FenceKind, KeyValue, Participants
from pct import environment, kvs, tree
from pct import pmi as client
from pct.agent import AgentConversation, AgentError, RunTool
from pct.guard import why_alone
from pct.mapping import process_mapping
from pct.questions import (
    NO_RESOURCE,
    NOT_FOUND,
    REPLY_BYTES,
    ROOT,
    SUCCESS,
    Abort,
    Continuation,
    Questions,
    Step,
)
from pct.world import World

FENCE_RANKS_MAX = 16384  # that a fence names one by one: they travel with each of its messages


class _Server(Enum):
    """The PMIx server of the job on this node."""

    NOT_OFFERED = "not offered"
    STARTING = "starting"
    READY = "ready"
    UNAVAILABLE = "unavailable"


class Wireup:
    """The wire-up of one job on one node.

    Args:
        message: the load, with this node's place in it.
        members: the member of each rank of the load.
        user_names: variables that the user has set.
    """

    def __init__(
        self, message: load.Load, members: list[int], user_names: frozenset[bytes]
    ) -> None:
        self._job_id = message.job_id
        self._place = message.place
        self._mpi = message.mpi
        self._user_names = user_names
        self._names_of_nodes = [node.name for node in message.nodes]
        size, arity = len(message.nodes), message.arity
        self._child_of = {
            place: child
            for child in tree.children(self._place, size, arity)
            for place in tree.subtree(child, size, arity)
        }
        self._connections: dict[int, _Connection] = {}
        self._agents: dict[int, _Agent] = {}
        self._tools: dict[int, _Agent] = {}  # by the serial of the question
        self._worlds: dict[int, World] = {}
        # mpich names shared memory after the key space: no two jobs may share one.
        self._name = f"yod_{message.job_id}_{message.credential_mac[:8].hex()}"
        self._fences = kvs.Fences(self._awaited)
        self._entered: dict[kvs.Meeting, int] = {}  # serial of the PMIx server's request
        self._serial = 0
        self._questions = Questions(self._job_id, self._place, self._child_of, self._answer)
        self._data_asked: dict[int, pmi.Ask] = {}  # by the serial the PMIx server has
        self._port: bytes | None = None  # None: not opened yet
        self._launcher_variables: tuple[bytes, ...] = ()
        is_offered = Protocol.PMIX in self._mpi.offered
        self._server_state = _Server.STARTING if is_offered else _Server.NOT_OFFERED
        self._server_text = ""  # why it is unavailable
        self._mapping: dict[int, bytes] = {}
        self._has_told = False
        places = [run.place for run in message.runs for _ in range(run.count)]
        self.add_world(0, 0, places, members)

    # -- worlds -----------------------------------------------------------

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
        world = World(
            number, name, first_rank, places, applications, self._place, self._child_of, ancestor
        )
        world.space.spread(pairs)
        self._worlds[number] = world
        step = Step()
        if self._server_state is _Server.READY:
            self._register(world, step)
        return step

    def is_ready(self, number: int) -> bool:
        """The ranks of a world may be started: what their environment names is there."""
        if self._port is None:
            return False
        if self._server_state in (_Server.NOT_OFFERED, _Server.UNAVAILABLE):
            return True
        return self._worlds[number].is_registered

    @property
    def offered(self) -> tuple[Protocol, ...]:
        """What this node can offer of what the load names."""
        is_lacking = self._server_state is _Server.UNAVAILABLE
        return tuple(
            each for each in self._mpi.offered if not (is_lacking and each is Protocol.PMIX)
        )

    @property
    def wants_sockets(self) -> bool:
        """Each rank gets a socket (PMI_FD): for PMI-2, or where there can be no PMI_PORT."""
        offers = self._mpi.offered
        return Protocol.PMI2 in offers or (Protocol.PMI1 in offers and not self._port)

    def shared_environment(self) -> tuple[bytes, ...]:
        """For all ranks: how a launcher inside starts its daemons."""
        if not self._port:
            return ()
        return (b"YOD_AGENT=" + self._port, *self._launcher_variables)

    def environment(self, number: int, rank: int) -> tuple[bytes, ...]:
        """What a local rank of a world needs to join it."""
        world = self._worlds[number]
        job_rank = world.first_rank + rank
        variables = environment.for_protocols(
            self.offered, rank, world.size, job_rank, self._port or b"", self._user_names
        )
        if world.parent is not None:
            variables += (b"PMI_SPAWNED=1",)
        return variables + world.environments.get(rank, ())

    def port_opened(self, address: bytes, variables: tuple[bytes, ...]) -> None:
        """PMI_PORT is listened at; empty: it cannot be."""
        self._port = address
        self._launcher_variables = variables

    def server_begin(self, uid: int, gid: int) -> pmix.Begin | None:
        """What a PMIx server is to be told first; None: none is needed."""
        if self._server_state is not _Server.STARTING:
            return None
        return pmix.Begin(
            libraries=self._mpi.libpmix,
            is_only=self._mpi.is_libpmix_chosen,
            server=f"{self._name}_{self._place}",
            host=self._names_of_nodes[self._place],
            uid=uid,
            gid=gid,
        )

    # -- clients of PMI ---------------------------------------------------

    def connected(self, connection: int, rank: int | None) -> None:
        """A client has a connection.

        Args:
            rank: of the job, where the connection is known to be one's.
        """
        conversation = client.Conversation(self._identify, rank)
        self._connections[connection] = _Connection(connection, conversation)

    def _agent_called(self, number: int) -> _Agent:
        """The client is no client of PMI, but the agent of a launcher inside."""
        del self._connections[number]
        self._agents[number] = agent = _Agent(number)
        return agent

    def received(self, connection: int, data: bytes) -> Step:
        """Bytes of a client."""
        step = Step()
        if (agent := self._agents.get(connection)) is not None:
            self._hear_agent(agent, data, step)
            return step
        here = self._connections.get(connection)
        if here is None:
            return step
        if here.is_new and data.startswith(agent_wire.FIRST_WORD):
            self._hear_agent(self._agent_called(connection), data, step)
            return step
        here.is_new = False
        try:
            for request in here.conversation.receive(data):
                self._request(here, request, step)
        except client.PmiError as error:
            self._flush(here, step)
            del self._connections[connection]
            step.hang_ups.append(connection)
            if (rank := here.conversation.rank) is not None:
                step.abort = Abort(rank, 1, f"PMI: {error}")
            return step
        self._flush(here, step)
        return step

    def closed(self, connection: int) -> Step:
        """A client has hung up."""
        step = Step()
        self._connections.pop(connection, None)
        if (agent := self._agents.pop(connection, None)) is not None:
            agent.is_gone = True
            self._end_tool(agent, step)
        return step

    def _identify_process(self, job_rank: int) -> pmi.Process | None:
        for world in self._worlds.values():
            rank = world.rank_of(job_rank)
            if rank is not None and rank in world.local:
                return pmi.Process(world.number, rank)
        return None

    def _identify(self, job_rank: int) -> client.Identity | None:
        for world in self._worlds.values():
            rank = world.rank_of(job_rank)
            if rank is not None and rank in world.alive:
                return client.Identity(
                    rank=rank,
                    size=world.size,
                    application=world.applications[rank],
                    key_space=world.name.encode(),
                    universe_size=self._universe_size(world),
                    is_spawned=world.parent is not None,
                    mapping=self._mapping_of(world),
                )
        return None

    def _universe_size(self, world: World) -> int:
        return max(self._mpi.universe_size, world.size)

    def _mapping_of(self, world: World) -> bytes:
        if world.number not in self._mapping:
            self._mapping[world.number] = process_mapping(world.places)
        return self._mapping[world.number]

    def _request(self, here: _Connection, request: client.Request, step: Step) -> None:
        conversation = here.conversation
        assert conversation.rank is not None
        world, rank = self._whose(conversation.rank)
        match request:
            case client.Joined():
                world.joined.add(rank)
            case client.Put(key=key, value=value):
                world.space.put(key, value)
            case client.Get(key=key):
                conversation.found(request, world.space.get(key))
            case client.Fence():
                here.fence = request
                self._look_at_barrier(world, step)
            case client.PutNode(key=key, value=value):
                world.node_pairs[key] = value
                self._answer_node_gets(world, step)
            case client.GetNode(key=key, is_waiting=is_waiting):
                if key in world.node_pairs or not is_waiting:
                    conversation.found(request, world.node_pairs.get(key))
                else:
                    here.node_gets.append(request)
            case client.Publish(name=name, port=port):
                question = pmi.Publish((KeyValue(b"pmi:" + name, port),), False)
                self._questions.ask(ROOT, question, self._published(here, request), step)
            case client.Lookup(name=name):
                looked_up = pmi.Lookup((b"pmi:" + name,), False)
                self._questions.ask(ROOT, looked_up, self._looked_up(here, request), step)
            case client.Unpublish(name=name):
                unpublish = pmi.Unpublish((b"pmi:" + name,))
                self._questions.ask(ROOT, unpublish, self._unpublished(here, request), step)
            case client.Spawn(commands=commands, pairs=pairs):
                spawn = pmi.Spawn(pmi.Process(world.number, rank), commands, pairs)
                self._questions.ask(ROOT, spawn, self._spawned(here, request), step)
            case client.Abort(exit_code=code, text=text):
                said = f": {text}" if text else ""
                text = f"the application called abort with code {code}{said}"
                step.abort = Abort(conversation.rank, code, text)

    def _whose(self, job_rank: int) -> tuple[World, int]:
        for world in self._worlds.values():
            if (rank := world.rank_of(job_rank)) is not None:
                return world, rank
        raise AssertionError(f"no world has rank {job_rank}")

    def _flush(self, here: _Connection, step: Step) -> None:
        if data := here.conversation.take():
            step.replies.append((here.number, data))

    def _answer_node_gets(self, world: World, step: Step) -> None:
        for here in self._of_world(world):
            waiting, here.node_gets = here.node_gets, []
            for request in waiting:
                if request.key in world.node_pairs:
                    here.conversation.found(request, world.node_pairs[request.key])
                else:
                    here.node_gets.append(request)
            self._flush(here, step)

    def _of_world(self, world: World) -> list[_Connection]:
        return [
            here
            for here in self._connections.values()
            if here.conversation.rank is not None
            and world.rank_of(here.conversation.rank) is not None
        ]

    def _published(self, here: _Connection, request: client.Publish) -> Continuation:
        return self._then(
            here, lambda reply: here.conversation.published(request, _why(reply, "not published"))
        )

    def _looked_up(self, here: _Connection, request: client.Lookup) -> Continuation:
        return self._then(
            here,
            lambda reply: here.conversation.looked_up(
                request, reply.pairs[0].value if reply.pairs else None
            ),
        )

    def _unpublished(self, here: _Connection, request: client.Unpublish) -> Continuation:
        return self._then(
            here, lambda reply: here.conversation.unpublished(request, _why(reply, "not known"))
        )

    def _spawned(self, here: _Connection, request: client.Spawn) -> Continuation:
        def answer(reply: pmi.Reply) -> None:
            error = _why(reply, "not started")
            name = b"" if error else self._worlds[_number_in(reply)].name.encode()
            here.conversation.spawned(request, error, name)

        return self._then(here, answer)

    def _then(self, here: _Connection, answer: Callable[[pmi.Reply], None]) -> Continuation:
        """Answer a client, if it is still there."""

        def continuation(reply: pmi.Reply, step: Step) -> None:
            if self._connections.get(here.number) is here:
                answer(reply)
                self._flush(here, step)

        return continuation

    # -- agents of launchers ----------------------------------------------

    def _hear_agent(self, agent: _Agent, data: bytes, step: Step) -> None:
        try:
            for request in agent.conversation.receive(data):
                self._run_tool(agent, request, step)
        except AgentError:
            del self._agents[agent.number]
            step.hang_ups.append(agent.number)
        self._flush_agent(agent, step)

    def _run_tool(self, agent: _Agent, request: RunTool, step: Step) -> None:
        process = self._identify_process(request.rank)
        if process is None:
            agent.conversation.refused(f"rank {request.rank} is none of this node's")
            return
        command = pmi.SpawnCommand(
            program=b"/bin/sh",
            arguments=(b"-c", request.command),
            count=1,
            directory=request.directory,
            hosts=(request.host,),
        )
        question = pmi.Spawn(process, (command,), (), is_tool=True)

        def ended(reply: pmi.Reply, step: Step) -> None:
            self._tools.pop(serial, None)
            if agent.is_gone:
                return
            if reply.status == SUCCESS and agent.tool is not None:
                agent.conversation.ended(_number_in(reply))
            else:
                agent.conversation.refused(reply.text or "it was not started")
            self._flush_agent(agent, step)
            step.hang_ups.append(agent.number)
            self._agents.pop(agent.number, None)

        serial = self._questions.next_serial
        self._tools[serial] = agent
        self._questions.ask(ROOT, question, ended, step)

    def tool_started(self, message: load.Spawn) -> Step:
        """A tool runs, or will in a moment; one of ours may have asked for it."""
        step = Step()
        agent = self._tools.get(message.serial) if message.source == self._place else None
        if agent is not None:
            agent.tool = (message.world, message.runs[0].place)
            agent.conversation.started()
            self._flush_agent(agent, step)
            if agent.is_gone:
                self._end_tool(agent, step)
        return step

    def _end_tool(self, agent: _Agent, step: Step) -> None:
        if agent.tool is not None:
            world, place = agent.tool
            self._questions.tell(place, pmi.EndTool(world), step)

    def _flush_agent(self, agent: _Agent, step: Step) -> None:
        if data := agent.conversation.take():
            step.replies.append((agent.number, data))

    # -- fences -----------------------------------------------------------

    def _look_at_barrier(self, world: World, step: Step) -> None:
        """PMI: once all ranks of this node that live are in, the node is."""
        inside = {
            world.rank_of(here.conversation.rank)
            for here in self._of_world(world)
            if here.fence is not None and here.conversation.rank is not None
        }
        if inside and inside >= world.alive:
            meeting = (FenceKind.PMI, (Participants(world.number, ()),))
            self._fences.enter(meeting, world.space.take_fresh())
        self._look_at_fences(step)

    def _awaited(self, meeting: kvs.Meeting) -> tuple[bool, set[int]]:
        """Whether a fence waits for ranks of this node, and which children have some."""
        _, participants = meeting
        waits_here, children = False, set()
        for each in participants:
            world = self._worlds.get(each.world)
            if world is None:
                continue
            if each.ranks:
                waits_here |= not world.alive.isdisjoint(each.ranks)
                living = (rank for rank in each.ranks if rank not in world.ended_below)
                places = {world.places[rank] for rank in living if rank < world.size}
                children |= {self._child_of[where] for where in places if where in self._child_of}
            else:
                waits_here |= bool(world.alive)
                children |= {child for child, count in world.alive_below.items() if count > 0}
        return waits_here, children

    def _look_at_fences(self, step: Step) -> None:
        """Pass up what is full here; at the root turn it round."""
        for fence, pieces in self._fences.take_full():
            kind = pmi.FenceOut if self._place == ROOT else pmi.FenceIn
            for index, pairs in enumerate(pieces):
                message = kind(self._job_id, fence, pairs, index == len(pieces) - 1)
                if self._place == ROOT:
                    self.fence_out(message, step)  # type: ignore[arg-type]
                else:
                    step.up.append(message)

    def fence_in(self, place: int, message: pmi.FenceIn) -> Step:
        """A child's subtree is in a fence."""
        step = Step()
        if self._fences.merge(place, message.fence, message.pairs, message.is_last):
            self._look_at_fences(step)
        return step

    def fence_out(self, message: pmi.FenceOut, step: Step) -> Step:
        """All participants of a fence are in."""
        step.down.append(message)
        pairs = self._fences.come_down(message.fence, message.pairs, message.is_last)
        if pairs is None:
            return step
        meeting = (message.fence.kind, message.fence.participants)
        if message.fence.kind is FenceKind.PMI:
            self._leave_barrier(message.fence.participants[0].world, pairs, step)
        elif (serial := self._entered.pop(meeting, None)) is not None:
            step.server.append(pmix.FenceDone(serial, SUCCESS, kvs.joined(pairs)))
        return step

    def _leave_barrier(self, number: int, pairs: list[KeyValue], step: Step) -> None:
        world = self._worlds.get(number)
        if world is None:
            return
        world.space.spread(tuple(pairs))
        for here in self._of_world(world):
            if here.fence is not None:
                here.conversation.fenced(here.fence)
                here.fence = None
                self._flush(here, step)

    # -- the PMIx server --------------------------------------------------

    def from_server(self, message: pmix.FromServer) -> Step:
        """What the PMIx server says.

        Raises:
            PeerProtocolError: not what a server says now.
        """
        step = Step()
        match message:
            case pmix.Ready():
                self._server_state = _Server.READY
                for world in self._worlds.values():
                    self._register(world, step)
            case pmix.Unavailable(text):
                self._server_lost(text, step)
            case pmix.Added(serial, status, environments, text):
                self._added(serial, status, environments, text, step)
            case pmix.Joined(process):
                world, rank = self._local(process)
                world.joined.add(rank)
            case pmix.Enter(serial, kind, processes, data):
                self._enter(serial, kind, processes, data, step)
            case pmix.GetRemote(serial, process):
                self._get_remote(serial, process, step)
            case pmix.ModexData(serial, status, data):
                self._modex_data(serial, status, data, step)
            case pmix.PublishNames(serial, _, pairs, is_read_once):
                named = tuple(KeyValue(b"pmix:" + pair.key, pair.value) for pair in pairs)
                self._questions.ask(
                    ROOT, pmi.Publish(named, is_read_once), self._server_told(serial), step
                )
            case pmix.LookupNames(serial, keys, is_waiting):
                lookup = pmi.Lookup(tuple(b"pmix:" + key for key in keys), is_waiting)
                self._questions.ask(ROOT, lookup, self._server_told(serial), step)
            case pmix.UnpublishNames(serial, keys):
                unpublish = pmi.Unpublish(tuple(b"pmix:" + key for key in keys))
                self._questions.ask(ROOT, unpublish, self._server_told(serial), step)
            case pmix.SpawnPrograms(serial, process, commands):
                world, rank = self._local(process)
                spawn = pmi.Spawn(pmi.Process(world.number, rank), commands, ())
                self._questions.ask(ROOT, spawn, self._server_told(serial), step)
            case pmix.AbortJob(process, status, text):
                world, rank = self._local(process)
                said = f": {text}" if text else ""
                text = f"the application called abort with code {status}{said}"
                step.abort = Abort(world.first_rank + rank, status, text)
        return step

    def server_ended(self, text: str) -> Step:
        """The PMIx server's process is gone."""
        step = Step()
        if self._server_state is _Server.READY:
            step.failure = f"the PMIx server has ended: {text}"
        elif self._server_state is _Server.STARTING:
            self._server_lost(text, step)
        return step

    def _server_lost(self, text: str, step: Step) -> None:
        self._server_state = _Server.UNAVAILABLE
        self._server_text = text
        if self._mpi.is_certain:
            step.failure = f"PMIx cannot be offered: {text}"

    def _register(self, world: World, step: Step) -> None:
        places = sorted(set(world.places))
        index = {place: number for number, place in enumerate(places)}
        parent = None
        if world.parent is not None:
            number, rank = world.parent
            parent = pmix.NamedProcess(self._worlds[number].name, rank)
        step.server.append(
            pmix.AddWorld(
                serial=world.number,
                nspace=world.name,
                job_id=str(self._job_id),
                nodes=tuple(self._names_of_nodes[place] for place in places),
                node_of=tuple(index[place] for place in world.places),
                application_of=tuple(world.applications),
                local_ranks=tuple(world.local),
                universe_size=self._universe_size(world),
                first_rank=world.first_rank,
                parent=parent,
            )
        )

    def _added(
        self,
        number: int,
        status: int,
        environments: tuple[tuple[bytes, ...], ...],
        text: str,
        step: Step,
    ) -> None:
        world = self._worlds.get(number)
        if world is None or (len(environments) < len(world.local) and status == SUCCESS):
            raise PeerProtocolError("pmix: an answer about a world that was not asked for")
        if status != SUCCESS:
            step.failure = f"the PMIx server does not take world {number}: {text} ({status})"
            return
        world.is_registered = True
        world.environments = dict(zip(world.local, environments, strict=False))

    def _local(self, process: pmix.NamedProcess) -> tuple[World, int]:
        world = self._named(process.nspace)
        if world is None or process.rank not in world.local:
            raise PeerProtocolError(f"pmix: {process.nspace} has no rank {process.rank} here")
        return world, process.rank

    def _named(self, nspace: str) -> World | None:
        for world in self._worlds.values():
            if world.name == nspace:
                return world
        return None

    def _enter(
        self,
        serial: int,
        kind: FenceKind,
        processes: tuple[pmix.NamedProcess, ...],
        data: bytes,
        step: Step,
    ) -> None:
        ranks: dict[int, set[int]] = {}
        for process in processes:
            world = self._named(process.nspace)
            if world is None or process.rank >= world.size:
                step.server.append(pmix.FenceDone(serial, NOT_FOUND, b""))
                return
            named = range(world.size) if process.rank < 0 else (process.rank,)
            ranks.setdefault(world.number, set()).update(named)
        participants = tuple(
            Participants(
                number, () if len(each) == self._worlds[number].size else tuple(sorted(each))
            )
            for number, each in sorted(ranks.items())
        )
        if sum(len(each.ranks) for each in participants) > FENCE_RANKS_MAX:
            step.server.append(pmix.FenceDone(serial, NO_RESOURCE, b""))
            return
        meeting = (kind, participants)
        if meeting in self._entered:
            raise PeerProtocolError("pmix: in a fence twice")
        self._entered[meeting] = serial
        self._fences.enter(meeting, kvs.share(self._place, data))
        self._look_at_fences(step)

    def _get_remote(self, serial: int, process: pmix.NamedProcess, step: Step) -> None:
        world = self._named(process.nspace)
        if world is None or not 0 <= process.rank < world.size:
            step.server.append(pmix.Answer(serial, NOT_FOUND, ()))
            return
        question = pmi.Modex(pmi.Process(world.number, process.rank))
        self._questions.ask(world.places[process.rank], question, self._server_told(serial), step)

    def _modex_data(self, serial: int, status: int, data: bytes, step: Step) -> None:
        ask = self._data_asked.pop(serial, None)
        if ask is None:
            raise PeerProtocolError("pmix: data that nobody asked for")
        if len(data) > REPLY_BYTES:
            status, data = NO_RESOURCE, b""
        self._questions.reply(ask, status, (KeyValue(b"data", data),), step)

    def _server_told(self, serial: int) -> Continuation:
        """Pass a reply on to the PMIx server."""

        def continuation(reply: pmi.Reply, step: Step) -> None:
            pairs = tuple(
                KeyValue(pair.key.removeprefix(b"pmix:"), pair.value) for pair in reply.pairs
            )
            nspace = ""
            if reply.status == SUCCESS and pairs and pairs[0].key == b"world":
                nspace = self._worlds[_number_in(reply)].name
            step.server.append(pmix.Answer(serial, reply.status, pairs, nspace))

        return continuation

    # -- questions --------------------------------------------------------

    def asked(self, message: pmi.Ask, child: int | None) -> Step:
        """A question on its way; see :meth:`pct.questions.Questions.asked`."""
        step = Step()
        self._questions.asked(message, child, step)
        return step

    def replied(self, message: pmi.Reply) -> Step:
        """An answer on its way."""
        step = Step()
        self._questions.replied(message, step)
        return step

    def _answer(self, ask: pmi.Ask, step: Step) -> None:
        """A question that only this node, or yod above it, can answer."""
        match ask.question:
            case pmi.Modex(pmi.Process(number, rank)):
                self._modex(ask, number, rank, step)
            case pmi.EndTool(number):
                step.ended_tools.append(number)
            case pmi.Spawn():
                step.up.append(ask)  # yod is the root's parent

    def _modex(self, ask: pmi.Ask, number: int, rank: int, step: Step) -> None:
        world = self._worlds.get(number)
        if world is None or rank not in world.alive or self._server_state is not _Server.READY:
            self._questions.reply(ask, NOT_FOUND, (), step)
            return
        self._serial += 1
        self._data_asked[self._serial] = ask
        step.server.append(pmix.GetModex(self._serial, pmix.NamedProcess(world.name, rank)))

    # -- ends -------------------------------------------------------------

    def left(self, job_rank: int, wait_status: int, library: str) -> Step:
        """A rank of this node has ended: fences do not wait for it.

        Args:
            library: the MPI library that it had mapped when it ended by itself.
        """
        step = Step()
        for world in self._worlds.values():
            rank = world.rank_of(job_rank)
            if rank is None or rank not in world.alive:
                continue
            world.alive.discard(rank)
            self._look_at_barrier(world, step)
            if self._server_state is _Server.READY:
                process = pmix.NamedProcess(world.name, rank)
                is_failure = wait_status != 0
                step.server.append(pmix.Ended(process, wait_status, is_failure, True))
            if library and not world.joined and world.size > 1 and not self._has_told:
                self._has_told = True
                text = why_alone(library, self._mpi, self.offered, self._server_text)
                where = library.encode(errors="replace")
                step.up.append(pmi.Alone(self._job_id, job_rank, where, text))
        return step

    def lost(self, message: pmi.Lost) -> Step:
        """Ranks somewhere in the job have ended abnormally."""
        step = Step()
        step.down.append(message)
        if self._server_state is _Server.READY:
            for job_rank in message.ranks:
                world, rank = self._whose(job_rank)
                if rank not in world.local:
                    process = pmix.NamedProcess(world.name, rank)
                    step.server.append(pmix.Ended(process, message.wait_status, True, False))
        return step

    def alone(self, message: pmi.Alone) -> Step:
        """A node below has told of ranks that are alone; one line of a subtree is enough."""
        step = Step()
        if not self._has_told:
            self._has_told = True
            step.up.append(message)
        return step

    def ended_below(self, place: int, job_ranks: tuple[int, ...]) -> Step:
        """Ranks of a child's subtree have ended; with the last it is waited for no longer."""
        step = Step()
        for world in self._worlds.values():
            ranks = {world.rank_of(rank) for rank in job_ranks}
            ended = {rank for rank in ranks if rank is not None} - world.ended_below
            if ended and place in world.alive_below:
                world.alive_below[place] -= len(ended)
                world.ended_below |= ended
        self._look_at_fences(step)
        return step


class _Connection:
    """One client, and what it waits for."""

    def __init__(self, number: int, conversation: client.Conversation) -> None:
        self.number = number
        self.conversation = conversation
        self.is_new = True
        self.fence: client.Fence | None = None
        self.node_gets: list[client.GetNode] = []


class _Agent:
    """The agent of a launcher inside, which runs one command on some node.

    Attributes:
        tool: the world and the place of the command, once it is started.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.conversation = AgentConversation()
        self.tool: tuple[int, int] | None = None
        self.is_gone = False


def _why(reply: pmi.Reply, otherwise: str) -> str:
    """Why a question was answered with no; empty: it was not."""
    return "" if reply.status == SUCCESS else reply.text or otherwise


def _number_in(reply: pmi.Reply) -> int:
    return int(reply.pairs[0].value)
