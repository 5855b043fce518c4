"""Streams that clients have given to the server, which writes to them by itself.

:class:`GivenStream` takes the place of :class:`yod.host.terminal.OutputStream`; its readers are
those that the clients have.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from native.loop.reactor import Reactor
from native.wire.client import Gift
from tests.sim.clock import Violation
from tests.sim.launchers import Reader
from yod.host.front import OnBroken, OnWritten, tell_written
from yod.launch.lines import Piece

if TYPE_CHECKING:
    from tests.sim.server.client import Client
    from tests.sim.server.world import ServerSim

STOPS_S = 3.0
SLOW_BYTES_A_S = 3e5


class Gifts:
    """What clients have given, by its descriptor."""

    def __init__(self, sim: ServerSim) -> None:
        self._sim = sim
        self._of: dict[int, tuple[Client, int]] = {}
        self.count = 0

    def of_client(self, client: Client, stream: int) -> tuple[int, ...]:
        """The descriptor that comes to the server with a GIVEN."""
        (fd,) = self._sim.fds.open(1)
        self._of[fd] = client, stream
        return (fd,)

    def close_all(self, fds: tuple[int, ...]) -> None:
        """What :func:`native.host.unixsockets.close_all` does."""
        for fd in fds:
            self._sim.fds.close(fd)
            self._of.pop(fd, None)

    def own_description(self, gift: Gift, fds: tuple[int, ...]) -> int:
        """What :func:`partition.server.gifts.own_description` does."""
        if not fds:
            return -1
        of = self._of[fds[0]]
        self.close_all(fds)
        (fd,) = self._sim.fds.open(1)
        self._of[fd] = of
        self.count += 1
        return fd

    def take(self, fd: int) -> tuple[Client, int]:
        """Whose stream it is."""
        return self._of.pop(fd)


def stream_of(sim: ServerSim) -> type:
    """The class of given streams."""

    class GivenStream:
        is_terminal = False

        def __init__(
            self,
            reactor: Reactor,
            fd: int,
            on_written: OnWritten,
            on_taken: Callable[[], None],
            on_broken: OnBroken,
            *,
            is_own: bool,
        ) -> None:
            assert is_own
            self._fd = fd
            self._client, self._number = sim.gifts.take(fd)
            self._owner = reactor.owner
            self._on_written = on_written
            self._on_taken = on_taken
            self._on_broken = on_broken
            self._queue: deque[Piece] = deque()
            self._is_paused = self._is_broken = self._is_waiting = False
            self._has_stopped = False

        @property
        def is_empty(self) -> bool:
            return not self._queue

        def write(self, pieces: list[Piece]) -> None:
            if self._is_broken:
                tell_written(pieces, self._on_written)
                return
            self._queue.extend(pieces)
            self._drain()

        def pause(self) -> None:
            self._is_paused = True

        def resume(self) -> None:
            self._is_paused = False
            if self._queue:
                self._writable()

        def take(self) -> list[Piece]:
            left = list(self._queue)
            self._queue.clear()
            return left

        def drop(self) -> int:
            return sum(count for _, _, count in self.take())

        def close(self) -> None:
            if self._fd >= 0:
                sim.fds.close(self._fd)
                self._fd = -1
            self._queue.clear()

        def _writable(self) -> None:
            self._is_waiting = False
            if self._queue and self._fd >= 0:
                self._drain()
                if not self._queue:
                    self._on_taken()

        def _drain(self) -> None:
            reader = self._client.wish.job.reader
            if reader is Reader.STOPS and not self._has_stopped:
                self._has_stopped = True
                self._wait(STOPS_S)
            while self._queue and not (self._is_paused or self._is_waiting or self._is_broken):
                if reader is Reader.LEAVES:
                    self._break()
                    return
                piece = self._queue.popleft()
                self._arrives(bytes(piece[0]))
                tell_written([piece], self._on_written)
                if reader is Reader.SLOW:
                    self._wait(len(piece[0]) / SLOW_BYTES_A_S)

        def _wait(self, seconds: float) -> None:
            self._is_waiting = True
            sim.clock.after(seconds, lambda: sim.loop.enter(self._owner, self._writable))

        def _arrives(self, data: bytes) -> None:
            client = self._client
            if client.has_unwritten(self._number):
                raise Violation(f"rule 13: {client.name} has still to write what came before")
            if client.record.told is not None:
                raise Violation(f"rule 13: {client.name} was told its end, and output comes")
            client.record.got[self._number] += data

        def _break(self) -> None:
            self._is_broken = True
            self._client.record.has_lost_reader = True
            dropped = self.take()
            self._on_broken(BrokenPipeError(errno.EPIPE, "Broken pipe"))
            tell_written(dropped, self._on_written)

    return GivenStream
