"""One client of a launch server.

    GREETED    the client was sent a greeting; its request is awaited
    PREPARING  a helper reads the command line and measures the programs
    SUBMITTING instead, for `yodjob`: a helper hands a job in, or does another command
    RUNNING    the launch has begun
    LEAVING    the client was told how the launch ended, or to run it itself; a server that ends
               waits LEAVE_S for it, because a stopped client may not leave for days
    OVER       the connection is closed

The client may be told to run the launch itself (Cold), but only before RUNNING: from then on
something may have been started, and no launch may run twice. In SUBMITTING only the helper knows
whether something was done, so only its answer makes that cold.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from native.errors import IllegalTransition, PeerProtocolError
from native.limits import Limits
from native.machine import Action, DeadlineReached, Event
from native.waitstatus import FAILED
from native.wire import client
from native.wire.client import Stdio
from partition.session.events import (
    Abandon,
    Asked,
    Begin,
    CancelPreparing,
    ClientGone,
    HangUp,
    LaunchEnded,
    LaunchFailed,
    NotPrepared,
    PassSignal,
    Prepare,
    Ready,
    Refused,
    Said,
    ServerEnds,
    Signalled,
    Submit,
    Tell,
)
from yod.launch.report import NEVER_STARTED

LEAVE_S = 2.0  # what it was told waits in its socket, where it finds it later
ENDING_TEXT = "the launch server was told to end (yodctl down); the job has been ended"
UNKNOWN_TEXT = "yodjob list tells whether the command was carried out"


class State(Enum):
    """Where a session is."""

    __hash__ = object.__hash__  # that of Enum is a call of Python for each look into a table

    GREETED = "greeted"
    PREPARING = "preparing"
    SUBMITTING = "submitting"
    RUNNING = "running"
    LEAVING = "leaving"
    OVER = "over"


class Session:
    """State machine of one client's session.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self.state = State.GREETED
        self._limits = limits
        self._until: float | None = now + limits.connect_s
        self._failure_status = NEVER_STARTED
        self._error_stream = 2

    def deadline(self) -> float | None:
        """Time of the next ``DeadlineReached``, or None when nothing is timed."""
        return self._until

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Raises:
            PeerProtocolError: a second request.
            IllegalTransition: no such event here; a bug.
        """
        row = TABLE[self.state]
        if type(event) not in row:
            if isinstance(event, Asked):
                raise PeerProtocolError("client: a second request")
            raise IllegalTransition(self.state, event)
        return row[type(event)](self, event, now)

    def check(self) -> None:
        """Assert the invariants."""
        if self.state is not State.LEAVING:
            timed = self.state in (State.GREETED, State.PREPARING)
            assert timed == (self._until is not None)

    # -- before the launch ------------------------------------------------

    def _asked(self, event: Asked, now: float) -> list[Action]:
        if Stdio.YODJOB in event.request.stdio:
            # Both are one file: the client writes one stream, in order.
            self._error_stream = 1 if Stdio.SAME_OUTPUT in event.request.stdio else 2
            self._enter(State.SUBMITTING)
            return [Submit(event.request)]
        self._enter(State.PREPARING, now + self._limits.prepare_s)
        return [Prepare(event.request)]

    def _ready(self, event: Ready, now: float) -> list[Action]:
        self._enter(State.RUNNING)
        if event.prepared.plan.options.ends_as_cplant:
            from yod.plan.cplant import NEVER_STARTED as OF_CPLANT  # few launches ask for it

            self._failure_status = OF_CPLANT
        times = _times(event.prepared.limits)
        told = [Tell(times)] if times != _times(self._limits) else []  # else as in the greeting
        return [*told, Begin(event.prepared)]

    def _refused(self, event: Refused, now: float) -> list[Action]:
        self._enter(State.LEAVING)
        return [_line(event.text), Tell(client.Exit(event.exit_status))]

    def _not_prepared(self, event: NotPrepared, now: float) -> list[Action]:
        return self._go_cold(event.reason, event.is_launch)

    def _late(self, _: DeadlineReached, now: float) -> list[Action]:
        reason = f"the launch was not prepared in {self._limits.prepare_s:g} s"
        return [*self._cancel_preparing(), *self._go_cold(reason)]

    def _preparing_failed(self, event: LaunchFailed, now: float) -> list[Action]:
        return [*self._cancel_preparing(), *self._go_cold(event.text)]

    def _interrupted(self, event: Signalled, now: float) -> list[Action]:
        """A signal before there is a launch that could take it."""
        if event.number not in client.END_SIGNALS:
            return []
        cancel = self._cancel_preparing()
        self._enter(State.LEAVING)
        return [*cancel, Tell(client.Exit(-event.number))]

    def _go_cold_at_end(self, event: ServerEnds, now: float) -> list[Action]:
        actions = [*self._cancel_preparing(), *self._go_cold("the launch server ends")]
        return actions + self._leaves_at_end(event, now)

    def _go_cold(self, reason: str, is_launch: bool = True) -> list[Action]:
        self._enter(State.LEAVING)
        return [Tell(client.Cold(reason, is_launch))]

    def _cancel_preparing(self) -> list[Action]:
        """What a helper still does for this client is not wanted any more."""
        is_wanted = self.state in (State.PREPARING, State.SUBMITTING)
        return [CancelPreparing()] if is_wanted else []

    # -- a job is handed in -----------------------------------------------

    def _said(self, event: Said, now: float) -> list[Action]:
        self._enter(State.LEAVING)
        said = ((self._error_stream, event.errors), (1, event.output))
        told = [Tell(client.Output(*piece)) for each in said for piece in _pieces(*each)]
        return [*told, Tell(client.Exit(event.exit_status))]

    def _submitting_failed(self, event: LaunchFailed, now: float) -> list[Action]:
        cancel = self._cancel_preparing()
        self._enter(State.LEAVING)
        line = _line(f"{event.text}; {UNKNOWN_TEXT}", command="yodjob")
        return [*cancel, line, Tell(client.Exit(FAILED))]

    def _submitting_at_end(self, event: ServerEnds, now: float) -> list[Action]:
        failed = self._submitting_failed(LaunchFailed("the launch server ends"), now)
        return failed + self._leaves_at_end(event, now)

    # -- the launch -------------------------------------------------------

    def _ended(self, event: LaunchEnded, now: float) -> list[Action]:
        self._enter(State.LEAVING)
        # The client need not wait until all is given back.
        return [Tell(client.Exit(event.exit_status, event.drops)), Abandon(is_soon=True)]

    def _failed(self, event: LaunchFailed, now: float) -> list[Action]:
        self._enter(State.LEAVING)
        # Output that the client has not written may fill the window.
        line = _line(event.text, client.OWN_LINE_MAX_BYTES)
        return [Abandon(), line, Tell(client.Exit(self._failure_status))]

    def _server_ends(self, event: ServerEnds, now: float) -> list[Action]:
        actions = self._failed(LaunchFailed(ENDING_TEXT), now)
        return actions + self._leaves_at_end(event, now)

    # -- the end ----------------------------------------------------------

    def _leaves_at_end(self, _: ServerEnds, now: float) -> list[Action]:
        """The server ends soon, be the client gone or not."""
        if self._until is None:
            self._until = now + LEAVE_S
        return []

    def _gone(self, _: Event, now: float) -> list[Action]:
        given_up = [Abandon()] if self.state is State.RUNNING else self._cancel_preparing()
        self._enter(State.OVER)
        return [*given_up, HangUp()]

    def _enter(self, state: State, until: float | None = None) -> None:
        self.state, self._until = state, until


def _line(text: str, most_bytes: int = client.DATA_MAX, command: str = "yod") -> Tell:
    """A line of the session's own."""
    data = f"{command}: {text}\n".encode(errors="surrogateescape")
    return Tell(client.Output(2, client.cut(data, most_bytes)))


def _pieces(stream: int, data: bytes) -> list[tuple[int, bytes]]:
    """Of a stream, as packets carry them; the window has room for all."""
    begins = range(0, len(data), client.DATA_MAX)
    return [(stream, data[begin : begin + client.DATA_MAX]) for begin in begins]


def _times(limits: Limits) -> client.Times:
    return client.Times.of_seconds(limits.press_s, limits.liveness_s)


def _pass(_: Session, event: Signalled, now: float) -> list[Action]:
    return [PassSignal(event.number)]


def _ignore(_: Session, event: Event, now: float) -> list[Action]:
    """It has come too late."""
    return []


Method = Callable[[Session, Any, float], list[Action]]

_LATE = (Ready, Refused, NotPrepared, Said, LaunchEnded, LaunchFailed)
_ENDS: dict[type[Event], Method] = {
    ClientGone: Session._gone,
    ServerEnds: Session._server_ends,
}
TABLE: dict[State, dict[type[Event], Method]] = {
    State.GREETED: {
        **_ENDS,
        Asked: Session._asked,
        NotPrepared: Session._not_prepared,
        Signalled: Session._interrupted,
        DeadlineReached: Session._gone,
        LaunchFailed: Session._gone,
        ServerEnds: Session._go_cold_at_end,
    },
    State.PREPARING: {
        **_ENDS,
        Signalled: Session._interrupted,
        Ready: Session._ready,
        Refused: Session._refused,
        NotPrepared: Session._not_prepared,
        LaunchFailed: Session._preparing_failed,
        DeadlineReached: Session._late,
        ServerEnds: Session._go_cold_at_end,
    },
    State.SUBMITTING: {
        **_ENDS,
        Signalled: Session._interrupted,
        Said: Session._said,
        NotPrepared: Session._not_prepared,
        LaunchFailed: Session._submitting_failed,
        ServerEnds: Session._submitting_at_end,
    },
    State.RUNNING: {
        **_ENDS,
        Signalled: _pass,
        LaunchEnded: Session._ended,
        LaunchFailed: Session._failed,
    },
    State.LEAVING: {
        **dict.fromkeys((*_LATE, Signalled), _ignore),
        Asked: _ignore,  # it had not read yet what it was told without a request
        ServerEnds: Session._leaves_at_end,
        ClientGone: Session._gone,
        DeadlineReached: Session._gone,
    },
    State.OVER: dict.fromkeys(
        (*_LATE, Signalled, ServerEnds, ClientGone, DeadlineReached), _ignore
    ),
}
