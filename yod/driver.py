"""Carries out what a launch decides: messages, objects, streams, signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from native.errors import InternalError, PeerProtocolError, YodError
from native.host.heap import keep_freed_memory
from native.host.rlimits import write_whole
from native.ids import ObjectKey
from native.limits import Limits
from native.loop.reactor import Reactor
from native.loop.slices import Slices
from native.machine import (
    Action,
    DeadlineReached,
    Event,
    MessageReceived,
    PeerGone,
    Send,
    fault_text,
)
from native.port.port import (
    ObjectArrived,
    ObjectFailed,
    ObjectSent,
    PeerLost,
    Port,
    PortEvent,
    Received,
    Refused,
)
from native.wire import pmi
from native.wire.alloc import Grant
from yod.host.display import Display, open_displays
from yod.host.shared import SharedCopies
from yod.host.terminal import InputStream, TerminalGone
from yod.launch import events
from yod.launch.machine import Launch
from yod.launch.phases import Phase
from yod.plan.plan import Plan
from yod.program import image

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PASSED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
STOP_S = 1.0  # Ctrl-Z stops yod after this time, even while messages still arrive


class Driver:
    """Runs one :class:`yod.launch.machine.Launch` on a port and a reactor.

    Args:
        arguments: the encoded arguments, if they are object 0; else empty.
        use_grant: called with the grant, to open connections with its key.
    """

    def __init__(
        self,
        machine: Launch,
        plan: Plan,
        arguments: bytes,
        port: Port,
        reactor: Reactor,
        use_grant: Callable[[Grant], None],
        limits: Limits,
    ) -> None:
        keep_freed_memory()
        self._machine = machine
        self._plan = plan
        self._arguments = arguments
        self._port = port
        self._reactor = reactor
        self._use_grant = use_grant
        self._slices = Slices(reactor)
        self._chunk_bytes = limits.chunk_bytes
        self._is_finished = False
        self._copies = SharedCopies(self._slices)
        self._displays = open_displays(
            reactor, plan.options.style, plan.size, limits, self._written, self._broken
        )
        self._input = InputStream(reactor, 0, lambda data: self.handle(events.InputRead(data)))
        self._watch = reactor.watch(port.fileno(), self._port_ready)
        self._stop_at: float | None = None
        self._stop_timers = [
            reactor.add_timer(machine.deadline, self._due),
            reactor.add_timer(lambda: self._stop_at, self._suspend),
        ]

    @property
    def is_line_open(self) -> bool:
        """The last line on standard error has no newline."""
        return self._displays[2].is_line_open

    def run(self) -> None:
        """Run the launch to its end.

        Raises:
            InternalError: a bug. The job ends when its PCTs lose yod.
        """
        try:
            self._run()
        except YodError:
            raise
        except Exception as error:
            if self._plan.options.debug:
                import traceback

                traceback.print_exception(error)
            raise InternalError(fault_text(error)) from error
        finally:
            self.close()

    def _run(self) -> None:
        for number in END_SIGNALS:
            self._on_signal(number, events.Interrupted(number))
        for number in PASSED_SIGNALS:
            self._on_signal(number, events.SignalToPass(number))
        self._on_signal(signal.SIGTSTP, events.StopAsked())
        self._reactor.on_signal(signal.SIGCONT, self._continued)
        self._perform(self._machine.begin(self._reactor.monotonic()))
        if not self._is_over():
            self._reactor.run()

    def handle(self, event: Event) -> None:
        """Give the machine an event and carry out its actions."""
        before = self._machine.phase
        actions = self._machine.handle(event, self._reactor.monotonic())
        if self._plan.options.debug:
            self._trace(event, before)
        self._perform(actions)

    def close(self) -> None:
        """Release what the launch has opened."""
        for stop_timer in self._stop_timers:
            stop_timer()
        if self._machine.grant is not None:
            self._slices.cancel(self._machine.grant.job_id)
        self._watch.close()
        self._input.close()
        for display in self._each_display():
            display.close()
        self._copies.remove()

    # -- events in --------------------------------------------------------

    def _on_signal(self, number: int, event: Event) -> None:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
            self._reactor.on_signal(number, lambda: self.handle(event))

    def _suspend(self) -> None:
        if self._stop_at is not None:  # else yod was stopped or continued in the meantime
            self._reactor.suspend(signal.SIGTSTP)
            self._continued()

    def _continued(self) -> None:
        self._stop_at = None
        self._input.resume()
        self.handle(events.Continued())

    def _port_ready(self) -> None:
        for event in self._port.events():
            self._port_event(event)

    def _port_event(self, event: PortEvent) -> None:
        match event:
            case Received(source, principal, message):
                try:
                    self.handle(MessageReceived(source, principal, message))
                except PeerProtocolError as error:
                    self._say(f"from {source}: {error}")
            case PeerLost(peer, _, text):
                self.handle(PeerGone(peer, text))
            case ObjectSent(key):
                self.handle(events.ObjectDelivered(key.number))
            case ObjectFailed(key, text, is_consequence):
                self.handle(events.ObjectUndelivered(key.number, text, is_consequence))
            case Refused(source, _, reason):
                self._say(f"from {source}: {reason}")
            case ObjectArrived():
                raise AssertionError("no peer sends objects to yod")

    def _due(self) -> None:
        self.handle(DeadlineReached())

    def _written(self, stream: int, count_bytes: int) -> None:
        self.handle(events.OutputWritten(stream, count_bytes))
        self._is_over()

    def _broken(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            self.handle(events.OutputClosed())
        elif isinstance(error, TerminalGone):
            if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # the kernel sends it, too
                self.handle(events.Interrupted(signal.SIGHUP))
        else:
            text = f"the application's output cannot be written: {error.strerror}"
            self.handle(events.OutputFailed(text))

    def _is_over(self) -> bool:
        """Stop the loop once the launch is over and all output is written."""
        is_over = self._is_finished and all(each.is_empty for each in self._each_display())
        if is_over:
            self._reactor.stop()
        return is_over

    # -- actions out ------------------------------------------------------

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            self._perform_one(action)

    def _perform_one(self, action: Action) -> None:
        """Carry out one action. Every kind of action has a case here."""
        match action:
            case Send(target, message):
                self._port.send(target, message)
            case events.UseGrant(grant):
                self._use_grant(grant)
            case events.Write(stream, rank, data):
                self._displays[stream].show(rank, stream, data)
            case events.ReadInput(count_bytes):
                self._input.allow(count_bytes)
            case events.Tell(text, is_error):
                if is_error or not self._plan.options.is_quiet:
                    self._say(text)
            case events.Suspend():
                self._stop_at = self._reactor.monotonic() + STOP_S
                self._reactor.when_idle(self._suspend)
            case events.SendObject():
                self._send_object(action)
            case events.FindPrograms(ask):
                self._find_programs(ask)
            case events.CopyToShared(job_id, number):
                shared, not_shared = events.Shared, events.NotShared
                self._copies.make(
                    self._plan.objects[number],
                    number,
                    job_id,
                    on_copied=lambda path: self.handle(shared(number, path)),
                    on_failed=lambda text: self.handle(not_shared(number, text)),
                )
            case events.Finish():
                self._is_finished = True
                for display in self._each_display():
                    display.finish()
                self._is_over()
            case events.Leave():
                if count := sum(display.drop() for display in self._each_display()):
                    self._say(f"left: {count} bytes of output that were not read are dropped")
                self._reactor.stop()
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _trace(self, event: Event, before: Phase) -> None:
        """Show the change of phase (``-D``) and the message (``-D -D``)."""
        if self._plan.options.debug > 1 and isinstance(event, MessageReceived):
            self._say(f"{type(event.message).__name__} from {event.source}")
        if self._machine.phase is not before:
            grant = self._machine.grant
            job = f"job {grant.job_id}: " if grant else ""
            self._say(f"{job}{before.value} -> {self._machine.phase.value}")

    def _say(self, text: str) -> None:
        """Write a line of yod itself to standard error, after what is queued there."""
        self._displays[2].say(f"yod: {text}")

    def _each_display(self) -> set[Display]:
        return set(self._displays.values())

    def _send_object(self, action: events.SendObject) -> None:
        number = action.number
        shipped = self._plan.objects[number]
        try:
            if shipped.path:
                fd = os.open(shipped.path, os.O_RDONLY | os.O_CLOEXEC)
            else:
                fd = os.memfd_create("yod-arguments")
                write_whole(fd, self._arguments)
        except OSError as error:
            self.handle(events.ObjectUndelivered(number, error.strerror or str(error)))
            return
        key = ObjectKey(action.job_id, number)
        self._port.send_object(key, fd, shipped.size, self._chunk_bytes, [action.target])
        os.close(fd)

    def _find_programs(self, ask: pmi.Ask) -> None:
        assert isinstance(ask.question, pmi.Spawn)
        paths = []
        text = ""
        try:
            for command in ask.question.commands:
                directory = self._plan.directory_of(command.directory)
                path = image.find(os.fsdecode(command.program), os.fsdecode(directory))
                paths.append(os.fsencode(path))
        except YodError as error:
            text = str(error)
        self.handle(events.ProgramsFound(ask, tuple(paths), text))
