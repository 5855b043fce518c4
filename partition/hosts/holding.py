"""The commands that hold a PCT on each host of a batch job: a machine. Pure.

All are started at once. Until all PCTs are up the end of one ends all, and so does the end of
whoever waits for them; from then on a PCT that is lost leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

KILL_S = 10.0  # between SIGTERM and SIGKILL


class Command(Struct, frozen=True):
    """What starts a PCT on a host, and lives as long as that.

    Attributes:
        takes_key: it is told the partition's key on its standard input, whose end is the PCT's.
    """

    host: str
    words: tuple[str, ...]
    takes_key: bool = True


class Plan(Struct, frozen=True):
    """What the holder is told, in one line.

    Attributes:
        key: hex.
        ends_with: a Unix process id on this host, whose end is the job's; 0: the batch system
            ends what is left of a job.
    """

    key: str
    commands: tuple[Command, ...]
    ends_with: int = 0


class Phase(Enum):
    """How far the PCTs are."""

    BEGINNING = "beginning"
    UP = "up"
    ENDING = "ending"


class End(Struct, frozen=True):
    """Action: close the inputs of these hosts' commands, and send them SIGTERM."""

    hosts: tuple[str, ...]


class Kill(Struct, frozen=True):
    """Action: send SIGKILL to these hosts' commands."""

    hosts: tuple[str, ...]


class Say(Struct, frozen=True):
    """Action: a line for the log."""

    text: str


Action = End | Kill | Say


class Holding:
    """State machine of all commands.

    Attributes:
        left: hosts whose commands have not ended; when there is none this is over.
        has_failed: they did not all come up.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self.phase = Phase.BEGINNING
        self.left = set(hosts)
        self.has_failed = False
        self._kill_at: float | None = None

    def deadline(self) -> float | None:
        """When :meth:`due` is to be called; None: never."""
        return self._kill_at

    def up(self) -> list[Action]:
        """All PCTs are up."""
        if self.phase is Phase.BEGINNING:
            self.phase = Phase.UP
        return []

    def starter_gone(self, now: float) -> list[Action]:
        """Nobody waits for the PCTs any more, or all is well."""
        return self._end(now) if self.phase is Phase.BEGINNING else []

    def told_to_end(self, now: float) -> list[Action]:
        """The job, or the user, ends them."""
        return self._end(now)

    def ended(self, host: str, how: str, now: float) -> list[Action]:
        """A host's command has ended.

        Args:
            how: in words.
        """
        self.left.discard(host)
        if self.phase is Phase.ENDING:
            return []
        said = Say(f"{host}: {how}")
        return [said, *self._end(now)] if self.phase is Phase.BEGINNING else [said]

    def due(self, now: float) -> list[Action]:
        """The deadline has come."""
        if self._kill_at is None or now < self._kill_at:
            return []
        self._kill_at = None
        return [Kill(tuple(sorted(self.left)))]

    def _end(self, now: float) -> list[Action]:
        if self.phase is Phase.ENDING:
            return []
        self.has_failed = self.phase is Phase.BEGINNING
        self.phase = Phase.ENDING
        self._kill_at = now + KILL_S
        return [End(tuple(sorted(self.left)))] if self.left else []
