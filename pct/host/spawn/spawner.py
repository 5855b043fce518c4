"""Starts the processes of keepers, and kills what a lost one has left behind.

The parent of a keeper decides what its ranks inherit, and whose children the orphans of a lost
keeper become. So one object does both. :class:`OwnSpawner` starts children of this process,
:class:`pct.host.spawn.client.ClientSpawner` children of a client.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol

import native
from native.loop.reactor import Reactor
from pct.host.spawn.orphans import Orphans

NATIVE = os.path.dirname(os.path.abspath(native.__file__ or "native/__init__.py"))
KEEPER = os.path.join(NATIVE, "keeper", "yod-keeper")

_FIRST_FD = 3  # of a keeper's own: control socket, specification, file for the ranks' map
_FIRST_FREE_FD = 6


class Process(Protocol):
    """What stands for a keeper's process, and is told what becomes of it.

    It is told either ``not_started``, or ``started`` and then ``ended``. ``orphaned`` may
    come in place of any of these, and is the last. The keeper's socket has no order with these:
    reports may arrive before ``started``, and some may be unread after ``ended``.
    """

    def started(self, unix_pid: int) -> None:
        """The process is there."""

    def not_started(self, error: OSError) -> None:
        """There is no process, and will be none."""

    def ended(self, wait_status: int) -> None:
        """It has ended and is reaped."""

    def orphaned(self, reason: str) -> None:
        """Its parent has died: it ends by itself, and nobody tells when."""


class Spawner(Protocol):
    """A parent of keepers."""

    @property
    def unix_pid(self) -> int:
        """The parent's process id, which the keepers' specifications name."""

    def start(self, fds: tuple[int, ...], process: Process) -> int:
        """Start a keeper.

        Args:
            fds: the keeper's descriptors from number 3 on: its end of the control socket, the
                specification, and where ranks use Portals the file for their map. The spawner
                closes them, also when it raises.
            process: is told what becomes of it, maybe at once.

        Returns:
            A number that stands for the process in :meth:`resume`.

        Raises:
            OSError: it cannot be started, and ``process`` is told nothing.
        """

    def resume(self, number: int) -> None:
        """Continue a keeper that has not ended: one that was stopped ends nothing."""

    def rest(self, number: int, is_resting: bool) -> None:
        """Tell of a keeper's end later, if that saves being woken; or go on."""

    def kill_orphans(self, done: Callable[[], None]) -> None:
        """Kill what lost keepers have left behind, and call ``done`` when none is left."""

    def unkilled(self) -> frozenset[int]:
        """What lost keepers have left behind, was killed, and has not ended."""


class OwnSpawner:
    """Starts keepers as children of this process.

    The kernel ends a keeper when the thread that has started it ends, so :meth:`start` is called
    in the thread that lives as long as the process: the loop's.

    Args:
        strangers: gives the children of this process that are no keepers, and are never killed.
        program: the keeper's.
        on_first: called once, after the first start: the new process needs a millisecond to begin.
    """

    def __init__(
        self,
        reactor: Reactor,
        strangers: Callable[[], Collection[int]] = frozenset,
        program: str = KEEPER,
        on_first: Callable[[], None] | None = None,
        *,
        in_sessions: bool = False,
    ) -> None:
        self._reactor = reactor
        self._in_sessions = in_sessions
        self._program = program
        self._on_first = on_first
        self._living: set[int] = set()  # keepers that have not been reaped
        self._orphans = Orphans(reactor, lambda: self._living.union(strangers()))

    @property
    def unix_pid(self) -> int:
        """This process."""
        return os.getpid()

    @property
    def has_keepers(self) -> bool:
        """Some keeper has not been reaped."""
        return bool(self._living)

    def start(self, fds: tuple[int, ...], process: Process) -> int:
        """Spawn a keeper.

        Raises:
            OSError: no keeper program, no process, no descriptor.
        """
        unix_pid = _spawn(self._program, fds, self._in_sessions)
        self._living.add(unix_pid)
        on_first, self._on_first = self._on_first, None
        if on_first is not None:
            on_first()
        self._reactor.on_child(unix_pid, partial(self._ended, unix_pid, process))
        process.started(unix_pid)
        return unix_pid

    def _ended(self, unix_pid: int, process: Process, wait_status: int) -> None:
        self._living.discard(unix_pid)
        process.ended(wait_status)

    def resume(self, number: int) -> None:
        """Send SIGCONT."""
        if number in self._living:
            try:
                os.kill(number, signal.SIGCONT)
            except OSError:  # it belongs to another user
                pass

    def rest(self, number: int, is_resting: bool) -> None:
        """Do not wake up for its end, or do."""
        self._reactor.rest_child(number, is_resting)

    def kill_orphans(self, done: Callable[[], None]) -> None:
        """Kill the children of this process that are neither keepers nor strangers."""
        self._orphans.kill(done)

    def unkilled(self) -> frozenset[int]:
        """Those of them that have not ended."""
        return self._orphans.left


class Departed:
    """Stands for a parent that has gone: it starts nothing, and nothing is left of it."""

    unix_pid = 0

    def start(self, fds: tuple[int, ...], process: Process) -> int:
        """Refuse.

        Raises:
            OSError: always.
        """
        for fd in fds:
            os.close(fd)
        raise OSError(errno.ESRCH, "the launch that it is for has ended")

    def resume(self, number: int) -> None:
        """Do nothing."""

    def rest(self, number: int, is_resting: bool) -> None:
        """Do nothing."""

    def kill_orphans(self, done: Callable[[], None]) -> None:
        """Call ``done``."""
        done()

    def unkilled(self) -> frozenset[int]:
        """None."""
        return frozenset()


def _spawn(program: str, fds: tuple[int, ...], in_session: bool) -> int:
    """Start a keeper with these descriptors, which close here."""
    held = list(fds)
    try:
        for place, fd in enumerate(held):
            if fd < _FIRST_FREE_FD:  # where a keeper's own go
                import fcntl

                held[place] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
                os.close(fd)
        return os.posix_spawn(
            program,
            [program],
            {},
            file_actions=[
                # Not our standard streams: a pipe that a user reads must end with us.
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                *((os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(held, _FIRST_FD)),
            ],
            setsigmask=(),
            # So that Ctrl-C on a terminal does not reach the keeper.
            **({"setsid": True} if in_session else {"setpgroup": 0}),
        )
    finally:
        for fd in held:
            os.close(fd)
