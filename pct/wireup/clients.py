"""The clients of PMI-1 and PMI-2 on one node of a job."""

from __future__ import annotations

from collections.abc import Callable

from native.wire import pmi
from native.wire.pmi import FenceKind, KeyValue, Participants
from pct.account import CONNECTION_BYTES, Account, Charge, OverLimit
from pct.wireup.fences import TreeFences
from pct.wireup.kvs import KeyValueSpace
from pct.wireup.mapping import process_mapping
from pct.wireup.pmi import conversation as client
from pct.wireup.questions import ROOT, SUCCESS, Abort, Continuation, Questions, Step, number_in
from pct.wireup.world import World, Worlds


class PmiClients:
    """Answers PMI clients from the worlds' pairs, or asks the job's tree.

    Args:
        account: what is kept of connections is taken from it.
    """

    def __init__(
        self,
        worlds: Worlds,
        fences: TreeFences,
        questions: Questions,
        account: Account,
    ) -> None:
        self._account = account
        self._worlds = worlds
        self._fences = fences
        self._questions = questions
        self._connections: dict[int, _Connection] = {}
        self._mappings: dict[int, bytes] = {}

    def connected(self, number: int, job_rank: int | None, step: Step) -> None:
        """A client has a connection.

        Args:
            job_rank: where the connection is known to be one rank's. One that is in no
                world, as a tool's, is nobody's.
        """
        if job_rank is not None and self._worlds.of(job_rank) is None:
            job_rank = None
        charge = Charge(self._account)
        try:
            charge.add(CONNECTION_BYTES)
        except OverLimit:
            step.hang_ups.append(number)
            return
        conversation = client.Conversation(self._identify, job_rank)
        self._connections[number] = _Connection(number, conversation, charge)

    def closed(self, number: int) -> None:
        """A connection has been closed, or is an agent's and no PMI client's."""
        if (here := self._connections.pop(number, None)) is not None:
            here.charge.clear()

    def clear(self) -> None:
        """Free everything that is kept."""
        for number in list(self._connections):
            self.closed(number)

    def check(self) -> None:
        """Assert the invariants."""
        for here in self._connections.values():
            held = CONNECTION_BYTES + here.conversation.held_bytes
            assert here.charge.held_bytes == held

    def received(self, number: int, data: bytes, step: Step) -> None:
        """Bytes of a client."""
        here = self._connections.get(number)
        if here is None:
            return
        try:
            for request in here.conversation.receive(data):
                self._request(here, request, step)
        except client.PmiError as error:
            self._drop(here, str(error), step)
        self._flush(here, step)

    def _drop(self, here: _Connection, text: str, step: Step) -> None:
        """Hang up on a client that broke the protocol or a limit; its rank ends the job."""
        self.closed(here.number)
        step.hang_ups.append(here.number)
        if (rank := here.conversation.rank) is not None:
            step.abort = Abort(rank, 1, f"PMI: {text}")

    def look_at_barrier(self, world: World, step: Step) -> None:
        """Enter the fence once all living ranks of this node are in the barrier."""
        if world.inside and world.inside >= world.alive:
            meeting = (FenceKind.PMI, (Participants(world.number, ()),))
            self._fences.enter(meeting, world.space.take_fresh(), step)

    def leave_barrier(self, number: int, pairs: list[KeyValue], step: Step) -> None:
        """A world's barrier is over: spread the pairs and let the ranks out."""
        world = self._worlds.get(number)
        if world is None:
            return
        world.space.spread(tuple(pairs))
        world.inside.clear()
        for here in self._of_world(world):
            if here.fence is not None:
                here.conversation.fenced(here.fence)
                here.fence = None
                self._flush(here, step)

    def _identify(self, job_rank: int) -> client.Identity | None:
        found = self._worlds.of(job_rank)
        if found is None or found[1] not in found[0].alive:
            return None
        world, rank = found
        if world.number not in self._mappings:
            self._mappings[world.number] = process_mapping(world.places)
        return client.Identity(
            rank=rank,
            size=world.size,
            application=world.applications[rank],
            key_space=world.name.encode(),
            is_spawned=world.parent is not None,
            mapping=self._mappings[world.number],
        )

    def _request(self, here: _Connection, request: client.Request, step: Step) -> None:
        conversation = here.conversation
        assert conversation.rank is not None
        found = self._worlds.of(conversation.rank)
        assert found is not None
        world, rank = found
        match request:
            case client.Joined():
                world.joined.add(rank)
            case client.Put(key=key, value=value):
                conversation.stored(request, _put(world.space, key, value))
            case client.Get(key=key):
                conversation.found(request, world.space.get(key))
            case client.Fence():
                here.fence = request
                world.inside.add(rank)
                self.look_at_barrier(world, step)
            case client.PutNode(key=key, value=value):
                conversation.stored(request, _put(world.node_space, key, value))
                self._answer_node_gets(world, step)
            case client.GetNode(key=key, is_waiting=is_waiting):
                found_here = world.node_space.get(key)
                if found_here is not None or not is_waiting:
                    conversation.found(request, found_here)
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
            case client.SpawnMultiple(commands=commands, pairs=pairs):
                spawn = pmi.Spawn(pmi.Process(world.number, rank), commands, pairs)
                self._questions.ask(ROOT, spawn, self._spawned(here, request), step)
            case client.Abort(exit_code=code, text=text):
                said = f": {text}" if text else ""
                text = f"the application called abort with code {code}{said}"
                step.abort = Abort(conversation.rank, code, text)

    def _flush(self, here: _Connection, step: Step) -> None:
        """Send the answers that are ready, and charge the account for the others."""
        if data := here.conversation.take():
            step.replies.append((here.number, data))
        if here.number not in self._connections:
            return
        try:
            here.charge.set(CONNECTION_BYTES + here.conversation.held_bytes)
        except OverLimit as over:
            self._drop(here, str(over), step)

    def _answer_node_gets(self, world: World, step: Step) -> None:
        for here in self._of_world(world):
            waiting, here.node_gets = here.node_gets, []
            for request in waiting:
                found = world.node_space.get(request.key)
                if found is not None:
                    here.conversation.found(request, found)
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

    def _spawned(self, here: _Connection, request: client.SpawnMultiple) -> Continuation:
        def answer(reply: pmi.Reply) -> None:
            error = _why(reply, "not started")
            name = b"" if error else self._worlds[number_in(reply)].name.encode()
            here.conversation.spawned(request, error, name)

        return self._then(here, answer)

    def _then(self, here: _Connection, answer: Callable[[pmi.Reply], None]) -> Continuation:
        """Answer a client, if it is still there."""

        def continuation(reply: pmi.Reply, step: Step) -> None:
            if self._connections.get(here.number) is here:
                answer(reply)
                self._flush(here, step)

        return continuation


class _Connection:
    """One client, and the requests that it waits for."""

    def __init__(self, number: int, conversation: client.Conversation, charge: Charge) -> None:
        self.number = number
        self.charge = charge
        self.conversation = conversation
        self.fence: client.Fence | None = None
        self.node_gets: list[client.GetNode] = []


def _put(space: KeyValueSpace, key: bytes, value: bytes) -> str:
    """Put a pair into a space; gives the reason of a refusal, else an empty text."""
    try:
        space.put(key, value)
    except OverLimit as over:
        return str(over)
    return ""


def _why(reply: pmi.Reply, otherwise: str) -> str:
    """The reason of a negative reply; empty: the reply is positive."""
    return "" if reply.status == SUCCESS else reply.text or otherwise
