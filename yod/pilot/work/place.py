"""What the agent and those that run tasks for it give one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from native.loop.reactor import Reactor
from native.waitstatus import SIGNAL_BASE
from yod.pilot.model.sizes import RankSlot


class Work(Struct):
    """A task that has its slots.

    Attributes:
        description: what has been given.
        sandbox: its directory, which may not be there yet.
        environment: its own variables, beside those of the agent.
        payload: the packed call of a function.
    """

    uid: str
    description: dict[str, Any]
    slots: list[RankSlot]
    sandbox: str
    environment: dict[str, str]
    payload: bytes = b""


class Outcome(Struct):
    """How a task, or a process, has ended.

    Attributes:
        exit_code: of the first rank that failed; None: there was none.
        signal: that ended it; 0: none.
        reason: why it failed, where the exit code does not say it.
        is_lost: by the loss of a node or of a process of ours: it may do better elsewhere.
        value: the packed result of a call.
        exception, exception_detail: what a call has raised, and its traceback.
        times: events of the profile, in order.
        stdout, stderr: the ends of both.
        is_back: what a call has left on a node of its own is in its sandbox already.
    """

    exit_code: int | None = 0
    signal: int = 0
    reason: str = ""
    value: bytes = b""
    exception: str = ""
    exception_detail: str = ""
    times: list[tuple[str, float]] = []
    stdout: str = ""
    stderr: str = ""
    is_lost: bool = False
    is_back: bool = False

    @property
    def failure(self) -> str:
        """Why it failed, in a line; empty: it did not."""
        if self.reason or self.exception:
            return self.reason or self.exception
        if self.signal:
            return f"it was ended by signal {self.signal}"
        return f"exit code {self.exit_code}" if self.exit_code else ""


def outcome_of(wait_status: int) -> Outcome:
    """The outcome of a process with this wait status."""
    signo = wait_status & 0x7F
    if signo:
        return Outcome(exit_code=SIGNAL_BASE + signo, signal=signo)
    return Outcome(exit_code=wait_status >> 8)


class Place(Protocol):
    """The agent, as those see it that run tasks."""

    reactor: Reactor
    session_uid: str
    pilot_uid: str
    sandbox: str  # of the pilot
    nodes: list[str]  # names

    def ended(self, uid: str, outcome: Outcome) -> None:
        """A task is over: exactly once for each."""

    def started(self, uid: str, at: float) -> None:
        """A task runs, since then in seconds of day. It need not be told."""

    def informed(self, uid: str, text: str) -> None:
        """A service has said this of itself."""

    def start_process(
        self,
        node: int,
        argv: list[str],
        environment: dict[str, str],
        directory: str,
        stdout: str,
        stderr: str,
        cores: tuple[int, ...],
        on_end: Callable[[Outcome], None],
    ) -> int:
        """Start a process on a node; its number is for :meth:`kill_process`."""

    def kill_process(self, number: int, signo: int) -> None:
        """Send a process, and those of its group, a signal."""
