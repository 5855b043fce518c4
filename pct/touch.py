"""Whether the directories of a node's store answer, or hang.

A byte is written to each when a job is to use them, and from time to time. A slow disk takes it
late; one that has not taken it in ``store_answer_s`` hangs, and the node is lost to jobs until
it does. Whoever wants to use the store waits for the answer, so what hangs is another thread
and not the loop.

Pure: no clock, no I/O.
"""

from __future__ import annotations

from enum import Enum

from native.machine import Action, DeadlineReached, Event


class Touch(Action, frozen=True):
    """Write to the directories; answered by :class:`Touched`, or never."""


class Answer(Action, frozen=True):
    """The store can be used: let those go on who wait.

    Attributes:
        is_back: it hung before.
    """

    is_back: bool


class Hang(Action, frozen=True):
    """The store hangs: the node is lost to the jobs that are there."""


class Wanted(Event, frozen=True):
    """Somebody is to use the store."""


class Touched(Event, frozen=True):
    """The directories have taken what was written."""


class TouchState(Enum):
    """What is known of the store."""

    RESTING = "it answered"
    TOUCHING = "it is asked"
    HANGING = "it has not answered in time"


class StoreTouch:
    """State machine of what is known of the store.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.

    Args:
        limit_s: it answers within this, and is asked as often; 0: it is not asked.
        now: seconds, monotonic.
    """

    def __init__(self, limit_s: float, now: float) -> None:
        self.state = TouchState.RESTING
        self._limit_s = limit_s
        self._due: float | None = now + limit_s if limit_s else None

    def deadline(self) -> float | None:
        """When the next ``DeadlineReached`` is due; None: nothing is timed."""
        return self._due

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event."""
        match self.state, event:
            case TouchState.RESTING, (DeadlineReached() | Wanted()):
                self.state, self._due = TouchState.TOUCHING, now + self._limit_s
                return [Touch()]
            case TouchState.TOUCHING, DeadlineReached():
                self.state, self._due = TouchState.HANGING, None
                return [Hang()]
            case TouchState.HANGING, Wanted():
                return [Hang()]
            case ((TouchState.TOUCHING | TouchState.HANGING), Touched()):
                is_back = self.state is TouchState.HANGING
                self.state, self._due = TouchState.RESTING, now + self._limit_s
                return [Answer(is_back)]
        return []
