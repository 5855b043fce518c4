"""One launch, from the request for nodes to the exit status.

What may happen in which phase, and what handles it, is one table: phase -> type of an event
or message -> method. The methods are those of the parts of a launch, each a rule with its own
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
from collections.abc import Callable, Mapping
from typing import Any

from native.deadlines import earliest
from native.errors import IllegalTransition
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, DeadlineReached, Event, MessageReceived, PeerGone
from native.wire import alloc, group, io, load, pmi
from native.wire.base import Message
from native.wire.load import Failure
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

Method = Callable[..., list[Action]]
Row = dict[type[Event] | type[Message], Method]


class Launch:
    """State machine of one yod.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.

    Attributes:
        report: what became of the ranks; complete in phase DONE.
        time_s: the time limit of the allocation whose PCTs are the ranks; see ``job.Shown``.
        is_saved_whole: what has that allocation is written down by others; likewise.
    """

    def __init__(self, plan: Plan, limits: Limits, bebopd: PortalId, bebopd_name: str) -> None:
        self.time_s: float | None = None
        self.is_saved_whole = False
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
        self._loading = loading = Loading(
            plan, progress, tree, report, outputs, spawner, ending, limits
        )
        self._checkpoints = checkpoints = Checkpoints(
            plan, progress, tree, report, ending, limits.node_mtbf_s
        )
        running = Running(
            plan.options, progress, tree, report, spawner, ending, checkpoints, limits
        )
        self._control = control = Control(
            plan.options, progress, tree, report, interrupts, ending, loading, running
        )
        self._looks = looks = Looks(progress, tree, report, limits.look_s, plan.options.stall_s)
        self._time_limits = TimeLimits(
            plan.options, progress, tree, report, ending, checkpoints, limits.kill_delay_s
        )
        self._failures = failures = Failures(
            *(progress, tree, report, interrupts, ending),
            *(bebopd, plan.options.outlives_nodes, checkpoints),
        )

        parts = (progress, outputs, spawner, ending, allocation, loading, running, checkpoints)
        later = (looks, control, failures, notices)
        self._parts: dict[type, Any] = {type(part): part for part in (*parts, *later)}

    @property
    def phase(self) -> Phase:
        """Where the launch is."""
        return self._progress.phase

    @property
    def is_suspended(self) -> bool:
        """Its ranks are stopped, or held for debuggers."""
        is_running = self.phase is Phase.RUNNING
        return self.phase is Phase.HELD or (is_running and self._control.is_suspended)

    @property
    def is_detached(self) -> bool:
        """Its user has left it."""
        return self._control.is_detached

    @property
    def failure(self) -> Failure | None:
        """Of a node, that ended the launch before go while its user was there; None: none did."""
        is_users = self.report.interrupted_by or self.is_detached
        return None if is_users else self._failures.before_go

    def why_no_checkpoint(self, *, ends: bool = False) -> str:
        """Why none can be begun now; empty: one can, or the job can end behind one."""
        return "" if self.is_saved_whole else self._checkpoints.why_not(ends=ends)

    def progress(self, now: float) -> str:
        """How far the launch is, for a user who waits; empty: nobody waits for it."""
        return self._notices.progress(now)

    def show_suspended(self, is_suspended: bool) -> None:
        """Its ranks run what is suspended, or is so no more: the PCTs of an allocation."""
        self._tree.is_suspended = is_suspended

    def end_with_nodes(self) -> None:
        """bebopd is in this process: who asks it next finds the slots free without our waiting."""
        self._parts[Ending].awaits_bebopd = False

    @property
    def began(self) -> dict[Phase, float]:
        """Phase -> when it began."""
        return self._progress.began

    @property
    def slowest(self) -> dict[Phase, load.Slowest]:
        """Phase -> the node that took longest."""
        return self._progress.slowest

    @property
    def node_times(self) -> Mapping[int, group.NodeTimes]:
        """Node -> when it came to the end of its phases, in a launch that is traced."""
        return self._loading.times

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
        return self._call(TABLE[Phase.ALLOCATING][alloc.Grant], grant, now)

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
        what = event.message if isinstance(event, MessageReceived) else event
        method = TABLE[self.phase].get(type(what))
        if method is None and what is event:
            raise IllegalTransition(self.phase, event)
        return self._call(method or Progress.late, what, now)

    def _call(self, method: Method, what: Event | Message, now: float) -> list[Action]:
        """Call a method of the table on the part that owns it."""
        return method(self._parts[OWNER[method]], what, now)

    def check(self) -> None:
        """Assert the invariants."""
        phase, tree = self.phase, self._tree
        assert (self.grant is None) <= (phase in (Phase.ALLOCATING, Phase.DONE))
        assert phase is not Phase.DONE or self.report.exit_status is not None
        # The root answers for all until each PCT is told directly.
        if phase not in (Phase.ALLOCATING, Phase.RESETTING, Phase.RELEASING, Phase.DONE):
            assert tree.root in tree.unconfirmed


# -- the table: method(what, now) --------------------------------------------

PARTS = (
    *(Progress, Outputs, Spawner, Ending, Allocation, Loading, Running, Checkpoints),
    *(Looks, Control, Failures, Notices),
)
OWNER: dict[Method, type] = {
    method: part for part in PARTS for method in vars(part).values() if callable(method)
}

# Of no effect where a row of the table does not say otherwise; messages need not be listed.
MAY_BE_LATE: tuple[type[Event], ...] = (
    *(PeerGone, DeadlineReached, Continued, SuspensionAsked),
    *(OutputWritten, OutputFailed, OutputClosed, InputRead, Resized),
    *(ObjectDelivered, ObjectUndelivered, Shared, NotShared, ProgramsFound, RemoteServed),
)

_ANY_PHASE: Row = {
    CheckpointAsked: Checkpoints.asked,
    LookAsked: Looks.not_now,
    FollowAsked: Outputs.follow,
    **dict.fromkeys(MAY_BE_LATE, Progress.late),
    DetachAsked: Control.detach,
    Detached: Control.detached,
    NotDetached: Control.not_detached,
    SignalToPass: Control.ignore_signal,
    StopAsked: Control.stop_yod,
}
_GRANTED: Row = {
    **_ANY_PHASE,
    alloc.Grant: Allocation.granted_late,
    load.Held: Loading.mapped,
    load.Late: Notices.late,
    load.Completions: Running.counted,
    group.Seen: Looks.seen,
    group.Times: Loading.timed,
    io.Output: Outputs.arrived,
    io.Lines: Outputs.lines_arrived,
    OutputWritten: Outputs.written,
    InputRead: Running.input_read,
    io.RemoteRequest: Running.remote_asked,
    RemoteServed: Running.remote_served,
}
_AT_THE_END: Row = {
    **_GRANTED,
    OutputFailed: Failures.output_failed_at_the_end,
    OutputClosed: Failures.output_closed_at_the_end,
}
_BEFORE_END: Row = {
    **_GRANTED,
    alloc.GiveWay: Allocation.gives_way,
    group.WriteDown: Checkpoints.wanted,
    load.Failure: Failures.failed,
    load.Released: Ending.nodes_ended,
    PeerGone: Failures.peer_gone,
    OutputFailed: Failures.output_failed,
    OutputClosed: Failures.output_closed,
    ObjectUndelivered: Loading.undelivered,
    NotShared: Loading.not_shared,
}
_BEFORE_GO: Row = {
    **_BEFORE_END,
    DeadlineReached: Loading.timed_out,
    Interrupted: Control.cancel_load,
}
TABLE: dict[Phase, Row] = {
    Phase.ALLOCATING: {
        **_ANY_PHASE,
        alloc.Grant: Loading.granted,
        alloc.Refused: Allocation.refused,
        alloc.Queued: Allocation.queued,
        PeerGone: Allocation.peer_gone,
        OutputFailed: Allocation.output_failed,
        OutputClosed: Allocation.output_closed,
        DeadlineReached: Allocation.timed_out,
        Interrupted: Control.cancel_request,
    },
    Phase.FORMING: {**_BEFORE_GO, load.Vote: Loading.voted},
    Phase.LOADING: {
        **_BEFORE_GO,
        load.Loaded: Loading.loaded,
        load.Held: Loading.held,
        Shared: Loading.shared,
    },
    Phase.STARTING: {
        **_BEFORE_GO,
        load.Loaded: Loading.loaded_below,
        load.Held: Loading.held,
    },
    Phase.HELD: {
        **_BEFORE_GO,
        DeadlineReached: Loading.held_for_long,
        InputRead: Control.typed_while_held,
        SignalToPass: Control.signal_while_held,
        SuspensionAsked: Control.resume_held,
    },
    Phase.RUNNING: {
        **_BEFORE_END,
        load.Completions: Running.completed,
        group.Done: Checkpoints.done,
        LookAsked: Looks.asked,
        group.Still: Looks.still,
        io.InputCredit: Running.input_wanted,
        io.LineAsked: Running.line_asked,
        Resized: Running.resized,
        pmi.Ask: Spawner.asked,
        pmi.Alone: Running.ranks_are_alone,
        pmi.Excess: Running.limit_reached,
        ProgramsFound: Spawner.found,
        DeadlineReached: Running.kill_due,
        Interrupted: Control.end_ranks,
        SignalToPass: Control.pass_signal,
        StopAsked: Control.stop_ranks,
        Continued: Control.continue_ranks,
        SuspensionAsked: Control.suspend,
    },
    Phase.ENDING: {
        **_AT_THE_END,
        load.Failure: Failures.failed_at_the_end,
        load.Released: Ending.nodes_ended,
        io.Output: Ending.output_arrived,
        io.Lines: Ending.lines_arrived,
        pmi.Alone: Running.ranks_are_alone,
        pmi.Excess: Running.limit_reached,
        OutputWritten: Ending.output_written,
        PeerGone: Failures.peer_gone_at_the_end,
        DeadlineReached: Ending.not_confirmed,
        Interrupted: Control.hurry_end,
    },
    Phase.RESETTING: {
        **_AT_THE_END,
        load.Released: Ending.node_reset,
        PeerGone: Failures.peer_gone_in_reset,
        DeadlineReached: Ending.not_reset,
        Interrupted: Control.leave_early,
    },
    Phase.RELEASING: {
        **_AT_THE_END,
        alloc.Refused: Ending.refused,
        alloc.Released: Ending.confirmed,
        load.Released: Ending.node_freed,
        PeerGone: Failures.peer_gone_in_release,
        DeadlineReached: Ending.not_released,
        Interrupted: Control.leave_early,
    },
    Phase.DONE: {
        **_ANY_PHASE,
        SignalToPass: Progress.late,
        OutputFailed: Failures.output_failed_at_the_end,
        OutputClosed: Failures.output_closed_at_the_end,
        Interrupted: Control.drop_output,
    },
}
