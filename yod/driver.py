"""Carries out what a launch decides: messages, objects, streams, signals."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from native.errors import PeerProtocolError
from native.host.heap import keep_freed_memory
from native.host.rlimits import write_whole
from native.ids import ObjectKey, PortalId
from native.loop.reactor import Reactor
from native.machine import Action, DeadlineReached, Event, MessageReceived, PeerGone, Send
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
from native.wire.load import Failure
from yod.host import screens
from yod.host.front import Front, OnBroken, OnWritten, Screen, TerminalGone
from yod.launch import closing, events
from yod.launch.closing import Closing
from yod.launch.machine import Launch
from yod.launch.phases import Phase
from yod.launch.report import Report
from yod.plan.prepared import Prepared

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PASSED_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
OpenScreens = Callable[[OnWritten, OnBroken], dict[int, Screen]]
STOP_S = 1.0  # Ctrl-Z stops yod after this time, even while messages still arrive


class Result(Struct, frozen=True):
    """How a launch ended.

    Attributes:
        timing: (phase, seconds, slowest node or empty), in order.
        command_status: that of the command, or minus the signal of which it is to die.
        failure: see :class:`yod.launch.machine.Launch`.
    """

    exit_status: int
    report: Report
    timing: closing.Timing
    command_status: int
    failure: Failure | None


class Driver:
    """Runs one :class:`yod.launch.machine.Launch` on a port and a reactor.

    Args:
        front: the user's end of the launch.
        bebopd: whom the launch asks for nodes, on this port.
        use_grant: called with the grant, to open connections with its key.
        on_over: called once, when all is done that the user waits for.
        open_screens: gives what standard output (1) and error (2) are shown on; None: lines
            on the outputs of the front.
        after_event: called when the machine has taken an event, and its actions are done.
        on_detach: lets the user go; gives why they cannot, or nothing. None: nobody goes.

    Attributes:
        machine: of the launch.
        result: how the launch ended; None until it is over.
        on_told: takes what the launch tells commands that have asked.
        rescue: makes a checkpoint whole after the loss of nodes; see ``partition.checkpoint``.
    """

    def __init__(
        self,
        prepared: Prepared,
        front: Front,
        port: Port,
        bebopd: PortalId,
        reactor: Reactor,
        use_grant: Callable[[Grant], None],
        on_over: Callable[[], None],
        open_screens: OpenScreens | None = None,
        after_event: Callable[[], None] | None = None,
        on_detach: Callable[[], str] | None = None,
    ) -> None:
        keep_freed_memory()
        self.result: Result | None = None
        self.on_told: Callable[[events.Told], None] = lambda told: None
        self.rescue: Callable[..., tuple[str, str]] | None = None
        self._prepared = prepared
        self._plan = prepared.plan
        self._front = front
        self._port = port
        self._reactor = reactor
        self._use_grant = use_grant
        self._on_over = on_over
        self._after_event = after_event or _nothing
        self._on_detach = on_detach
        self.machine = machine = Launch(prepared.plan, prepared.limits, bebopd, prepared.partition)
        self._closing = Closing(prepared.records, machine.report, prepared.plan.batch_job)
        self._ending: _Ending | None = None
        self._began_unix_s = time.time()
        self._own = self._opened(open_screens)
        self._screens = self._own.shown
        self._input = front.input(lambda data: self.handle(events.InputRead(data)))
        self._watch = port.listen(reactor, self._port_ready)
        self._timer = reactor.timer(self._due)
        self._stop_timer = reactor.timer(self._suspend)

    @property
    def debug(self) -> int:
        """How much the user wants to see of what happens (``-D``)."""
        return self._plan.options.debug

    def start(self, grant: Grant | None = None) -> None:
        """Begin the launch.

        Args:
            grant: its nodes; None: it asks for them.
        """
        for number in END_SIGNALS:
            self._front.on_signal(number, partial(self.handle, events.Interrupted(number)))
        for number in PASSED_SIGNALS:
            self._front.on_signal(number, partial(self.handle, events.SignalToPass(number)))
        self._front.on_signal(signal.SIGTSTP, partial(self.handle, events.StopAsked()))
        self._front.on_signal(signal.SIGCONT, self._continued)
        if directories := self._plan.options.remote:
            self._front.begin_remote(directories, self.handle, self._fail_output)
        self._front.on_leave(lambda: self.handle(events.DetachAsked()), self._terminal_gone)
        now = self._reactor.monotonic()
        self._perform(
            self.machine.begin(now) if grant is None else self.machine.begin_with(grant, now)
        )
        self._look_at_end()
        self._after_event()

    def handle(self, event: Event) -> None:
        """Give the machine an event and carry out its actions."""
        before = self.machine.phase
        actions = self.machine.handle(event, self._reactor.monotonic())
        if self._plan.options.debug:
            self._trace(event, before)
        self._perform(actions)
        self._after_event()

    def typed(self, number: int) -> None:
        """A terminal that has attached sends a signal; others than yod takes have no effect."""
        if number in END_SIGNALS:
            self.handle(events.Interrupted(number))
        elif number in PASSED_SIGNALS:
            self.handle(events.SignalToPass(number))

    def close(self) -> None:
        """Release what the launch has opened."""
        self._timer.close()
        self._stop_timer.close()
        self._watch.close()
        self._input.close()
        for screen in self._each_screen():
            screen.close()
        self._front.close()
        # What these belong to holds this, so all of it would wait for the garbage collector.
        self._use_grant = self.on_told = self._on_over = self._after_event = _nothing
        self._on_detach = None

    def _opened(self, open_screens: OpenScreens | None) -> screens.Screens:
        outs = self._written, self._broken
        if open_screens is None:
            progress = None if self._plan.options.is_quiet else self.machine.progress
            around = self._reactor, self._front, self._plan, self._prepared.limits
            shown = screens.lines(*around, *outs, progress)
        else:
            shown = open_screens(*outs)
        of_files = self._written, self._fail_output, self._say
        return screens.with_files(shown, self._front, self._plan, *of_files)

    # -- events in --------------------------------------------------------

    def _suspend(self) -> None:
        self._stop_timer.set(None)
        self._front.suspend()

    def _suspend_when_idle(self) -> None:
        if self._stop_timer.at is not None:  # else yod was stopped or continued in the meantime
            self._suspend()

    def _continued(self) -> None:
        self._stop_timer.set(None)
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
        self._look_at_end()

    def _broken(self, error: OSError) -> None:
        is_over = self._ending is not None and self._ending.has_output
        if isinstance(error, BrokenPipeError):
            if not is_over:  # else yod's own words were not read
                self.handle(events.OutputClosed())
        elif isinstance(error, TerminalGone):
            self._terminal_gone()
        elif not is_over:
            self._fail_output(f"the application's output cannot be written: {error.strerror}")

    def _fail_output(self, text: str) -> None:
        self.handle(events.OutputFailed(text))

    def _terminal_gone(self) -> None:
        options = self._plan.options  # the kernel sends the signal, too
        if signal.SIGHUP not in self._plan.ignored_signals or options.detaches_on_hangup:
            self.handle(events.Interrupted(signal.SIGHUP))

    # -- the end ----------------------------------------------------------

    def _look_at_end(self) -> None:
        """Go on with the end of the launch once all output is written."""
        ending = self._ending
        if ending is None or not all(each.is_empty for each in self._each_screen()):
            return
        if not ending.has_output:
            ending.has_output = True
            self._close_records()
        elif ending.has_words:
            on_over, self._on_over = self._on_over, _nothing
            on_over()

    def _close_records(self) -> None:
        """Write what is left in files, then the last lines."""
        began_unix_s, ended_unix_s = self._began_unix_s, time.time()
        appends = self._closing.files(
            _local_time(began_unix_s), _local_time(ended_unix_s), ended_unix_s - began_unix_s
        )
        records = self._prepared.records
        if (records.json_file or records.trace_file) and self.machine.report.job_id:
            from yod.records import of_launch  # few launches are recorded so

            times = began_unix_s, ended_unix_s - began_unix_s, self._reactor.monotonic()
            appends += of_launch(records, self.machine, self._timing(), *times)
        left = len(appends)

        def done(append: closing.Append, fault: str) -> None:
            nonlocal left
            left -= 1
            if fault:
                self._closing.failed(append, fault)
            if not left:
                self._say_last()

        for append in appends:
            self._front.append(append, partial(done, append))
        if not appends:
            self._say_last()

    def _timing(self) -> closing.Timing:
        machine, resolve_s = self.machine, self._prepared.resolve_s
        now = self._reactor.monotonic()
        return closing.timing_of(resolve_s, machine.began, machine.slowest, now)

    def _say_last(self) -> None:
        assert self._ending is not None
        machine = self.machine
        timing = self._timing()
        status = machine.report.exit_status
        assert status is not None
        said = closing.command_status(self._plan.options, machine.report, machine.began)
        self.result = Result(status, machine.report, timing, said, machine.failure)
        for line in self._closing.lines(timing):
            self._say(line)
        self._ending.has_words = True
        self._look_at_end()

    # -- actions out ------------------------------------------------------

    def _perform(self, actions: list[Action]) -> None:
        """Carry out what the machine has decided; its deadline may have changed as well."""
        for action in actions:
            self._perform_one(action)
        self._timer.set(self.machine.deadline())

    def _rescue(self, action: events.Rescue) -> None:
        assert self._plan.checkpointing is not None and self.rescue is not None
        path, why = self.rescue(self._plan.checkpointing, action.attempt, action.ended)
        self._say(f"no checkpoint: {why}" if why else f"checkpoint {path}; yod --restart goes on")
        if path:
            self._perform_one(events.MarkOutput(os.fsencode(path)))
        self.on_told(events.Checkpointed(os.fsencode(path), why))

    def _perform_one(self, action: Action) -> None:
        """Carry out one action. Every kind of action has a case here."""
        match action:
            case Send(target, message):
                self._port.send(target, message)
            case events.UseGrant(grant):
                self._use_grant(grant)
                if self._own.copies is not None:
                    self._own.copies.begin(grant)
            case events.MarkOutput(path):
                if self._own.marker is not None and (why := self._own.marker.mark(path)):
                    self._say(f"no marks of output, which may appear again: {why}")
            case events.Rescue():
                self._rescue(action)
            case events.Write(stream, rank, data):
                self._screens[stream].show(rank, stream, data)
            case events.WriteLines(stream, ranks, data):
                self._screens[stream].show_lines(ranks, stream, data)
            case events.ReadInput(count_bytes):
                self._input.allow(count_bytes)
            case events.Tell(text, is_error):
                if is_error or not self._plan.options.is_quiet:
                    self._say(text)
            case events.Told():
                self.on_told(action)
            case events.UseTerminal(is_on):
                self._front.use_terminal(self.handle if is_on else None)
            case events.ServeRemote(place, mount, directory, frame):
                self._front.serve_remote(place, mount, directory, frame)
            case events.Suspend():
                self._stop_timer.set(self._reactor.monotonic() + STOP_S)
                self._reactor.when_idle(self._suspend_when_idle)
            case events.Detach(is_hangup):
                self._detach(is_hangup)
            case events.SendObject():
                self._send_object(action)
            case events.FindPrograms(ask):
                self._find_programs(ask)
            case events.CopyToShared(job_id, number):
                shared, not_shared = events.Shared, events.NotShared
                self._front.copy_to_shared(
                    self._plan.objects[number],
                    number,
                    job_id,
                    on_copied=lambda path: self.handle(shared(number, path)),
                    on_failed=lambda text: self.handle(not_shared(number, text)),
                )
            case events.Finish():
                for screen in self._each_screen():
                    screen.finish()
                self._ending = _Ending()  # not before: the last screen may have most to write
                self._look_at_end()
            case events.Leave():
                if count := sum(screen.drop() for screen in self._each_screen()):
                    self._say(f"left: {count} bytes of output that were not read are dropped")
                    for screen in self._each_screen():
                        screen.drop()
                self._look_at_end()
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _detach(self, is_hangup: bool) -> None:
        assert self._on_detach is not None
        why = self._front.why_attached or self._on_detach()
        self.handle(events.NotDetached(why, is_hangup) if why else events.Detached())
        self._look_at_end()

    def _trace(self, event: Event, before: Phase) -> None:
        """Show the change of phase (``-D``) and the message (``-D -D``)."""
        if self._plan.options.debug > 1 and isinstance(event, MessageReceived):
            self._say(f"{type(event.message).__name__} from {event.source}")
        if self.machine.phase is not before:
            grant = self.machine.grant
            job = f"job {grant.job_id}: " if grant else ""
            self._say(f"{job}{before.value} -> {self.machine.phase.value}")

    def _say(self, text: str) -> None:
        """Write a line of yod itself to standard error, after what is queued there."""
        self._screens[2].say(f"yod: {text}")

    def _each_screen(self) -> list[Screen]:
        """Standard output first; where both are one, that one."""
        return list(dict.fromkeys(self._screens.values()))

    def _send_object(self, action: events.SendObject) -> None:
        shipped = self._plan.objects[action.number]
        if shipped.path:
            self._front.open_object(shipped, partial(self._object_opened, action))
            return
        try:
            fd = os.memfd_create("yod-arguments")
            write_whole(fd, self._prepared.arguments)
        except OSError as error:
            self._object_opened(action, -1, error.strerror or str(error))
        else:
            self._object_opened(action, fd, "")

    def _object_opened(self, action: events.SendObject, fd: int, why: str) -> None:
        if fd < 0:
            self.handle(events.ObjectUndelivered(action.number, why))
            return
        key = ObjectKey(action.job_id, action.number)
        size = self._plan.objects[action.number].size
        self._port.send_object(key, fd, size, self._prepared.limits.chunk_bytes, [action.target])
        os.close(fd)

    def _find_programs(self, ask: pmi.Ask) -> None:
        assert isinstance(ask.question, pmi.Spawn)
        where, asked = self._plan.directory_of, ask.question.commands
        programs = [(os.fsdecode(c.program), os.fsdecode(where(c.directory))) for c in asked]
        found = partial(events.ProgramsFound, ask)
        self._front.find_programs(programs, lambda paths, why: self.handle(found(paths, why)))


class _Ending:
    """What is done of the end of a launch, once its machine has finished."""

    has_output = False  # all output of the ranks has been written
    has_words = False  # the last lines have been given to the display


def _local_time(unix_s: float) -> str:
    return time.strftime("%m/%d/%Y %H:%M:%S", time.localtime(unix_s))


def _nothing(*what: object) -> None:
    """In place of a callback that is called no more."""
