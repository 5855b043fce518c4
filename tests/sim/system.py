"""A node's operating system, faked: processes, pipes, and the keeper of a job.

Written after ``native/wire/KEEPER.md`` and ``pct/host/keeper.py``: reports come in
order; a keeper that loses its PCT kills everything and leaves; when a keeper is
killed its ranks die with it, and what those started comes to the PCT, which is to kill it.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from enum import Enum

from native.wire import agent, pmix
from native.wire import keeper as wire
from native.wire.pmi import FenceKind
from pct.events import Devices
from tests.sim.apps import Program, Steps, tool_command
from tests.sim.clients import Socket
from tests.sim.clock import Clock, Violation
from tests.sim.pmix import Health, Meeting, PmixServer
from tests.sim.processes import PIPE_BYTES, Pipe, UnixProcess
from tests.sim.truth import Fence, JobTruth

_pids = itertools.count  # a host numbers its own


class RankState(Enum):
    """Where a rank's process is."""

    STARTING = "starting"
    HELD = "held"
    RUNNING = "running"
    DEAD = "dead"


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
        self._fence: Fence | None = None
        self._spawn = -1  # token of the spawn that is asked for
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
            case "space", bytes(name):
                self.truth.sees_space(self.rank, name)
                clock.after(1e-6, lambda: self.advance(b""))
            case "parent", bytes(answer):
                self.truth.sees_parent(self.rank, answer)
                clock.after(1e-6, lambda: self.advance(b""))
            case "spawn", int(token), bytes(lines):
                self._spawn = token
                self._say(lines)
            case ("joins",):
                self._joins()
            case "commit", bytes(data):
                self.truth.committed[self.rank] = data
                self._with_pmix(lambda server: server.commit(self, data))
            case "fence", str(what), bytes(data):
                self._enter(what, data)
            case "get", int(number):
                name = self.pmix_name[0], number
                self._with_pmix(lambda server: server.get(self, name))
            case "publish", bytes(key), bytes(value):
                self._with_pmix(lambda server: server.publish(self, key, value))
            case "look up", bytes(key):
                self._with_pmix(lambda server: server.look_up(self, key))
            case "pmix spawn", int(token), tuple() as commands:
                self._with_pmix(lambda server: server.spawn(self, token, commands))
            case "connect", bytes(space), bytes(data):
                self._connect(space.decode(), data)
            case "pmix abort", int(code) if not self.pmix_name[0]:
                self.ended(code << 8)  # alone, it can end only itself
            case "pmix abort", int(code):
                self.truth.is_aborted = True
                self._with_pmix(lambda server: server.abort(self, code))
            case ("leave",):
                self._with_pmix(lambda server: server.leave(self))
            case "tool", int(token), float(seconds), int(code), float(patience):
                if self.has_pmi_fd:
                    clock.after(1e-6, lambda: self.advance(b""))
                else:
                    self._run_agent(token, tool_command(token, seconds, code), patience)
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
            if self._spawn >= 0:
                token, self._spawn = self._spawn, -1
                self.truth.spawn_answered(self.rank, token, line)
            self.advance(line)

    # -- PMIx ---------------------------------------------------------------------

    @property
    def pmix_name(self) -> tuple[str, int]:
        """What PMIx calls this rank."""
        nspace = self.environment.get(b"PMIX_NAMESPACE", b"")
        return nspace.decode(), self.rank - self.world.first_rank

    def _with_pmix(self, call: Callable[[PmixServer], None]) -> None:
        """Ask the server; where it is gone, there is no answer."""

        def arrive() -> None:
            server = self.host.pmix.get(self.job_id)
            if server is not None and self.state is RankState.RUNNING:
                call(server)

        self.host.clock.after(self.host.clock.rng.uniform(1e-6, 1e-4), arrive)

    def _joins(self) -> None:
        if b"PMIX_NAMESPACE" not in self.environment:
            self.host.clock.after(1e-6, lambda: self.advance(b""))
            return
        self.truth.sees_namespace(self.rank, self.environment[b"PMIX_NAMESPACE"])
        self._with_pmix(lambda server: server.join(self))

    def _enter(self, what: str, data: bytes) -> None:
        """A fence of all, or of those of even number."""
        nspace = self.pmix_name[0]
        ranks = tuple(self.world.ranks)
        named: tuple[pmix.NamedProcess, ...] = (pmix.NamedProcess(nspace, -1),)
        if what == "even":
            ranks = ranks[::2]
            evens = range(0, self.world.size, 2)
            named = tuple(pmix.NamedProcess(nspace, number) for number in evens)
        self._meet((FenceKind.PMIX, named), ranks, data)

    def _connect(self, space: str, data: bytes) -> None:
        """A spawned world and its parent; ``space``: the other one's, for the parent."""
        if space:
            child = self.truth.named(space)
            parent, of_parent = self.rank, self.pmix_name
        else:
            child, space = self.world, self.pmix_name[0]
            parent = child.parent
            of_parent = self.truth.name_of(parent)
        processes = (pmix.NamedProcess(space, -1), pmix.NamedProcess(*of_parent))
        named = tuple(sorted(processes, key=lambda each: (each.nspace, each.rank)))
        self._meet((FenceKind.CONNECT, named), (*child.ranks, parent), data)

    def _meet(self, meeting: Meeting, ranks: tuple[int, ...], data: bytes) -> None:
        self._fence = self.truth.enters_fence(self.rank, meeting, ranks, data)
        self._with_pmix(lambda server: server.fence(self, meeting, data))

    def fence_answered(self, status: int, data: bytes) -> None:
        """All are in."""
        if self.state is RankState.RUNNING and not self.is_dying:
            assert self._fence is not None
            fence, self._fence = self._fence, None
            self.truth.leaves_fence(self.rank, fence, status, data)
            self.advance(b"")

    def got(self, process: tuple[str, int], status: int, data: bytes) -> None:
        """What another rank has put."""
        if self.state is RankState.RUNNING and not self.is_dying:
            self.truth.sees_data(self.rank, self.world.first_rank + process[1], status, data)
            self.advance(b"")

    def spawn_answered(self, token: int, is_ok: bool, nspace: str) -> None:
        """PMIx has answered a spawn."""
        if self.state is RankState.RUNNING and not self.is_dying:
            self.truth.pmix_spawn_answered(self.rank, token, is_ok, nspace)
            self.advance(nspace.encode())

    # -- agents -------------------------------------------------------------------

    def _run_agent(self, token: int, command: bytes, patience_s: float) -> None:
        """Start an agent and wait for it, so long."""
        rng = self.host.clock.rng
        names = [node.name for node in self.truth.grant.nodes]
        host = rng.choice(names) if rng.random() < 0.95 else "nowhere"
        process = AgentProcess(self, token, host.encode(), command)
        process.on_end = self.keeper.look
        self._group.append(process)
        self.keeper.children.append(process)
        self.host.clock.after(patience_s, lambda: process.kill(signal.SIGTERM))

    def _fork(self, seconds: float, is_own_group: bool) -> None:
        child = UnixProcess(self.host, self.job_id, self.rank)
        child.on_end = self.keeper.look
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
        if signo in (signal.SIGSTOP, signal.SIGCONT):  # here it goes on: harder for others
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
        if was_released and wait_status == signal.SIGKILL:
            self.host.leftovers.add(self.job_id)
        self.state = RankState.DEAD
        self.is_dying = True
        super().ended(wait_status)
        self.socket.close()
        self.truth.ended(self.rank, wait_status, was_released)
        if (server := self.host.pmix.get(self.job_id)) is not None and self.pmix_name[0]:
            server.gone(self)
        self.keeper.reap(self, wait_status, was_released)


class AgentProcess(UnixProcess):
    """A ``yod-agent``: has a command run on a node, and ends with it."""

    def __init__(self, parent: RankProcess, token: int, host: bytes, command: bytes) -> None:
        super().__init__(parent.host, parent.job_id, parent.rank)
        self.truth = parent.truth
        self._parent = parent
        self._token = token
        self._buffer = b""
        self._is_answered = False
        self._socket = Socket(
            self.host.clock, self.host.slowness, self._answered, lambda: self.die(255 << 8)
        )
        self.host.call(self.job_id, self._socket)
        asked = agent.Command(parent.rank, host, b"/home/user", command)
        self._socket.send(agent.encode_command(asked))

    def _answered(self, data: bytes) -> None:
        self._buffer += data
        while not self.is_dying and b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            answer = agent.decode_answer(line)
            if answer.is_last:
                self._is_answered = True
                if not (answer.refusal and self.truth.world_named(self._token) is None):
                    self.truth.tool_answered(self._token, answer.wait_status)
                self.die(answer.wait_status or 0)

    def ended(self, wait_status: int) -> None:
        super().ended(wait_status)
        self._socket.close()
        self._parent.advance(b"")
        if not self._is_answered:
            self.host.clock.after(5.0, lambda: self.truth.agent_gone(self._token, 5.0))


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
        host.keepers.append(self)
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
        self.keepers: list[FakeKeeper | PmixServer] = []
        self.objects: set[bytes] = set()  # digests of what is here already
        self.has_room = True
        self.has_memory = True  # for arguments
        self.publish_error = ""  # why an object cannot be given its name
        self.has_listeners = True  # else PMI_PORT cannot be offered
        self.devices = Devices(has_fabric=False, has_any=False, has_settings=False)
        self.pmix_health = Health.SOUND
        self.pmix: dict[int, PmixServer] = {}  # by job
        self.listeners: dict[int, Callable[[Socket], None]] = {}  # by job
        self.leftovers: set[int] = set()  # jobs whose killed ranks have left shared memory

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

    def orphans(self) -> list[UnixProcess]:
        """Processes without a keeper: they are children of the PCT."""
        kept = {id(p) for k in self.keepers for p in (*k.ranks.values(), *k.children)}
        return [process for process in self.processes.values() if id(process) not in kept]

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
        self.pmix.clear()
        self.listeners.clear()
        self.leftovers.clear()

    def pct_died(self) -> None:
        """Every keeper sees its socket close. Where one is dead too, the cgroup does it."""
        for keeper in self.keepers:
            keeper.hang_up()
        self.listeners.clear()
        for process in self.orphans():
            process.die(int(signal.SIGKILL))
