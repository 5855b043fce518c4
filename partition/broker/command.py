"""The user's command in an allocation: a child with our terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence

from native.errors import YodError
from native.loop.reactor import Reactor
from native.text import shown

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit statuses, as a shell's


class CannotStartError(YodError):
    """The command cannot be started; the text says why.

    Attributes:
        exit_status: as a shell's.
    """

    def __init__(self, text: str, exit_status: int) -> None:
        super().__init__(text)
        self.exit_status = exit_status


class Command:
    """Runs a command, in our process group: it has the terminal if we have.

    Args:
        on_end: called with its wait status.

    Attributes:
        has_ended: it has; nothing reaches it any more.
    """

    def __init__(self, reactor: Reactor, on_end: Callable[[int], None]) -> None:
        self._reactor = reactor
        self._on_end = on_end
        self._unix_pid = 0
        self.has_ended = False

    @property
    def is_running(self) -> bool:
        """It has begun, and has not ended."""
        return self._unix_pid != 0 and not self.has_ended

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it.

        Raises:
            CannotStartError: there is no such program, or it cannot be executed.
        """
        try:
            # What we handle has its default action again; what we ignore stays ignored.
            self._unix_pid = os.posix_spawnp(words[0], list(words), environment, setsigmask=())
        except FileNotFoundError:
            raise CannotStartError(f"{shown(words[0])}: no such program", NOT_FOUND) from None
        except OSError as error:
            text = f"{shown(words[0])}: {error.strerror}"
            raise CannotStartError(text, NOT_EXECUTABLE) from None
        self._reactor.on_child(self._unix_pid, self._ended)

    def signal(self, *numbers: int) -> None:
        """Send it signals."""
        if self.is_running:
            for number in numbers:
                os.kill(self._unix_pid, number)  # a child that is not reaped keeps its id

    def hang_up(self) -> None:
        """Tell it that the allocation is over. An interactive shell ignores SIGTERM."""
        self.signal(signal.SIGHUP, signal.SIGTERM, signal.SIGCONT)

    def _ended(self, status: int) -> None:
        self.has_ended = True
        self._on_end(status)
