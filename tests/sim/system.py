"""A node's operating system, faked: processes, pipes, and the keeper of a job.

Written after ``native/wire/KEEPER.md`` and ``pct/keeper.py``: reports come in
order; a keeper that loses its PCT kills everything and leaves; when a keeper is
killed its ranks die with it, and what those started comes to the PCT.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from enum import Enum

from native.wire import keeper as wire
from tests.sim.apps import Program, Steps
from tests.sim.clients import Socket
from tests.sim.clock import Clock, Violation
from tests.sim.truth import JobTruth

PIPE_BYTES = 64 * 1024
READ_BYTES = 64 * 1024

_pids = itertools.count  # a host numbers its own


class Pipe:
    """One stream of one rank: bytes counted, not kept; what they are follows from where."""

    def __init__(self, clock: Clock, truth: JobTruth, rank: int, stream: int) -> None:
        self._clock = clock
        self._truth = truth
        self._rank = rank
        self._stream = stream
        self.writers = 0
        self._start = 0  # offset of the first byte that has not been read
        self._held = 0
        self._waiting: tuple[int, Callable[[], None]] | None = None
        self._reader: Callable[[bytes], None] | None = None
        self._is_paused = False
        self._is_scheduled = False

    def open(self) -> None:
        """One more process has the writing end."""
        self.writers += 1

    def close_writer(self) -> None:
        """A process that had the writing end is gone."""
        self.writers -= 1
        if not self.writers:
            self._waiting = None
            self._look()

    def write(self, count: int, done: Callable[[], None]) -> None:
        """Write; ``done`` when all of it is in the pipe."""
        fits = min(count, PIPE_BYTES - self._held)
        self._held += fits
        self._truth.written(self._rank, self._stream, fits)
        if count > fits:
            self._waiting = (count - fits, done)
        else:
            self._clock.after(1e-6, done)
        self._look()

    def connect(self, reader: Callable[[bytes], None], is_paused: bool) -> None:
        """The PCT has the reading end."""
        self._reader = reader
        self._is_paused = is_paused
        self._look()

    def pause(self, is_paused: bool) -> None:
        """Read or do not."""
        self._is_paused = is_paused
        self._look()

    def close(self) -> None:
        """The PCT is through with it."""
        self._reader = None

    def _look(self) -> None:
        if self._reader is None or self._is_paused or self._is_scheduled:
            return
        if self._held or not self.writers:
            self._is_scheduled = True
            self._clock.after(self._clock.rng.uniform(1e-5, 1e-4), self._read)

    def _read(self) -> None:
        self._is_scheduled = False
        reader = self._reader
        if reader is None or self._is_paused:
            return
        count = min(self._held, READ_BYTES)
        if not count and self.writers:
            return
        data = self._truth.text(self._rank, self._stream, self._start, count)
        self._start += count
        self._held -= count
        if not count:
            self._reader = None
        if self._waiting is not None and count:
            rest, done = self._waiting
            self._waiting = None
            self.write(rest, done)
        reader(data)
        self._look()


class RankState(Enum):
    """Where a rank's process is."""

    STARTING = "starting"
    HELD = "held"
    RUNNING = "running"
    DEAD = "dead"


class UnixProcess:
    """A process of a job: a rank, or what one has started."""

    def __init__(self, host: Host, job_id: int, rank: int) -> None:
        self.host = host
        self.job_id = job_id
        self.rank = rank
        self.is_dying = False
        self.stuck_s = 0.0
        self.pipes: list[Pipe] = []
        self.unix_pid = next(host.pids)
        host.processes[self.unix_pid] = self

    def kill(self, signo: int) -> None:
        """A signal; of its own kind for ranks."""
        if signo in (signal.SIGKILL, signal.SIGTERM):
            self.die(int(signo))

    def die(self, wait_status: int) -> None:
        """End, soon."""
        if self.is_dying:
            return
        self.is_dying = True
        delay = self.host.clock.rng.uniform(1e-5, 1e-3) + self.stuck_s
        self.host.clock.after(delay, lambda: self.ended(wait_status))

    def ended(self, wait_status: int) -> None:
        """It is no more."""
        if self.host.processes.pop(self.unix_pid, None) is None:
            return
        for pipe in self.pipes:
            pipe.close_writer()


class RankProcess(UnixProcess):
    """A rank: comes to its entry, is let go, takes the steps of its program."""

    def __init__(self, keeper: FakeKeeper, spec: wire.RankSpec, program: Program) -> None:
        rank = spec.rank
        super().__init__(keeper.host, keeper.job_id, rank)
        self.keeper = keeper
        self.truth = keeper.truth
        self.state = RankState.STARTING
        self.program = program
        self.stuck_s = program.stuck_s
        self._steps: Steps | None = None
        self._group: list[UnixProcess] = []
        self._barrier = -1
        self._asked = 0  # lines that have not been answered
        self.world = self.truth.world_of(rank)
        self.environment = dict(entry.split(b"=", 1) for entry in spec.environment)
        self.has_pmi_fd = spec.wants_pmi
        self._has_called = False
        self.socket = Socket(self.host.clock, self.host.slowness, self._answered)
        self.out = {
            stream: Pipe(keeper.host.clock, keeper.truth, rank, stream) for stream in (1, 2)
        }
        self.pipes = list(self.out.values())
        for pipe in self.pipes:
            pipe.open()

    # -- from start to go ---------------------------------------------------

    def begin(self) -> None:
        """Run to the entry, or not."""
        start = self.program.start
        if not start.hangs:
            self.host.clock.after(start.delay_s, self._at_entry)

    def _at_entry(self) -> None:
        if self.is_dying:
            return
        start = self.program.start
        if start.error:
            path = "/bin/app"
            step = wire.ExecStep.OPEN
            self.keeper.report(wire.ExecFailed(self.rank, start.error, step, path))
            self.ended(127 << 8)
        elif start.exit_code >= 0:
            self.ended(start.exit_code << 8)
        else:
            self.state = RankState.HELD
            self.truth.held(self.rank)
            self.keeper.report(wire.RankHeld(self.rank, wire.HowHeld.PRELOAD))
            if self.keeper.has_gone:
                self.go()

    def go(self) -> None:
        """Pass the entry."""
        if self.state is RankState.HELD and not self.is_dying:
            self.state = RankState.RUNNING
            self.truth.passes_entry(self.rank)
            self._steps = self.program.steps(self.rank - self.world.first_rank, self.world.size)
            self.host.clock.after(1e-5, lambda: self.advance(b""))

    # -- steps ----------------------------------------------------------------

    def advance(self, value: bytes) -> None:
        """Take the next step."""
        if self.state is not RankState.RUNNING or self.is_dying:
            return
        assert self._steps is not None
        clock = self.host.clock
        try:
            step = self._steps.send(value if value else None)  # type: ignore[arg-type]
        except StopIteration:
            step = ("exit", 0)
        match step:
            case "compute", float(seconds):
                clock.after(seconds, lambda: self.advance(b""))
            case "write", int(stream), int(count):
                self.out[stream].write(count, lambda: self.advance(b""))
            case "fork", float(seconds), bool(is_own_group):
                self._fork(seconds, is_own_group)
                clock.after(1e-4, lambda: self.advance(b""))
            case "pmi", bytes(line):
                self.truth.is_aborted |= line.startswith(b"cmd=abort")
                self._say(line)
            case "barrier", int(number):
                self._barrier = number
                self.truth.enters_barrier(self.rank, number)
                self._say(b"cmd=barrier_in")
            case "expect", bytes(wanted), bytes(answer):
                self.truth.sees(self.rank, wanted, answer)
                clock.after(1e-6, lambda: self.advance(b""))
            case ("read",):
                self.keeper.read(self.advance)
            case "raise", int(signo):
                self.ended(signo)
            case "exit", int(code):
                self.ended(code << 8)
            case ("hang",):
                pass
            case _:
                raise AssertionError(step)

    def _say(self, line: bytes) -> None:
        """Say something to PMI, by a port once it has called there."""
        self._asked += 1
        if not self.has_pmi_fd and not self._has_called:
            self._has_called = True
            self.host.call(self.job_id, self.socket)
            line = b"cmd=initack pmiid=%d\n" % self.rank + line
        self.socket.send(line + b"\n")

    def _answered(self, data: bytes) -> None:
        """PMI has answered."""
        lines = data.splitlines(keepends=True)
        if lines[0].startswith(b"cmd=initack"):
            lines = lines[4:]
        for line in lines:
            if not self._asked:
                raise Violation(f"PMI: rank {self.rank} is told {line!r}, and has asked nothing")
            self._asked -= 1
            if self._barrier >= 0 and line.startswith(b"cmd=barrier_out"):
                number, self._barrier = self._barrier, -1
                self.truth.leaves_barrier(self.rank, number)
            self.advance(line)

    def _fork(self, seconds: float, is_own_group: bool) -> None:
        child = UnixProcess(self.host, self.job_id, self.rank)
        child.pipes = list(self.pipes)
        for pipe in child.pipes:
            pipe.open()
        if not is_own_group:
            self._group.append(child)
        self.keeper.children.append(child)
        if seconds < 1.0:  # the others outlive their rank
            self.host.clock.after(seconds, lambda: child.die(0))

    # -- signals and the end ----------------------------------------------------

    def kill(self, signo: int) -> None:
        """To the rank's process group."""
        for child in self._group:
            child.kill(signo)
        if self.is_dying or self.state is RankState.DEAD:
            return
        program = self.program
        has_handlers = self.state is RankState.RUNNING
        if signo == signal.SIGTERM and has_handlers and program.on_term == -2:
            return
        if signo == signal.SIGTERM and has_handlers and program.on_term >= 0:
            self.is_dying = True  # its handler is at work
            delay = self.host.clock.rng.uniform(1e-4, 0.5)
            code = program.on_term << 8
            self.host.clock.after(delay, lambda: self.ended(code))
        elif signo in (signal.SIGUSR1, signal.SIGUSR2) and has_handlers and program.handles_usr1:
            self.truth.note_usr1(self.rank)
        else:
            self.die(int(signo))

    def ended(self, wait_status: int) -> None:
        """Reaped by its keeper, where that lives."""
        if self.state is RankState.DEAD:
            return
        was_released = self.state is RankState.RUNNING
        self.state = RankState.DEAD
        self.is_dying = True
        super().ended(wait_status)
        self.socket.close()
        self.truth.ended(self.rank, wait_status, was_released)
        self.keeper.reap(self, wait_status, was_released)


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
        self.ranks: dict[int, RankProcess] = {}
        self.children: list[UnixProcess] = []
        self._spec = spec
        self._on_report: Callable[[wire.Report], None] | None = on_report
        self._on_streams = on_streams
        self._is_ending = False
        self.has_gone = False
        self._commands: list[Callable[[], None]] = []
        self._has_started = False
        self._last_due = 0.0
        self._input = 0  # bytes in rank 0's pipe
        self._input_ended = False
        self._input_reader: Callable[[bytes], None] | None = None
        self.on_input_room: Callable[[], None] = lambda: None
        host.keepers.append(self)
        host.clock.after(self._soon(), self._start)

    def _soon(self) -> float:
        return self.host.clock.rng.uniform(1e-5, 5e-4) * self.host.slowness

    def _start(self) -> None:
        if not self.is_alive:
            return
        for each in self._spec.ranks:
            rank = RankProcess(self, each, self.truth.programs[each.rank])
            self.ranks[each.rank] = rank
            self._report_with(wire.RankStarted(each.rank, rank.unix_pid), rank)
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

    def go(self) -> None:
        """Let all ranks go; one that is not held yet as soon as it is."""

        def call() -> None:
            self.has_gone = True
            for rank in self.ranks.values():
                rank.go()

        self.command(call)

    def signal(self, signo: int) -> None:
        """Signal every rank's group."""

        def call() -> None:
            for rank in list(self.ranks.values()):
                if rank.state is not RankState.DEAD:
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
        for process in (*self.ranks.values(), *self.children):
            if process.unix_pid in self.host.processes:
                process.die(int(signal.SIGKILL))
        self._leave_if_empty()

    def _leave_if_empty(self) -> None:
        left = [
            process
            for process in (*self.ranks.values(), *self.children)
            if process.unix_pid in self.host.processes
        ]
        if not self.is_alive or not self._is_ending:
            return
        if left:
            self.host.clock.after(1e-3, self._leave_if_empty)
            return
        self.is_alive = False
        self.host.keepers.remove(self)
        self.report(wire.KeeperEmpty())

    # -- its reports --------------------------------------------------------------

    def report(self, report: wire.Report) -> None:
        """Say something to the PCT."""
        self._report_with(report, None)

    def _report_with(self, report: wire.Report, rank: RankProcess | None) -> None:
        clock = self.host.clock
        self._report_due = max(getattr(self, "_report_due", 0.0), clock.now + self._soon())

        def arrive() -> None:
            if self._on_report is None:
                return
            if rank is not None:
                self._on_streams(rank.rank, rank)
            on_report = self._on_report
            if isinstance(report, wire.KeeperEmpty | wire.KeeperLost):
                self._on_report = None
            on_report(report)

        clock.at(self._report_due, arrive)

    def reap(self, rank: RankProcess, wait_status: int, was_released: bool) -> None:
        """A rank has ended."""
        if self.is_alive:
            now = self.host.clock.now
            report = wire.RankEnded(rank.rank, wait_status, was_released, 0.0, 0.0, 4096, now)
            self.report(report)
            self.truth.reported(rank.rank)

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
        self.host.clock.after(self._soon(), self._descendants)

    def _descendants(self) -> None:
        """The PCT has seen it die and kills what has come to it."""
        if self._on_report is None:
            return
        for child in self.children:
            if child.unix_pid in self.host.processes:
                child.die(int(signal.SIGKILL))

        def look() -> None:
            processes = (*self.ranks.values(), *self.children)
            if any(process.unix_pid in self.host.processes for process in processes):
                self.host.clock.after(1e-3, look)
            else:
                self.report(wire.KeeperLost("the keeper was killed by signal 9"))

        look()

    # -- input ----------------------------------------------------------------------

    def input_room(self) -> int:
        """What rank 0's pipe takes now."""
        return PIPE_BYTES - self._input

    def give_input(self, count: int, is_end: bool) -> None:
        """The PCT writes to rank 0's pipe."""
        self._input += count
        self._input_ended |= is_end
        self._feed()

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


class Host:
    """A machine of the partition: what outlives its PCT."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self.name = name
        self.slowness = 1.0
        self.pids = _pids(1000)
        self.processes: dict[int, UnixProcess] = {}
        self.keepers: list[FakeKeeper] = []
        self.objects: set[bytes] = set()  # digests of what is here already
        self.has_room = True
        self.has_listeners = True  # else PMI_PORT cannot be offered
        self.listeners: dict[int, Callable[[Socket], None]] = {}  # by job

    def call(self, job_id: int, socket: Socket) -> None:
        """A process calls its PCT, which hears of it in a while, or never."""

        def arrive() -> None:
            if (accept := self.listeners.get(job_id)) is not None:
                accept(socket)
            else:
                socket.hang_up()

        self.clock.after(self.clock.rng.uniform(1e-5, 5e-4) * self.slowness, arrive)

    def slots_used(self) -> dict[int, int]:
        """Ranks alive by job; spawned ones take no slots."""
        used: dict[int, int] = {}
        for process in self.processes.values():
            if isinstance(process, RankProcess) and not process.world.number:
                used[process.job_id] = used.get(process.job_id, 0) + 1
        return used

    def power_off(self) -> None:
        """Everything on it is gone at once."""
        for keeper in list(self.keepers):
            keeper.is_alive = False
            keeper.hang_up()
        self.keepers.clear()
        for process in list(self.processes.values()):
            process.stuck_s = 0.0
            if isinstance(process, RankProcess):
                process.ended(int(signal.SIGKILL))
            else:
                process.is_dying = True
                process.ended(int(signal.SIGKILL))

    def pct_died(self) -> None:
        """Every keeper sees its socket close. Where one is dead too, the cgroup does it."""
        for keeper in self.keepers:
            keeper.hang_up()
        kept = {id(p) for k in self.keepers for p in (*k.ranks.values(), *k.children)}
        for process in list(self.processes.values()):
            if id(process) not in kept:
                process.die(int(signal.SIGKILL))
