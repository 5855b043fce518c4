"""The script of a batch job as a process."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from native.loop.reactor import Reactor
from native.text import shown
from native.wire.batch import Task
from partition.batch.begun import Begun
from partition.broker.command import NOT_EXECUTABLE, NOT_FOUND, CannotStartError


class Script:
    """The script in a process group of its own, which has begun before us.

    Args:
        on_end: called with its wait status.

    Attributes:
        wait_status: None: it has not ended.
    """

    def __init__(
        self,
        task: Task,
        begun: Begun,
        reactor: Reactor,
        on_end: Callable[[int], None],
    ) -> None:
        self.wait_status: int | None = None
        self._task = task
        self._begun = begun
        self._reactor = reactor
        self._on_end = on_end
        self._unix_pid = 0  # 0: it does not run

    def start(self, job_id: str, variables: Mapping[str, str]) -> None:
        """Wait for its end. It has the variables already. Tell one that is held to begin.

        Raises:
            CannotStartError: it could not be executed.
        """
        if error := self._begun.error:
            status = NOT_FOUND if error == errno.ENOENT else NOT_EXECUTABLE
            raise CannotStartError(f"{_blamed(self._task)}: {os.strerror(error)}", status)
        self._unix_pid = self._begun.unix_pid
        self._reactor.on_child(self._unix_pid, self._ended)
        if self._begun.is_held:
            with suppress(BrokenPipeError):  # it has been killed
                os.write(self._begun.go, self._word)
            os.close(self._begun.go)

    def signal(self, *numbers: int) -> None:
        """Send signals to it and to what it has started in its group."""
        if first := self._first:
            for number in numbers:
                with suppress(ProcessLookupError):
                    os.killpg(first, number)

    def signal_alone(self, number: int) -> None:
        """Send a signal to its first process."""
        if first := self._first:
            os.kill(first, number)  # a child that is not reaped keeps its id

    def suspend(self, is_on: bool) -> None:
        """Stop its group, with the yods in it; or continue it."""
        self.signal(signal.SIGSTOP if is_on else signal.SIGCONT)

    def hang_up(self) -> None:
        """Tell it that the allocation is over."""
        self.signal(signal.SIGTERM, signal.SIGCONT)

    @property
    def _first(self) -> int:
        """Its first process, which leads its group; 0: it does not run."""
        return self._unix_pid

    @property
    def _word(self) -> bytes:
        """What one that is held is told."""
        return b"g"

    def _ended(self, status: int) -> None:
        self._unix_pid = 0
        self.wait_status = status
        self._on_end(status)


def _blamed(task: Task) -> str:
    """What is not there, or cannot be executed: of a script it is the interpreter."""
    words = task.script.partition(b"\n")[0].removeprefix(b"#!").split()
    name = shown(os.fsdecode(task.words[0]))
    return f"{name}: its interpreter {shown(os.fsdecode(words[0]))}" if words else name
