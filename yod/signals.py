"""What an interrupt means: each press goes a step further, and says so."""

from __future__ import annotations

from enum import IntEnum


class Press(IntEnum):
    """How far interrupts have gone."""

    NONE = 0
    TERMINATE = 1
    KILL = 2
    RESET = 3


_SAID = {
    Press.TERMINATE: "SIGTERM sent to all ranks; interrupt again to send SIGKILL",
    Press.KILL: "SIGKILL sent to all ranks; interrupt again to reset the nodes and leave",
    Press.RESET: "nodes are being reset",
}

_SAID_BEFORE_GO = {
    Press.TERMINATE: "the load is being cancelled; interrupt again to reset the nodes",
    Press.KILL: "nodes are being reset; interrupt again to leave",
    Press.RESET: "leaving; bebopd takes the nodes back",
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

    def next(self, signal_number: int, has_gone: bool) -> str:
        """One more press.

        Returns:
            What was done and what the next press will do.
        """
        self.first_signal = self.first_signal or signal_number
        self.press = Press(min(self.press + 1, Press.RESET))
        return (_SAID if has_gone else _SAID_BEFORE_GO)[self.press]
