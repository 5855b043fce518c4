"""The phases of a launch, and the progress through them.

ALLOCATING  bebopd has been asked for nodes
FORMING     the load message was sent to the root; its vote is awaited
LOADING     objects go down the tree
STARTING    ranks are being brought to their entry
HELD        all are there, and the user says when they go (``-attach``)
RUNNING     go was sent
ENDING      all done was sent
RESETTING   every PCT that has not confirmed the end was told to reset
RELEASING   bebopd has been asked to confirm that the slots are free
DONE        the launch is over
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import inf

from native.deadlines import earliest
from native.machine import Action, Event
from native.wire.base import Message
from native.wire.load import Late, LateNode, Slowest


class Phase(Enum):
    """Where a launch is."""

    __hash__ = object.__hash__  # that of Enum is a call of Python for each look into a table

    ALLOCATING = "allocate"
    FORMING = "form"
    LOADING = "load"
    STARTING = "start"
    HELD = "hold"
    RUNNING = "run"
    ENDING = "end"
    RESETTING = "reset"
    RELEASING = "release"
    DONE = "done"


BEFORE_GO = (Phase.ALLOCATING, Phase.FORMING, Phase.LOADING, Phase.STARTING)


class Waiting:
    """Counts the time that yod has waited for one thing.

    The user is told what that is after ``notice_s``, then after twice the time.

    Attributes:
        due: when the next line is due; None: yod waits for nothing.
        late: the nodes that the root waits for; None: it has not said.
    """

    def __init__(self, notice_s: float) -> None:
        self.due: float | None = None
        self.late: Late | None = None
        self._notice_s = notice_s
        self._began = 0.0
        self._after_s = notice_s

    def begin(self, now: float) -> None:
        """yod waits for something new, or what it waits for makes progress."""
        self._began, self._after_s = now, self._notice_s
        self.due = now + self._notice_s
        self.late = None

    def end(self) -> None:
        """yod waits for nothing."""
        self.due = self.late = None

    def is_due(self, now: float) -> bool:
        """Whether a line is due."""
        return self.due is not None and now >= self.due

    def say(self, what: str, now: float) -> str:
        """The line for the user. The next is due after twice the time."""
        while self._began + self._after_s <= now:
            self._after_s *= 2
        self.due = self._began + self._after_s
        return f"waiting for {what} ({now - self._began:.0f} s)"

    def who(self, otherwise: str) -> str:
        """The nodes that are late, and why; ``otherwise`` where the root has not said."""
        if self.late is None:
            return otherwise
        silent = [node for node in self.late.nodes if not node.text]
        texts = [f"{node.name} ({node.text})" for node in self.late.nodes if node.text]
        texts += [_names(silent)] if silent else []
        return "; ".join(texts) + (f" and {self.late.more} more" if self.late.more else "")


def _names(nodes: Iterable[LateNode]) -> str:
    return ", ".join(node.name for node in nodes)


class Progress:
    """The phase of a launch, since when it lasts, and until when it may.

    Attributes:
        phase: the present one.
        began: phase -> when it first began.
        slowest: phase -> the node that took longest.
        until: when something is due in this phase; None: nothing is timed.
        waiting: when the user is told what yod waits for.
    """

    def __init__(self, notice_s: float) -> None:
        self.phase = Phase.ALLOCATING
        self.began: dict[Phase, float] = {}
        self.slowest: dict[Phase, Slowest] = {}
        self.until: float | None = None
        self.waiting = Waiting(notice_s)

    def enter(self, phase: Phase, now: float, within_s: float | None = None) -> None:
        """Begin a phase; ``within_s`` is the time that it may take, None: any."""
        self.phase = phase
        self.began.setdefault(phase, now)
        self.until = None if within_s is None else now + within_s
        if phase in (Phase.HELD, Phase.RUNNING):  # the user does not wait for yod
            self.waiting.end()
        else:
            self.waiting.begin(now)

    def extend(self, now: float, within_s: float) -> None:
        """The phase has made progress: it may take this much longer."""
        self.until = now + within_s
        self.waiting.begin(now)

    def hasten(self, now: float, within_s: float) -> None:
        """There is not much left to wait for: the phase may take this long at most."""
        if self.until is not None:
            self.until = min(self.until, now + within_s)

    def wait_silently(self, within_s: float) -> None:
        """The phase may take so long from its beginning; the user knows what yod waits for."""
        self.until = self.began[self.phase] + within_s if within_s < inf else None
        self.waiting.end()

    def late(self, _: Event | Message, now: float) -> list[Action]:
        """It has come too late, or means nothing in this phase."""
        return []

    def finish(self) -> None:
        """Enter DONE, where nothing is timed."""
        self.phase = Phase.DONE
        self.until = None
        self.waiting.end()

    def deadline(self) -> float | None:
        """The earlier of :attr:`until` and the next line about waiting."""
        return earliest(self.until, self.waiting.due)

    def take_due(self, now: float) -> bool:
        """Whether :attr:`until` has come; it is cleared then."""
        if self.until is None or now < self.until:
            return False
        self.until = None
        return True
