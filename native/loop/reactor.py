"""The loop: descriptors, deadlines, signals and children, in one thread.

Everything that can happen is a readable descriptor in one epoll set or a time.
A signal's handler does nothing but let the interpreter write its number to an
eventfd-like pipe. The loop itself has ``fileno()``, ``run_once(0)`` and
``deadline()``, so another loop can host it.

When something raises that is done for an *owner* (:meth:`Reactor.run_for`), the owner is
told and the loop goes on. What is asked of the loop meanwhile (a watch, a
timer, a call) is the owner's as well. What has no owner raises through the loop.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, TypeVarTuple

from native.deadlines import Deadlines
from native.loop.pidfds import Pidfds
from native.waitstatus import UNKNOWN

READ = select.EPOLLIN | select.EPOLLPRI | select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP
WRITE = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR
WAIT_MAX_S = 86400.0  # one wait; epoll takes no more than 24 days

Owner = Callable[[Exception], None]  # called with what was raised on its behalf
_T = TypeVarTuple("_T")


class Watch:
    """Interest in one descriptor; ends with :meth:`close`, which leaves it open.

    It also ends when a callback that has an owner raises; the owner is told.
    """

    __slots__ = ("_mask", "_owner", "_reactor", "_reading", "fd", "on_readable", "on_writable")

    def __init__(
        self,
        reactor: Reactor,
        fd: int,
        on_readable: Callable[[], None] | None,
        on_writable: Callable[[], None] | None,
        reading: int = select.EPOLLIN | select.EPOLLRDHUP,
    ) -> None:
        self._reading = reading
        self.fd = fd
        self.on_readable = on_readable
        self.on_writable = on_writable
        self._reactor = reactor
        self._owner = reactor._owner
        self._mask = 0
        self._apply()

    def set(
        self,
        on_readable: Callable[[], None] | None,
        on_writable: Callable[[], None] | None,
    ) -> None:
        """Change what is called; None stops watching that direction."""
        if self.fd >= 0:
            self.on_readable, self.on_writable = on_readable, on_writable
            self._apply()

    def close(self) -> None:
        """Stop watching, and forget who is called: whoever holds this is mostly held by it.

        The descriptor must still be open; calling twice is harmless.
        """
        self.on_readable = self.on_writable = None
        if self.fd >= 0:
            if self._mask:
                self._reactor._epoll.unregister(self.fd)
            self._reactor._watches.pop(self.fd, None)
            self.fd = -1

    def _ready(self, mask: int) -> None:
        """Call what the descriptor is ready for; each call may end the watch."""
        fd = self.fd
        if mask & READ and self.on_readable and not self._call(self.on_readable):
            self.close()
        if mask & WRITE and self.fd == fd and self.on_writable and not self._call(self.on_writable):
            self.close()

    def _call(self, callback: Callable[[], None]) -> bool:
        return self._reactor.run_for(self._owner, callback)

    def _apply(self) -> None:
        mask = (self._reading if self.on_readable else 0) | (
            select.EPOLLOUT if self.on_writable else 0
        )
        if mask == self._mask:
            return
        # A descriptor that nobody watches leaves the set: epoll reports
        # hang-ups even for an empty mask, and would spin.
        if not mask:
            self._reactor._epoll.unregister(self.fd)
        elif not self._mask:
            self._reactor._epoll.register(self.fd, mask)
            self._reactor._watches[self.fd] = self
        else:
            self._reactor._epoll.modify(self.fd, mask)
        self._mask = mask


class Timer:
    """A call at a time that is set and changed; ends with :meth:`close`.

    Attributes:
        at: when the call is due; None: it is not, or it has been made.
    """

    __slots__ = ("_is_closed", "_on_due", "_owner", "_reactor", "at")

    def __init__(self, reactor: Reactor, on_due: Callable[[], None]) -> None:
        self._reactor = reactor
        self._owner = reactor._owner
        self._on_due = on_due
        self._is_closed = False
        self.at: float | None = None

    def set(self, at: float | None) -> None:
        """Call once, at this time. It replaces the time that was set before; None: do not call.

        Args:
            at: seconds, as :meth:`Reactor.monotonic`. A time that has passed is due at once.
        """
        if at != self.at and not self._is_closed:
            self.at = at
            self._reactor._deadlines.set(self, at)

    def close(self) -> None:
        """Call no more, and forget who is called; to set it has no effect. Twice is harmless."""
        self.set(None)
        self._is_closed = True
        self._on_due = _nothing

    def _due(self) -> None:
        self.set(None)
        self._reactor.run_for(self._owner, self._on_due)


class Reactor:
    """One epoll set with everything that a program waits for.

    Args:
        takes_sigchld: the ends of children are told by SIGCHLD, whose handler stays. Else by a
            descriptor for each: in a program whose signals are not ours, and in any thread.
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, *, takes_sigchld: bool = True
    ) -> None:
        self._clock = monotonic
        self._stood_still_s = 0.0
        self._waited_s = 0.0  # the last time
        self._epoll = select.epoll()
        self._watches: dict[int, Watch] = {}
        self._deadlines: Deadlines[Timer] = Deadlines()
        self._soon: deque[tuple[Owner | None, Callable[[], object]]] = deque()
        self._idle: deque[tuple[Owner | None, Callable[[], object]]] = deque()
        self._signal_handlers: dict[int, Callable[[], None]] = {}
        self._signals_before: dict[int, Any] = {}  # the handlers before us
        self._children: dict[int, list[tuple[Owner | None, Callable[[int], None]]]] = {}
        self._pidfds = None if takes_sigchld else Pidfds(self, self._reap_one)
        self._owner: Owner | None = None  # of what is being done now
        self._signal_fd = -1
        self._wakeup_fd_before = -1
        self._stopped = False

    def monotonic(self) -> float:
        """Seconds on the monotonic clock, less those in which this process was stopped."""
        return self._clock() - self._stood_still_s

    def fileno(self) -> int:
        """Readable while a watched descriptor has something to do."""
        return self._epoll.fileno()

    @property
    def owner(self) -> Owner | None:
        """The owner of what is being done; None: the whole process."""
        return self._owner

    def run_for(self, owner: Owner | None, call: Callable[[*_T], object], *arguments: *_T) -> bool:
        """Do something on behalf of an owner; None: of the whole process.

        Returns:
            False when it raised, of which the owner has been told.
        """
        before, self._owner = self._owner, owner
        try:
            call(*arguments)
            return True
        except Exception as error:
            if owner is None:
                raise
            self._owner = before
            owner(error)
            return False
        finally:
            self._owner = before

    def watch(
        self,
        fd: int,
        on_readable: Callable[[], None] | None,
        on_writable: Callable[[], None] | None = None,
    ) -> Watch:
        """Call back while a descriptor is readable or writable (level-triggered).

        Raises:
            PermissionError: the descriptor is a regular file, always ready.
        """
        return Watch(self, fd, on_readable, on_writable)

    def watch_changes(self, fd: int, on_change: Callable[[], None]) -> Watch:
        """Call back when the content of a file has changed that the kernel makes (cgroups(7)).

        It is called until the file is read again, from its beginning.
        """
        return Watch(self, fd, on_change, None, select.EPOLLPRI)

    def watch_edges(self, fd: int, on_edge: Callable[[], None], *, has_room: bool) -> Watch:
        """Call back when more has come to be read (edge-triggered), and at the beginning.

        Args:
            has_room: also when more can be written. One edge may be told twice.
        """
        reading = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
        return Watch(self, fd, on_edge, on_edge if has_room else None, reading)

    def timer(self, on_due: Callable[[], None]) -> Timer:
        """A timer, not set yet, that calls ``on_due`` at its time."""
        return Timer(self, on_due)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call after the present callback, before the next wait. Slices long work.

        All calls that are queued when a turn begins are made in that turn. So whoever has
        much to do asks for one call, and in this call for the next.
        """
        self._soon.append((self._owner, call))

    def when_idle(self, call: Callable[[], object]) -> None:
        """Call once instead of waiting: when nothing is ready, one call at a time.

        For what can be done earlier than it is needed.
        """
        self._idle.append((self._owner, call))

    def on_signal(self, number: int, call: Callable[[], None]) -> None:
        """Call in the loop when a signal has come."""
        if self._signal_fd < 0:
            self._open_signals()
        self._signal_handlers[number] = call
        before = signal.signal(number, _ignore)
        if before is not _ignore:
            self._signals_before[number] = before or signal.SIG_DFL
        signal.siginterrupt(number, False)

    def suspend(self, number: int) -> None:
        """Let a signal that we handle do its default action, which stops this process.

        Deadlines do not count the time until it is continued.
        """
        began = self._clock()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, _ignore)
        signal.siginterrupt(number, False)
        self._stood_still_s += self._clock() - began

    def forget_wait(self) -> None:
        """This process was stopped by another one, while it waited, and has been continued.

        Deadlines do not count the time of the last wait. Call it before they are looked at.
        """
        self._stood_still_s += self._waited_s
        self._waited_s = 0.0

    def on_child(self, unix_pid: int, call: Callable[[int], None]) -> None:
        """Call with the wait status when a child process has ended.

        It is ``waitstatus.UNKNOWN`` where somebody else has reaped the child, such as the kernel
        in a program whose caller ignores SIGCHLD.

        Several may ask for the same child: all are told, in the order in which they asked.
        """
        is_new = unix_pid not in self._children
        self._children.setdefault(unix_pid, []).append((self._owner, call))
        if self._pidfds is not None:
            if is_new:
                self.run_for(None, self._pidfds.watch, unix_pid)
            return
        if signal.SIGCHLD not in self._signal_handlers:
            self.run_for(None, self.on_signal, signal.SIGCHLD, self._reap)  # for all children
        self._soon.append((None, partial(self._reap_one, unix_pid)))  # ended before we listened?

    def rest_child(self, unix_pid: int, is_resting: bool) -> None:
        """Leave a child's end until later, without being woken; or look at it, and go on.

        With SIGCHLD it has no effect: that comes for all children.
        """
        if self._pidfds is not None:
            self._pidfds.rest(unix_pid, is_resting)

    def deadline(self) -> float | None:
        """When there is something to do that no descriptor tells; seconds, as :meth:`monotonic`."""
        if self._soon or self._idle:
            return self.monotonic()
        return self._deadlines.earliest()

    def run(self) -> None:
        """Run until :meth:`stop`."""
        self._stopped = False
        while not self._stopped:
            self._turn(None)

    def stop(self) -> None:
        """Make :meth:`run` return after the present callback."""
        self._stopped = True

    def run_once(self, timeout_s: float) -> None:
        """Wait at most so long (-1: for ever), then handle all that is ready or due."""
        self._turn(timeout_s)

    def _turn(self, timeout_s: float | None) -> None:
        """As :meth:`run_once`; None: wait until the next deadline, as the calls below leave it."""
        for _ in range(len(self._soon)):
            self.run_for(*self._soon.popleft())
        if self._soon or self._idle:
            timeout_s = 0.0
        elif timeout_s is None:
            timeout_s = self._until_due_s()
        began = self._clock()
        ready = self._epoll.poll(min(timeout_s, WAIT_MAX_S))
        self._waited_s = self._clock() - began
        if not (ready or self._soon) and self._idle:
            self.run_for(*self._idle.popleft())
        for fd, mask in ready:
            if (watch := self._watches.get(fd)) is not None:
                watch._ready(mask)
        now = self.monotonic()
        for timer in self._deadlines.due(now):
            if (at := timer.at) is not None and at <= now:  # else an earlier one has changed it
                timer._due()

    def _until_due_s(self) -> float:
        if self._stopped:
            return 0.0
        due = self._deadlines.earliest()
        return -1.0 if due is None else max(0.0, due - self.monotonic())

    def close(self) -> None:
        """Close the descriptors, and restore the signal handlers.

        A child's end may come at any time, to any thread, and Python complains of a signal
        whose handler has just gone. To ignore it, as ours does, is its default action.
        """
        if self._signal_fd >= 0:
            signal.set_wakeup_fd(self._wakeup_fd_before)
            # A signal that came between the interpreter's look for pending ones and
            # the change would find no handler: "ignored due to race condition".
            before = signal.pthread_sigmask(signal.SIG_BLOCK, self._signal_handlers)
            for number in self._signal_handlers.keys() - {signal.SIGCHLD}:
                signal.signal(number, self._signals_before.get(number, signal.SIG_DFL))
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(self._signal_fd)
            os.close(self._signal_write_fd)
            self._signal_fd = -1
        if self._pidfds is not None:
            self._pidfds.close()
        self._epoll.close()

    def _open_signals(self) -> None:
        self._signal_fd, self._signal_write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup_fd_before = signal.set_wakeup_fd(
            self._signal_write_fd, warn_on_full_buffer=False
        )
        self.watch(self._signal_fd, self._take_signals)

    def _take_signals(self) -> None:
        try:
            numbers = os.read(self._signal_fd, 4096)
        except BlockingIOError:
            return
        for number in dict.fromkeys(numbers):
            if number in self._signal_handlers:
                self._signal_handlers[number]()

    def _reap(self) -> None:
        # Only children that somebody asked for: others belong to whoever
        # started them (a subreaper's orphans are reaped by the keeper's code).
        for unix_pid in list(self._children):
            self._reap_one(unix_pid)

    def _reap_one(self, unix_pid: int) -> None:
        if unix_pid not in self._children:  # it has been reaped meanwhile
            return
        try:
            done, status = os.waitpid(unix_pid, os.WNOHANG)
        except ChildProcessError:
            done, status = unix_pid, UNKNOWN
        if done:
            for owner, call in self._children.pop(unix_pid):
                self.run_for(owner, call, status)


def _nothing() -> None:
    """In place of what a closed timer called."""


def _ignore(number: int, frame: FrameType | None) -> None:
    """The interpreter has written the number to the wake-up descriptor already."""
