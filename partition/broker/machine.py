"""An allocation that a command holds, from the request for nodes to its end.

::

    ASKING --granted--> OPENING --all nodes up--> HELD --the command ends--> CLEARING
       |                   |                       |                           |  ^
       |                   `--too slow, signal-----'--signal, time limit-------|--'
       |                   `--the PCTs end---------'--the PCTs end-------> ENDING --> OVER
       `--refused, Ctrl-C, no time left------------------------------------------> OVER

CLEARING lasts until the command and all steps have ended, which get SIGTERM, or for
``kill_wait_s``. ENDING lasts until the command and the PCTs have ended. Pure: no clock, no
transport.
"""

from __future__ import annotations

import signal
from enum import Enum
from math import inf

from native import duration
from native.errors import IllegalTransition
from native.ids import PortalId
from native.limits import Limits
from native.machine import Action, DeadlineReached, Event, MessageReceived, PeerGone, Send
from native.wire.alloc import Grant, Queued, Refused
from native.wire.base import JobEnd, State
from partition.broker.outcome import LOST, end_of
from partition.broker.wanted import Wanted
from yod.launch.allocation import no_answer_text, queued_text

TIMED_OUT = 124  # exit status: the time limit, as that of timeout(1)
START_S = 30.0  # all PCTs must be up within this, behind the phases of their launch
START_NODE_S = 0.1  # more time for each node
CANCELLED = "cancelled"  # how it was ended by a command
_OF_THE_COMMAND = (signal.SIGINT, signal.SIGQUIT)  # keys of the terminal, while it runs


class Phase(Enum):
    """Where an allocation is."""

    ASKING = "asks for nodes"
    OPENING = "PCTs start on its nodes"
    HELD = "the command runs"
    CLEARING = "the command and the steps are to end"
    ENDING = "the command and the PCTs end"
    OVER = "over"


class NodesUp(Event, frozen=True):
    """So many of the nodes belong to the allocation's bebopd, and so many steps have slots."""

    count: int
    steps: int = 0


class NodesEnded(Event, frozen=True):
    """The launch of the PCTs is over; the text says how."""

    text: str
    is_unready: bool = False  # a node could not be made ready, and is drained


class CommandEnded(Event, frozen=True):
    """The command has ended, or did not start, with this exit status."""

    exit_status: int


class Signalled(Event, frozen=True):
    """This process has got a signal."""

    number: int


class TimeLimited(Event, frozen=True):
    """The allocation may last so long from its beginning; infinity: any time."""

    time_s: float


class Cancelled(Event, frozen=True):
    """A command asks for the end of the allocation."""


class Suspended(Event, frozen=True):
    """A command asks for the steps to be stopped, or, if not ``is_on``, to be continued."""

    is_on: bool


class Drained(Event, frozen=True):
    """A node of its is drained; the text says why."""

    text: str


class Tell(Action, frozen=True):
    """Show the user a line.

    Attributes:
        is_error: also to a user who wants to see nothing else.
    """

    text: str
    is_error: bool = True


class OpenNodes(Action, frozen=True):
    """Start a PCT on each node, and a bebopd for them."""

    grant: Grant


class StartCommand(Action, frozen=True):
    """Start the user's command."""


class HangUp(Action, frozen=True):
    """Tell the command that the allocation is over."""


class SignalCommand(Action, frozen=True):
    """Send the command a signal."""

    number: int


class SignalSteps(Action, frozen=True):
    """Send the ranks of all steps a signal, and begin no further step if it is SIGTERM."""

    number: int


class Suspend(Action, frozen=True):
    """Stop all steps, begin none, and stop a script; or continue them."""

    is_on: bool


class WriteDownSteps(Action, frozen=True):
    """Ask the yods of all steps for a checkpoint, behind which they end; the text says why."""

    text: str


class KillCommand(Action, frozen=True):
    """Kill the command."""


class EndNodes(Action, frozen=True):
    """End the PCTs; a second time: kill them."""


class Finish(Action, frozen=True):
    """End this process: with an exit status, or by a signal if that is negative."""

    status: int


class Holding:
    """State machine of one allocation.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.

    Args:
        bebopd_name: the address of the partition's bebopd, as the user knows it.

    Attributes:
        is_by_command: the end of the command has ended it, and nothing else.
        is_unready: a node could not be made ready, and the command has not begun.
        has_lost_nodes: some of its nodes were lost.
    """

    def __init__(self, wanted: Wanted, bebopd: PortalId, bebopd_name: str, limits: Limits) -> None:
        self.phase = Phase.ASKING
        self.is_by_command = self.is_unready = self.has_lost_nodes = False
        self._wanted = wanted
        self._bebopd = bebopd
        self._bebopd_name = bebopd_name
        self._limits = limits
        self._began = 0.0
        self._until: float | None = None
        self._awaited = ""  # what the request waits for in bebopd's line
        self._node_count = 0
        self._up_count = 0
        self._status: int | None = None  # how this process will end
        self._end_of: tuple[State, str] | None = None  # where the command has not decided it
        self._has_command = False
        self._has_nodes = False
        self._steps = 0
        self._time_s = wanted.time_s
        self._held_at = 0.0
        self._is_given = False  # somebody else has asked for the nodes, and limits the time
        self._over_at: float | None = None  # when the time limit is over

    def deadline(self) -> float | None:
        """Time of the next ``DeadlineReached``; None: nothing is timed."""
        return self._until

    @property
    def limit_s(self) -> float | None:
        """How long it may last; infinity: any time. None: the user cannot change it, or not now."""
        is_open = self.phase in (Phase.OPENING, Phase.HELD)
        return self._time_s if is_open and not self._is_given else None

    @property
    def end(self) -> JobEnd:
        """How the allocation has ended, for the partition's bebopd."""
        return end_of(self._status, self._end_of)

    def begin(self, now: float) -> list[Action]:
        """Ask for nodes."""
        wanted = self._wanted
        self._began, self._until = now, now + self._limits.allocate_s
        return [Send(self._bebopd, wanted.request())]

    def begin_with(self, grant: Grant, now: float, starts_command: bool = True) -> list[Action]:
        """Begin with nodes that somebody else has asked for.

        The command is started at once, and its first step waits for the nodes; or when all are up.
        """
        self._began, self._is_given = now, True
        opening = self._answered(grant, now)
        self._has_command = starts_command
        return [*opening, StartCommand()] if starts_command else opening

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Raises:
            IllegalTransition: not an event of this machine. No message does that.
        """
        if isinstance(event, DeadlineReached) and not self._take_due(now):
            return []
        match self.phase, event:
            case Phase.ASKING, MessageReceived(_, _, message):
                return self._answered(message, now)
            case Phase.ASKING, PeerGone(peer, text):
                return self._no_answer(text) if peer == self._bebopd else []
            case Phase.ASKING, DeadlineReached():
                return self._waited_enough()
            case Phase.ASKING, Signalled(number):
                return self._finish(-number)
            case Phase.OPENING, NodesUp(count, steps):
                self._steps = steps
                return self._up(count, now)
            case Phase.HELD, NodesUp(count, steps):
                self._steps = steps
                return self._still_up(count)
            case ((Phase.OPENING | Phase.HELD), TimeLimited(time_s)):
                self._time_s = time_s
                if self.phase is Phase.HELD:
                    self._limit_time(now)
                return self._limited()
            case ((Phase.OPENING | Phase.HELD), Cancelled()):
                return [Tell(CANCELLED), *self._end(LOST, now, (State.CANCELLED, CANCELLED))]
            case ((Phase.OPENING | Phase.HELD), Suspended(is_on)):
                return [Suspend(is_on)]
            case ((Phase.OPENING | Phase.HELD), Drained(text)):
                return [WriteDownSteps(text)]
            case _, (Suspended() | Drained()):
                return []
            case Phase.CLEARING, NodesUp(_, steps):
                self._steps = steps
                return self._look_at_steps()
            case ((Phase.OPENING | Phase.HELD), NodesEnded(text, is_unready)):
                self.is_unready = is_unready and not self._has_command
                return self._lost(text, now)
            case Phase.OPENING, DeadlineReached():
                return self._too_slow(now)
            case Phase.HELD, DeadlineReached():
                return self._time_over(now)
            case ((Phase.OPENING | Phase.HELD), CommandEnded(status)):
                self._has_command = False
                self.is_by_command = True
                return self._end(status, now)
            case Phase.HELD, Signalled(number) if number in _OF_THE_COMMAND:
                return []
            case ((Phase.OPENING | Phase.HELD), Signalled(number)):
                return self._end(-number, now)
            case Phase.CLEARING, CommandEnded():
                self._has_command = False
                return self._look_at_steps()
            case Phase.CLEARING, NodesEnded():
                self._has_nodes = False
                return self._end_nodes(now)
            case Phase.CLEARING, (Signalled() | Cancelled() | DeadlineReached()):
                return [KillCommand(), *self._end_nodes(now)]
            case Phase.ENDING, CommandEnded():
                self._has_command = False
                return self._look_at_end()
            case Phase.ENDING, NodesEnded():
                self._has_nodes = False
                return self._look_at_end()
            case Phase.ENDING, (Signalled() | Cancelled()):
                return [KillCommand(), EndNodes()]
            case Phase.ENDING, DeadlineReached():
                return [KillCommand()]
            case _, (MessageReceived() | PeerGone() | NodesUp()):
                return []  # the launch of the PCTs hears it, too
            case _, TimeLimited():
                return []  # it ends
            case Phase.OVER, _:
                return []
        raise IllegalTransition(self.phase, event)

    def _take_due(self, now: float) -> bool:
        if self._until is None or now < self._until:
            return False
        self._until = None
        return True

    # -- ASKING -----------------------------------------------------------

    def _answered(self, message: object, now: float) -> list[Action]:
        match message:
            case Grant() as grant:
                self.phase, self._has_nodes = Phase.OPENING, True
                self._time_s = min(self._time_s, grant.time_s or inf)  # its queue's
                self._node_count = len(grant.nodes)
                self._until = now + START_S + self._limits.phase_s + START_NODE_S * self._node_count
                return [OpenNodes(grant)]
            case Refused(_, text):
                return self._fail(text)
            case Queued() as queued:
                if not self._awaited:
                    wait_s = self._wanted.wait_s
                    self._until = self._began + wait_s if wait_s < inf else None
                self._awaited = queued.text
                return [Tell(queued_text(queued), is_error=False)]
        return []

    def _waited_enough(self) -> list[Action]:
        if self._awaited:
            return self._fail(f"no nodes in {self._wanted.wait_s:g} s: {self._awaited}")
        return self._no_answer(no_answer_text(self._limits))

    def _no_answer(self, text: str) -> list[Action]:
        return self._fail(f"bebopd at {self._bebopd_name} {text}")

    def _fail(self, text: str) -> list[Action]:
        return [Tell(text), *self._finish(LOST)]

    # -- OPENING, HELD ----------------------------------------------------

    def _up(self, count: int, now: float) -> list[Action]:
        self._up_count = count
        if count < self._node_count:
            return []
        self.phase = Phase.HELD
        has_started, self._has_command = self._has_command, True
        self._held_at = now
        self._limit_time(now)
        return [] if has_started else [StartCommand()]

    def _limit_time(self, now: float) -> None:
        """Set when the warning is due, or the time over."""
        warning = self._wanted.warning
        self._over_at = self._held_at + self._time_s if self._time_s < inf else None
        self._until = self._over_at
        if self._over_at is not None and warning is not None:
            self._until = max(now, self._over_at - warning.before_s)

    def _limited(self) -> list[Action]:
        if self._is_given:
            return []
        limit = duration.written(self._time_s if self._time_s < inf else 0)
        return [Tell(f"the time limit is {limit} now", is_error=False)]

    def _still_up(self, count: int) -> list[Action]:
        before, self._up_count = self._up_count, count
        if count >= before or not count:  # the end of the last is told by itself
            return []
        self.has_lost_nodes = True
        return [Tell(f"a node was lost; {count} of {self._node_count} are left")]

    def _too_slow(self, now: float) -> list[Action]:
        text = f"{self._up_count} of {self._node_count} nodes came up in time"
        return [Tell(text), *self._end(LOST, now, (State.NODE_FAIL, text))]

    def _time_over(self, now: float) -> list[Action]:
        assert self._over_at is not None
        if now < self._over_at and (warning := self._wanted.warning) is not None:
            self._until = self._over_at
            if warning.is_for_command:
                return [SignalCommand(warning.number)]
            return [SignalSteps(warning.number)]
        text = f"the time limit of {self._time_s:g} s is over"
        return [Tell(text), *self._end(TIMED_OUT, now, (State.TIMEOUT, text))]

    def _lost(self, text: str, now: float) -> list[Action]:
        self._has_nodes = False
        return [Tell(text), *self._end(LOST, now, (State.NODE_FAIL, text))]

    # -- CLEARING, ENDING -------------------------------------------------

    def _end(self, status: int, now: float, end: tuple[State, str] | None = None) -> list[Action]:
        """Have the command and the steps end, and then the PCTs.

        Args:
            end: state and reason, where the command has not ended by itself.
        """
        self.phase, self._status, self._end_of = Phase.CLEARING, status, end
        self._until = now + self._limits.kill_wait_s
        actions: list[Action] = [HangUp()] if self._has_command else []
        if self._has_nodes:
            actions.append(SignalSteps(signal.SIGTERM))
        if self._steps:
            steps = "1 step" if self._steps == 1 else f"{self._steps} steps"
            text = f"SIGTERM sent to {steps}, SIGKILL in {self._limits.kill_wait_s:g} s"
            actions.append(Tell(text, is_error=False))
        return actions + self._look_at_steps()

    def _look_at_steps(self) -> list[Action]:
        is_waiting = self._has_command or (self._has_nodes and self._steps)
        return [] if is_waiting else self._end_nodes(0.0)

    def _end_nodes(self, now: float) -> list[Action]:
        self.phase = Phase.ENDING
        self._until = now + self._limits.kill_delay_s if self._has_command else None
        actions: list[Action] = [EndNodes()] if self._has_nodes else []
        return actions + self._look_at_end()

    def _look_at_end(self) -> list[Action]:
        if self._has_command or self._has_nodes:
            return []
        assert self._status is not None
        return self._finish(self._status)

    def _finish(self, status: int) -> list[Action]:
        self.phase, self._until = Phase.OVER, None
        return [Finish(status)]
