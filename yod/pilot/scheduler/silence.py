"""An agent that stands still, and what its client and it itself make of that.

The client looks at the connection again and again. Where nothing has moved since the look before it
asks, and where nothing has moved at so many looks one after another it leaves a mark. Looks are
counted, and not seconds. One that comes late does not count: the client stood still itself, or was
busy, and what the agent has said may not have been read.

The agent may have stood still and go on. It looks for the mark before it lets anything begin,
unless it has looked within the time between two looks of the client. So it begins nothing any more
when the client looks once more: then it is given up, and its tasks are somebody else's.

Pure: no clock. Times are seconds on the caller's monotonic clock; that of an agent goes on while
its host sleeps.
"""

from __future__ import annotations

from enum import Enum, auto

LOOKS = 4  # without a word, one after another
_LOOK_S = 15.0  # between two of an agent that is given up for other reasons alone


class Verdict(Enum):
    """What a look has found."""

    WELL = auto()
    ASK = auto()
    MARK = auto()
    GIVE_UP = auto()


class Silence:
    """One agent, as its client sees it.

    Args:
        silent_s: it is given up when it has not said a word for this long; 0: never.
    """

    def __init__(self, silent_s: float) -> None:
        self._every_s = silent_s / LOOKS
        self._next: float | None = None
        self._moved = 0
        self._quiet_looks = 0
        self._is_marked = False

    @property
    def is_asked(self) -> bool:
        """It has been asked, and has not answered."""
        return self._quiet_looks > 0

    def begin(self, moved: int, now: float, after_s: float = 0.0) -> None:
        """It is there from now on.

        Args:
            moved: a count that grows with whatever moves on the connection.
            after_s: what it has before the first look, beside the time between two.
        """
        self._moved, self._quiet_looks = moved, 0
        self._next = now + after_s + self._every_s if self._every_s else None

    def end(self) -> None:
        """It need not be there any more."""
        self._next = None

    def deadline(self) -> float | None:
        """When to look."""
        return self._next

    def look(self, moved: int, now: float) -> Verdict:
        """The time to look has come."""
        is_late = self._next is not None and now - self._next > self._every_s / 2
        self._next = now + self._every_s
        if self._is_marked:
            self._next = None
            return Verdict.GIVE_UP
        if moved != self._moved:
            self._moved, self._quiet_looks = moved, 0
            return Verdict.WELL
        if is_late:
            return Verdict.ASK
        self._quiet_looks += 1
        if self._quiet_looks < LOOKS:
            return Verdict.ASK
        self._is_marked = True
        return Verdict.MARK


class Leave:
    """Says when an agent must look for its client's mark before it lets a task begin.

    Args:
        silent_s: as its client has it.
    """

    def __init__(self, silent_s: float) -> None:
        self._holds_s = silent_s / LOOKS if silent_s else _LOOK_S
        self._looked_at: float | None = None

    def is_over(self, now: float) -> bool:
        """It has to look."""
        return self._looked_at is None or now - self._looked_at >= self._holds_s

    def looked(self, at: float) -> None:
        """There was no mark at this time, or later."""
        self._looked_at = at
