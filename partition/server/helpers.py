"""The helpers of a launch server: processes that do errands, one at a time each.

Where all have been busy for long, others are started, so that a file system that does not answer
holds up only the launches that need it. A helper whose errand is cancelled is killed, and another
one takes its place. One that waits for a file system then goes when that answers; nobody waits for
it.
"""

from __future__ import annotations

import _socket
import os
import signal
from collections import deque
from collections.abc import Callable
from functools import partial

from native.loop.reactor import Owner, Reactor, Watch
from native.machine import fault_text
from partition.server.errands import Answer, Errand, Failed, Line, Remove
from yod.remote.link import RemoteServer

# Takes the answer and its descriptors, which belong to the callee.
OnAnswer = Callable[[Answer, tuple[int, ...]], None]
ENDED_TEXT = "a helper of the launch server has ended"
SLOW_S = 2.0  # a helper that is busy for longer is not one of ``count`` any more
HELPERS_MAX = 8


class Ticket:
    """An errand that was asked for.

    Args:
        fds: go with it; they stay the caller's, who keeps them open until it is answered.
    """

    __slots__ = ("errand", "fds", "is_cancelled", "on_answer", "owner")

    def __init__(
        self, errand: Errand, fds: tuple[int, ...], owner: Owner | None, on_answer: OnAnswer
    ) -> None:
        self.errand = errand
        self.fds = fds
        self.owner = owner
        self.on_answer = on_answer
        self.is_cancelled = False


class Helpers:
    """All helpers of one server.

    Args:
        count: helpers at a time, but for slow ones.
        spawn: starts a helper with a descriptor of its socket; gives its Unix process id.
    """

    def __init__(self, reactor: Reactor, count: int, spawn: Callable[[int], int]) -> None:
        self._reactor = reactor
        self._count = count
        self._spawn = spawn
        self._queue: deque[Ticket] = deque()  # a session has few at a time, and sessions are few
        self._idle: list[_Helper] = []
        self._busy: dict[Ticket, _Helper] = {}  # the longest busy first
        self._living: set[int] = set()  # their processes, and those of killed ones
        self._timer = reactor.timer(self._serve)
        self._is_closed = False

    @property
    def unix_pids(self) -> list[int]:
        """Of all helpers that have not been reaped."""
        return list(self._living)

    def start(self, on_ready: Callable[[], None]) -> None:
        """Start all helpers, so that the first launch need not wait for one.

        Args:
            on_ready: called when each has done its first errand, and so has imported everything.

        Raises:
            OSError: they cannot be started.
        """
        while len(self._idle) < self._count:
            self._idle.append(self._make())
        left = self._count

        def answered(answer: Answer, fds: tuple[int, ...]) -> None:
            nonlocal left
            left -= 1
            if not left:
                on_ready()

        for _ in range(self._count):
            self.ask(Remove(()), (), answered)

    def ask(self, errand: Errand, fds: tuple[int, ...], on_answer: OnAnswer) -> Ticket:
        """Have an errand done.

        Args:
            on_answer: called once and later, on behalf of the present owner, unless
                :meth:`cancel` is called before.
        """
        ticket = Ticket(errand, fds, self._reactor.owner, on_answer)
        self._queue.append(ticket)
        self._serve()
        return ticket

    def serve_files(self, directories: tuple[bytes, ...]) -> RemoteServer:
        """Start a process that has the files of a launch, whose it is.

        Raises:
            OSError: it cannot be started.
        """
        server = RemoteServer(self._reactor, directories)
        unix_pid = server.unix_pid
        self._living.add(unix_pid)
        self._reactor.on_child(unix_pid, lambda status: self._living.discard(unix_pid))
        return server

    def cancel(self, ticket: Ticket) -> None:
        """Nobody waits for it any more. A helper that is busy with it is killed."""
        ticket.is_cancelled = True
        helper = self._busy.pop(ticket, None)
        if helper is not None:
            helper.close()
            self._serve()
        elif ticket in self._queue:
            self._queue.remove(ticket)

    def close(self) -> None:
        """End all helpers. Nothing is answered any more."""
        self._is_closed = True
        self._timer.close()
        self._queue.clear()
        for helper in (*self._idle, *self._busy.values()):
            helper.close()
        self._idle.clear()
        self._busy.clear()

    def _serve(self) -> None:
        while self._queue and not self._is_closed:
            if not self._idle and not self._add():
                return
            helper, ticket = self._idle.pop(), self._queue.popleft()
            self._busy[ticket] = helper
            helper.ask(ticket)

    def _add(self) -> bool:
        """Start one more, if that is allowed and possible."""
        quick = self._quick()
        if len(self._busy) >= HELPERS_MAX:
            return False
        if len(quick) >= self._count:
            self._timer.set(quick[0].busy_since + SLOW_S)
            return False
        try:
            self._idle.append(self._make())
        except OSError as error:
            if not self._busy:  # nobody would ever come
                self._give_up(fault_text(error))
            return False
        return True

    def _quick(self) -> list[_Helper]:
        """Those that are busy, but have not been for long."""
        slow_before = self._reactor.monotonic() - SLOW_S
        return [each for each in self._busy.values() if each.busy_since > slow_before]

    def _give_up(self, why: str) -> None:
        while self._queue:
            give = partial(self._give, self._queue.popleft(), Failed(why), ())
            self._reactor.run_for(None, self._reactor.call_soon, give)

    def _make(self) -> _Helper:
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        fd = theirs.detach()
        try:
            unix_pid = self._spawn(fd)
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(fd)
        self._living.add(unix_pid)
        reap = partial(self._reaped, unix_pid)
        self._reactor.run_for(None, self._reactor.on_child, unix_pid, reap)
        return _Helper(self._reactor, Line(ours), unix_pid, self._answered, self._ended)

    def _reaped(self, unix_pid: int, wait_status: int) -> None:
        self._living.discard(unix_pid)

    def _answered(
        self, helper: _Helper, ticket: Ticket, answer: Answer, fds: tuple[int, ...]
    ) -> None:
        del self._busy[ticket]
        if len(self._idle) + len(self._quick()) < self._count:
            self._idle.append(helper)
        else:  # others stand in for it
            helper.close()
        self._give(ticket, answer, fds)
        self._serve()

    def _ended(self, helper: _Helper, ticket: Ticket | None) -> None:
        if ticket is None:
            self._idle.remove(helper)
        else:
            del self._busy[ticket]
            self._give(ticket, Failed(ENDED_TEXT), ())
        self._serve()

    def _give(self, ticket: Ticket, answer: Answer, fds: tuple[int, ...]) -> None:
        if ticket.is_cancelled:
            for fd in fds:
                os.close(fd)
        else:
            self._reactor.run_for(ticket.owner, ticket.on_answer, answer, fds)


class _Helper:
    """One process."""

    def __init__(
        self,
        reactor: Reactor,
        line: Line,
        unix_pid: int,
        on_answer: Callable[[_Helper, Ticket, Answer, tuple[int, ...]], None],
        on_end: Callable[[_Helper, Ticket | None], None],
    ) -> None:
        self.unix_pid = unix_pid
        self._line = line
        self._on_answer = on_answer
        self._on_end = on_end
        self.busy_since = 0.0
        self._reactor = reactor
        self._ticket: Ticket | None = None
        self._watch: Watch
        reactor.run_for(None, self._begin)  # it outlives the launch that needed it

    def ask(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self.busy_since = self._reactor.monotonic()
        try:
            self._line.send(ticket.errand, ticket.fds)
        except OSError:  # it has ended, or is of no use: its socket tells
            self.kill()

    def kill(self) -> None:
        try:
            os.kill(self.unix_pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self) -> None:
        self._watch.close()
        self._line.connection.close()
        self.kill()

    def _begin(self) -> None:
        self._watch = self._reactor.watch(self._line.connection.fileno(), self._receive)

    def _receive(self) -> None:
        try:
            received = self._line.receive_answer()
        except (OSError, MemoryError):
            received = None
            self.kill()
        ticket, self._ticket = self._ticket, None
        if received is None:
            self._watch.close()
            self._line.connection.close()
            self._on_end(self, ticket)
        elif ticket is not None:
            self._on_answer(self, ticket, *received)
