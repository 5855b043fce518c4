"""PMIx on one node of a job: connects the PMIx server with the job's tree."""

from __future__ import annotations

from enum import Enum

from native.errors import PeerProtocolError
from native.wire import load, pmi, pmix
from native.wire.load import Protocol
from native.wire.pmi import (
    FENCE_RANKS_MAX,
    FENCE_WORLDS_MAX,
    FenceKind,
    KeyValue,
    Participants,
)
from pct.account import REQUEST_BYTES, Account, Charge
from pct.wireup import kvs
from pct.wireup.fences import TreeFences
from pct.wireup.questions import (
    NO_RESOURCE,
    NOT_FOUND,
    REPLY_BYTES,
    ROOT,
    SUCCESS,
    Abort,
    Continuation,
    Questions,
    Step,
    number_in,
)
from pct.wireup.world import World, Worlds


class State(Enum):
    """The PMIx server of the job on this node."""

    NOT_OFFERED = "not offered"
    STARTING = "starting"
    READY = "ready"
    UNAVAILABLE = "unavailable"


class PmixLink:
    """The server's partner in the PCT.

    Args:
        message: the load, with this node's place in it.
        account: charged for the questions of other nodes.

    Attributes:
        why_not: why a server that the job needs is missing; else empty.
    """

    def __init__(
        self,
        message: load.Load,
        worlds: Worlds,
        fences: TreeFences,
        questions: Questions,
        account: Account,
    ) -> None:
        self._charge = Charge(account)
        self.why_not = ""
        self._job_id = message.job_id
        self._place = message.place
        self._names_of_nodes = list(message.nodes.names())
        self._mpi = message.mpi
        self._worlds = worlds
        self._fences = fences
        self._questions = questions
        self._state = State.STARTING if Protocol.PMIX in self._mpi.offered else State.NOT_OFFERED
        self._entered: dict[kvs.Meeting, int] = {}  # serial of the server's request
        self._serial = 0
        self._data_asked: dict[int, pmi.Ask] = {}  # by the serial of our request

    @property
    def is_lacking(self) -> bool:
        """Is PMIx missing here although the load offers it?"""
        return self._state is State.UNAVAILABLE

    def is_ready(self, world: World) -> bool:
        """The ranks of a world may be started."""
        return self._state in (State.NOT_OFFERED, State.UNAVAILABLE) or world.is_registered

    def begin(self, name: str, uid: int, gid: int) -> pmix.Begin | None:
        """The first message to the server; None: no server is needed."""
        if self._state is not State.STARTING:
            return None
        return pmix.Begin(
            libraries=self._mpi.libpmix,
            is_only=self._mpi.is_libpmix_chosen,
            server=f"{name}_at{self._place}",  # never a world's name
            host=self._names_of_nodes[self._place],
            uid=uid,
            gid=gid,
        )

    def add(self, world: World, step: Step) -> None:
        """There is one more world."""
        if self._state is State.READY:
            self._register(world, step)

    def fence_over(self, fence: pmi.Fence, pairs: list[KeyValue], step: Step) -> None:
        """A fence is over: tell the server, if it takes part."""
        serial = self._entered.pop((fence.kind, fence.participants), None)
        if serial is not None:
            step.server.append(pmix.FenceDone(serial, SUCCESS, kvs.joined(pairs)))

    def modex(self, ask: pmi.Ask, process: pmi.Process, step: Step) -> None:
        """Another node asks for data that a rank of this node has put.

        Raises:
            OverLimit: too many questions wait.
        """
        world = self._worlds.get(process.world)
        if world is None or process.rank not in world.alive or self._state is not State.READY:
            self._questions.reply(ask, NOT_FOUND, (), step)
            return
        self._charge.add(REQUEST_BYTES)
        self._serial += 1
        self._data_asked[self._serial] = ask
        named = pmix.NamedProcess(world.name, process.rank)
        step.server.append(pmix.GetModex(self._serial, named))

    def rank_ended(
        self, world: World, rank: int, wait_status: int, step: Step, *, is_local: bool
    ) -> None:
        """Tell the server of a rank's end."""
        if self._state is State.READY:
            process = pmix.NamedProcess(world.name, rank)
            step.server.append(pmix.Ended(process, wait_status, wait_status != 0, is_local))

    def received(self, message: pmix.FromServer, step: Step) -> None:
        """A message of the server.

        Raises:
            PeerProtocolError: the server may not send it now.
        """
        match message:
            case pmix.Ready():
                self._state = State.READY
                for world in self._worlds:
                    self._register(world, step)
            case pmix.Unavailable(text):
                self._lost(text, step)
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
                    ROOT, pmi.Publish(named, is_read_once), self._told(serial), step
                )
            case pmix.LookupNames(serial, keys, is_waiting):
                lookup = pmi.Lookup(tuple(b"pmix:" + key for key in keys), is_waiting)
                self._questions.ask(ROOT, lookup, self._told(serial), step)
            case pmix.UnpublishNames(serial, keys):
                unpublish = pmi.Unpublish(tuple(b"pmix:" + key for key in keys))
                self._questions.ask(ROOT, unpublish, self._told(serial), step)
            case pmix.SpawnPrograms(serial, process, commands):
                world, rank = self._local(process)
                spawn = pmi.Spawn(pmi.Process(world.number, rank), commands, ())
                self._questions.ask(ROOT, spawn, self._told(serial), step)
            case pmix.GetTable(serial, nspaces):
                step.tables.append((serial, tuple(map(self._known, dict.fromkeys(nspaces)))))
            case pmix.AbortJob(serial, process, status, text):
                world, rank = self._local(process)
                said = f": {text}" if text else ""
                text = f"the application called abort with code {status}{said}"
                step.abort = Abort(world.first_rank + rank, status, text)
                # Answered, the rank ends, and its peers may abort because of that. So the
                # root has to have this abort first. It goes up before this question, to
                # which any reply will do.
                self._questions.ask(ROOT, pmi.Lookup((), False), self._aborted(serial), step)

    def ended(self, text: str, step: Step) -> None:
        """The server's process has ended."""
        if self._state is State.READY:
            step.failure = f"the PMIx server has ended: {text}"
        elif self._state is State.STARTING:
            self._lost(text, step)

    def clear(self) -> None:
        """Free everything that is kept."""
        self._charge.clear()
        self._data_asked.clear()
        self._entered.clear()

    def check(self) -> None:
        """Assert the invariants."""
        assert self._charge.held_bytes == REQUEST_BYTES * len(self._data_asked)

    def _lost(self, text: str, step: Step) -> None:
        self._state = State.UNAVAILABLE
        self.why_not = text
        if self._mpi.is_certain or self._mpi.is_libpmix_chosen:
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
                local_ranks=tuple(sorted(world.local)),
                universe_size=max(self._mpi.universe_size, world.size),
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
            if number:
                step.failure = f"the PMIx server does not take world {number}: {text} ({status})"
            else:
                self._lost(f"its server does not take the job: {text} ({status})", step)
            return
        world.is_registered = True
        world.environments = dict(zip(sorted(world.local), environments, strict=False))

    def _known(self, nspace: str) -> World:
        if (world := self._worlds.named(nspace)) is None:
            raise PeerProtocolError(f"pmix: there is no world {nspace}")
        return world

    def _local(self, process: pmix.NamedProcess) -> tuple[World, int]:
        world = self._worlds.named(process.nspace)
        if world is None or process.rank not in world.local:
            raise PeerProtocolError(f"pmix: {process.nspace} has no rank {process.rank} here")
        return world, process.rank

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
            world = self._worlds.named(process.nspace)
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
        one_by_one = sum(len(each.ranks) for each in participants)
        if one_by_one > FENCE_RANKS_MAX or len(participants) > FENCE_WORLDS_MAX:
            step.server.append(pmix.FenceDone(serial, NO_RESOURCE, b""))
            return
        meeting = (kind, participants)
        if meeting in self._entered:
            raise PeerProtocolError("pmix: in a fence twice")
        self._entered[meeting] = serial
        self._fences.enter(meeting, kvs.share(self._place, data), step)

    def _get_remote(self, serial: int, process: pmix.NamedProcess, step: Step) -> None:
        world = self._worlds.named(process.nspace)
        if world is None or not 0 <= process.rank < world.size:
            step.server.append(pmix.Answer(serial, NOT_FOUND, ()))
            return
        question = pmi.Modex(pmi.Process(world.number, process.rank))
        self._questions.ask(world.places[process.rank], question, self._told(serial), step)

    def _modex_data(self, serial: int, status: int, data: bytes, step: Step) -> None:
        ask = self._data_asked.pop(serial, None)
        if ask is None:
            raise PeerProtocolError("pmix: data that nobody asked for")
        self._charge.drop(REQUEST_BYTES)
        if len(data) > REPLY_BYTES:
            status, data = NO_RESOURCE, b""
        self._questions.reply(ask, status, (KeyValue(b"data", data),), step)

    def _aborted(self, serial: int) -> Continuation:
        """Let the rank end that has called abort."""

        def continuation(_reply: pmi.Reply, step: Step) -> None:
            step.server.append(pmix.Answer(serial, SUCCESS, ()))

        return continuation

    def _told(self, serial: int) -> Continuation:
        """Pass a reply on to the PMIx server."""

        def continuation(reply: pmi.Reply, step: Step) -> None:
            pairs = tuple(
                KeyValue(pair.key.removeprefix(b"pmix:"), pair.value) for pair in reply.pairs
            )
            nspace = ""
            if reply.status == SUCCESS and pairs and pairs[0].key == b"world":
                nspace = self._worlds[number_in(reply)].name
            step.server.append(pmix.Answer(serial, reply.status, pairs, nspace))

        return continuation
