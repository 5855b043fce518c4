"""What is done when processes that were killed do not end: first one thing, then another.

Who keeps them may be stopped or busy, so after ``limit_s`` the keeper itself is killed, and the
PCT kills what it leaves. A process that is alive as long again after that cannot be killed: it
waits in the kernel. bebopd is told of it, and drains the node. Pure.
"""

from __future__ import annotations

from enum import Enum

NAMED = "cannot be killed: {}"


class Step(Enum):
    """What is to be done next against processes that are still there."""

    KILL_KEEPERS = "kill their keepers"
    NAME = "find out which they are"


class Countdown:
    """The time that killed processes have to end.

    Args:
        limit_s: for each of the two steps.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._step = Step.KILL_KEEPERS
        self._until: float | None = None

    def begin(self, now: float) -> None:
        """They have been killed."""
        self._until = now + self.limit_s

    def stop(self) -> None:
        """They have ended."""
        self._until = None

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do; None: nothing is timed."""
        return self._until

    def due(self, now: float) -> Step | None:
        """Time has passed; what is to be done if any of them is still there, once each."""
        if self._until is None or now < self._until:
            return None
        step, self._until = self._step, None
        if step is Step.KILL_KEEPERS:
            self._step, self._until = Step.NAME, now + self.limit_s
        return step
