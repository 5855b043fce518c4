"""One host on its way to a PCT, or back: machines, and the words for what went wrong. Pure.

The command on the host says ``yod: starts`` when it has found yod, and ``yod: up`` when bebopd
has taken the node. All else that it or the host's shell writes is noise, until the command fails:
then the last line of its error output is the reason.
"""

from __future__ import annotations

import re
from enum import Enum

from msgspec import Struct

from native.text import shown

MARK = "yod: "
STARTS, UP = f"{MARK}starts", f"{MARK}up"
NO_YOD = "no yod: "  # so begins what a host without it says
SSH_FAILED = 255  # the status of ssh itself
REASON_MAX = 300  # characters

# What ssh says in front of a reason, with names and ports that differ from host to host.
_BEFORE = re.compile(
    r"ssh: connect to host \S+ port \d+: |ssh: Could not resolve hostname \S+: |"
    r"kex_exchange_identification: |ssh_exchange_identification: |\S+@\S+: (?=Permission denied)|"
    r"(?<=pct has ended: )\d{4}-\d\d-\d\d [\d:.]+ \S+: "
)


class Phase(Enum):
    """How far a host is."""

    REACHING = "reaching"  # ssh connects
    STARTING = "starting"  # yod is there, its PCT starts and announces itself
    UP = "up"  # bebopd has taken the node
    ENDED = "ended"  # no PCT is left there
    FAILED = "failed"

    @property
    def is_last(self) -> bool:
        """Nothing follows."""
        return self in (Phase.UP, Phase.ENDED, Phase.FAILED)


class Wrote(Struct, frozen=True):
    """A line has come from the host's standard output."""

    line: str


class Complained(Struct, frozen=True):
    """A line has come from the standard error of ssh, or of the host."""

    line: str


class Ended(Struct, frozen=True):
    """ssh has ended."""

    status: int


class TimedOut(Struct, frozen=True):
    """The host has had its time."""


Event = Wrote | Complained | Ended | TimedOut


class Bringing:
    """State machine of one host.

    Attributes:
        phase: how far it is.
        is_reached: a PCT has been, or was about to be started there.
        reason: why it has failed; empty: it has not.
    """

    def __init__(self, host: str, limit_s: float, bebopd: str) -> None:
        self.phase = Phase.REACHING
        self.is_reached = False
        self.reason = ""
        self._host = host
        self._limit_s = limit_s
        self._bebopd = bebopd
        self._last = ""

    def handle(self, event: Event) -> None:
        """Advance by one event. What comes behind an end changes nothing."""
        match self.phase, event:
            case ((Phase.UP | Phase.FAILED), _):
                pass
            case Phase.REACHING, Wrote(line) if line == STARTS:
                self.phase, self.is_reached = Phase.STARTING, True
            case Phase.STARTING, Wrote(line) if line == UP:
                self.phase = Phase.UP
            case _, Complained(line) if line.strip():
                self._last = line
            case _, Ended(status):
                self._fail(why(self._host, status, self._last))
            case _, TimedOut():
                self._fail(self._too_late())

    def _fail(self, reason: str) -> None:
        self.phase, self.reason = Phase.FAILED, reason

    def _too_late(self) -> str:
        if self.phase is Phase.STARTING:
            return f"its pct has not reached bebopd at {self._bebopd} in {self._limit_s:g} s"
        return f"no answer in {self._limit_s:g} s"


class Ending:
    """State machine of one host whose PCTs are ended, by a command whose end is its only word.

    Attributes:
        phase, is_reached, reason: as of :class:`Bringing`.
    """

    def __init__(self, host: str, limit_s: float) -> None:
        self.phase = Phase.REACHING
        self.is_reached = False
        self.reason = ""
        self._host = host
        self._limit_s = limit_s
        self._last = ""

    def handle(self, event: Event) -> None:
        """Advance by one event. What comes behind an end changes nothing."""
        match event:
            case _ if self.phase.is_last:
                pass
            case Complained(line) if line.strip():
                self._last = line
            case Ended(status):
                self.is_reached = status != SSH_FAILED
                self.phase = Phase.FAILED if status else Phase.ENDED
                self.reason = why(self._host, status, self._last) if status else ""
            case TimedOut():
                self.phase, self.reason = Phase.FAILED, f"no answer in {self._limit_s:g} s"


def why(host: str, status: int, last_line: str) -> str:
    """The reason of a failure, the same for all hosts that have it.

    Args:
        status: of ssh, which is that of the command on the host, or SSH_FAILED.
        last_line: of the error output; empty: there was none.
    """
    text = _BEFORE.sub("", last_line.strip().removeprefix(MARK))
    # A reason that names the host is another one on each.
    text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w.-])", "HOST", text)
    if text:
        return shown(text[:REASON_MAX].rstrip("."))
    return "ssh failed and gave no reason" if status == SSH_FAILED else f"exit status {status}"
