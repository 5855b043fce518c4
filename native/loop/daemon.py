"""What every daemon does at signals that must not end it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable

from native.loop.reactor import Reactor


def take_signals(
    reactor: Reactor,
    say: Callable[[str], None],
    state: Callable[[], Iterable[str]],
    open_again: Callable[[], None],
) -> None:
    """Show the state at SIGUSR1 and SIGUSR2; at SIGHUP open files again.

    Args:
        say: takes a line for the log.
        state: gives a line for the daemon and one for each job.
        open_again: opens the log again, and reads what else may have changed.
    """

    def show() -> None:
        for line in state():
            say(line)

    reactor.on_signal(signal.SIGUSR1, show)
    reactor.on_signal(signal.SIGUSR2, show)
    reactor.on_signal(signal.SIGHUP, open_again)
