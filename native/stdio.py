"""The standard streams of our commands: they may be closed, or take nothing."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing takes time to import
if TYPE_CHECKING:
    from typing import TextIO


def open_closed() -> None:
    """Give descriptors 0 to 2 the null device where the caller has closed them.

    Other files of ours would get these numbers else.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def say(text: str) -> None:
    """A line on standard error; lost where that takes nothing."""
    try:
        sys.stderr.write(text + "\n")
    except OSError:
        pass


def blame(error: OSError) -> str:
    """What a command says that ends by an error of the system, which may be standard output's."""
    return _why_lost(sys.stdout) or str(error)


def ended(name: str, status: int, lost_status: int) -> int:
    """Write what waits to be written, at a command's end.

    Args:
        name: the command's.
        lost_status: the exit status where standard output is lost, which is also said. Not
            where a pipe is closed: that reader has seen enough.

    Returns:
        The exit status. Neither stream has anything left that could fail.
    """
    if why := _why_lost(sys.stdout):
        say(f"{name}: {why}")
        status = lost_status
    _why_lost(sys.stderr)
    return status


def _why_lost(stream: TextIO) -> str:
    """Flush a stream; what it does not take goes nowhere, and fails no more."""
    try:
        stream.flush()
    except OSError as error:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        if not isinstance(error, BrokenPipeError):
            return f"standard output: {(error.strerror or '').lower()}"
    return ""
