"""Copies of objects in the shared file system, for nodes that have no room for them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from native.loop.slices import Slices, Work
from native.text import shown
from native.wire.load import ShippedObject

VARIABLE = "PARALLEL_FILE_SYSTEM"
DEFAULT = "/enfs/tmp"
SLICE_BYTES = 8 << 20  # copied in one turn of the loop


class SharedCopies:
    """The copies that one launch has made; they are removed with it.

    Args:
        slices: does the copying, a slice in each turn of the loop.
    """

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._paths: list[str] = []

    def make(
        self,
        shipped: ShippedObject,
        number: int,
        job_id: int,
        on_copied: Callable[[bytes], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Copy an object.

        Args:
            number: of the object, in the plan.
            on_copied: called with the path of the copy, once it is whole.
            on_failed: called with the reason, and what the user can do about it.
        """
        directory = os.environ.get(VARIABLE, DEFAULT)
        # Two partitions that share a file system may have jobs of the same number.
        name = f"yod-{os.getuid()}-{job_id}-{number}-{os.urandom(4).hex()}"
        path = os.path.join(directory, name)

        def copied(error: OSError | None) -> None:
            if error is None:
                on_copied(os.fsencode(path))
            else:
                on_failed(
                    f"and the shared file system {shown(directory)} cannot take it either: "
                    f"{error.strerror}; set {VARIABLE} to a directory that all nodes see"
                )

        self._slices.start(job_id, self._copy(shipped, path), copied)

    def remove(self) -> None:
        """Remove the copies, also those that are not whole."""
        for path in self._paths:
            try:
                os.unlink(path)
            except OSError:  # the user may have removed it
                pass
        self._paths.clear()

    def _copy(self, shipped: ShippedObject, path: str) -> Work[OSError | None]:
        """Copy an object's file as large as it was when the launch began.

        Returns:
            What has failed; None: nothing.
        """
        try:
            source = os.open(shipped.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                target = os.open(path, flags, shipped.mode & 0o755)
                self._paths.append(path)
                try:
                    left = shipped.size
                    while left:
                        count = os.sendfile(target, source, None, min(left, SLICE_BYTES))
                        if not count:
                            return OSError(errno.EIO, "the file has shrunk")
                        left -= count
                        if left:
                            yield
                finally:
                    os.close(target)
            finally:
                os.close(source)
        except OSError as error:
            return error
        return None
