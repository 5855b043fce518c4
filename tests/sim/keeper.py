"""The keeper of a job on a host, faked.

Written after ``native/wire/KEEPER.md`` and ``pct/host/keeper.py``: reports come in
order; a keeper that loses its PCT kills everything and leaves; when a keeper is
killed its ranks die with it, and what those started comes to the PCT, which is to kill it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from native.wire import keeper as wire
from tests.sim.processes import PIPE_BYTES, UnixProcess
from tests.sim.ranks import RankProcess, RankState
from tests.sim.truth import JobTruth

if TYPE_CHECKING:
    from tests.sim.system import Host


class FakeKeeper:
    """A job's keeper on a host."""

    def __init__(
        self,
        host: Host,
        spec: wire.KeeperSpec,
        truth: JobTruth,
        on_report: Callable[[wire.Report], None],
        on_streams: Callable[[int, RankProcess], None],
    ) -> None:
        self.host = host
        self.job_id = spec.job_id
        self.truth = truth
        self.is_alive = True
        self.was_empty = False  # when it left
        self.ranks: dict[int, RankProcess] = {}
        self.children: list[UnixProcess] = []
        self.spec = spec
        self._on_report: Callable[[wire.Report], None] | None = on_report
        self._on_streams = on_streams
        self._is_ending = False
        self._sent: set[tuple[int, int]] = set()  # rank, signal
        self.has_gone = False
        self._commands: list[Callable[[], None]] = []
        self._has_started = False
        self._last_due = 0.0
        self._input = 0  # bytes in rank 0's pipe
        self._input_ended = False
        self._input_reader: Callable[[bytes], None] | None = None
        self.on_input_room: Callable[[], None] = lambda: None
        self.on_exit: Callable[[], None] = lambda: None
        self.reports_until = 0.0  # when the last of what it has said arrives
        host.keepers.append(self)
        truth.words |= {program.argv for program in spec.programs}
        host.clock.after(self._soon(), self._start)

    def _soon(self) -> float:
        return self.host.clock.rng.uniform(1e-5, 5e-4) * self.host.slowness

    def _start(self) -> None:
        if not self.is_alive:
            return
        for each in self.spec.ranks:
            self.truth.starts(each.rank, self.host.name)
            rank = RankProcess(self, each, self.truth.program_of(each.rank))
            self.ranks[each.rank] = rank
            port = 10_000 + rank.unix_pid % 50_000 if each.wants_portals else 0
            if port:
                self.truth.listens(each.rank, self.spec.listen_nid, port)
            self._report_with(wire.RankStarted(each.rank, rank.unix_pid, port), rank)
            rank.begin()
        self._has_started = True
        for command in self._commands:
            command()
        if self._is_ending:
            self._kill_all()

    # -- the PCT's commands -----------------------------------------------------

    def command(self, call: Callable[[], None]) -> None:
        """A command arrives, after those before it and when all ranks are started."""

        def arrive() -> None:
            if not self.is_alive:
                return
            if self._has_started:
                call()
            else:
                self._commands.append(call)

        self._last_due = max(self._last_due, self.host.clock.now + self._soon())
        self.host.clock.at(self._last_due, arrive)

    def held(self, rank: RankProcess) -> None:
        """A rank has come to its entry."""
        if self.has_gone:
            rank.go()
        elif (
            self.spec.is_alone
            and len(self.ranks) == len(self.spec.ranks)
            and all(each.state is RankState.HELD for each in self.ranks.values())
        ):
            self._release()

    def go(self) -> None:
        """Let all ranks go; one that is not held yet as soon as it is."""

        self.command(self._release)

    def _release(self) -> None:
        self.has_gone = True
        for rank in self.ranks.values():
            rank.go()

    def signal(self, signo: int) -> None:
        """Signal every rank's group."""

        def call() -> None:
            for rank in list(self.ranks.values()):
                if rank.state is not RankState.DEAD:
                    self._sent.add((rank.rank, int(signo)))
                    rank.kill(signo)

        self.command(call)

    def end(self) -> None:
        """Kill everything, then leave."""
        self.command(self._kill_all)

    def hang_up(self) -> None:
        """The PCT is gone, or through with it."""
        self._on_report = None
        for rank in self.ranks.values():
            for pipe in rank.out.values():
                pipe.close()
        self._is_ending = True
        self.host.clock.after(self._soon(), self._kill_all)

    def _kill_all(self) -> None:
        self._is_ending = True
        if not self.is_alive or not self._has_started:
            return
        self._sent |= {(rank, int(signal.SIGKILL)) for rank in self.ranks}
        for process in (*self.ranks.values(), *self.children):
            if process.unix_pid in self.host.processes:
                process.die(int(signal.SIGKILL))
        self._leave_if_empty()

    def look(self) -> None:
        """A process of its has ended."""
        self.host.clock.after(self._soon(), self._leave_if_empty)

    def _leave_if_empty(self) -> None:
        """By itself, too, when every rank and all that they have started are gone."""
        if not self.is_alive or not self._has_started:
            return
        for process in (*self.ranks.values(), *self.children):
            if process.unix_pid in self.host.processes:
                if self._is_ending:
                    self.host.clock.after(1e-3, self._leave_if_empty)
                return
        self.is_alive = False
        self.was_empty = True
        self.host.keepers.remove(self)
        self.report(wire.KeeperEmpty())
        self.on_exit()

    # -- its reports --------------------------------------------------------------

    def report(self, report: wire.Report) -> None:
        """Say something to the PCT."""
        self._report_with(report, None)

    def _report_with(self, report: wire.Report, rank: RankProcess | None) -> None:
        clock = self.host.clock
        self.reports_until = max(self.reports_until, clock.now + self._soon())

        def arrive() -> None:
            if self._on_report is None:
                return
            if rank is not None:
                self._on_streams(rank.rank, rank)
            on_report = self._on_report
            if isinstance(report, wire.KeeperEmpty | wire.KeeperLost):
                self._on_report = None
            on_report(report)

        clock.at(self.reports_until, arrive)

    def reap(self, rank: RankProcess, wait_status: int, was_released: bool) -> None:
        """A rank has ended."""
        if self.is_alive:
            now = self.host.clock.now
            was_signalled = (rank.rank, wait_status & 0x7F) in self._sent
            report = wire.RankEnded(
                rank.rank, wait_status, was_released, 0.0, 0.0, 4096, now, "", was_signalled
            )
            self.report(report)
            self.truth.reported(rank.rank)
            self.look()

    def be_killed(self) -> None:
        """SIGKILL to the keeper: ranks die with it, what they started does not."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.host.keepers.remove(self)
        for rank in list(self.ranks.values()):
            rank.stuck_s = 0.0
            if rank.state is not RankState.DEAD:
                rank.is_dying = False
                rank.die(int(signal.SIGKILL))
        self.report(wire.KeeperLost("the keeper failed: killed by SIGKILL"))
        self.on_exit()

    # -- input ----------------------------------------------------------------------

    def input_room(self) -> int:
        """What rank 0's pipe takes now."""
        return PIPE_BYTES - self._input

    def give_input(self, count: int, is_end: bool) -> None:
        """The PCT writes to rank 0's pipe."""
        self._input += count
        self._input_ended |= is_end
        self._feed()

    def has_ended(self, rank: int, data: bytes) -> bool:
        """Whether a rank is over; else it has read this of shared input."""
        process = self.ranks.get(rank)
        if process is None or process.state is RankState.DEAD:
            return True
        self.truth.line_read(rank, data)
        return False

    def read(self, done: Callable[[bytes], None]) -> None:
        """Rank 0 reads."""
        self._input_reader = done
        self._feed()

    def _feed(self) -> None:
        done = self._input_reader
        if done is None or not (self._input or self._input_ended):
            return
        self._input_reader = None
        count, self._input = self._input, 0
        self.truth.input_read(count)
        self.host.clock.after(self._soon(), lambda: done(b"x" * count))
        if count:
            self.on_input_room()
