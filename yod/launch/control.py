"""What users ask of yod: interrupts, signals for the ranks, Ctrl-Z, suspension, go, leaving."""

from __future__ import annotations

import signal

from native.machine import Action
from native.waitstatus import SIGNAL_BASE
from native.wire import load
from yod.launch.ending import Ending
from yod.launch.events import (
    Continued,
    Detach,
    DetachAsked,
    Detached,
    InputRead,
    Interrupted,
    Leave,
    NotDetached,
    ReadInput,
    SignalToPass,
    StopAsked,
    Suspend,
    SuspensionAsked,
    Tell,
)
from yod.launch.loading import Loading
from yod.launch.phases import Progress
from yod.launch.report import Report
from yod.launch.running import Running
from yod.launch.signals import Interrupts, Press, Stage
from yod.launch.tree import Tree
from yod.plan.plan import Options

# What a signal that is passed on makes of the ranks: SIGCONT follows SIGTERM.
_SUSPENDED_BEHIND: dict[int, bool] = {
    signal.SIGSTOP: True,
    signal.SIGCONT: False,
    signal.SIGTERM: False,
}


class Control:
    """Does what the user's signals ask for in each phase.

    Args:
        options: with ``keeps_going`` the job was to go on after a failure, so an interrupt decides
            its status; with ``stops_ranks`` Ctrl-Z is for the ranks, too.

    Attributes:
        is_detached: the user has left, and the job goes on.
    """

    def __init__(
        self,
        options: Options,
        progress: Progress,
        tree: Tree,
        report: Report,
        interrupts: Interrupts,
        ending: Ending,
        loading: Loading,
        running: Running,
    ) -> None:
        self.is_detached = False
        self._loading = loading
        self._running = running
        self._keeps_going = options.keeps_going
        self._outlives_hangup = options.detaches_on_hangup
        self._stops_ranks = options.stops_ranks
        self._asks_user = options.asks_user
        self._answer = b""
        self._progress = progress
        self._tree = tree
        self._report = report
        self._interrupts = interrupts
        self._ending = ending
        self._are_stopped = False  # the ranks, with yod

    @property
    def is_suspended(self) -> bool:
        """The ranks are stopped, by a command or with yod."""
        return self._tree.is_suspended or self._are_stopped

    # -- interrupts: the machine has counted the press ---------------------

    def cancel_request(self, event: Interrupted, now: float) -> list[Action]:
        """ALLOCATING: there is nothing to end yet."""
        number = event.signal_number
        self._report.interrupt(number, self._keeps_going)
        what = _what_happened(event)
        self._report.fail(SIGNAL_BASE + number, what)
        return [Tell(f"{what} before nodes were granted"), *self._ending.done()]

    def cancel_load(self, event: Interrupted, now: float) -> list[Action]:
        """FORMING, LOADING, STARTING."""
        number = event.signal_number
        self._report.interrupt(number, self._keeps_going)
        text = f"{_what_happened(event)} before the application began"
        self._report.fail(SIGNAL_BASE + number, text)
        return [self._said(Stage.LOADING, event), *self._ending.all_done(now)]

    def end_ranks(self, event: Interrupted, now: float) -> list[Action]:
        """RUNNING: SIGTERM, then SIGKILL, then leave."""
        self._report.end_because(f"the job was {_what_happened(event)}")
        self._report.interrupt(event.signal_number, self._keeps_going)
        told = self._said(Stage.RUNNING, event)
        self._progress.until = None  # the user decides now, not the kill delay
        if self._report.is_complete:  # only its nodes are waited for, which copy a checkpoint
            return [told, *self._ending.all_done(now)]
        match self._interrupts.press:
            case Press.TERMINATE:
                return [told, *self._tree.signal(signal.SIGTERM)]
            case Press.KILL:
                return [told, *self._tree.signal(signal.SIGKILL)]
        return [told, *self._ending.leave(event.signal_number)]

    def hurry_end(self, event: Interrupted, now: float) -> list[Action]:
        """ENDING: say what is done, then reset, then leave. Nodes that drain are reset at once."""
        told = self._said(Stage.ENDING, event)
        match self._interrupts.press:
            case Press.TERMINATE if not self._tree.rescued:
                return [told]
            case Press.TERMINATE | Press.KILL:
                self._tree.end_rescue()
                return [told, *self._ending.reset(now)]
        return [told, *self._ending.leave(event.signal_number)]

    def leave_early(self, event: Interrupted, now: float) -> list[Action]:
        """RESETTING, RELEASING: only leaving is quicker."""
        told = self._said(Stage.LEAVING, event)
        if self._interrupts.press is not Press.LEAVE:
            return [told]
        return [told, *self._ending.leave(event.signal_number)]

    def drop_output(self, event: Interrupted, now: float) -> list[Action]:
        """DONE: only the reader of the output is waited for."""
        self._report.leave(event.signal_number, "interrupted while its output was written")
        return [Leave()]

    def _said(self, stage: Stage, event: Interrupted) -> Tell:
        text = self._interrupts.said(stage)
        return Tell(f"{_what_happened(event)}: {text}" if event.by else text)

    # -- signals for the application --------------------------------------

    def pass_signal(self, event: SignalToPass, now: float) -> list[Action]:
        """RUNNING: a rank that the signal kills has failed, as yod did not mean to end it."""
        if event.signal_number in _SUSPENDED_BEHIND:
            self._tree.is_suspended = _SUSPENDED_BEHIND[event.signal_number]
        return self._send(event.signal_number)

    def ignore_signal(self, event: SignalToPass, now: float) -> list[Action]:
        """Any other phase."""
        name = signal.Signals(event.signal_number).name
        return [Tell(f"{name} ignored: the application is not running")]

    # -- Ctrl-Z -----------------------------------------------------------

    def stop_ranks(self, _: StopAsked, now: float) -> list[Action]:
        """RUNNING: stop yod, and the ranks with it where the user wants that.

        By SIGSTOP: a rank is alone in its session, where the kernel discards SIGTSTP.
        """
        if not self._stops_ranks:
            return [Suspend()]
        self._are_stopped = True
        return [*self._send(signal.SIGSTOP), Suspend()]

    def stop_yod(self, _: StopAsked, now: float) -> list[Action]:
        """Any other phase: no rank runs that could be stopped."""
        return [Suspend()]

    def continue_ranks(self, _: Continued, now: float) -> list[Action]:
        """RUNNING: continue the ranks that were stopped with yod, unless they are suspended."""
        was_stopped, self._are_stopped = self._are_stopped, False
        return self._send(signal.SIGCONT) if was_stopped and not self._tree.is_suspended else []

    # -- suspension -------------------------------------------------------

    def suspend(self, event: SuspensionAsked, now: float) -> list[Action]:
        """RUNNING: stop or continue the ranks, in the way of Ctrl-Z. yod goes on."""
        is_changed = not self._tree.is_suspended if event.is_on else self.is_suspended
        self._tree.is_suspended = event.is_on
        if not is_changed:
            return []
        if event.is_on:
            return self._send(signal.SIGSTOP)
        self._are_stopped = False
        return self._send(signal.SIGCONT)

    # -- ranks that are held until the user says go ------------------------

    def typed_while_held(self, event: InputRead, now: float) -> list[Action]:
        """HELD: Enter lets the ranks go. So does the end of the input, which they have then.

        Where the user is asked (``-alloc``), it is y, and all else ends the job.
        """
        if self._asks_user:
            self._answer += event.data
            if event.data and not event.data.endswith(b"\n"):
                return [ReadInput(1)]
            if self._answer.strip().lower() not in (b"y", b"yes"):
                return self._ending.give_up("ended by your answer, before the ranks ran", now)
            return self._loading.go(now)
        if not event.data:
            return [*self._loading.go(now), *self._running.input_read(event, now)]
        return self._loading.go(now) if event.data.endswith(b"\n") else [ReadInput(1)]

    def signal_while_held(self, event: SignalToPass, now: float) -> list[Action]:
        """HELD: SIGCONT lets the ranks go, as a command asks."""
        if event.signal_number == signal.SIGCONT:
            return self._loading.go(now)
        return self.ignore_signal(event, now)

    def resume_held(self, event: SuspensionAsked, now: float) -> list[Action]:
        """HELD: a command lets the ranks go."""
        return [] if event.is_on else self._loading.go(now)

    # -- the user leaves --------------------------------------------------

    def outlives(self, event: Interrupted) -> bool:
        """Whether this is the end of the terminal, and not that of the job."""
        is_hangup = event.signal_number == signal.SIGHUP and not event.by
        return is_hangup and self._outlives_hangup and self._tree.grant is not None

    def detach(self, event: DetachAsked, now: float) -> list[Action]:
        """Any phase. A job has an id, by which it is found again, as soon as it has nodes."""
        if self.is_detached:
            return []
        if self._tree.grant is None:
            return [Tell("not detached: the job has no nodes yet, and so no id")]
        return [Detach(event.is_hangup)]

    def detached(self, _: Detached, now: float) -> list[Action]:
        """Any phase."""
        self.is_detached = True
        return []

    def not_detached(self, event: NotDetached, now: float) -> list[Action]:
        """Any phase: the job goes on, at its terminal."""
        return [Tell(f"not detached: {event.text}")]

    def _send(self, number: int) -> list[Action]:
        return self._tree.send(load.Signal(self._tree.job_id, number))


def _what_happened(event: Interrupted) -> str:
    return f"cancelled by {event.by}" if event.by else "interrupted"
