"""The socket of a launch, by which commands find it by its id: native/wire/JOB.md.

A launch that can have none (no home, a full disk) has no id, and runs as any other.
"""

from __future__ import annotations

import _socket  # see pct.host.keeper
import errno
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from native.host import jobsockets, unixsockets
from native.limits import Limits
from native.loop.reactor import Reactor, Watch
from native.machine import Event
from yod.launch.events import Told
from yod.launch.machine import Launch

if TYPE_CHECKING:  # most launches are asked nothing
    from yod.host.clients import Clients

OPEN_WITHIN_S = 0.05  # an id that is taken soon
OPEN_LATE_S = 0.25  # one that is taken late
_AGAIN_S = 1.0  # when there was no descriptor for a connection


class Registration:
    """An id for one launch, and the socket that it is found by.

    Args:
        handle: gives the launch an event.
        name: the programs, as the user named them.
        partition: its name, for people.
        environment: the user's; it says where their directories are.
        unix_pid: of the user's yod; 0: this process.

    Attributes:
        id: ``local.N``, or the number that bebopd gave (``17.3`` of a step); empty: none.
        began: unix time at which it was opened.
    """

    def __init__(
        self,
        machine: Launch,
        handle: Callable[[Event], None],
        name: str,
        partition: str,
        reactor: Reactor,
        limits: Limits,
        environment: Mapping[str, str],
        unix_pid: int = 0,
    ) -> None:
        self.id = ""
        self.began = 0.0
        self.machine = machine
        self.handle = handle
        self.name = name
        self.partition = partition
        self.reactor = reactor
        self.unix_pid = unix_pid or os.getpid()
        self.clients_max = limits.job_clients_count
        self._environment = environment
        self._path = ""
        self._socket: _socket.socket | None = None
        self._watch: Watch | None = None
        self._timer = reactor.timer(self._again)
        self._clients: Clients | None = None
        self._open_timer = reactor.timer(self._open_now)
        self._job_id, self._allocation = 0, ""
        self._is_over = False

    def open_soon(self, job_id: int, allocation: str = "") -> None:
        """Take an id while the loop waits, in OPEN_WITHIN_S at the latest.

        A launch gets on meanwhile, and a short one may end without an id.
        """
        self._job_id, self._allocation = job_id, allocation
        self._open_timer.set(self.reactor.monotonic() + OPEN_WITHIN_S)
        self.reactor.when_idle(self._open_now)

    def open_late(self, job_id: int, allocation: str = "") -> None:
        """Take an id in OPEN_LATE_S: of many short launches few have one."""
        self._job_id, self._allocation = job_id, allocation
        self._open_timer.set(self.reactor.monotonic() + OPEN_LATE_S)

    def _open_now(self) -> None:
        self._open_timer.close()
        if not self._is_over:
            self.open(self._job_id, self._allocation)

    def open(self, job_id: int, allocation: str = "") -> None:
        """Take an id, if that can be done.

        Args:
            job_id: what bebopd calls the job; 0: its partition is embedded.
            allocation: whose step the job is; empty: it is none.
        """
        if self._socket is not None:
            return
        self.began = time.time()
        try:
            directory = jobsockets.Directory(self._environment, makes_it=True)
            try:
                self.id, self._socket = directory.listen(job_id, allocation)
                self._path = directory.name_of(self.id)
            finally:
                directory.close()
        except OSError:
            return
        self._watch = self.reactor.watch(self._socket.fileno(), self._ready)

    def told(self, told: Told) -> None:
        """Answer the commands that have asked."""
        if self._clients is not None:
            self._clients.told(told)

    def close(self) -> None:
        """Give up the id, and tell those who wait how the launch has ended."""
        self._is_over = True
        self._open_timer.close()
        self._timer.close()
        if self._socket is None or self._watch is None:
            return
        try:
            os.unlink(self._path)
        except OSError:
            pass  # the directory is gone
        self._watch.close()
        while not self._accept():  # who has come in the meantime
            pass
        self._socket.close()
        self._socket = None
        if self._clients is not None:
            self._clients.close()

    def _ready(self) -> None:
        if self._accept() in (errno.EMFILE, errno.ENFILE):
            self._rest()

    def _accept(self) -> int:
        """Take one connection; the number of the error, or 0."""
        assert self._socket is not None
        try:
            fd, _ = self._socket._accept()  # type: ignore[attr-defined]
        except OSError as error:
            return error.errno or errno.EIO
        end = _socket.socket(fileno=fd)
        end.setblocking(False)
        if unixsockets.peer_of(end)[1] not in (0, os.geteuid()):
            end.close()
            return 0
        if self._clients is None:
            from yod.host.clients import Clients

            self._clients = Clients(self)
        self._clients.add(end)
        return 0

    def _rest(self) -> None:
        """Without a descriptor the connection stays, and would be told of for ever."""
        assert self._watch is not None
        self._watch.set(None, None)
        self._timer.set(self.reactor.monotonic() + _AGAIN_S)

    def _again(self) -> None:
        assert self._watch is not None
        self._watch.set(self._ready, None)
