"""What has been found out about files, for as long as they stay as they are.

A process that launches often would else read the same few programs for each launch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from native.host.files import identity

FILES_MAX = 256  # of which something is remembered
SETTLED_S = 2.0  # a change so soon after another one may leave a file's times as they were

Value = TypeVar("Value")


class Known(Generic[Value]):
    """One thing that is known of each file.

    Args:
        find: finds it out from an open file.
        unix_time: the time, in seconds, as the times of files are.
    """

    def __init__(
        self, find: Callable[[int], Value], unix_time: Callable[[], float] = time.time
    ) -> None:
        self._find = find
        self._unix_time = unix_time
        self._values: dict[tuple[int, ...], Value] = {}

    def of(self, fd: int) -> Value:
        """What is known of an open file, or else is found out now.

        Raises:
            OSError: it cannot be read.
        """
        status = os.fstat(fd)
        key = identity(status)
        if key in self._values:
            return self._values[key]
        value = self._find(fd)
        if abs(self._unix_time() - status.st_ctime) > SETTLED_S:
            if len(self._values) >= FILES_MAX:
                self._values.clear()
            self._values[key] = value
        return value
