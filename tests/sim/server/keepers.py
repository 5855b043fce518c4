"""Keepers as the PCT's driver has them: :class:`pct.host.keeper.Keeper` without a socket.

The process behind it is :class:`tests.sim.keeper.FakeKeeper`, which the client starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from native.loop.reactor import Reactor
from native.wire import keeper as wire
from pct.host.spawn.spawner import Spawner
from tests.sim.keeper import FakeKeeper
from tests.sim.processes import Pipe
from tests.sim.ranks import RankProcess

if TYPE_CHECKING:
    from tests.sim.server.world import ServerSim

OnStreams = Callable[[int, "Input | None", Pipe, Pipe, None], None]


class Input:
    """Rank 0's standard input, at the end that the PCT has."""

    def __init__(self, keeper: FakeKeeper) -> None:
        self.keeper = keeper


class Keeper:
    """The PCT's end of one keeper.

    Attributes:
        process: None: the client has not started it yet, or never will.
    """

    def __init__(
        self,
        sim: ServerSim,
        spec: wire.KeeperSpec,
        reactor: Reactor,
        on_event: Callable[[wire.Report], None],
        on_streams: OnStreams,
        on_not_started: Callable[[str], None],
    ) -> None:
        self.sim = sim
        self.spec = spec
        self.process: FakeKeeper | None = None
        self._owner = reactor.owner
        self._spawner: Spawner | None = None
        self._number: int | None = None
        self._on_event: Callable[[wire.Report], None] | None = on_event
        self._on_streams = on_streams
        self._on_not_started = on_not_started
        self._unsent: list[Callable[[FakeKeeper], None]] = []
        self._is_orphan = False
        self._is_dropped = False  # nobody has its descriptors

    def begin(self, spawner: Spawner) -> None:
        """Ask for the process."""
        self._spawner = spawner
        self.sim.starting = self
        self._number = spawner.start((), self)

    # -- the client ---------------------------------------------------------------

    def fork(self) -> FakeKeeper:
        """The client starts it: it reads its commands from now on."""
        truth = self.sim.truths[self.spec.job_id]
        self.process = FakeKeeper(self.sim.host, self.spec, truth, self._report, self._streams)
        self.process.on_exit = self._exited
        truth.keepers.append(self.process)
        for command in self._unsent:
            command(self.process)
        return self.process

    def dropped(self) -> None:
        """The client has not read the START, and never will: its descriptors are closed."""
        self._is_dropped = True
        if self._is_orphan:
            self._behind_reports(self._lost)

    def _exited(self) -> None:
        if self._is_orphan:
            self._behind_reports(self._lost)

    # -- told by the spawner --------------------------------------------------------

    def started(self, unix_pid: int) -> None:
        """Its process is there."""

    def not_started(self, error: OSError) -> None:
        """There is no process."""
        self._number = None
        on_event, self._on_event = self._on_event, None
        if on_event:
            self._on_not_started(error.strerror or str(error))

    def ended(self, wait_status: int) -> None:
        """It is lost, unless it has said that nothing is left. What it has said is read first."""
        self._number = None
        self._behind_reports(self._lost)

    def orphaned(self, reason: str) -> None:
        """Its parent has died."""
        self._number = None
        self._is_orphan = True
        is_gone = self._is_dropped if self.process is None else not self.process.is_alive
        if is_gone:
            self._behind_reports(self._lost)
        else:
            self._send(lambda process: process.end())

    def _behind_reports(self, call: Callable[[], None]) -> None:
        due = self.process.reports_until if self.process else 0.0
        self.sim.clock.at(due, lambda: self.sim.loop.enter(self._owner, call))

    def _lost(self) -> None:
        self._finish(wire.KeeperLost("the keeper failed: killed by SIGKILL"))

    # -- told by the PCT --------------------------------------------------------------

    def go(self) -> None:
        """GO."""
        self._send(lambda process: process.go())

    def signal(self, signo: int, rank: int | None = None) -> None:
        """SIGNAL."""
        self._send(lambda process: process.signal(signo))

    def end(self) -> None:
        """END."""
        self._send(lambda process: process.end())
        self._continue()

    def kill(self) -> None:
        """SIGKILL to the keeper itself."""
        if self.process is not None:
            self.process.be_killed()

    def close(self) -> None:
        """Hang up."""
        self._continue()
        self._on_event = None
        self._send(lambda process: process.hang_up())

    def _continue(self) -> None:
        if self._on_event is not None and self._number is not None and self._spawner is not None:
            self._spawner.resume(self._number)

    def _send(self, command: Callable[[FakeKeeper], None]) -> None:
        if self.process is None:
            self._unsent.append(command)
        elif self.process.is_alive:
            command(self.process)

    # -- reports ------------------------------------------------------------------------

    def _report(self, report: wire.Report) -> None:
        self.sim.loop.enter(self._owner, self._take, report)

    def _take(self, report: wire.Report) -> None:
        if isinstance(report, wire.KeeperEmpty):
            self._finish(report)
        elif self._on_event is not None and not isinstance(report, wire.KeeperLost):
            self._on_event(report)  # that it is lost is its parent's to tell

    def _finish(self, last: wire.Report) -> None:
        on_event, self._on_event = self._on_event, None
        if on_event:
            on_event(last)

    def _streams(self, number: int, rank: RankProcess) -> None:
        if self._on_event is None or self.process is None:
            return
        wants_input = any(each.rank == number and each.wants_stdin for each in self.spec.ranks)
        given = Input(self.process) if wants_input else None
        self.sim.loop.enter(
            self._owner, self._on_streams, number, given, rank.out[1], rank.out[2], None
        )


class Keepers:
    """In place of the class :class:`pct.host.keeper.Keeper`."""

    def __init__(self, sim: ServerSim) -> None:
        self._sim = sim

    def start(
        self,
        spec: wire.KeeperSpec,
        spawner: Spawner,
        reactor: Reactor,
        on_event: Callable[[wire.Report], None],
        on_streams: OnStreams,
        portals_fd: int = -1,
        *,
        hold_library: str,
        on_mount: Callable[[int, int], None],
        on_not_started: Callable[[str], None],
    ) -> Keeper:
        """Start one."""
        keeper = Keeper(self._sim, spec, reactor, on_event, on_streams, on_not_started)
        keeper.begin(spawner)
        return keeper


class OutputPipe:
    """In place of :class:`pct.host.streams.OutputPipe`."""

    def __init__(
        self, sim: ServerSim, reactor: Reactor, pipe: Pipe, on_data: Callable[[bytes], None]
    ) -> None:
        self._pipe = pipe
        owner = reactor.owner
        pipe.connect(lambda data: sim.loop.enter(owner, on_data, data), False)

    def pause(self, is_paused: bool) -> None:
        """Read or do not."""
        self._pipe.pause(is_paused)

    def finish(self) -> None:
        """Read what there is."""
        self._pipe.finish()

    def close(self) -> None:
        """Read no more."""
        self._pipe.close()


class InputPipe:
    """In place of :class:`pct.host.streams.InputPipe`."""

    def __init__(
        self,
        sim: ServerSim,
        reactor: Reactor,
        given: Input,
        on_taken: Callable[[int], None],
        on_closed: Callable[[], None],
    ) -> None:
        self._sim = sim
        self._owner = reactor.owner
        self._keeper = given.keeper
        self._on_taken = on_taken
        self._unwritten: list[bytes] = []
        self._keeper.on_input_room = self._feed

    def write(self, data: bytes) -> None:
        """Write as there is room; empty: the end."""
        self._unwritten.append(data)
        self._keeper.host.clock.after(1e-6, self._feed)

    def close(self) -> None:
        """Write no more."""
        self._unwritten.clear()
        self._keeper.on_input_room = lambda: None

    def _feed(self) -> None:
        while self._unwritten:
            data = self._unwritten[0]
            if not data:
                self._unwritten.clear()
                self._keeper.give_input(0, True)
                return
            count = min(len(data), self._keeper.input_room())
            if not count:
                return
            self._unwritten[0] = data[count:]
            if not self._unwritten[0]:
                del self._unwritten[0]
            self._keeper.give_input(count, False)
            self._sim.loop.enter(self._owner, self._on_taken, count)


def stand_ins(sim: ServerSim) -> Iterable[tuple[str, object]]:
    """What takes the place of names in :mod:`pct.host.ranks`."""
    return (
        ("Keeper", Keepers(sim)),
        ("OutputPipe", partial(OutputPipe, sim)),
        ("InputPipe", partial(InputPipe, sim)),
    )
