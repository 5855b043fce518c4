"""The entry point of ``yod``: runs :mod:`yod.cli`, with the code of all modules from one file."""

from __future__ import annotations

import os
import signal
import sys

from native.start.codecache import CodeCache

_cache = CodeCache("yod")
sys.meta_path.insert(0, _cache)

from native.host import process  # noqa: E402
from yod import cli  # noqa: E402


def main() -> int:
    """Entry point: the exit status tells what happened."""
    try:
        status = cli.main()
    finally:
        _cache.save()
    return status if status >= 0 else _die(-status)


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
    from native.waitstatus import SIGNAL_BASE

    return SIGNAL_BASE + number
