"""What an interrupt means: each press goes a step further, and says so."""

from __future__ import annotations

from enum import Enum, IntEnum


class Press(IntEnum):
    """How far interrupts have gone."""

    NONE = 0
    TERMINATE = 1
    KILL = 2
    RESET = 3


class Stage(Enum):
    """What an interrupt finds."""

    LOADING = "loading"  # the application has not begun
    RUNNING = "running"
    ENDING = "ending"
    LEAVING = "leaving"  # the nodes are being reset or released


_SAID = {
    Stage.LOADING: {
        Press.TERMINATE: "the load is being cancelled; interrupt again to reset the nodes",
    },
    Stage.RUNNING: {
        Press.TERMINATE: "SIGTERM sent to all ranks; interrupt again to send SIGKILL",
        Press.KILL: "SIGKILL sent to all ranks; interrupt again to reset the nodes and leave",
        Press.RESET: "nodes are being reset; interrupt again to leave",
    },
    Stage.ENDING: {
        Press.TERMINATE: "the job is ending; interrupt again to reset the nodes",
        Press.KILL: "nodes are being reset; interrupt again to leave",
        Press.RESET: "nodes are being reset; interrupt again to leave",
    },
    Stage.LEAVING: {
        Press.TERMINATE: "the nodes are being given back; interrupt twice more to leave now",
        Press.KILL: "the nodes are being given back; interrupt again to leave now",
        Press.RESET: "leaving; bebopd takes the nodes back",
    },
}


class Interrupts:
    """Counts presses.

    Attributes:
        press: the step reached.
        first_signal: number of the signal that came first; 0: none.
    """

    def __init__(self) -> None:
        self.press = Press.NONE
        self.first_signal = 0

    def next(self, signal_number: int, stage: Stage) -> str:
        """One more press.

        Returns:
            What was done and what the next press will do.
        """
        self.first_signal = self.first_signal or signal_number
        self.press = Press(min(self.press + 1, Press.RESET))
        return _SAID[stage][self.press]
