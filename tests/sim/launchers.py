"""A yod in the simulation: the real launch, a fake driver after ``yod/driver.py``."""

from __future__ import annotations

import math
import signal
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from native.ids import ObjectKey, PortalId, Principal, PrincipalKind
from native.machine import Action, Event, MessageReceived, PeerGone, Send
from native.port.port import ObjectArrived, ObjectFailed, ObjectSent
from native.text import shown
from native.wire import codec, pmi
from native.wire.alloc import NodeSpec
from native.wire.base import Message
from native.wire.group import Begin
from native.wire.io import Lines
from native.wire.load import (
    Arguments,
    Completions,
    Load,
    MemberLoad,
    Mpi,
    Protocol,
    Reset,
    ShippedObject,
    StartWorld,
)
from tests.sim import rules
from tests.sim.actor import FOR_EVER, Actor
from tests.sim.apps import MISSING, Program
from tests.sim.clock import Violation
from tests.sim.network import Process
from tests.sim.remotes import Server
from tests.sim.truth import JobTruth
from yod.launch import events
from yod.launch.machine import Launch
from yod.launch.phases import Phase
from yod.plan.checkpoint import Checkpointing
from yod.plan.plan import Options, Plan

if TYPE_CHECKING:
    from tests.sim.world import Sim

UID = 1000


class Reader(Enum):
    """Who reads yod's output."""

    FAST = "fast"
    SLOW = "slow"
    STOPS = "stops for some seconds"
    LEAVES = "leaves early"
    FAILS = "yod's output is closed, or its device full"


class Job(Struct):
    """What a yod is to launch.

    Attributes:
        is_shipped: else the image is on a shared file system.
        words: the program's name and its argument.
    """

    programs: list[Program]
    nodes: tuple[int, ...] = ()
    options: Options = Options()
    mpi: Mpi = Mpi((Protocol.PMI1,))
    is_shipped: bool = True
    image_bytes: int = 3_000_000
    arguments_inline: bool = True
    words: tuple[bytes, ...] = (b"a.out", b"-x")
    input_bytes: int = 0
    reads_input: bool = False  # rank 0 reads all of it
    text: bytes = b""  # is the input, if there is any
    reader: Reader = Reader.FAST
    batch_job: str = ""
    checkpointing: Checkpointing | None = None


class YodActor(Actor):
    """One yod, and its user.

    Attributes:
        presses: interrupts so far, those of one wish once.
        said: what it told its user.
        reports: rank -> times that its completion came, not counting those that a reset repeats.
        checkpoints: of which it knows that they are whole.
        has_ended: it has finished, and written everything.
    """

    def __init__(self, sim: Sim, number: int, job: Job) -> None:
        self.job = job
        self.truth: JobTruth | None = None
        self.said: list[str] = []
        self.presses: list[int] = []
        self._pressed_at = -math.inf
        self._stop_s = 0.0
        self.reports: dict[int, int] = {}
        self.has_reset = False  # from now on nodes tell it again what a parent may have kept
        self.checkpoints: list[bytes] = []
        self.answers: list[str] = []  # why there was no checkpoint; empty: there was one
        self.was_rescued = False  # a checkpoint, after nodes were lost while they drained it
        self.has_ended = False
        self.has_lied = False  # then no rule holds for its own job but that it ends
        self.began_at = sim.clock.now
        self.ended_at = 0.0
        self.was_confirmed = False
        self.was_refused = False
        self.has_left = False  # the reader of its output
        self._queue: deque[tuple[int, int]] = deque()
        self._is_draining = False
        self._is_finished = False
        self._allowed = 0
        self._input_left = job.input_bytes
        self._input_over = False
        self._written = 0
        self.server = Server(self)  # of remote files
        self._seen = 0  # by the user, at the terminal or when they come back
        self._has_dropped = False
        self._gap = 0
        self._lines: Lines | None = None  # that came last
        process = Process(f"yod{number}", "front", PortalId(0x0A010001, 70_000 + number))
        process.principal_to = self._principal_to
        process.on_object = self._object
        self.plan, self.content = make_plan(job)
        self.machine: Launch = sim.machines.launch(
            self.plan, sim.limits, sim.bebopd_id, "10.1.0.1:6000"
        )
        super().__init__(sim, process, self.machine)

    def begin(self) -> None:
        """Ask for nodes."""
        self.act(self.machine.begin(self.sim.clock.now))

    @property
    def is_over(self) -> bool:
        """It has ended, or never will."""
        return self.has_ended or not self.process.is_alive or self.stopped_until == FOR_EVER

    @property
    def has_lost_files(self) -> bool:
        """The process with the remote files has been killed."""
        return self.server.was_killed

    # -- the user -------------------------------------------------------------

    def press(self, signo: int = signal.SIGINT) -> None:
        """Ctrl-C, or another signal that ends yod; it comes twice, as from `timeout`."""
        for _ in range(2):
            if not self.has_ended:
                if self.sim.clock.now - self._pressed_at >= self.sim.limits.press_s:
                    self._pressed_at = self.sim.clock.now
                    self.presses.append(signo)
                self.handle(events.Interrupted(signo))

    def stop(self, seconds: float) -> None:
        """Ctrl-Z, and "fg" so much later."""
        if not self.has_ended:
            self._stop_s = seconds
            self.handle(events.StopAsked())

    def pass_signal(self, signo: int = signal.SIGUSR1) -> None:
        """A signal for the application."""
        if not self.has_ended:
            self.handle(events.SignalToPass(signo))

    def checkpoint(self, ends: bool) -> None:
        """yodjob checkpoint."""
        if not self.has_ended:
            if not ends and self.truth is not None and not self.machine.why_no_checkpoint():
                self.truth.saved_nodes.clear()
            self.handle(events.CheckpointAsked(ends))

    def leave(self) -> None:
        """The line ~d; what is asked of a launch without nodes has no effect."""
        if not self.has_ended:
            self.handle(events.DetachAsked())

    def hang_up(self) -> None:
        """The terminal is lost."""
        if self.job.options.detaches_on_hangup and self.machine.grant is not None:
            self.handle(events.Interrupted(signal.SIGHUP))
        else:
            self.press(signal.SIGHUP)

    # -- events in --------------------------------------------------------------

    def lost(self, peer: PortalId, text: str) -> None:
        self.handle(PeerGone(peer, text))

    def _message(self, source: PortalId, principal: Principal, message: Message) -> None:
        if isinstance(message, Completions):
            for outcome in message.outcomes:
                for rank in outcome.ranks:
                    if not (self.has_reset and rank in self.reports):
                        self.reports[rank] = self.reports.get(rank, 0) + 1
        rules.watch_yod(self, message)
        super()._message(source, principal, message)

    def handle(self, event: Event) -> None:
        if isinstance(event, MessageReceived) and isinstance(event.message, Lines):
            self._lines = event.message
        before = self.machine.phase
        super().handle(event)
        if self.machine.phase is not before and self.process.is_alive:
            self.sim.phase_entered(self, self.machine.phase)

    def _object(self, event: ObjectArrived | ObjectSent | ObjectFailed) -> None:
        match event:
            case ObjectSent(key):
                self.handle(events.ObjectDelivered(key.number))
            case ObjectFailed(key, text, is_consequence):
                self.handle(events.ObjectUndelivered(key.number, text, is_consequence))
            case _:
                raise AssertionError("nobody sends yod objects")

    def _principal_to(self, other: Process) -> Principal:
        if other.id == self.sim.bebopd_id:
            return Principal(PrincipalKind.USER, UID)
        assert self.truth is not None, "no key of a job yet"
        return Principal(PrincipalKind.JOB, UID, self.truth.job_id)

    # -- actions out --------------------------------------------------------------

    def perform(self, action: Action) -> None:
        """Carry out one action. Every kind of action has a case here."""
        sim = self.sim
        match action:
            case Send(target, message):
                if isinstance(message, Load) and self.truth is not None:
                    self.truth.arity = message.arity
                if isinstance(message, Begin) and self.truth is not None:
                    self.truth.forget_marks()
                if isinstance(message, StartWorld) and self.truth is not None:
                    self.truth.add_world(message)
                self.has_reset |= isinstance(message, Reset)
                sim.network.send(self.process, target, message)
            case events.UseGrant(grant):
                self.truth = sim.use_grant(self, grant)
            case events.Write(stream, rank, data):
                assert self.truth is not None
                gap, self._gap = self._gap, 0
                self.truth.arrived(rank, stream, data, gap)
                self._write(stream, len(data))
            case events.WriteLines(stream, _, data):
                self._lines_arrived()
                self._write(stream, len(data))
            case events.ReadInput(count_bytes):
                self._allowed += count_bytes
                sim.clock.after(1e-5, self._read)
            case events.Tell(text):
                self.said.append(text)
                self._gap = rules.gap_in(text)
            case events.Checkpointed(path, text):
                self.answers.append(text)
                if not text:
                    self.checkpoints.append(path)
            case events.Rescue():
                self._rescue()
            case events.MarkOutput(path):
                assert self.truth is not None
                chosen = self.job.checkpointing
                if not path or chosen is None or not chosen.local:
                    self.truth.demand_marked()
            case events.ServeRemote():
                self.server.perform(action)
            case events.Suspend():
                self.stopped_until = sim.clock.now + self._stop_s
                sim.clock.after(self._stop_s, lambda: self.handle(events.Continued()))
            case events.SendObject(job_id, number, target):
                shipped = self.plan.objects[number]
                chunk = sim.limits.chunk_bytes
                key = ObjectKey(job_id, number)
                digest = shipped.digest
                sim.objects.send(self.process, key, shipped.size, chunk, (target,), digest)
            case events.FindPrograms(ask):
                self.sim.clock.after(
                    sim.clock.rng.choice([0.0, 1e-3, 0.3]), lambda: self._find_programs(ask)
                )
            case events.CopyToShared(_, number):
                if sim.has_shared_room:
                    event: Event = events.Shared(number, b"/enfs/tmp/yod-1")
                else:
                    event = events.NotShared(number, "and the shared file system is full")
                sim.clock.after(sim.clock.rng.uniform(0.01, 2), lambda: self.handle(event))
            case events.Finish():
                self._is_finished = True
                self._look()
            case events.Detach(is_hangup):
                self._detach(is_hangup)
            case events.Leave():
                self._has_dropped = True
                self._queue.clear()
                self._look()
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _rescue(self) -> None:
        """The nodes have ended: what they have drained is a checkpoint, if all of it is there."""
        truth = self.truth
        assert truth is not None
        self.was_rescued = bool(truth.drained_nodes) and truth.unsaved_rank() is None
        if self.was_rescued:
            truth.checkpoints += 1
            self.checkpoints.append(b"/scratch/checkpoint.%d" % truth.checkpoints)

    def _detach(self, is_hangup: bool) -> None:
        """Keep what the terminal has not taken, and what comes; there may be no room for it."""
        if self.sim.clock.rng.random() < 0.2:
            if is_hangup:
                self.presses.append(signal.SIGHUP)
            self.handle(events.NotDetached("no room", is_hangup))
            return
        self.job.reader = Reader.FAST
        while self._queue:
            self._was_written(*self._queue.popleft())
        self.handle(events.Detached())

    def _find_programs(self, ask: pmi.Ask) -> None:
        assert isinstance(ask.question, pmi.Spawn)
        names = [command.program for command in ask.question.commands]
        text = "there is no such program" if MISSING in names else ""
        paths = tuple(b"/bin/" + name for name in names)
        self.handle(events.ProgramsFound(ask, () if text else paths, text))

    def _lines_arrived(self) -> None:
        """Each rank has written what it has, behind gaps that have been told of."""
        assert self.truth is not None and self._lines is not None
        message, told, self._gap = self._lines, self._gap, 0
        for first, last, offset in message.runs:
            for rank in range(first, last + 1):
                gap = offset - self.truth.received(rank, message.stream)
                self.truth.arrived(rank, message.stream, message.data, gap)
                told -= gap
        if told:
            raise Violation(f"{self.name}: the bytes that lines lack are not those it tells of")

    def _write(self, stream: int, count: int) -> None:
        self._written += count
        if self.has_left:
            self._was_written(stream, count)
            return
        if self.job.reader is Reader.LEAVES and self._written > 2000:
            self.has_left = True
            self.presses.append(signal.SIGPIPE)
            self.handle(events.Interrupted(signal.SIGPIPE))
            self._was_written(stream, count)
            return
        if self.job.reader is Reader.FAILS:
            self.has_left = True
            if self.truth is not None:
                self.truth.trouble.add("yod's output cannot be written")
            self.handle(events.OutputFailed("Bad file descriptor"))
            self._was_written(stream, count)
            return
        if self.job.reader is Reader.FAST:
            self._was_written(stream, count)
            return
        self._queue.append((stream, count))
        rules.check_yod_queue(self, sum(count for each, count in self._queue if each == stream))
        if not self._is_draining:
            self._is_draining = True
            stops = self.job.reader is Reader.STOPS and self._written < 100_000
            self.sim.clock.after(8.0 if stops else 1e-3, self._drain)

    def _drain(self) -> None:
        if not self.process.is_alive or not self._queue:
            return
        stream, count = self._queue.popleft()
        if self._queue:
            self.sim.clock.after(count / 3e6 + 1e-5, self._drain)
        else:
            self._is_draining = False
        self._was_written(stream, count)

    def _was_written(self, stream: int, count_bytes: int) -> None:
        self._seen += count_bytes
        if self.machine.phase is not Phase.DONE:
            self.handle(events.OutputWritten(stream, count_bytes))
        self._look()

    def _read(self) -> None:
        if self._input_over or not self._allowed or not self.process.is_alive:
            return
        count = min(self._allowed, self._input_left, 65536)
        self._allowed -= count
        self._input_left -= count
        if not count:
            self._input_over = True
        else:
            self.sim.clock.after(1e-4, self._read)
        begin = self.job.input_bytes - self._input_left - count
        self.handle(events.InputRead(self.job.text[begin : begin + count] or b"x" * count))

    def _look(self) -> None:
        """Leave once the launch is done and its output is out."""
        if self._is_finished and not self._queue and not self.has_ended:
            self.has_ended = True
            if self._seen != self._written and not self._has_dropped:
                raise Violation(
                    f"rule 5: {self.name}: {self._seen} of {self._written} bytes were shown or kept"
                )
            self.ended_at = self.sim.clock.now
            self.sim.clock.note(self.name, f"EXIT {self.machine.report.exit_status}")
            if not self.has_lied:
                rules.check_ended(self)
            self.sim.network.close(self.process)
            self.sim.objects.forget(self.process)


def make_plan(job: Job) -> tuple[Plan, bytes]:
    """The plan of a job, and its arguments where they travel as object 0."""
    size = len(job.programs)
    number = 0 if job.arguments_inline else 1
    digest = b"image" * 6 + b"%02d" % (size % 100) if job.is_shipped else b""
    image = ShippedObject(b"/home/user/" + job.words[0], job.image_bytes, digest, 0o755)
    members = (MemberLoad(size, number, job.words, b"/tmp"),)
    arguments = Arguments(members, (b"HOME=/home/user",))
    content = codec.encode_part(arguments)
    objects: tuple[ShippedObject, ...] = (image,)
    if not job.arguments_inline:
        objects = (ShippedObject(b"", len(content), b"arguments" * 3 + b"12345", 0), image)
    plan = Plan(
        specs=(NodeSpec(size, job.nodes),),
        origins=("",),
        names=(shown(job.words[0]),),
        arguments=arguments,
        objects=objects,
        are_arguments_inline=job.arguments_inline,
        umask=0o022,
        limits=(),
        options=job.options,
        batch_job=job.batch_job,
        mpi=job.mpi,
        checkpointing=job.checkpointing,
    )
    return plan, b"" if job.arguments_inline else content
