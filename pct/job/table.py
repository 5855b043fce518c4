"""What may happen to a job on a node in each state, and which part handles it.

There are three tables. What a table does not list is refused.

    EVENTS    state -> kind of event -> method
    MESSAGES  sender -> state -> kind of message -> method
    ADVANCES  state -> method that is called after every event: it enters the next state,
              or returns None if the present one is not over

The methods are those of the parts of a job (:data:`PARTS`). ``Progress.late`` and the two
methods beside it handle what is legal but comes too late to have an effect. A job that is
RELEASED handles nothing. MESSAGES is the table in PROTOCOL.md, section 5.1, without the
conditions on the contents of a message; those are checked by the methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from native.errors import PeerProtocolError
from native.machine import Action, Event, PeerGone
from native.wire import group, io, load, pmi
from native.wire.base import Message
from pct import events, pmi_events, rare_events
from pct.job.ends import Ends
from pct.job.failures import Failures
from pct.job.forming import Forming
from pct.job.keepers import Keepers
from pct.job.killing import Killing
from pct.job.loading import Loading
from pct.job.losses import Losses
from pct.job.output import Output
from pct.job.progress import JobState, Progress
from pct.job.release import Release
from pct.job.rules.looking import Looking
from pct.job.saving import Saving
from pct.job.starting import Starting
from pct.job.wiring import Wiring
from pct.tree.group import Sender

Method = Callable[..., list[Action]]
MessageRules = dict[type[Message], Method]

PARTS = (
    *(Progress, Failures, Keepers, Output, Wiring, Ends),
    *(Forming, Loading, Starting, Saving, Looking, Killing, Release, Losses),
)
OWNER: dict[Any, type] = {
    method: part for part in PARTS for method in vars(part).values() if callable(method)
}

# -- events: method(event, now) --------------------------------------------

_ALWAYS: dict[type[Event], Method] = {
    PeerGone: Losses.peer_gone,
    events.ObjectArrived: Loading.arrived,
    events.ObjectPassedOn: Loading.passed_on,
    events.ObjectStored: Loading.stored,
    events.ObjectLost: Loading.lost,
    events.KeeperReported: Starting.report,
    events.KeeperNotStarted: Starting.not_started,
    events.OrphansKilled: Keepers.orphans_killed,
    events.HookEnded: Starting.hook_ended,
    events.SaverReady: Saving.ready,
    events.SaverEnded: Saving.ended,
    rare_events.RankSaved: Saving.saved,
    rare_events.ShareRead: Saving.share_read,
    rare_events.ShareKept: Saving.share_kept,
    rare_events.ShareDrained: Saving.share_drained,
    rare_events.LookerEnded: Looking.ended,
    rare_events.UseRead: Looking.use_read,
    rare_events.RemoteAsked: Output.remote_asked,
    rare_events.LineWanted: Output.line_wanted,
    events.OutOfMemory: Ends.out_of_memory,
    events.LeftoversRemoved: Keepers.leftovers_removed,
    events.ProcessesNamed: Killing.named,
    events.MapNotGiven: Starting.map_not_given,
    events.OutputRead: Output.read,
    events.InputTaken: Output.input_taken,
    events.InputClosed: Output.input_closed,
    pmi_events.PmiOpened: Starting.port_opened,
    pmi_events.PmiConnected: Wiring.connected,
    pmi_events.PmiReceived: Wiring.received,
    pmi_events.PmiClosed: Wiring.closed,
    pmi_events.PmixReceived: Starting.from_server,
    pmi_events.PmixServerEnded: Starting.server_ended,
}

EVENTS: dict[JobState, dict[type[Event], Method]] = {
    JobState.FORMING: {**_ALWAYS, events.ObjectsChecked: Forming.checked},
    JobState.LOADING: _ALWAYS,
    JobState.STARTING: _ALWAYS,
    JobState.HELD: _ALWAYS,
    JobState.RUNNING: _ALWAYS,
    JobState.ENDING: {
        **_ALWAYS,
        events.ObjectsChecked: Progress.late,
        events.ObjectArrived: Progress.late,
        events.ObjectPassedOn: Progress.late,
        events.ObjectStored: Progress.late,
        pmi_events.PmixServerEnded: Keepers.server_ended,
    },
}

# -- messages of the parent: method(message, now) --------------------------

_DOWN: MessageRules = {
    load.UseShared: Progress.pass_down,
    load.Signal: Keepers.signal,
    load.AllDone: Release.all_done,
    load.StartWorld: Progress.late,
    group.Adopted: Progress.late,
    io.OutputCredit: Output.credit,
    io.Input: Output.input,
    io.Resize: Output.resize,
    io.RemoteReply: Output.remote_answered,
    io.Line: Output.line,
    pmi.Reply: Wiring.replied,
}
_TO_OTHERS: MessageRules = {
    **_DOWN,
    pmi.FenceOut: Wiring.fence_out,
    pmi.Lost: Wiring.lost,
    pmi.Ask: Wiring.asked,
}

FROM_YOD: dict[JobState, MessageRules] = {
    JobState.FORMING: {**_DOWN, load.UseShared: Loading.use_shared},
    JobState.LOADING: {**_DOWN, load.UseShared: Loading.use_shared},
    JobState.STARTING: _DOWN,
    JobState.HELD: {**_DOWN, load.Go: Starting.go},
    JobState.RUNNING: {
        **_DOWN,
        load.StartWorld: Starting.spawn,
        group.Begin: Saving.begin,
        group.GoOn: Saving.go_on,
        group.Look: Looking.look,
    },
    JobState.ENDING: {
        **_DOWN,
        load.Go: Progress.late,
        load.AllDone: Progress.late,
        group.Begin: Progress.late,
        group.GoOn: Progress.late,
        group.Look: Progress.late,
    },
}

FROM_PARENT: dict[JobState, MessageRules] = {
    JobState.FORMING: {**_TO_OTHERS, load.UseShared: Loading.use_shared},
    JobState.LOADING: {**_TO_OTHERS, load.UseShared: Loading.use_shared},
    JobState.STARTING: _TO_OTHERS,
    JobState.HELD: {
        **_TO_OTHERS,
        load.Ports: Starting.ports,
        load.Go: Starting.go,
    },
    JobState.RUNNING: {
        **_TO_OTHERS,
        load.StartWorld: Starting.spawn,
        group.Begin: Saving.begin,
        group.GoOn: Saving.go_on,
        group.Look: Looking.look,
    },
    JobState.ENDING: {
        **_TO_OTHERS,
        load.Ports: Progress.late,
        load.Go: Progress.late,
        load.AllDone: Progress.late,
        group.Begin: Progress.late,
        group.GoOn: Progress.late,
        group.Look: Progress.late,
    },
}

# -- messages of a child: method(place of the child, message, now) ---------

_UP: MessageRules = {
    load.Vote: Progress.late_below,
    load.Loaded: Progress.late_below,
    load.Held: Progress.late_below,
    load.Late: Progress.hear,
    load.Failure: Failures.pass_on,
    load.Completions: Ends.ended_below,
    load.Released: Release.released,
    load.Spawned: Wiring.spawned_below,
    group.Done: Progress.late_below,
    group.Seen: Looking.seen_below,
    group.Still: Looking.seen_below,
    group.Times: Release.times_below,
    io.Output: Output.pass_on,
    io.Lines: Output.pass_lines,
    io.InputCredit: Output.input_taken_below,
    io.RemoteRequest: Output.remote_asked_below,
    io.LineAsked: Output.line_asked_below,
    pmi.FenceIn: Wiring.fence_in,
    pmi.Ask: Wiring.asked_below,
    pmi.Reply: Wiring.replied_below,
    pmi.Alone: Wiring.alone_below,
    pmi.Excess: Wiring.excess_below,
}

FROM_CHILD: dict[JobState, MessageRules] = {
    JobState.FORMING: {
        **_UP,
        load.Vote: Forming.vote,
        load.Loaded: Loading.loaded,
        load.Held: Starting.held,
    },
    JobState.LOADING: {**_UP, load.Loaded: Loading.loaded, load.Held: Starting.held},
    JobState.STARTING: {**_UP, load.Held: Starting.held},
    JobState.HELD: _UP,
    JobState.RUNNING: {**_UP, group.Done: Saving.voted_below},
    JobState.ENDING: _UP,
}

# -- all messages ----------------------------------------------------------

_LIVING = tuple(EVENTS)  # all states but RELEASED

MESSAGES: dict[Sender, dict[JobState, MessageRules]] = {
    Sender.YOD: FROM_YOD,
    Sender.PARENT: FROM_PARENT,
    Sender.CHILD: FROM_CHILD,
    Sender.ADOPTER: {state: {group.Adopted: Losses.adopted} for state in _LIVING},
}

# From any sender, in every state: method(MessageReceived, now)
FROM_ANYBODY: MessageRules = {
    load.Reset: Losses.reset,
    group.Orphan: Losses.adopt,
    group.Share: Saving.share,
    group.ShareTaken: Saving.share_taken,
    group.Rescue: Saving.rescue,
}


def method_for(sender: Sender, state: JobState, message: Message) -> Method:
    """What handles a message of a node of the job.

    Raises:
        PeerProtocolError: the table does not list it.
    """
    kind = type(message)
    rules = MESSAGES.get(sender, {})
    if (method := rules.get(state, {}).get(kind)) is not None:
        return method
    if sender in (Sender.ADOPTER, Sender.MEMBER):
        return Progress.late  # it was our parent or child, and does not know that it is lost
    if any(kind in allowed for allowed in rules.values()):
        raise PeerProtocolError(f"{kind.__name__.lower()} while {state.value}")
    role = "child" if sender is Sender.CHILD else "parent"
    raise PeerProtocolError(f"{kind.__name__} is not a {role}'s to send")


# -- the end of a state: method(now) ---------------------------------------

ADVANCES: dict[JobState, Callable[[Any, float], list[Action] | None]] = {
    JobState.FORMING: Forming.all_voted,  # to LOADING
    JobState.LOADING: Loading.all_loaded,  # to STARTING
    JobState.STARTING: Starting.all_held,  # to HELD; Starting.go: to RUNNING
    JobState.ENDING: Release.all_released,  # Release.end: to ENDING; from here to RELEASED
}
