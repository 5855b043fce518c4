"""The limits of this process that its user, or the system, has set: ``ulimit``."""

from __future__ import annotations

import errno
import os
import resource

_RAISED = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)

Soft = tuple[tuple[int, tuple[int, int]], ...]


def raise_soft() -> Soft:
    """Raise the soft limits to the hard ones: for many streams, and specifications of many ranks.

    Ranks get the soft limits of the user, which travel with the load.

    Returns:
        What was, for :func:`restore`.
    """
    before = tuple((number, resource.getrlimit(number)) for number in _RAISED)
    for number, (_, hard) in before:
        resource.setrlimit(number, (hard, hard))
    return before


def restore(before: Soft) -> None:
    """Restore the soft limits."""
    for number, (soft, _) in before:
        resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))


def write_whole(fd: int, data: bytes) -> None:
    """Write all of the data to a file of our own.

    Raises:
        OSError: there is no room; of a file that is too large the text names the limit.
    """
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        raise OSError(
            f"a file of {len(data)} bytes is needed, the limit is {limit} (ulimit -f)"
        ) from None
