"""One job on one node: from the load message until nothing of it is left.

A node's place in the job's tree gives it a parent (the root's is yod) and
children. What goes down is passed on before it is acted upon; what goes up is
gathered from this node and its children and sent once. States are those of the
*subtree*: a node is HELD when all ranks below it are.

    FORMING   load message passed on; waiting for the store's answer and the
              children's votes; ends with a vote
    LOADING   some node of the subtree lacks an object
    STARTING  every object is everywhere below; ranks are being started
    HELD      every rank below is at its entry
    RUNNING   go has been passed on
    ENDING    all done has been passed on; the keeper kills what is left
    RELEASED  nothing is left here; the parent has been told

A node starts its own ranks as soon as it has its own objects: only go waits for
everybody. After a failure the node waits to be told to end; a parent's death is
such a word when no ancestor is left.
"""

from __future__ import annotations

import errno
import signal
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from native.errors import IllegalTransition, PeerProtocolError
from native.ids import PortalId
from native.limits import JOB_STORE_BYTES
from native.machine import Action, DeadlineReached, Event, Log, MessageReceived, PeerGone, Send
from native.text import shown
from native.wire import alloc, codec, group, io, keeper, load, pmi
from native.wire.base import Message
from pct.account import Account
from pct.events import (
    PMIX_SERVER,
    CheckObjects,
    DropJob,
    DropObject,
    GiveMap,
    InputTaken,
    KeeperEnd,
    KeeperGo,
    KeeperReported,
    KeeperSignal,
    NoPlace,
    ObjectArrived,
    ObjectLost,
    ObjectPassedOn,
    ObjectsChecked,
    ObjectStored,
    OpenPmi,
    OutputRead,
    PauseOutput,
    PmiClosed,
    PmiConnected,
    PmiHangUp,
    PmiOpened,
    PmiReceived,
    PmiReply,
    PmixReceived,
    PmixSend,
    PmixServerEnded,
    PublishObject,
    ReadObject,
    ReceiveObject,
    ResumeOutput,
    SendObject,
    StartKeeper,
    StartPmixServer,
    WriteInput,
)
from pct.job import spec
from pct.job.objects import ObjectTable, misfit, no_room
from pct.job.outcomes import Outcomes, Tally
from pct.job.relay import OutputRelay
from pct.job.spawned import SpawnedWorlds
from pct.tree.collective import SELF, Gather
from pct.tree.group import Group
from pct.tree.late import LateNodes
from pct.wireup import environment, foreign
from pct.wireup.machine import Wireup
from pct.wireup.questions import Step

if TYPE_CHECKING:
    from native.wire import pmix
    from pct.job.listeners import Listeners
    from pct.wireup.world import World

MAP_PIECE = 8192  # ranks of the map in one message
SLOWEST_LOAD = 1e6  # bytes a second; as yod expects it
COMPLETION_DELAY_S = 0.05  # normal ends are collected this long, and again per level below
LEVEL_GRACE = 0.1  # of a deadline, per level below: who is late is told by its neighbour


class JobState(Enum):
    """How far this node's subtree is."""

    FORMING = "forming the group"
    LOADING = "loading"
    STARTING = "starting"
    HELD = "held at entry"
    RUNNING = "running"
    ENDING = "ending"
    RELEASED = "released"


BEFORE_HELD = (JobState.FORMING, JobState.LOADING, JobState.STARTING)


class TellBebopd(Action, frozen=True):
    """Send to the partition's bebopd, when there is one."""

    message: Message


class Job:
    """State machine of one job on one node.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.
    """

    def __init__(
        self,
        message: load.Load,
        credential: alloc.Credential,
        parent: PortalId,
        now: float,
        notice_s: float = float("inf"),
        store_bytes: int = JOB_STORE_BYTES,
    ) -> None:
        self.state = JobState.FORMING
        self.account = Account(store_bytes)
        self.job_id = message.job_id
        self.uid = credential.uid
        self.started_at = now
        self.ranks = spec.ranks_at(message, message.place)
        self.slots = credential.slots[credential.nodes.index(message.nodes[message.place].node)]
        self._load = message
        self._arguments = message.arguments
        self._credential = credential
        self._here = message.nodes[message.place]
        self._group = Group(message, parent)
        below = list(self._group.children.values())
        below_us = frozenset(self._group.places_below())
        self._objects = ObjectTable(len(message.objects), spec.unused_objects(message, below_us))
        self._votes: Gather[load.Vote] = Gather(below)
        self._loaded: Gather[load.Slowest] = Gather(below)
        self._held: Gather[load.Slowest] = Gather(below)
        self._map: list[load.Held] = []
        self._released: Gather[tuple[int, ...]] = Gather(below)
        self._keepers: dict[int, _Keeper] = {}  # world, or the PMIx server
        self._spawned = SpawnedWorlds(message)
        self._unix_pids: dict[int, int] = {}
        self._own_held: set[int] = set()
        self._before_exec: list[int] = []
        self._ended: set[int] = set()
        self._open_outputs: set[tuple[int, int]] = set()
        total = sum(run.count for run in message.runs if run.place in below_us)
        self._outcomes = Outcomes(message.job_id, total)
        self._relays = {
            stream: OutputRelay(message.job_id, stream, message.output_window_bytes)
            for stream in io.STREAMS
        }
        self._input_room = message.output_window_bytes // 4  # that yod may send
        self._failed: set[load.FailureKind] = set()
        self._phase_until: float | None = now + self._patience()
        self._late = LateNodes(message.job_id, notice_s, self._group.levels)
        self._late.begin(now)
        self._last_signal = 0
        self._wireup: Wireup | None = None
        self._listeners: Listeners | None = None
        if message.mpi.has_portals:
            from pct.job.listeners import Listeners

            self._listeners = Listeners(message)

    @property
    def parent(self) -> PortalId | None:
        """Whose word counts; None while this node is an orphan."""
        return self._group.parent

    # -- the machine's face -----------------------------------------------

    def begin(self, now: float) -> list[Action]:
        """The first actions, once: pass the load on, ask the store."""
        actions: list[Action] = [
            Send(child, msgspec.structs.replace(self._load, place=place))
            for child, place in self._group.children.items()
        ]
        objects = self._load.objects
        owner = (self._credential.uid, self._credential.gid, self._credential.groups)
        unused = tuple(sorted(self._objects.unused))
        has_arguments = self._load.arguments is None
        actions.append(CheckObjects(self.job_id, objects, has_arguments, *owner, unused))
        if self._listeners is not None and self._listeners.fault:
            actions += self._fail(load.FailureKind.NO_WIREUP, self._listeners.fault)
        return [*actions, *self._begin_wireup()]

    def deadline(self) -> float | None:
        """Time of the next ``DeadlineReached``, or None when nothing is timed."""
        times = (self._phase_until, self._group.deadline(), self._outcomes.due, self._late.due)
        return min([due for due in times if due is not None], default=None)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Raises:
            PeerProtocolError: a message that its sender may not send; nothing
                has changed.
            IllegalTransition: no such event here; a bug.
        """
        if self.state is JobState.RELEASED and not isinstance(event, MessageReceived):
            return []
        match event:
            case MessageReceived():
                return self._message(event, now)
            case PmiReceived(_, connection, data) if self._wireup is not None:
                return self._wire(self._wireup.received(connection, data))
            case PeerGone(peer, text):
                return self._peer_gone(peer, text, now)
            case DeadlineReached():
                return self._deadline_reached(now)
            case ObjectsChecked(_, present, lacking, no_place):
                self._objects.checked(present, lacking, no_place)
                return self._own_vote(no_place, now)
            case ObjectArrived(_, number, digest):
                return self._object_arrived(number, digest)
            case ObjectPassedOn(_, number):
                return self._publish(number) if self._objects.passed_on(number) else []
            case ObjectStored(_, number, path, content):
                return self._object_stored(number, path, content, now)
            case ObjectLost(_, number, text, is_consequence):
                return self._object_lost(number, text, is_consequence)
            case KeeperReported(_, report, world):
                return self._keeper_report(report, world, now)
            case OutputRead(_, rank, stream, data):
                return self._output_read(rank, stream, data)
            case InputTaken(_, count_bytes):
                self._input_room += count_bytes
                return self._up(io.InputCredit(self.job_id, count_bytes))
        if self._wireup is not None:
            return self._wireup_event(self._wireup, event, now)
        raise IllegalTransition(self.state, event)

    def give_up(self, text: str, now: float) -> list[Action]:
        """Something that was done for the job has raised: say so, and end as at all-done."""
        return [*self._fail(load.FailureKind.FAULT, text), *self._end(now)]

    def drop(self, text: str) -> list[Action]:
        """End here at once, whatever state this is in; everybody else is told."""
        self._failed.discard(load.FailureKind.FAULT)  # what told of it may have been lost
        failed = self._fail(load.FailureKind.FAULT, text)
        self.state = JobState.RELEASED
        here = (self._here.node,)
        reset = load.Reset(self.job_id)  # each child then speaks for itself
        return [
            *failed,
            *(Send(child, reset) for child in self._group.children),
            TellBebopd(alloc.Freed(self.job_id, here)),
            *self._up(load.Released(self.job_id, here)),
            DropJob(self.job_id),
        ]

    def check(self) -> None:
        """Assert the invariants."""
        self._objects.check()
        assert all(rank < self._spawned.rank_count for rank in self._ended)
        if self.state in (JobState.HELD, JobState.RUNNING):
            assert self._own_held == set(self.ranks)
        if self._wireup is not None:
            self._wireup.check()
        if self.state is JobState.RELEASED:
            assert self.account.used_bytes == 0

    # -- messages ---------------------------------------------------------

    def _message(self, event: MessageReceived, now: float) -> list[Action]:
        source, message = event.source, event.message
        if isinstance(message, load.Reset):
            return self._reset(event, now)
        if isinstance(message, group.Orphan):
            return self._adopt(source, message)
        if source == self._group.parent:
            return self._from_parent(message, now)
        if source in self._group.children:
            return self._from_child(self._group.children[source], message, now)
        if source == self._group.adopter and isinstance(message, group.Adopted):
            return self._adopted()
        if self._group.has_member(source):
            return []  # late: a lost parent or child that was not
        raise PeerProtocolError(f"{type(message).__name__} from {source}, no part of the job")

    def _from_parent(self, message: Message, now: float) -> list[Action]:
        match message:
            case io.OutputCredit(_, stream, count_bytes):
                self._relays[stream].credit(count_bytes)
                return self._flow(stream)
            case io.Input(_, data) if self._group.is_root:
                if len(data) > self._input_room:
                    raise PeerProtocolError(f"{len(data)} bytes of input, {self._input_room} due")
                self._input_room -= len(data)
                return [WriteInput(self.job_id, data)]
            case load.Ports() if not self._group.is_root:
                return self._ports_known(message)
            case load.Go():
                return self._go(message)
            case load.Signal(_, number):
                self._last_signal = number
                return [*self._down(message), *self._signal_own(number)]
            case load.AllDone():
                return self._end(now)
            case load.UseShared(_, number, path):
                return [*self._down(message), *self._use_shared(number, path, now)]
            case group.Adopted():
                return []
            case load.Spawn():
                return self._spawn(message, now)
        if self._wireup is not None:
            match message:
                case pmi.FenceOut() if not self._group.is_root:
                    return self._wire(self._wireup.fence_out(message))
                case pmi.Lost() if not self._group.is_root:
                    return self._wire(self._wireup.lost(message))
                case pmi.Ask() if not self._group.is_root:
                    return self._wire(self._wireup.asked(message, None))
                case pmi.Reply():
                    return self._wire(self._wireup.replied(message))
        raise PeerProtocolError(f"{type(message).__name__} is not a parent's to send")

    def _from_child(self, place: int, message: Message, now: float) -> list[Action]:
        match message:
            case io.Output():
                self._relays[message.stream].pass_on(place, message)
                return self._flow(message.stream)
            case load.Late():
                self._late.hear(place, message)
                return []
            case load.Vote():
                self._late.came(place)
                return self._after_vote(self._votes.give(place, message), now)
            case load.Loaded(_, slowest):
                self._late.came(place)
                return self._after_loaded(self._loaded.give(place, slowest), now)
            case load.Held():
                if place not in self._held.awaited or self.state not in BEFORE_HELD:
                    return []
                if self._listeners is not None:
                    self._listeners.come_up(place, message)
                self._map.append(message)
                is_complete = message.is_last and self._held.give(place, message.slowest)
                if message.is_last:
                    self._late.came(place)
                return self._after_held(is_complete, now)
            case load.Failure():
                return self._up(message)
            case load.Completions(_, outcomes):
                self._outcomes.merge(outcomes, now + self._completion_delay_s())
                return [*self._completions(now), *self._ended_below(place, outcomes)]
            case load.Released(_, nodes):
                self._late.came(place)
                return self._after_released(self._released.give(place, nodes))
            case load.Spawned():
                return self._tell_of_spawn(message)
        if self._wireup is not None:
            match message:
                case pmi.FenceIn():
                    return self._wire(self._wireup.fence_in(place, message))
                case pmi.Ask():
                    return self._wire(self._wireup.asked(message, place))
                case pmi.Reply():
                    return self._wire(self._wireup.replied(message))
                case pmi.Alone():
                    return self._wire(self._wireup.alone(message))
                case pmi.Excess():
                    return self._wire(self._wireup.excess_below(message))
        raise PeerProtocolError(f"{type(message).__name__} is not a child's to send")

    # -- form and load ----------------------------------------------------

    def _own_vote(self, no_place: tuple[NoPlace, ...], now: float) -> list[Action]:
        if self._carries_arguments(0) and (reason := self._objects.no_place.get(0)):
            return self._fail(load.FailureKind.OBJECT, f"the arguments: {reason}")
        here = self._here
        vote = load.Vote(
            self.job_id,
            1,
            tuple(sorted(self._objects.lacking)),
            no_room(load.NoRoom(each.number, here.node, here.name, each.text) for each in no_place),
            self._slowest(now),
        )
        actions = self._start_if_ready(now)
        return [*actions, *self._after_vote(self._votes.give(SELF, vote), now)]

    def _after_vote(self, is_complete: bool, now: float) -> list[Action]:
        """All have joined: pass on what is here, expect what is not, vote."""
        if not is_complete or self.state is not JobState.FORMING:
            return []
        votes = self._votes.given
        actions: list[Action] = []
        for number in range(self._objects.count):
            lackers = tuple(
                child
                for child, place in self._group.children.items()
                if place in votes and number in votes[place].lacking
            )
            actions += self._supply(number, lackers)
        for place, vote in votes.items():
            if not vote.lacking and not vote.no_room and place != SELF:
                self._loaded.give(place, vote.slowest)
        self._enter(JobState.LOADING, now)
        merged = load.Vote(
            self.job_id,
            sum(vote.count for vote in votes.values()),
            tuple(sorted(self._objects.lacking)),
            no_room(room for vote in votes.values() for room in vote.no_room),
            max((vote.slowest for vote in votes.values()), key=lambda slow: slow.seconds),
        )
        if self._group.is_root:
            actions.append(TellBebopd(alloc.Hosting(self.job_id)))
        actions += self._up(merged)
        return [*actions, *self._own_loaded(now)]

    def _supply(self, number: int, lackers: tuple[PortalId, ...]) -> list[Action]:
        shipped, chunk = self._load.objects[number], self._load.chunk_bytes
        if number in self._objects.lacking:
            self._objects.expect(number, has_children=bool(lackers))
            return [ReceiveObject(self.job_id, number, shipped, chunk, lackers)]
        if number in self._objects.paths and lackers:
            path = self._objects.paths[number]
            return [SendObject(self.job_id, number, shipped, path, chunk, lackers)]
        return []

    def _object_arrived(self, number: int, digest: bytes) -> list[Action]:
        if digest != self._load.objects[number].digest:
            return self._fail(load.FailureKind.OBJECT, "it arrived damaged")
        return self._publish(number) if self._objects.arrived(number) else []

    def _publish(self, number: int) -> list[Action]:
        if self._carries_arguments(number):
            return [ReadObject(self.job_id, number)]
        return [PublishObject(self.job_id, number, self._load.objects[number].mode)]

    def _object_lost(self, number: int, text: str, is_consequence: bool) -> list[Action]:
        if is_consequence:
            return [Log(f"object {number}: {text}", self.job_id)]
        return self._fail(load.FailureKind.OBJECT, text)

    def _carries_arguments(self, number: int) -> bool:
        """Object 0 holds the arguments where the load message does not."""
        return number == 0 and self._load.arguments is None

    def _object_stored(self, number: int, path: bytes, content: bytes, now: float) -> list[Action]:
        self._objects.stored(number, path)
        if number == 0 and self._arguments is None:
            try:
                arguments = codec.decode_arguments(content)
            except PeerProtocolError as error:
                return self._fail(load.FailureKind.OBJECT, str(error))
            ranks = sum(run.count for run in self._load.runs)
            if text := misfit(arguments, ranks, 1, self._objects.count):
                return self._fail(load.FailureKind.OBJECT, text)
            self._arguments = arguments
        self._extend_deadline(now)
        actions = self._begin_wireup()
        return [*actions, *self._start_if_ready(now), *self._own_loaded(now)]

    def _use_shared(self, number: int, path: bytes, now: float) -> list[Action]:
        is_known = number < self._objects.count and not self._carries_arguments(number)
        if number in self._objects.paths or not is_known:
            return []
        was_reserved = number in self._objects.lacking
        self._objects.stored(number, path)
        actions: list[Action] = [DropObject(self.job_id, number)] if was_reserved else []
        return [*actions, *self._start_if_ready(now), *self._own_loaded(now)]

    def _own_loaded(self, now: float) -> list[Action]:
        if not self._objects.is_complete or self.state is JobState.FORMING:
            return []
        return self._after_loaded(self._loaded.give(SELF, self._slowest(now)), now)

    def _after_loaded(self, is_complete: bool, now: float) -> list[Action]:
        if not is_complete or self.state is not JobState.LOADING:
            return []
        self._enter(JobState.STARTING, now)
        slowest = max(self._loaded.given.values(), key=lambda slow: slow.seconds)
        actions: list[Action] = []
        if self._subtree_lacked():
            actions += self._up(load.Loaded(self.job_id, slowest))
        return [*actions, *self._after_held(self._held.is_complete, now)]

    def _subtree_lacked(self) -> bool:
        """The parent does not know from our vote that everything is here."""
        votes = self._votes.given.values()
        return any(vote.no_room for vote in votes) or bool(self._votes.given[SELF].lacking)

    # -- start and go -----------------------------------------------------

    def _begin_wireup(self) -> list[Action]:
        """Once the arguments are known: open what the ranks' environment will name."""
        if self._wireup is not None or self._arguments is None:
            return []
        users = self._arguments.environment
        names = environment.names_of_user(users)
        members = spec.members_of(self._arguments.members)
        self._wireup = Wireup(self._load, members, names, self.account)
        uid, gid, groups = self._credential.uid, self._credential.gid, self._credential.groups
        nodes = foreign.nodes_of(self._load)
        mpi = self._load.mpi
        looks_around = mpi.library or load.Protocol.PMIX in mpi.offered
        home = environment.home_of(users) if looks_around else None
        actions: list[Action] = [OpenPmi(self.job_id, uid, gid, len(self.ranks), nodes, home)]
        if (begin := self._wireup.server_begin(uid, gid)) is not None:
            self._keepers[PMIX_SERVER] = _Keeper.STARTED
            actions.append(StartPmixServer(self.job_id, uid, gid, groups, begin))
        return actions

    def _start_if_ready(self, now: float) -> list[Action]:
        """Start what can be: the ranks of the load, and those of worlds that wait."""
        if self.state in (JobState.ENDING, JobState.RELEASED) or self._failed:
            return []
        if not self._objects.is_complete or self._wireup is None or self._arguments is None:
            return []
        actions: list[Action] = []
        of_job = (self._load, self._arguments, self._credential)
        if 0 not in self._keepers and self._wireup.is_ready(0):
            self._keepers[0] = _Keeper.STARTED
            self._extend_deadline(now)
            listen_nid = self._listeners.nid if self._listeners is not None else 0
            paths = self._objects.paths
            keeper_spec = spec.keeper_spec(*of_job, paths, self._wireup, listen_nid)
            actions.append(StartKeeper(self.job_id, keeper_spec))
        for number, world in self._spawned:
            if number in self._keepers or not world.awaited:
                continue
            if world.spawn.is_tool or self._wireup.is_ready(number):
                self._keepers[number] = _Keeper.STARTED
                keeper_spec = spec.world_spec(*of_job, world.spawn, self._wireup)
                actions.append(StartKeeper(self.job_id, keeper_spec, number))
                actions.append(KeeperGo(self.job_id, number))
        return actions

    def _keeper_report(self, report: keeper.Report, world: int, now: float) -> list[Action]:
        match report:
            case keeper.RankStarted(rank, unix_pid, port):
                self._unix_pids[rank] = unix_pid
                if port and self._listeners is not None:
                    self._listeners.own(rank, port)
                self._open_outputs |= {(rank, stream) for stream in io.STREAMS}
                return []
            case keeper.RankHeld(rank, how):
                if world:
                    return self._spawned_rank_is(world, rank, "")
                if how is keeper.HowHeld.BEFORE_EXEC:
                    self._before_exec.append(rank)
                self._own_held.add(rank)
                return self._own_ranks_held(now)
            case keeper.ExecFailed(rank):
                kind, text = _exec_failure(report)
                if world:
                    return self._spawned_rank_is(world, rank, text)
                program = self._program_of(rank)
                # The user's name for it: the text may have the interpreter's, or the store's.
                return self._fail(
                    kind, text if program in text else f"{program}: {text}", rank=rank
                )
            case keeper.RankEnded():
                return self._rank_ended(report, world, now)
            case keeper.KeeperEmpty():
                return self._keeper_is_gone(world)
            case keeper.KeeperLost(reason):
                actions = self._fail(load.FailureKind.KEEPER_LOST, reason)
                return [*actions, *self._keeper_is_gone(world)]
        raise IllegalTransition(self.state, report)

    def _own_ranks_held(self, now: float) -> list[Action]:
        if len(self._own_held) < len(self.ranks):
            return []
        slowest = self._slowest(now)
        unix_pids = tuple(self._unix_pids[rank] for rank in self.ranks)
        before_exec = tuple(self._before_exec)
        self._map.append(load.Held(self.job_id, self.ranks, unix_pids, before_exec, slowest, True))
        return self._after_held(self._held.give(SELF, slowest), now)

    def _after_held(self, is_complete: bool, now: float) -> list[Action]:
        if not is_complete or self.state is not JobState.STARTING:
            return []
        self._enter(JobState.HELD, now)
        ranks = [rank for piece in self._map for rank in piece.ranks]
        unix_pids = [unix_pid for piece in self._map for unix_pid in piece.unix_pids]
        before_exec = {rank for piece in self._map for rank in piece.before_exec}
        self._map.clear()
        slowest = max(self._held.given.values(), key=lambda slow: slow.seconds)
        actions: list[Action] = []
        for start in range(0, len(ranks), MAP_PIECE):
            end = start + MAP_PIECE
            is_last = end >= len(ranks)
            piece = tuple(ranks[start:end])
            ports: tuple[int, ...] = ()
            if self._listeners is not None and not self._group.is_root:
                ports = self._listeners.go_up(piece)
            actions += self._up(
                load.Held(
                    self.job_id,
                    piece,
                    tuple(unix_pids[start:end]),
                    tuple(rank for rank in piece if rank in before_exec),
                    slowest,
                    is_last,
                    ports,
                )
            )
        return actions

    def _ports_known(self, message: load.Ports) -> list[Action]:
        """A piece of the map of listeners."""
        if self.state in (JobState.ENDING, JobState.RELEASED):
            return []
        if self.state is not JobState.HELD or self._listeners is None:
            raise PeerProtocolError(f"listeners while {self.state.value}")
        self._listeners.come_down(message)
        return self._down(message)

    def _go(self, message: load.Go) -> list[Action]:
        if self.state is not JobState.HELD:
            if self.state is JobState.ENDING or self.state is JobState.RELEASED:
                return []
            raise PeerProtocolError(f"go while {self.state.value}")
        actions: list[Action] = []
        if self._listeners is not None and self._group.is_root:
            for piece in self._listeners.pieces():
                actions += self._down(piece)
        maps: list[Action] = []
        if self._listeners is not None:
            maps = [GiveMap(self.job_id, self.uid, self._listeners.encoded())]
        self.state = JobState.RUNNING
        self._phase_until = None
        actions += [*self._down(message), *maps, KeeperGo(self.job_id)]
        if self._group.is_root and self._load.has_input:
            actions += self._up(io.InputCredit(self.job_id, self._input_room))
        return actions

    # -- run --------------------------------------------------------------

    def _output_read(self, rank: int, stream: int, data: bytes) -> list[Action]:
        if data:
            self._relays[stream].read(SELF, rank, data)
        else:
            self._open_outputs.discard((rank, stream))
        return [*self._flow(stream), *self._release_if_over()]

    def _flow(self, stream: int) -> list[Action]:
        """Send what the stream's window allows; stop or resume reading it of our ranks."""
        relay = self._relays[stream]
        was_paused = relay.is_paused
        messages, credits = relay.take()
        actions: list[Action] = []
        for message in messages:
            actions += self._up(message)
        for place, count_bytes in credits:
            child = self._group.id_of(place)
            if child in self._group.children:
                actions.append(Send(child, io.OutputCredit(self.job_id, stream, count_bytes)))
        if relay.is_paused != was_paused:
            pause = PauseOutput if relay.is_paused else ResumeOutput
            actions.append(pause(self.job_id, stream))
        if messages:
            actions += self._release_if_over()
        return actions

    def _rank_ended(self, report: keeper.RankEnded, world: int, now: float) -> list[Action]:
        self._ended.add(report.rank)
        actions: list[Action] = []
        if world:
            actions += self._spawned_rank_is(world, report.rank, "it ended before its entry")
            actions += self._reply(self._spawned.tool_ended(world, report.wait_status))
        elif not report.was_released and self.state not in (JobState.ENDING, JobState.RELEASED):
            text = f"{_how_it_ended(report.wait_status)} before its entry"
            actions += self._fail(load.FailureKind.EARLY_EXIT, text, rank=report.rank)
        self._outcomes.add(
            Tally(
                rank=report.rank,
                node=self._here.node,
                unix_pid=self._unix_pids.get(report.rank, 0),
                wait_status=report.wait_status,
                was_released=report.was_released,
                elapsed_ms=int((now - self.started_at) * 1000),
                user_ms=int(report.user_s * 1000),
                system_ms=int(report.system_s * 1000),
                max_rss_kb=report.max_rss_bytes // 1024,
                was_signalled=report.was_signalled,
            ),
            now + self._completion_delay_s(),
        )
        actions += self._completions(now)
        if self._wireup is not None:
            left = self._wireup.left(report.rank, report.wait_status, report.mpi_library)
            actions += self._wire(left)
            actions += self._tell_of_loss((report.rank,), report.wait_status)
        return actions

    def _ended_below(self, place: int, outcomes: tuple[load.Outcome, ...]) -> list[Action]:
        if self._wireup is None:
            return []
        ranks = tuple(rank for outcome in outcomes for rank in outcome.ranks)
        actions = self._wire(self._wireup.ended_below(place, ranks))
        for outcome in outcomes:
            actions += self._tell_of_loss(outcome.ranks, outcome.wait_status)
        return actions

    def _tell_of_loss(self, ranks: tuple[int, ...], wait_status: int) -> list[Action]:
        """The root tells all nodes of ranks that ended abnormally, where somebody may ask."""
        if not (self._group.is_root and wait_status and self._wireup):
            return []
        if load.Protocol.PMIX not in self._load.mpi.offered or self.state is not JobState.RUNNING:
            return []
        return self._wire(self._wireup.lost(pmi.Lost(self.job_id, ranks, wait_status)))

    def _completions(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for message in self._outcomes.take(now):
            actions += self._up(message)
        return actions

    def _signal_own(self, number: int) -> list[Action]:
        if not self._has_keepers:
            return []
        return [KeeperSignal(self.job_id, number)]

    # -- wire-up ----------------------------------------------------------

    def _wireup_event(self, wireup: Wireup, event: Event, now: float) -> list[Action]:
        match event:
            case PmiOpened():
                wireup.port_opened(event)
                return self._start_if_ready(now)
            case PmiConnected(_, connection, rank):
                return self._wire(wireup.connected(connection, rank))
            case PmiClosed(_, connection):
                return self._wire(wireup.closed(connection))
            case PmixReceived(_, message):
                actions = self._wire(wireup.from_server(message))
                return [*actions, *self._start_if_ready(now)]
            case PmixServerEnded(_, text):
                self._keepers[PMIX_SERVER] = _Keeper.GONE
                if self.state not in (JobState.ENDING, JobState.RELEASED):
                    return [*self._wire(wireup.server_ended(text)), *self._start_if_ready(now)]
                return self._release_if_over()
        raise IllegalTransition(self.state, event)

    def _wire(self, step: Step) -> list[Action]:
        """Do what the wire-up leads to: an abort first, then what others wait for."""
        actions: list[Action] = []
        if step.abort is not None:
            rank, code, text = step.abort.rank, step.abort.exit_code, step.abort.text
            actions += self._fail(load.FailureKind.ABORTED, text, rank=rank, exit_code=code)
        for message in step.down:
            actions += self._down(message)
        for place, message in step.to:
            child = self._group.id_of(place)
            if child in self._group.children:
                actions.append(Send(child, message))
        for message in step.up:
            actions += self._up(message)
        actions += [PmiReply(self.job_id, number, data) for number, data in step.replies]
        actions += [PmiHangUp(self.job_id, number) for number in step.hang_ups]
        step.server += [self._table(serial, worlds) for serial, worlds in step.tables]
        if step.server and self._keepers.get(PMIX_SERVER) is _Keeper.STARTED:
            actions += [PmixSend(self.job_id, message) for message in step.server]
        for world in step.ended_tools:
            if self._spawned.is_tool(world):
                actions.append(KeeperEnd(self.job_id, world))
        if step.failure:
            actions += self._fail(load.FailureKind.NO_WIREUP, step.failure)
        elif step.abort is None and (excess := self._excess()) is not None:
            actions += self._up(excess)
        return actions

    def _excess(self) -> pmi.Excess | None:
        return self._wireup.excess() if self._wireup is not None else None

    def _table(self, serial: int, worlds: tuple[World, ...]) -> pmix.Table:
        """The answer to a question of the PMIx server."""
        from pct.job import process_table  # few programs ask

        assert self._arguments is not None
        of_job = (self._load, self._arguments, self._spawned)
        return process_table.table(serial, worlds, of_job, self._unix_pids)

    # -- spawn ------------------------------------------------------------

    def _spawn(self, message: load.Spawn, now: float) -> list[Action]:
        """One more world: pass it on, start its ranks of this node."""
        if self.state is not JobState.RUNNING or self._wireup is None:
            return []
        places = self._spawned.add(message)
        self._wireup.spawn_comes(message)
        below = set(self._group.places_below())
        self._outcomes.expect(sum(place in below for place in places))
        if message.is_tool:
            step = self._wireup.tool_started(message)
        else:
            step = self._wireup.add_world(
                message.world,
                message.first_rank,
                places,
                spec.members_of(message.members),
                message.parent,
                message.pairs,
            )
        # Started first: an agent that is gone already ends its tool at once.
        return [*self._down(message), *self._start_if_ready(now), *self._wire(step)]

    def _spawned_rank_is(self, world: int, rank: int, text: str) -> list[Action]:
        """A rank of a spawned world runs, or never will."""
        told = self._spawned.rank_is(world, rank, text)
        return self._tell_of_spawn(told) if told is not None else []

    def _tell_of_spawn(self, told: load.Spawned) -> list[Action]:
        """Pass up what became of a world's ranks on a node; the root answers who spawned it."""
        return self._reply(self._spawned.gather(told)) if self._group.is_root else self._up(told)

    def _reply(self, reply: pmi.Reply | None) -> list[Action]:
        if reply is None or self._wireup is None:
            return []
        return self._wire(self._wireup.replied(reply))

    # -- end --------------------------------------------------------------

    def _end(self, now: float) -> list[Action]:
        """All done: pass it on, kill what is left, give back."""
        if self.state in (JobState.ENDING, JobState.RELEASED):
            return []
        self.state = JobState.ENDING
        self._phase_until = None
        self._late.begin(now)
        actions = self._down(load.AllDone(self.job_id))
        if self._has_keepers:
            return [*actions, KeeperEnd(self.job_id)]
        return [*actions, *self._release_if_over()]

    @property
    def _has_keepers(self) -> bool:
        return _Keeper.STARTED in self._keepers.values()

    def _keeper_is_gone(self, world: int) -> list[Action]:
        self._keepers[world] = _Keeper.GONE
        return self._release_if_over()

    @property
    def _is_output_gone(self) -> bool:
        return all(relay.is_empty for relay in self._relays.values())

    def _release_if_over(self) -> list[Action]:
        """Ours is over when no keeper is left and every byte of output is on its way."""
        if self.state is not JobState.ENDING or self._has_keepers:
            return []
        if self._open_outputs or not self._is_output_gone:
            return []
        self._released.give(SELF, (self._here.node,))
        # Not only now: children may have been waiting for their output to leave here.
        return self._after_released(self._released.is_complete)

    def _after_released(self, is_complete: bool) -> list[Action]:
        if not is_complete or self.state is not JobState.ENDING or not self._is_output_gone:
            return []
        self.state = JobState.RELEASED
        self._group.end()
        self._late.end()
        if self._wireup is not None:
            self._wireup.end()
        nodes = tuple(node for given in self._released.given.values() for node in given)
        actions: list[Action] = []
        for message in self._outcomes.take_all():
            actions += self._up(message)
        if self._group.is_root:
            actions.append(TellBebopd(alloc.Freed(self.job_id, nodes)))
        elif self._group.parent is None or self._group.was_reset:
            actions.append(TellBebopd(alloc.Freed(self.job_id, (self._here.node,))))
        released = load.Released(self.job_id, nodes)
        actions += self._up(released)
        if self._group.displaced is not None:
            actions.append(Send(self._group.displaced, released))
        return [*actions, DropJob(self.job_id)]

    # -- trouble ----------------------------------------------------------

    def _fail(
        self, kind: load.FailureKind, text: str, rank: int = -1, exit_code: int = 0
    ) -> list[Action]:
        """Report a failure, the first of its kind on this node."""
        if kind in self._failed or self.state is JobState.RELEASED:
            return []
        # A job that ends anyway misses nothing else than completions.
        may_miss = (load.FailureKind.KEEPER_LOST, load.FailureKind.FAULT)
        if self.state is JobState.ENDING and kind not in may_miss:
            return []
        self._failed.add(kind)
        here = self._here
        phase = self.state.value
        return self._up(
            load.Failure(
                self.job_id, kind, phase, here.node, here.name, rank, text[:4000], exit_code
            )
        )

    def _peer_gone(self, peer: PortalId, text: str, now: float) -> list[Action]:
        if peer in (self._group.parent, self._group.adopter):
            return self._parent_lost(now)
        if peer in self._group.children:
            return self._child_lost(self._group.children[peer], text, now)
        return []

    def _child_lost(self, place: int, text: str, now: float) -> list[Action]:
        """Report it; its children are ours now, and will call, or not, in time."""
        heirs = self._group.lose_child(place)
        actions: list[Action] = []
        if self.state is not JobState.ENDING or place in self._released.awaited:
            lost = self._load.nodes[place]
            kind, phase = load.FailureKind.NODE_LOST, self.state.value
            actions += self._up(
                load.Failure(self.job_id, kind, phase, lost.node, lost.name, -1, text[:4000])
            )
        if place not in self._released.awaited:
            return actions
        self._released.drop(place, heirs)
        for heir in heirs:
            if heir in self._released.awaited:
                peer = self._group.inherit(heir, now)
                if self.state is JobState.ENDING:  # one that has nothing of the job says so
                    actions.append(Send(peer, load.AllDone(self.job_id)))
        return [*actions, *self._after_released(self._released.is_complete)]

    def _parent_lost(self, now: float) -> list[Action]:
        """Ask the next ancestor; with none left the job is over here."""
        adopter = self._group.lose_parent(now)
        if adopter is None:
            return self._end_alone(now)
        for relay in self._relays.values():
            relay.hold()
        return [Send(adopter, group.Orphan(self.job_id, self._group.place))]

    def _adopted(self) -> list[Action]:
        self._group.be_adopted()
        actions: list[Action] = []
        for message in self._outcomes.repeat():
            actions += self._up(message)
        for stream, relay in self._relays.items():
            relay.new_parent()
            actions += self._flow(stream)
        return actions

    def _adopt(self, source: PortalId, message: group.Orphan) -> list[Action]:
        self._group.adopt(source, message.place)
        actions: list[Action] = [Send(source, group.Adopted(self.job_id))]
        if self.state is JobState.RELEASED:
            return [*actions, Send(source, load.AllDone(self.job_id))]
        self._released.awaited.add(message.place)
        if self._last_signal:
            actions.append(Send(source, load.Signal(self.job_id, self._last_signal)))
        if self.state is JobState.ENDING:
            actions.append(Send(source, load.AllDone(self.job_id)))
        return actions

    def _reset(self, event: MessageReceived, now: float) -> list[Action]:
        """End here and wait for nobody below; the parent of before is told too."""
        actions: list[Action] = []
        if self._group.parent != event.source:  # who may not have heard what had ended
            actions += [Send(event.source, message) for message in self._outcomes.repeat()]
        self._group.be_reset(event.source)
        actions += self._end_alone(now)
        self._released.awaited &= {SELF}
        return [*actions, *self._release_if_over()]

    def _end_alone(self, now: float) -> list[Action]:
        """End without waiting for anybody above to take output."""
        actions = self._end(now)
        for stream, relay in self._relays.items():
            relay.abandon()
            actions += self._flow(stream)
        return actions

    def _deadline_reached(self, now: float) -> list[Action]:
        actions = self._completions(now)
        if self._group.is_abandoned(now):
            actions += self._end_alone(now)
        for place in self._group.take_missing(now):  # bebopd and yod look after them
            self._released.drop(place)
        actions += self._after_released(self._released.is_complete)
        if self._phase_until is not None and now >= self._phase_until:
            self._phase_until = None
            actions += self._fail(load.FailureKind.TIMED_OUT, self._who_is_late())
        if self._late.is_due(now):
            actions += self._tell_who_is_late()
        return actions

    def _awaited(self) -> set[int]:
        """Places that have not given what this state waits for."""
        match self.state:
            case JobState.FORMING:
                return self._votes.awaited
            case JobState.LOADING:
                return self._loaded.awaited
            case JobState.ENDING:
                return self._released.awaited
        return self._held.awaited

    def _tell_who_is_late(self) -> list[Action]:
        awaited = self._awaited()
        own = [self._late_node(SELF)] if SELF in awaited and not self._is_held_back() else []
        children = {place: self._late_node(place) for place in awaited - {SELF}}
        told = self._late.tell(own, children)
        return self._up(told) if told is not None else []

    def _is_held_back(self) -> bool:
        """Output waits for who reads it, and that is none of the job's nodes."""
        return any(relay.is_paused for relay in self._relays.values())

    def _late_node(self, place: int) -> load.LateNode:
        if place == SELF:
            return load.LateNode(self._here.node, self._here.name, self._own_wait()[:255])
        node = self._load.nodes[place]
        return load.LateNode(node.node, node.name)

    def _own_wait(self) -> str:
        """What is awaited of this node itself."""
        if self.state is JobState.ENDING:
            return "processes of the job have not ended" if self._has_keepers else "last output"
        if not self._objects.is_complete:
            is_forming = self.state is JobState.FORMING
            return "looks for the files" if is_forming else "files are on their way"
        if 0 in self._keepers:
            waiting = sorted(set(self.ranks) - self._own_held)
            return f"ranks not at their entry: {_some(waiting)}"
        return "its wire-up is not ready"

    def _who_is_late(self) -> str:
        awaited = self._awaited()
        names = [self._load.nodes[place].name for place in sorted(awaited - {SELF})]
        if SELF in awaited:
            names.append(f"{self._here.name} ({self._own_wait()})")
        return f"no answer in {self._patience():.0f} s from {', '.join(names)}"

    # -- small things -----------------------------------------------------

    def _enter(self, state: JobState, now: float) -> None:
        self.state = state
        self._late.begin(now)
        self._extend_deadline(now)
        if state is JobState.HELD:
            self._late.end()
            self._phase_until = None  # yod decides how long to hold

    def _extend_deadline(self, now: float) -> None:
        if self._phase_until is not None:
            self._phase_until = now + self._patience()

    def _patience(self) -> float:
        patience = self._load.deadline_s * (1 + LEVEL_GRACE * self._group.levels)
        if self.state is JobState.LOADING:
            patience += sum(shipped.size for shipped in self._load.objects) / SLOWEST_LOAD
        return patience

    def _completion_delay_s(self) -> float:
        return COMPLETION_DELAY_S * (1 + self._group.levels)

    def _up(self, message: Message) -> list[Action]:
        return [] if self._group.parent is None else [Send(self._group.parent, message)]

    def _down(self, message: Message) -> list[Action]:
        return [Send(child, message) for child in self._group.children]

    def _slowest(self, now: float) -> load.Slowest:
        return load.Slowest(self._here.node, self._here.name, now - self.started_at)

    def _program_of(self, rank: int) -> str:
        """The path of a rank's program as yod named it."""
        assert self._arguments is not None
        for member in self._arguments.members:
            if rank < member.size:
                path = self._load.objects[member.object_index].path
                return shown(path)
            rank -= member.size
        raise AssertionError(f"no member for rank {rank}")


class _Keeper(Enum):
    """A keeper of the job on this node."""

    STARTED = "started"
    GONE = "gone"


def _how_it_ended(wait_status: int) -> str:
    if number := wait_status & 0x7F:
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:  # a real-time one
            return f"killed by signal {number}"
    return f"ended with exit code {wait_status >> 8 & 0xFF}"


def _some(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return shown + (f", ... {len(ranks)} in all" if len(ranks) > 8 else "")


def _exec_failure(report: keeper.ExecFailed) -> tuple[load.FailureKind, str]:
    is_missing = report.errno in (errno.ENOENT, errno.ENOTDIR)
    kind = load.FailureKind.NOT_FOUND if is_missing else load.FailureKind.NOT_EXECUTABLE
    return kind, report.explain()
