"""STARTING: the ranks of a job on one node, from the start of their keeper until go.

A node starts its ranks as soon as it has its own objects and its wire-up is ready. Only go
waits for the whole job. The ranks of a spawned world are let go at once.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from native.errors import IllegalTransition, PeerProtocolError
from native.machine import Action
from native.text import shown
from native.wire import alloc, keeper, load
from pct.events import (
    GiveMap,
    HookEnded,
    KeeperGo,
    KeeperNotStarted,
    KeeperReported,
    MapNotGiven,
    OutputRead,
    StartKeeper,
)
from pct.job import spec
from pct.job.ends import Ends
from pct.job.failures import Failures
from pct.job.keepers import Keepers
from pct.job.output import Output
from pct.job.progress import JobState, Progress
from pct.job.rules.objects import ObjectTable
from pct.job.wiring import Wiring
from pct.pmi_events import PmiOpened, PmixReceived, PmixServerEnded
from pct.tree.collective import SELF
from pct.tree.group import Group

if TYPE_CHECKING:
    from pct.account import Gpu
    from pct.cores import Given
    from pct.job.hooks import HookRuns
    from pct.job.no_hooks import NoHooks
    from pct.job.rules.listeners import Listeners
    from pct.job.rules.looking import Looking

MAP_PIECE = 8192  # ranks of the map in one message


class Starting:
    """Starts keepers, and reports when every rank of the subtree is held at entry.

    Attributes:
        ranks: those of the load that this node hosts.
        own_held: those of them that are held at their entry.
        gpus: that the job has on this node.
        cores: likewise, to bind ranks to.
    """

    def __init__(
        self,
        message: load.Load,
        credential: alloc.Credential,
        group: Group,
        progress: Progress,
        failures: Failures,
        keepers: Keepers,
        objects: ObjectTable,
        wiring: Wiring,
        ends: Ends,
        output: Output,
        hooks: HookRuns | NoHooks,
    ) -> None:
        self._hooks = hooks
        self.ranks = spec.ranks_at(message, message.place)
        self.own_held: set[int] = set()
        self.gpus: tuple[Gpu, ...] = ()
        self.cores: Given | None = None
        self.looking: Looking
        self._message = message
        self._job_id = message.job_id
        self._credential = credential
        self._group = group
        self._progress = progress
        self._failures = failures
        self._keepers = keepers
        self._objects = objects
        self._wiring = wiring
        self._ends = ends
        self._output = output
        self._before_exec: list[int] = []
        self._map: list[load.Held] = []
        self._listeners: Listeners | None = None
        if message.mpi.has_portals:
            from pct.job.rules.listeners import Listeners

            self._listeners = Listeners(message)

    def begin(self) -> list[Action]:
        """Report a fault that the load message alone shows."""
        if self._listeners is None or not self._listeners.fault:
            return []
        return self._failures.report(load.FailureKind.NO_WIREUP, self._listeners.fault)

    # -- start ------------------------------------------------------------

    def start(self, now: float) -> list[Action]:
        """Start the keepers that can be started: that of the load, and those of spawned worlds."""
        wireup, arguments = self._wiring.wireup, self._objects.arguments
        if self._progress.is_ending or self._failures.has_any:
            return []
        if arguments is None:
            return []
        actions = self._hooks.begin(arguments, now)
        if not self._objects.is_complete or wireup is None or not self._hooks.is_ready:
            return actions
        of_job = (self._message, arguments, self._credential)
        if 0 not in self._keepers and wireup.is_ready(0):
            self._keepers.start(0)
            self._progress.extend(now)
            self._progress.note("started", now)
            listen_nid = self._listeners.nid if self._listeners is not None else 0
            of_node = (self._objects.paths, wireup, listen_nid)
            of_keeper = spec.keeper_spec(*of_job, *of_node, self.gpus, self.cores)
            actions.append(StartKeeper(self._job_id, self._hooks.changed(of_keeper)))
        for number, world in self._wiring.spawned:
            if number in self._keepers or not world.awaited:
                continue
            if world.spawn.is_tool or wireup.is_ready(number):
                self._keepers.start(number)
                of_world = spec.world_spec(*of_job, world.spawn, wireup, self.gpus)
                actions.append(StartKeeper(self._job_id, self._hooks.changed(of_world), number))
                actions += [KeeperGo(self._job_id, number), *self._keepers.let_go()]
        return actions

    def hook_ended(self, event: HookEnded, now: float) -> list[Action]:
        """A hook has ended: run the next one, or start the ranks that have waited."""
        return [*self._hooks.ended(event, now), *self.start(now)]

    def port_opened(self, event: PmiOpened, now: float) -> list[Action]:
        """The node listens for PMI clients: start the ranks that have waited for this."""
        return [*self._wiring.port_opened(event, now), *self.start(now)]

    def from_server(self, event: PmixReceived, now: float) -> list[Action]:
        """The PMIx server speaks: it may have registered a world whose ranks wait for that."""
        return [*self._wiring.from_server(event, now), *self.start(now)]

    def server_ended(self, event: PmixServerEnded, now: float) -> list[Action]:
        """The PMIx server has ended: start ranks without it, where the load allows that."""
        actions = self._keepers.server_ended(event, now)
        return [*actions, *self._wiring.server_ended(event, now), *self.start(now)]

    def spawn(self, message: load.StartWorld, now: float) -> list[Action]:
        """A new world: pass the message on, and start the ranks that this node hosts."""
        places = self._wiring.spawned.add(message)
        step = self._wiring.add_world(message, places)
        below = set(self._group.places_below())
        self._ends.expect(sum(place in below for place in places))
        # Start before the step: if the agent of a tool has gone, the step ends the tool.
        return [*self._group.down(message), *self.start(now), *self._wiring.do(step)]

    # -- what keepers say -------------------------------------------------

    def report(self, event: KeeperReported, now: float) -> list[Action]:
        """A report of a keeper."""
        world = event.world
        match event.report:
            case keeper.RankStarted(rank, unix_pid, port):
                self._keepers.unix_pids[rank] = unix_pid
                if port and self._listeners is not None:
                    self._listeners.own(rank, port)
                self._output.rank_started(rank)
                return self._print(rank, now)
            case keeper.RankHeld(rank) if world:
                return self._wiring.rank_runs(world, rank)
            case keeper.RankHeld(rank, how):
                return self._rank_held(rank, how, now)
            case keeper.ExecFailed() as failed:
                return self._exec_failed(failed, world)
            case keeper.RankDying(rank, _, thread):
                return self.looking.dying(rank, thread, now)
            case keeper.RankEnded() as ended:
                return self._ends.rank_ended(ended, world, now)
            case keeper.KeeperEmpty():
                return self._keepers.empty(world)
            case keeper.KeeperLost(reason):
                told = self._failures.report(load.FailureKind.KEEPER_LOST, reason)
                return [*told, *self._keepers.lost(world)]
        raise IllegalTransition(self._progress.state, event)

    def _print(self, rank: int, now: float) -> list[Action]:
        """What hooks print to a rank's standard output comes before its own."""
        text = self._hooks.printed(rank)
        return self._output.read(OutputRead(self._job_id, rank, 1, text), now) if text else []

    def not_started(self, event: KeeperNotStarted, now: float) -> list[Action]:
        """There is no keeper, and so there are no ranks."""
        self._keepers.gone(event.world)
        return self._failures.report(load.FailureKind.KEEPER_LOST, event.text)

    def map_not_given(self, event: MapNotGiven, now: float) -> list[Action]:
        """Ranks that use Portals would not find one another."""
        text = f"the map of the ranks that use Portals cannot be written: {event.text}"
        return self._failures.report(load.FailureKind.NO_WIREUP, text)

    def _rank_held(self, rank: int, how: keeper.HowHeld, now: float) -> list[Action]:
        if how is keeper.HowHeld.BEFORE_EXEC:
            self._before_exec.append(rank)
        self.own_held.add(rank)
        if len(self.own_held) < len(self.ranks):
            return []
        self._progress.note("held", now)
        if spec.goes_alone(self._message):
            self._progress.note("went", now)
        slowest = self._progress.slowest(now)
        unix_pids = tuple(self._keepers.unix_pids[rank] for rank in self.ranks)
        held = (unix_pids, tuple(self._before_exec), slowest, True)
        self._map.append(load.Held(self._job_id, self.ranks, *held))
        self._progress.held.give(SELF, slowest)
        return []

    def _exec_failed(self, report: keeper.ExecFailed, world: int) -> list[Action]:
        text = report.explain()
        if world:
            return self._wiring.rank_runs(world, report.rank, text)
        if report.step is keeper.ExecStep.OUTPUT:
            return self._failures.report(load.FailureKind.EARLY_EXIT, text, rank=report.rank)
        is_missing = report.errno in (errno.ENOENT, errno.ENOTDIR)
        kind = load.FailureKind.NOT_FOUND if is_missing else load.FailureKind.NOT_EXECUTABLE
        program = self._program_of(report.rank)
        # Name the program as the user did: the text may name its interpreter, or the store.
        said = text if program in text else f"{program}: {text}"
        return self._failures.report(kind, said, rank=report.rank)

    def _program_of(self, rank: int) -> str:
        """The path of a rank's program as yod named it."""
        assert self._objects.arguments is not None
        members = self._objects.arguments.members
        member = members[spec.members_of(members)[rank]]
        return shown(self._message.objects[member.object_index].path)

    def wait(self) -> str:
        """What this node waits for, once its objects are here."""
        if not self._hooks.is_ready:
            return "the site's hooks have not ended"
        if 0 not in self._keepers:
            return "its wire-up is not ready"
        return f"ranks not at their entry: {_some(sorted(set(self.ranks) - self.own_held))}"

    # -- held, and go -----------------------------------------------------

    def held(self, place: int, message: load.Held, now: float) -> list[Action]:
        """A child's subtree is held: a piece of its map of ranks to process ids."""
        if place not in self._progress.held.awaited:
            return []
        if self._listeners is not None:
            self._listeners.come_up(place, message)
        self._map.append(message)
        if message.is_last:
            self._progress.held.give(place, message.slowest)
            self._progress.came(place)
        return []

    def all_held(self, now: float) -> list[Action] | None:
        """End STARTING: send the map of the subtree.

        Returns:
            None: ranks are not held yet.
        """
        if not self._progress.held.is_complete:
            return None
        self._progress.enter(JobState.HELD, now)
        slowest = max(self._progress.held.given.values(), key=lambda slow: slow.seconds)
        ranks = [rank for piece in self._map for rank in piece.ranks]
        unix_pids = [unix_pid for piece in self._map for unix_pid in piece.unix_pids]
        before_exec = {rank for piece in self._map for rank in piece.before_exec}
        self._map.clear()
        actions: list[Action] = []
        for start in range(0, len(ranks), MAP_PIECE):
            end = start + MAP_PIECE
            piece = tuple(ranks[start:end])
            ports: tuple[int, ...] = ()
            if self._listeners is not None and not self._group.is_root:
                ports = self._listeners.go_up(piece)
            actions += self._group.up(
                load.Held(
                    self._job_id,
                    piece,
                    tuple(unix_pids[start:end]),
                    tuple(rank for rank in piece if rank in before_exec),
                    slowest,
                    end >= len(ranks),
                    ports,
                )
            )
        return [*actions, *self._output.begin()]

    def ports(self, message: load.Ports, now: float) -> list[Action]:
        """A piece of the map of the ranks' listeners: keep it and pass it on.

        Raises:
            PeerProtocolError: it is not the next piece, or the ranks have no listeners.
        """
        if self._listeners is None:
            raise PeerProtocolError("listeners of ranks that have none")
        self._listeners.come_down(message)
        return self._group.down(message)

    def go(self, message: load.Go, now: float) -> list[Action]:
        """Every rank of the job is held: let those of this node go, if they have not gone."""
        actions: list[Action] = []
        maps: list[Action] = []
        if self._listeners is not None:
            if self._group.is_root:
                for piece in self._listeners.pieces():
                    actions += self._group.down(piece)
            maps = [GiveMap(self._job_id, self._credential.uid, self._listeners.encoded())]
        self._progress.enter(JobState.RUNNING, now)
        self._progress.note("went", now)
        actions += [*self._group.down(message), *maps]
        if not spec.goes_alone(self._message):
            actions.append(KeeperGo(self._job_id))
        actions += self._keepers.let_go()
        return [*actions, *self._output.ask_for_input()]


def _some(ranks: list[int]) -> str:
    said = ", ".join(map(str, ranks[:8]))
    return said + (f", ... {len(ranks)} in all" if len(ranks) > 8 else "")
