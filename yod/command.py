"""The entry point of ``yod``: runs :mod:`yod.cli`, and ends as the job has ended."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from native.host import process
from native.waitstatus import SIGNAL_BASE
from yod import cli


def main() -> NoReturn:
    """Entry point: the exit status tells what happened.

    The interpreter's orderly end would take a tenth of a short launch and free memory only:
    :func:`yod.cli.main` has written what both streams held.
    """
    status = cli.main()
    os._exit(status if status >= 0 else _die(-status))


def _die(number: int) -> int:
    """End yod by the signal that has ended the job.

    A shell ends its loop if a command was killed by SIGINT, but not if the command exited.

    Returns:
        The exit status, if the signal does not kill yod, as it does not kill process 1 of a
        container.
    """
    if number == signal.SIGQUIT:
        process.forbid_core()
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
    os.kill(os.getpid(), number)
    return SIGNAL_BASE + number
