"""Copies of objects in the shared file system, for nodes that have no room for them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from native.loop.slices import Work
from native.text import shown
from native.wire.load import ShippedObject
from yod.plan.prepared import SHARED_VARIABLE

SLICE_BYTES = 8 << 20  # copied in one turn of the loop

# Copies an object to a path. The callback takes why that failed; empty: it has not.
Copier = Callable[[ShippedObject, str, Callable[[str], None]], None]


class SharedCopies:
    """The copies that one launch has made.

    Args:
        directory: in a file system that all nodes see.
        copier: does the copying.

    Attributes:
        paths: of all copies, also of those that are not whole.
    """

    def __init__(self, directory: str, copier: Copier) -> None:
        self.paths: list[str] = []
        self._directory = directory
        self._copier = copier

    def make(
        self,
        shipped: ShippedObject,
        number: int,
        job_id: int,
        on_copied: Callable[[bytes], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Copy an object; see :meth:`yod.host.front.Front.copy_to_shared`."""
        # Two partitions that share a file system may have jobs of the same number.
        name = f"yod-{os.getuid()}-{job_id}-{number}-{os.urandom(4).hex()}"
        path = os.path.join(self._directory, name)
        self.paths.append(path)

        def copied(why: str) -> None:
            if not why:
                on_copied(os.fsencode(path))
            else:
                on_failed(
                    f"and the shared file system {shown(self._directory)} cannot take it either: "
                    f"{why}; set {SHARED_VARIABLE} to a directory that all nodes see"
                )

        self._copier(shipped, path, copied)


def copy(source_path: bytes, size: int, mode: int, path: str) -> Work[str]:
    """Copy the first bytes of a file into a new one.

    Returns:
        What has failed; empty: nothing.
    """
    try:
        source = os.open(source_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            target = os.open(path, flags, mode & 0o755)
            try:
                left = size
                while left:
                    count = os.sendfile(target, source, None, min(left, SLICE_BYTES))
                    if not count:
                        raise OSError(errno.EIO, "the file has shrunk")
                    left -= count
                    if left:
                        yield
            finally:
                os.close(target)
        finally:
            os.close(source)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def remove(paths: list[str]) -> None:
    """Remove copies; nothing is said of those that are not there."""
    for path in paths:
        try:
            os.unlink(path)
        except OSError:  # the user may have removed it
            pass
