"""What one client asked for, was told, and had run for it. The fakes and watchers write here."""

from __future__ import annotations

import math
import signal
from typing import TYPE_CHECKING, Any

from native.machine import Action, Event, MessageReceived, Send
from native.waitstatus import SIGNAL_BASE
from native.wire import client
from native.wire.alloc import Grant
from native.wire.client import FromServer
from native.wire.load import Completions, Load
from tests.sim import rules
from tests.sim.clock import Violation
from tests.sim.keeper import FakeKeeper
from tests.sim.launchers import Job
from tests.sim.truth import JobTruth
from yod.launch import events
from yod.launch.machine import Launch
from yod.launch.phases import Phase
from yod.launch.report import NEVER_STARTED

if TYPE_CHECKING:
    from tests.sim.server.world import ServerSim

_LAST = (client.Exit, client.Cold)
_LATE = (client.Pong, client.Continue, client.KillOrphans)  # behind EXIT, and not read
_HARMLESS = (client.Times, client.Pong, client.Suspend)  # may precede COLD


class ServedTruth(JobTruth):
    """What really happens to one job of the server.

    Attributes:
        keepers: all that were started for it.
        is_forsaken: a keeper was killed with its client: nobody kills what it has left.
    """

    def __init__(self, sim: ServerSim, grant: Grant, record: Record) -> None:
        super().__init__(grant, record.job.programs, record.name)
        self._sim = sim
        self.keepers: list[FakeKeeper] = []
        self.is_forsaken = False

    def starts(self, rank: int, host: str) -> None:
        super().starts(rank, host)
        self._sim.slots.takes(self.job_id)

    def ended(self, rank: int, wait_status: int, was_released: bool) -> None:
        super().ended(rank, wait_status, was_released)
        self._sim.slots.gives_back(self.job_id)

    def living(self) -> list[int]:
        """Processes of the job."""
        processes = [each for k in self.keepers for each in (*k.ranks.values(), *k.children)]
        return [each.unix_pid for each in processes if each.unix_pid in each.host.processes]


class Record:
    """One client and its launch.

    Attributes:
        machine: of its launch; None: none has begun.
        told: the last packet, EXIT or COLD; None: it has not been sent.
        given: stream -> bytes that it is to be shown.
        written: stream -> how many bytes of ranks the launch has decided to show.
        shown: the same, as they come to the client's output.
        ends: how it has ended, as it sees it.
    """

    def __init__(self, sim: ServerSim, name: str, job: Job) -> None:
        self.sim = sim
        self.name = name
        self.job = job
        self.machine: Any = None
        self.truth: ServedTruth | None = None
        self.told: FromServer | None = None
        self.ends: list[str] = []
        self.given = {1: bytearray(), 2: bytearray()}
        self.got = {1: bytearray(), 2: bytearray()}
        self.written = {1: 0, 2: 0}
        self.shown = {1: 0, 2: 0}
        self.checkpoints: list[bytes] = []  # no launch of the server's makes any here
        self.has_lost_reader = False
        self.was_stopped = False
        # For tests/sim/rules.py, which has them of a yod:
        self.said: list[str] = []
        self.presses: list[int] = []
        self.reports: dict[int, int] = {}
        self.was_confirmed = False
        self.was_refused = False
        self.has_lost_files = False  # of --remote-io, which no launch of the server's has here
        self._gap = 0
        self._pressed_at = -math.inf
        self.own = b""  # lines of the session, which go to standard error
        self._began = False

    # -- packets --------------------------------------------------------------

    def tells(self, message: FromServer) -> None:
        """The server sends a packet."""
        if self.told is not None and not isinstance(message, _LATE):
            raise Violation(f"{self.name}: {message!r:.100} behind {self.told}")
        match message:
            case client.Cold() if self._began or self.machine is not None:
                raise Violation(f"{self.name}: is told to run cold, and something has begun")
            case client.Exit(status) if self.machine is not None:
                self._check_exit(status)
        if isinstance(message, _LAST):
            self.told = message
        elif not isinstance(message, _HARMLESS):
            self._began = True

    def _check_exit(self, status: int) -> None:
        report = self.machine.report
        if status == NEVER_STARTED and self.sim.is_ending:
            return
        if self.machine.phase is not Phase.DONE:
            raise Violation(f"{self.name}: exit {status} in phase {self.machine.phase}")
        if status != (-report.interrupted_by or report.exit_status):
            raise Violation(f"{self.name}: exit {status}, the launch has {report.exit_status}")
        if report.was_left:  # the user has not waited for the output of a job that is over, either
            if report.exit_status - SIGNAL_BASE not in self.presses:
                raise Violation(f"{self.name}: exit {status}, the user has sent {self.presses}")
            return
        if self.was_stopped and self.truth is not None:
            self.truth.trouble.add("the client was stopped")
        # bebopd is in this process, and hears of the end before anybody asks for the slots.
        self.was_confirmed |= self.truth is None or not self.truth.living()
        rules.check_ended(self)  # type: ignore[arg-type]
        if self.told is None and self.shown != self.written and not self.presses:
            raise Violation(f"{self.name}: {self.shown} bytes shown, {self.written} written")

    # -- the launch -------------------------------------------------------------

    def takes(self, event: Event) -> None:
        """Its launch is given an event."""
        match event:
            case events.OutputClosed():
                self.presses.append(signal.SIGPIPE)
            case events.Interrupted(number):
                if self.sim.clock.now - self._pressed_at >= self.sim.limits.press_s:
                    self._pressed_at = self.sim.clock.now
                    self.presses.append(number)
        if isinstance(event, MessageReceived):
            if isinstance(event.message, Completions):
                for outcome in event.message.outcomes:
                    for rank in outcome.ranks:
                        self.reports[rank] = self.reports.get(rank, 0) + 1
            self.sim.watch(self, event.message)

    def does(self, action: Action) -> None:
        """Its launch has decided something."""
        match action:
            case events.UseGrant(grant):
                if self.truth is not None:
                    raise Violation(f"{self.name}: a second grant")
                self.truth = self.sim.truths[grant.job_id] = ServedTruth(self.sim, grant, self)
            case Send(_, Load(arity=arity)) if self.truth is not None:
                self.truth.arity = arity
            case events.Write(stream, rank, data):
                assert self.truth is not None
                gap, self._gap = self._gap, 0
                self.truth.arrived(rank, stream, data, gap)
                self.written[stream] += len(data)
            case events.Tell(text):
                self.said.append(text)
                self._gap = rules.gap_in(text)


def watched(sim: ServerSim) -> type[Launch]:
    """A launch that writes what it does into the record of its client."""

    class WatchedLaunch(Launch):
        def __init__(self, plan: Any, *arguments: Any) -> None:
            super().__init__(plan, *arguments)
            self.record = sim.record_of_plan(plan)
            if self.record.machine is not None:
                raise Violation(f"{self.record.name}: a second launch")
            self.record.machine = self

        def begin(self, now: float) -> list[Action]:
            return self._seen(super().begin(now))

        def handle(self, event: Event, now: float) -> list[Action]:
            sim.clock.note(self.record.name, event)
            before = self.phase
            self.record.takes(event)
            actions = self._seen(super().handle(event, now))
            if self.phase is not before:
                sim.entered(self.record, self.phase)
            return actions

        def _seen(self, actions: list[Action]) -> list[Action]:
            self.check()
            for action in actions:
                self.record.does(action)
            return actions

    return WatchedLaunch
