"""Interrupts: each press goes a step further than the last, and the user reads which.

A press is a signal that interrupts yod, and all such signals within ``press_s`` after it.
They often come in pairs: ``timeout`` and ``kill -- -PGID`` signal yod and its process
group, and when a terminal closes both the kernel and the shell send SIGHUP. Cplant's yod
had a delay between presses, too.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class Press(IntEnum):
    """How far interrupts have gone."""

    NONE = 0
    TERMINATE = 1
    KILL = 2
    LEAVE = 3


class Stage(Enum):
    """What the launch does when an interrupt comes."""

    LOADING = "loading"  # the application has not begun
    RUNNING = "running"
    ENDING = "ending"
    LEAVING = "leaving"  # the nodes are being reset or released


_SAID = {
    Stage.LOADING: {
        Press.TERMINATE: "the load is being cancelled; interrupt again{later} to reset the nodes",
    },
    Stage.RUNNING: {
        Press.TERMINATE: "SIGTERM sent to all ranks; interrupt again{later} to send SIGKILL",
        Press.KILL: (
            "SIGKILL sent to all ranks; interrupt again{later} to reset the nodes and leave"
        ),
    },
    Stage.ENDING: {
        Press.TERMINATE: "the job is ending; interrupt again{later} to reset the nodes",
        Press.KILL: "nodes are being reset; interrupt again{later} to leave",
    },
    Stage.LEAVING: {
        Press.TERMINATE: "the nodes are being given back; interrupt twice more to leave now",
        Press.KILL: "the nodes are being given back; interrupt again{later} to leave now",
    },
}
_LEAVING = "the nodes are told to reset; leaving"


class Interrupts:
    """Counts presses.

    Args:
        press_s: signals that come within this after a press belong to it.

    Attributes:
        press: the step reached.
    """

    def __init__(self, press_s: float) -> None:
        self.press = Press.NONE
        self._press_s = press_s
        self._pressed_at = -float("inf")

    def take(self, now: float) -> bool:
        """A signal has come.

        Returns:
            Whether it is one more press.
        """
        if now < self._pressed_at + self._press_s:
            return False
        self._pressed_at = now
        self.press = Press(min(self.press + 1, Press.LEAVE))
        return True

    def said(self, stage: Stage) -> str:
        """What the press did and what the next one will do."""
        if self.press is Press.LEAVE:
            return _LEAVING
        later = f" after {self._press_s:g} s" if self._press_s else ""
        return _SAID[stage][self.press].format(later=later)
