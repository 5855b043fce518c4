"""The limits of this process that its user, or the system, has set: ``ulimit``."""

from __future__ import annotations

import _thread
import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

_RAISED = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)

Soft = tuple[tuple[int, tuple[int, int]], ...]


_lock = _thread.allocate_lock()
_raised_count = 0  # how many have raised them and not restored them
_before: Soft = ()


def raise_soft() -> None:
    """Raise the soft limits to the hard ones: for many streams, and specifications of many ranks.

    Ranks get the soft limits of the user, which travel with the load. Each call is followed by
    one of :func:`restore`; the last of these restores the limits.
    """
    global _before, _raised_count
    with _lock:
        if not _raised_count:
            _before = tuple((number, resource.getrlimit(number)) for number in _RAISED)
            for number, (_, hard) in _before:
                resource.setrlimit(number, (hard, hard))
        _raised_count += 1


def restore() -> None:
    """Restore the soft limits, if nobody else needs them raised."""
    global _before, _raised_count
    with _lock:
        _raised_count -= 1
        if not _raised_count:
            for number, (soft, _) in _before:
                resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))
            _before = ()


def connections_each(most: int) -> int:
    """How many connections one user may have: so many, and half of the descriptors at most."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return most
    return min(most, max(1, soft_limit // 2))


@contextmanager
def as_before() -> Iterator[None]:
    """Have the limits as the user has set them, for a child that is started in the block."""
    with _lock:
        raised = [(number, resource.getrlimit(number)) for number, _ in _before]
        for number, (limit, _) in _before:
            resource.setrlimit(number, (limit, resource.getrlimit(number)[1]))
        try:
            yield
        finally:
            for number, limits in raised:
                resource.setrlimit(number, limits)


def soft(number: int) -> int:
    """A soft limit as the user has set it, also while we have raised it.

    Args:
        number: of a resource.
    """
    with _lock:
        for raised, (limit, _) in _before:
            if raised == number:
                return limit
        return resource.getrlimit(number)[0]


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
