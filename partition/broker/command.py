"""What runs in an allocation: the user's command, or the program that reads our output."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from msgspec import json

from native.errors import YodError
from native.host import rlimits
from native.loop.reactor import Reactor, Watch
from native.text import shown
from native.waitstatus import exit_status

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit statuses, as a shell's
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python


class CannotStartError(YodError):
    """The command cannot be started; the text says why.

    Attributes:
        exit_status: as a shell's.
    """

    def __init__(self, text: str, exit_status: int) -> None:
        super().__init__(text)
        self.exit_status = exit_status


@contextmanager
def default_signals() -> Iterator[None]:
    """Have the default actions of what Python ignores."""
    before = [(number, signal.signal(number, signal.SIG_DFL)) for number in _IGNORED]
    try:
        yield
    finally:
        for number, action in before:
            signal.signal(number, action)


class Tenant(Protocol):
    """What has an allocation."""

    def start(self, job_id: str, variables: Mapping[str, str]) -> None:
        """Give it the allocation.

        Args:
            job_id: of the allocation, as users call it.
            variables: by which it is found.

        Raises:
            CannotStartError: it cannot have it.
        """

    def signal(self, *numbers: int) -> None:
        """Send it signals."""

    def signal_alone(self, number: int) -> None:
        """Send its first process a signal."""

    def suspend(self, is_on: bool) -> None:
        """Stop it with its allocation, or continue it."""

    def hang_up(self) -> None:
        """Tell it that the allocation is over."""


class Command:
    """A command in our process group: it has the terminal if we have.

    Args:
        environment: of this process.
        on_end: called with its exit status.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        reactor: Reactor,
        on_end: Callable[[int], None],
    ) -> None:
        self._words = words
        self._environment = environment
        self._reactor = reactor
        self._on_end = on_end
        self._unix_pid = 0  # 0: it does not run

    def start(self, job_id: str, variables: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            CannotStartError: there is no such program, or it cannot be executed.
        """
        words, environment = self._words, {**self._environment, **variables}
        try:
            # What we handle has its default action again.
            with rlimits.as_before(), default_signals():
                self._unix_pid = os.posix_spawnp(words[0], list(words), environment, setsigmask=())
        except FileNotFoundError:
            raise CannotStartError(f"{shown(words[0])}: no such program", NOT_FOUND) from None
        except OSError as error:
            text = f"{shown(words[0])}: {error.strerror}"
            raise CannotStartError(text, NOT_EXECUTABLE) from None
        self._reactor.on_child(self._unix_pid, self._ended)

    def signal(self, *numbers: int) -> None:
        """Send it signals."""
        if self._unix_pid:
            for number in numbers:
                os.kill(self._unix_pid, number)  # a child that is not reaped keeps its id

    def signal_alone(self, number: int) -> None:
        """Send it a signal."""
        self.signal(number)

    def suspend(self, is_on: bool) -> None:
        """It goes on: it may be the shell that the user resumes the allocation from."""

    def hang_up(self) -> None:
        """Tell it that the allocation is over. An interactive shell ignores SIGTERM."""
        self.signal(signal.SIGHUP, signal.SIGTERM, signal.SIGCONT)

    def _ended(self, status: int) -> None:
        self._unix_pid = 0
        self._on_end(exit_status(status))


class Reader:
    """The program that has started this one. It reads in a line of JSON which allocation it has,
    and has it until it closes our standard input.

    Args:
        on_end: called with an exit status.
    """

    def __init__(self, reactor: Reactor, on_end: Callable[[int], None]) -> None:
        self._reactor = reactor
        self._on_end = on_end
        self._watch: Watch | None = None

    def start(self, job_id: str, variables: Mapping[str, str]) -> None:
        """Tell it.

        Raises:
            CannotStartError: it does not read.
        """
        line = json.encode({"id": job_id, "environment": dict(variables)}) + b"\n"
        try:
            while line:
                line = line[os.write(1, line) :]
        except OSError as error:
            raise CannotStartError(f"standard output: {error.strerror}", NOT_EXECUTABLE) from None
        try:
            self._watch = self._reactor.watch(0, self._read)
        except OSError:  # a file, or closed
            self.hang_up()

    def signal(self, *numbers: int) -> None:
        """It is not ours to signal."""

    def signal_alone(self, number: int) -> None:
        """It is not ours to signal."""

    def suspend(self, is_on: bool) -> None:
        """It is not ours to stop."""

    def hang_up(self) -> None:
        """It hears of our end."""
        self._reactor.call_soon(self._end)

    def _read(self) -> None:
        if not os.read(0, 4096):
            self._end()

    def _end(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._on_end(0)
