"""The standard streams of our commands: they may be closed, or fail at every write."""

from __future__ import annotations

import os
import sys

from native.text import shown

TYPE_CHECKING = False  # typing takes a third of the start of yod-agent
if TYPE_CHECKING:
    from typing import TextIO

# Such a descriptor only names a file (O_PATH): reading and writing fails as on one that is
# closed, and so does all that could be had from it but another file of no use.
_NO_STREAM = "/proc/self/stat"

# What a command writes to such a standard output stays in the buffer, so that the command's last
# flush fails too and says that it is lost. Text that exceeds the buffer is dropped when a write
# fails; by default the buffer is as long as the file's blocks, here 1024 bytes.
_UNWRITTEN_BYTES = 1 << 16


def open_closed() -> None:
    """Replace the standard streams that the caller has closed; see below."""
    take_numbers()
    sys.stdout = sys.stdout or os.fdopen(1, "w", _UNWRITTEN_BYTES)
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def take_numbers() -> None:
    """Occupy the descriptors 0 to 2 where the caller has closed them.

    Otherwise other files and sockets of ours would get these numbers, and output would be
    written to them. Reading and writing there fails, as it would have.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(_NO_STREAM, os.O_PATH)  # takes the lowest free number


def say(text: str) -> None:
    """Write a line to standard error; it is lost if that cannot be written."""
    try:
        sys.stderr.write(text + "\n")
    except OSError:
        pass


def blame(error: OSError) -> str:
    """What a command says that ends by an error of the system, which may be standard output's."""
    if why := _why_lost(sys.stdout):
        return why
    if error.filename is None:
        return error.strerror or str(error)
    return f"{shown(error.filename)}: {error.strerror}"


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
    """Flush a stream; what cannot be written is dropped, and fails no more."""
    try:
        stream.flush()
    except OSError as error:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        if not isinstance(error, BrokenPipeError):
            return f"standard output: {(error.strerror or '').lower()}"
    return ""
