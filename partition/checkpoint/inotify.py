"""Hears of new names in directories: inotify(7), through the C library."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from types import TracebackType

_IN_CREATE, _IN_MOVED_TO = 0x100, 0x80
_HEAD = struct.Struct("=iIII")  # watch, mask, cookie, length of the name
_READ_BYTES = 1 << 16


class Inotify:
    """New names in the directories that it watches.

    Raises:
        OSError: the limits of inotify have been reached.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.fd < 0:
            raise _error("inotify")

    def __enter__(self) -> Inotify:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self.fd)

    def watch(self, directory: str) -> int:
        """Watch a directory; the watch's number."""
        mask = _IN_CREATE | _IN_MOVED_TO
        number: int = self._libc.inotify_add_watch(self.fd, os.fsencode(directory), mask)
        if number < 0:
            raise _error(directory)
        return number

    def read(self) -> Iterator[int]:
        """The watches whose directories have a new name, each perhaps several times."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return
        while data:
            number, _, _, length = _HEAD.unpack_from(data)
            yield number
            data = data[_HEAD.size + length :]


def _error(where: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), where)
