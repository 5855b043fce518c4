"""Starts keepers as children of another process: the client of a user's launch.

The PCT asks the client over its connection, and the client answers in packets: see CLIENT.md. So a
start may fail after it was asked for. A :class:`Channel` carries the packets.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Protocol

from native.errors import PeerProtocolError
from native.loop.reactor import Owner, Reactor
from pct.host.spawn.spawner import Process

GONE = "the process that has started it has died"


class Channel(Protocol):
    """Sends packets to a client, in the order of the calls. Nothing is answered at once."""

    def send_start(self, number: int, fds: tuple[int, ...]) -> None:
        """START. The channel closes the descriptors, once they are sent or cannot be."""

    def send_continue(self, number: int) -> None:
        """CONTINUE. The keeper may have ended meanwhile."""

    def send_kill_orphans(self, token: int) -> None:
        """KILL_ORPHANS."""


class ClientSpawner:
    """One client as the parent of keepers.

    The reader of the client's packets calls :meth:`started`, :meth:`ended` and
    :meth:`orphans_killed`, and :meth:`gone` once the connection has ended. What follows from
    these is done for the job that has asked (:meth:`Reactor.run_for`).

    Args:
        unix_pid: the client's process id, as the kernel says.
    """

    def __init__(self, unix_pid: int, reactor: Reactor, channel: Channel) -> None:
        self.unix_pid = unix_pid
        self._reactor = reactor
        self._channel = channel
        self._last_number = 0
        self._last_token = 0
        self._asked: dict[int, tuple[Owner | None, Process]] = {}  # no answer yet
        self._living: dict[int, tuple[Owner | None, Process]] = {}
        self._waiting: dict[int, tuple[Owner | None, Callable[[], None]]] = {}  # by token
        self._is_gone = False

    @property
    def has_keepers(self) -> bool:
        """Some keeper has not ended."""
        return bool(self._asked or self._living)

    # -- asked by the PCT ---------------------------------------------------

    def start(self, fds: tuple[int, ...], process: Process) -> int:
        """Ask for a keeper.

        Raises:
            OSError: the client has gone.
        """
        if self._is_gone:
            for fd in fds:
                os.close(fd)
            raise OSError(errno.ESRCH, "the user's yod has ended")
        self._last_number += 1
        self._asked[self._last_number] = self._reactor.owner, process
        self._channel.send_start(self._last_number, fds)
        return self._last_number

    def resume(self, number: int) -> None:
        """Ask for SIGCONT."""
        if number in self._asked or number in self._living:
            self._channel.send_continue(number)

    def rest(self, number: int, is_resting: bool) -> None:
        """Do nothing: the client tells of it in any case."""

    def kill_orphans(self, done: Callable[[], None]) -> None:
        """Have the client kill its orphans.

        The orphans of a client that has died went to the next subreaper above it, or to init.
        They are not this process's to find or to kill, so ``done`` is called at once. Only a
        keeper that was killed as well leaves any: one that lives kills all below it.
        """
        if self._is_gone:
            done()
            return
        self._last_token += 1
        self._waiting[self._last_token] = self._reactor.owner, done
        self._channel.send_kill_orphans(self._last_token)

    def unkilled(self) -> frozenset[int]:
        """None that is known: the client names nobody."""
        return frozenset()

    # -- said by the client -------------------------------------------------

    def started(self, number: int, unix_pid_or_errno: int) -> None:
        """STARTED.

        Args:
            unix_pid_or_errno: the keeper's process id, or minus the errno of its start.

        Raises:
            PeerProtocolError: this keeper was not asked for, or is there already; or the value
                is neither.
        """
        if number not in self._asked or not unix_pid_or_errno:
            raise PeerProtocolError(f"client: keeper {number} has process {unix_pid_or_errno}")
        owner, process = self._asked.pop(number)
        if unix_pid_or_errno > 0:
            self._living[number] = owner, process
            self._reactor.run_for(owner, process.started, unix_pid_or_errno)
        else:
            error = OSError(-unix_pid_or_errno, os.strerror(-unix_pid_or_errno))
            self._reactor.run_for(owner, process.not_started, error)

    def ended(self, number: int, wait_status: int) -> None:
        """ENDED.

        Raises:
            PeerProtocolError: there is no such keeper.
        """
        if number not in self._living:
            raise PeerProtocolError(f"client: keeper {number} has ended, and was not there")
        owner, process = self._living.pop(number)
        self._reactor.run_for(owner, process.ended, wait_status)

    def orphans_killed(self, token: int) -> None:
        """ORPHANS_KILLED.

        Raises:
            PeerProtocolError: that was not asked for.
        """
        if token not in self._waiting:
            raise PeerProtocolError(f"client: orphans that nobody asked for: {token}")
        owner, done = self._waiting.pop(token)
        self._reactor.run_for(owner, done)

    def gone(self) -> None:
        """The client has died, or has been hung up on: nothing is heard of its keepers any more.

        The kernel tells them to end. Each is reported lost when its socket is at its end, unless
        it reports there that nothing is left.
        """
        if self._is_gone:
            return
        self._is_gone = True
        keepers = [*self._asked.values(), *self._living.values()]
        waiting = list(self._waiting.values())
        for known in (self._asked, self._living, self._waiting):
            known.clear()
        for owner, process in keepers:
            self._reactor.run_for(owner, process.orphaned, GONE)
        for owner, done in waiting:
            self._reactor.run_for(owner, done)
