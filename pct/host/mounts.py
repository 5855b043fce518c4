"""The mounts of a job whose files yod has, as the PCT sees them: descriptors of FUSE.

The kernel's requests come by them, and its replies go there. Nothing here touches a file below
them. Closing the last descriptor of a mount aborts what the kernel waits for: so ranks that are
killed end, also while a request of theirs is on its way.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from native.errors import PeerProtocolError
from native.loop.reactor import Reactor, Watch
from native.machine import Event
from native.wire.io import REMOTE_MAX_BYTES
from pct.rare_events import RemoteAsked

_FUSE = (10, 229)  # the device's numbers
_AGAIN = (errno.EAGAIN, errno.EINTR, errno.ENOENT)  # ENOENT: the request is not wanted any more
_REQUESTS_PER_TURN = 16


def own_device(fd: int) -> int:
    """A descriptor of FUSE that was handed over, which it must be. It is closed if it is not.

    Raises:
        PeerProtocolError: it is none.
    """
    status = os.fstat(fd)
    number = os.major(status.st_rdev), os.minor(status.st_rdev)
    if stat.S_ISCHR(status.st_mode) and number == _FUSE:
        os.set_blocking(fd, False)
        return fd
    os.close(fd)
    raise PeerProtocolError("keeper: a mount that is none")


class Mounts:
    """Those of one job on this node.

    Args:
        handle: takes what the kernel asks for.
    """

    def __init__(self, job_id: int, reactor: Reactor, handle: Callable[[Event], None]) -> None:
        self._job_id = job_id
        self._reactor = reactor
        self._handle = handle
        self._next = 0
        self._is_paused = False
        self._mounts: dict[int, _Mount] = {}

    def add(self, world: int, directory: int, fd: int) -> None:
        """The keeper of a world has mounted one."""
        number, self._next = self._next, self._next + 1
        watch = self._reactor.watch(fd, partial(self._readable, number))
        self._mounts[number] = _Mount(world, directory, fd, watch)
        if self._is_paused:
            watch.set(None, None)

    def pause(self, is_paused: bool) -> None:
        """Read no further requests, or read on."""
        self._is_paused = is_paused
        for number, mount in self._mounts.items():
            mount.watch.set(None if is_paused else partial(self._readable, number), None)

    def answer(self, number: int, frame: bytes) -> None:
        """Give the kernel a reply. Nobody may wait for it any more."""
        mount = self._mounts.get(number)
        if mount is None:
            return
        try:
            os.write(mount.fd, frame)
        except OSError as error:
            if error.errno not in (*_AGAIN, errno.ENODEV, errno.EINVAL):
                raise

    def close(self, world: int | None = None) -> None:
        """Abort what is asked for by a world's ranks; None: by all."""
        for number, mount in list(self._mounts.items()):
            if world in (None, mount.world):
                self._close(number)

    def _close(self, number: int) -> None:
        mount = self._mounts.pop(number)
        mount.watch.close()
        os.close(mount.fd)

    def _readable(self, number: int) -> None:
        for _ in range(_REQUESTS_PER_TURN):
            mount = self._mounts.get(number)
            if mount is None or self._is_paused:
                return
            try:
                frame = os.read(mount.fd, REMOTE_MAX_BYTES)
            except OSError as error:
                if error.errno in _AGAIN:
                    return
                if error.errno != errno.ENODEV:  # it is not mounted any more
                    raise
                frame = b""
            if not frame:
                self._close(number)
            self._handle(RemoteAsked(self._job_id, number, mount.directory, frame))


class _Mount(NamedTuple):
    world: int
    directory: int
    fd: int
    watch: Watch
