"""What every daemon does at signals that must not end it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable

from native.loop.reactor import Reactor

REOPEN_TEXT = "SIGHUP: the log is standard error, there is no file to open again"


def take_signals(
    reactor: Reactor, say: Callable[[str], None], state: Callable[[], Iterable[str]]
) -> None:
    """Show the state at SIGUSR1 and SIGUSR2; at SIGHUP say that there is no log file.

    Args:
        say: takes a line for the log.
        state: gives a line for the daemon and one for each job.
    """

    def show() -> None:
        for line in state():
            say(line)

    reactor.on_signal(signal.SIGUSR1, show)
    reactor.on_signal(signal.SIGUSR2, show)
    reactor.on_signal(signal.SIGHUP, lambda: say(REOPEN_TEXT))
