"""One launch, from the request for nodes to the exit status.

What may happen in which phase, and what handles it, is one table: phase -> type of an event
or message -> method. The methods belong to the parts of a launch, each a rule with its own
data. A part calls only parts of the lines above its own:

    phases, tree, report   the progress of the launch, its PCTs, what became of the ranks
    output                 what ranks write, and the credit for it
    spawn                  more ranks for the running job
    ending                 all done, reset, release
    allocation             the request for nodes
    loading                from the grant to go
    running                completions, the kill delay, input
    checkpoints            the ranks are written down
    looks                  where the ranks are, for commands that ask
    time limit             the end of the ranks' time
    control                the user's signals
    failures               failed nodes, lost peers, output that cannot be written
    notices                what yod waits for
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from native.deadlines import earliest
from native.errors import IllegalTransition
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, DeadlineReached, Event, MessageReceived, PeerGone
from native.wire import alloc, group, io, load, pmi
from native.wire.base import Message
from yod.launch.allocation import Allocation
from yod.launch.checkpoints import Checkpoints
from yod.launch.control import Control
from yod.launch.ending import Ending
from yod.launch.events import (
    CheckpointAsked,
    Continued,
    DetachAsked,
    Detached,
    FollowAsked,
    InputRead,
    Interrupted,
    LookAsked,
    NotDetached,
    NotShared,
    ObjectDelivered,
    ObjectUndelivered,
    OutputClosed,
    OutputFailed,
    OutputWritten,
    ProgramsFound,
    RemoteServed,
    Resized,
    Shared,
    SignalToPass,
    StopAsked,
    SuspensionAsked,
)
from yod.launch.failures import Failures
from yod.launch.loading import Loading
from yod.launch.looks import Looks
from yod.launch.notices import Notices
from yod.launch.output import Outputs
from yod.launch.phases import Phase, Progress
from yod.launch.report import Report
from yod.launch.running import Running
from yod.launch.signals import Interrupts
from yod.launch.spawn import Spawner
from yod.launch.timelimit import TimeLimits
from yod.launch.tree import Tree
from yod.plan.plan import Plan

Method = Callable[[Any, float], list[Action]]
Row = dict[type[Event] | type[Message], Method]

# Of no effect where a row of the table does not say otherwise; messages need not be listed.
MAY_BE_LATE: tuple[type[Event], ...] = (
    *(PeerGone, DeadlineReached, Continued, SuspensionAsked),
    *(OutputWritten, OutputFailed, OutputClosed, InputRead, Resized),
    *(ObjectDelivered, ObjectUndelivered, Shared, NotShared, ProgramsFound, RemoteServed),
)


class Launch:
    """State machine of one yod.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.

    Attributes:
        report: what became of the ranks; complete in phase DONE.
        time_s: the time limit of the allocation whose PCTs are the ranks; see ``job.Shown``.
    """

    def __init__(self, plan: Plan, limits: Limits, bebopd: PortalId, bebopd_name: str) -> None:
        self.time_s: float | None = None
        self.report = report = Report(plan.names, tuple(spec.size for spec in plan.specs))
        self._progress = progress = Progress(limits.notice_s)
        self._tree = tree = Tree()
        self._interrupts = interrupts = Interrupts(limits.press_s)
        outputs = Outputs(tree, report, limits)
        spawner = Spawner(plan, tree, report)
        ending = Ending(progress, tree, report, outputs, bebopd, limits)
        self._allocation = allocation = Allocation(
            plan, progress, report, ending, bebopd, bebopd_name, limits
        )
        names = (bebopd, bebopd_name, limits.progress_told_s)
        self._notices = notices = Notices(plan, progress, tree, outputs, *names)
        loading = Loading(plan, progress, tree, report, outputs, spawner, ending, limits)
        running = Running(plan.options, progress, tree, report, spawner, ending, limits)
        self._control = control = Control(plan.options, progress, tree, report, interrupts, ending)
        self._checkpoints = checkpoints = Checkpoints(
            plan, progress, tree, report, ending, limits.node_mtbf_s
        )
        self._looks = looks = Looks(progress, tree, report, limits.look_s, plan.options.stall_s)
        self._time_limits = TimeLimits(
            plan.options, progress, tree, report, ending, checkpoints, limits.kill_delay_s
        )
        failures = Failures(
            progress, tree, report, interrupts, ending, bebopd, plan.options.outlives_nodes
        )

        any_phase: Row = {
            CheckpointAsked: checkpoints.asked,
            LookAsked: looks.not_now,
            FollowAsked: outputs.follow,
            **dict.fromkeys(MAY_BE_LATE, _ignore),
            DetachAsked: control.detach,
            Detached: control.detached,
            NotDetached: control.not_detached,
            SignalToPass: control.ignore_signal,
            StopAsked: control.stop_yod,
        }
        granted: Row = {
            **any_phase,
            alloc.Grant: allocation.granted_late,
            load.Held: loading.mapped,
            load.Late: notices.late,
            load.Completions: running.counted,
            group.Seen: looks.seen,
            io.Output: outputs.arrived,
            io.Lines: outputs.lines_arrived,
            OutputWritten: outputs.written,
            InputRead: running.input_read,
            io.RemoteRequest: running.remote_asked,
            RemoteServed: running.remote_served,
        }
        at_the_end: Row = {
            **granted,
            OutputFailed: failures.output_failed_at_the_end,
            OutputClosed: failures.output_closed_at_the_end,
        }
        before_end: Row = {
            **granted,
            alloc.GiveWay: allocation.gives_way,
            load.Failure: failures.failed,
            load.Released: ending.nodes_ended,
            PeerGone: failures.peer_gone,
            OutputFailed: failures.output_failed,
            OutputClosed: failures.output_closed,
            ObjectUndelivered: loading.undelivered,
            NotShared: loading.not_shared,
        }
        before_go: Row = {
            **before_end,
            DeadlineReached: loading.timed_out,
            Interrupted: control.cancel_load,
        }
        self._table: dict[Phase, Row] = {
            Phase.ALLOCATING: {
                **any_phase,
                alloc.Grant: loading.granted,
                alloc.Refused: allocation.refused,
                alloc.Queued: allocation.queued,
                PeerGone: allocation.peer_gone,
                OutputFailed: allocation.output_failed,
                OutputClosed: allocation.output_closed,
                DeadlineReached: allocation.timed_out,
                Interrupted: control.cancel_request,
            },
            Phase.FORMING: {**before_go, load.Vote: loading.voted},
            Phase.LOADING: {
                **before_go,
                load.Loaded: loading.loaded,
                load.Held: loading.held,
                Shared: loading.shared,
            },
            Phase.STARTING: {
                **before_go,
                load.Loaded: loading.loaded_below,
                load.Held: loading.held,
            },
            Phase.RUNNING: {
                **before_end,
                load.Completions: running.completed,
                group.Done: checkpoints.done,
                LookAsked: looks.asked,
                group.Still: looks.still,
                io.InputCredit: running.input_wanted,
                io.LineAsked: running.line_asked,
                Resized: running.resized,
                pmi.Ask: spawner.asked,
                pmi.Alone: running.ranks_are_alone,
                pmi.Excess: running.limit_reached,
                ProgramsFound: spawner.found,
                DeadlineReached: running.kill_due,
                Interrupted: control.end_ranks,
                SignalToPass: control.pass_signal,
                StopAsked: control.stop_ranks,
                Continued: control.continue_ranks,
                SuspensionAsked: control.suspend,
            },
            Phase.ENDING: {
                **at_the_end,
                load.Failure: failures.failed_at_the_end,
                load.Released: ending.nodes_ended,
                io.Output: ending.output_arrived,
                io.Lines: ending.lines_arrived,
                pmi.Alone: running.ranks_are_alone,
                pmi.Excess: running.limit_reached,
                OutputWritten: ending.output_written,
                PeerGone: failures.peer_gone_at_the_end,
                DeadlineReached: ending.not_confirmed,
                Interrupted: control.hurry_end,
            },
            Phase.RESETTING: {
                **at_the_end,
                load.Released: ending.node_reset,
                PeerGone: failures.peer_gone_in_reset,
                DeadlineReached: ending.not_reset,
                Interrupted: control.leave_early,
            },
            Phase.RELEASING: {
                **at_the_end,
                alloc.Refused: ending.refused,
                alloc.Released: ending.confirmed,
                load.Released: ending.node_freed,
                PeerGone: failures.peer_gone_in_release,
                DeadlineReached: ending.not_released,
                Interrupted: control.leave_early,
            },
            Phase.DONE: {
                **any_phase,
                SignalToPass: _ignore,
                OutputFailed: failures.output_failed_at_the_end,
                OutputClosed: failures.output_closed_at_the_end,
                Interrupted: control.drop_output,
            },
        }

    @property
    def phase(self) -> Phase:
        """Where the launch is."""
        return self._progress.phase

    @property
    def is_suspended(self) -> bool:
        """Its ranks are stopped."""
        return self.phase is Phase.RUNNING and self._control.is_suspended

    @property
    def is_detached(self) -> bool:
        """Its user has left it."""
        return self._control.is_detached

    def why_no_checkpoint(self, *, ends: bool = False) -> str:
        """Why none can be begun now; empty: one can, or the job can end behind one."""
        return self._checkpoints.why_not(ends=ends)

    def progress(self, now: float) -> str:
        """How far the launch is, for a user who waits; empty: nobody waits for it."""
        return self._notices.progress(now)

    def show_suspended(self, is_suspended: bool) -> None:
        """Its ranks run what is suspended, or is so no more: the PCTs of an allocation."""
        self._tree.is_suspended = is_suspended

    @property
    def began(self) -> dict[Phase, float]:
        """Phase -> when it began."""
        return self._progress.began

    @property
    def slowest(self) -> dict[Phase, load.Slowest]:
        """Phase -> the node that took longest."""
        return self._progress.slowest

    @property
    def grant(self) -> alloc.Grant | None:
        """The nodes; None until bebopd has granted them."""
        return self._tree.grant

    def begin(self, now: float) -> list[Action]:
        """Ask for nodes."""
        return self._allocation.begin(now)

    def begin_with(self, grant: alloc.Grant, now: float) -> list[Action]:
        """Begin with nodes that have been granted already."""
        self._progress.enter(Phase.ALLOCATING, now)
        return self._table[Phase.ALLOCATING][alloc.Grant](grant, now)

    def deadline(self) -> float | None:
        """Time of the next ``DeadlineReached``, or None when nothing is timed."""
        timed = self._checkpoints.deadline(), self._time_limits.deadline()
        shown = self._looks.deadline(), self._notices.deadline()
        return earliest(self._progress.deadline(), *shown, *timed)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Raises:
            PeerProtocolError: a message about what is not there; nothing has changed.
            IllegalTransition: no such event here; a bug.
        """
        return [*self._handled(event, now), *self._notices.tell(now)]

    def _handled(self, event: Event, now: float) -> list[Action]:
        if isinstance(event, DeadlineReached) and not self._progress.take_due(now):
            others = self._checkpoints.due(now), self._time_limits.due(now), self._looks.due(now)
            return [*self._notices.due(now), *others[0], *others[1], *others[2]]
        match event:
            case Interrupted() if self._control.outlives(event):
                event = DetachAsked(is_hangup=True)
            case NotDetached(_, is_hangup=True):
                event = Interrupted(signal.SIGHUP)  # what a hang-up means else
        if isinstance(event, Interrupted):
            if not self._interrupts.take(now):
                return []  # it belongs to the last press
            if self._checkpoints.precedes(event):
                event = CheckpointAsked(ends=True, signal_number=event.signal_number)
        row = self._table[self.phase]
        if isinstance(event, MessageReceived):
            return row.get(type(event.message), _ignore)(event.message, now)
        if type(event) not in row:
            raise IllegalTransition(self.phase, event)
        return row[type(event)](event, now)

    def check(self) -> None:
        """Assert the invariants."""
        phase, tree = self.phase, self._tree
        assert (self.grant is None) <= (phase in (Phase.ALLOCATING, Phase.DONE))
        assert phase is not Phase.DONE or self.report.exit_status is not None
        # The root answers for all until each PCT is told directly.
        if phase not in (Phase.ALLOCATING, Phase.RESETTING, Phase.RELEASING, Phase.DONE):
            assert tree.root in tree.unconfirmed


def _ignore(_: Event | Message, now: float) -> list[Action]:
    """It has come too late, or means nothing in this phase."""
    return []
