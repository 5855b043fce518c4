"""What every process that stays does: about its memory, and at signals that must not end it."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterable

from native.loop.reactor import Reactor

COLLECT_AFTER_COUNT = 20_000  # new objects; then the collector looks for cycles


def settle() -> None:
    """Begin to serve: what has been imported and made stays, so no collection goes through it.

    A launch leaves few cycles: a collection for each few hundred new objects would find next to
    nothing, and takes a tenth of the processor time.
    """
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER_COUNT)


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
