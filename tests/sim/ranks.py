"""The process of a rank, faked: from its start to its end, step after step of its program."""

from __future__ import annotations

import signal
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from native.wire import keeper as wire
from native.wire import pmix
from native.wire.pmi import FenceKind
from tests.sim.agents import AgentProcess
from tests.sim.apps import Program, Steps, tool_command
from tests.sim.clients import Socket
from tests.sim.clock import Violation
from tests.sim.pmix import Meeting, PmixServer
from tests.sim.processes import Pipe, UnixProcess
from tests.sim.truth import Fence

if TYPE_CHECKING:
    from tests.sim.keeper import FakeKeeper


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
            path = start.interpreter or "/bin/app"
            step = wire.ExecStep.INTERPRETER if start.interpreter else wire.ExecStep.OPEN
            self.keeper.report(wire.ExecFailed(self.rank, start.error, step, path))
            self.ended(127 << 8)
        elif start.exit_code >= 0:
            self.ended(start.exit_code << 8)
        else:
            self.state = RankState.HELD
            self.truth.held(self.rank)
            self.keeper.report(wire.RankHeld(self.rank, wire.HowHeld.PRELOAD))
            self.keeper.held(self)

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
            case ("hand over",):  # to a process that is not of the job, and does not end
                for pipe in self.pipes:
                    pipe.open()
                clock.after(1e-4, lambda: self.advance(b""))
            case ("close output",):
                for pipe in self.pipes:
                    pipe.close_writer()
                self.pipes = []
                clock.after(1e-5, lambda: self.advance(b""))
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

    @property
    def handles_usr1(self) -> bool:
        """The signal does not end it, now or any more."""
        return self.state is RankState.DEAD or (
            self.state is RankState.RUNNING and self.program.handles_usr1
        )

    def kill(self, signo: int) -> None:
        """To the rank, and to its process group where that is to end or to stop."""
        is_to_group = signo in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT)
        for child in self._group if is_to_group else ():
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
        elif signo in (signal.SIGUSR1, signal.SIGUSR2) and self.handles_usr1:
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
