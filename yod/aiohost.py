"""Our loop as a guest in asyncio's: one descriptor, and one timer.

All launches of an asyncio loop share it, with an embedded partition. Both are there while there
are launches. No signal is taken, and no child of the program is looked at.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from native.errors import InternalError, YodError
from native.loop.reactor import Reactor
from native.machine import fault_text
from native.port.port import Opened
from yod.guest.driver import GuestLaunch
from yod.guest.feed import Ended, Feed
from yod.guest.results import Result
from yod.plan.prepared import Prepared

if TYPE_CHECKING:
    from partition.up.guest import GuestPartition

New = Callable[
    [Prepared, Opened, Reactor, Callable[[], None], GuestLaunch | None], GuestLaunch
]  # the last: the try before it
_T = TypeVar("_T")


class Hosted:
    """A launch in asyncio's loop.

    Attributes:
        launch: what is done for it has it as its owner (:meth:`Reactor.run_for`).
        over: done when nothing is left of it.
        result: how it has ended; None: it has not, or by a bug.
    """

    launch: GuestLaunch
    _new: New

    def __init__(self, host: Host, feed: Feed | None) -> None:
        self.over: asyncio.Future[Result] = host.loop.create_future()
        self.result: Result | None = None
        self._host = host
        self._feed = feed
        self._error: YodError | None = None
        self._is_ended = False
        self._opened: Opened | None = None
        self._has_keepers: Callable[[], bool] = _has_none
        self._timer = host.reactor.timer(self._give_up)
        self._is_given_up = False

    @property
    def has_begun(self) -> bool:
        """There is a launch that may be asked for something."""
        return hasattr(self, "launch")

    @property
    def is_settled(self) -> bool:
        """It has ended, and its keepers have, or take too long."""
        return self._is_ended and (self._is_given_up or not self._has_keepers())

    def begin(
        self, prepared: Prepared, opened: Opened, has_keepers: Callable[[], bool], new: New
    ) -> None:
        """Begin the launch; it may have failed when this returns."""
        self._opened, self._has_keepers = opened, has_keepers
        self._end_s = prepared.limits.end_s
        self._new = new
        self.do(self._begin, prepared, opened, None)

    def do(self, call: Callable[..., object], *arguments: object) -> None:
        """Do something for the launch."""
        self.do_for(None, call, *arguments)

    def do_for(self, otherwise: _T, call: Callable[..., _T], *arguments: object) -> _T:
        """Do something for the launch, and give what comes of it."""
        answers = [otherwise]

        def do() -> None:
            answers.append(call(*arguments))

        self._host.reactor.run_for(self.fault, do)
        self._host.look()
        return answers[-1]

    def fault(self, error: Exception) -> None:
        """Something that was done for it has raised: it ends, and no other one does."""
        if self._error is None and self.result is None:
            if isinstance(error, YodError):
                self._error = error
            else:
                self._error = InternalError(fault_text(error))
                self._error.__cause__ = error
        self._end()

    def finish(self) -> None:
        """Say that nothing is left."""
        self._timer.close()
        if self.result is None:
            self.over.set_exception(self._error or InternalError("a launch without a result"))
        else:
            if self._feed is not None:
                self._feed.put(Ended(self.result))
            self.over.set_result(self.result)

    def _begin(self, prepared: Prepared, opened: Opened, before: GuestLaunch | None) -> None:
        # Not from within the driver, which is closed then.
        reactor = self._host.reactor
        self.launch = self._new(
            prepared, opened, reactor, lambda: reactor.call_soon(self._ended), before
        )
        self.launch.begin()

    def _ended(self) -> None:
        if self._is_ended:
            return
        before = self.launch
        if (again := before.next_try()) is not None:
            before.close()
            self._opened = self._host.place(again)
            self._begin(again, self._opened, before)
            return
        before.tell_ends()
        self.result = before.result()
        self._end()

    def _end(self) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._timer.set(self._host.reactor.monotonic() + self._end_s)
        if self.has_begun:
            self.launch.close()
        elif self._opened is not None:
            self._opened.close()

    def _give_up(self) -> None:
        self._is_given_up = True


class Host:
    """Our loop within an asyncio loop, with the embedded partition of all launches there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.reactor = Reactor(takes_sigchld=False)
        self._guest: GuestPartition | None = None
        self._jobs: set[Hosted] = set()
        self._settled: list[Hosted] = []  # told when the last one is, and the partition
        self._timer: asyncio.TimerHandle | None = None
        self._late = self.reactor.timer(self._come_late)
        self._end_s = 0.0
        self._is_late = False
        self._is_closed = False
        loop.add_reader(self.reactor.fileno(), self._turn)

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> Host:
        """The one of a loop."""
        host = _hosts.get(loop)
        if host is None:
            host = _hosts[loop] = cls(loop)
        return host

    def launch(self, prepared: Prepared, feed: Feed | None, new: New) -> Hosted:
        """Begin a launch."""
        hosted = Hosted(self, feed)
        self._jobs.add(hosted)
        self._late.set(None)
        self._is_late = False
        self._end_s = prepared.limits.end_s
        try:
            hosted.begin(prepared, *self._open(prepared, hosted), new)
        except BaseException:
            self._jobs.discard(hosted)
            self.look()
            raise
        return hosted

    def place(self, prepared: Prepared) -> Opened:
        """A place in a partition that is not within this process."""
        from partition.find.remote import RemotePartition

        assert prepared.reach is not None
        return RemotePartition(prepared.reach, prepared.limits)

    def look(self) -> None:
        """Say which launches are over, and when we have something to do again."""
        self._settled += [job for job in self._jobs if job.is_settled]
        self._jobs.difference_update(self._settled)
        if not self._jobs and not self._is_closed and self._is_idle():
            self._close()
        if self._jobs or self._is_closed:
            settled, self._settled = self._settled, []
            for job in settled:
                job.finish()
        self._set_timer()

    def _open(self, prepared: Prepared, hosted: Hosted) -> tuple[Opened, Callable[[], bool]]:
        if prepared.reach is not None:
            return self.place(prepared), _has_none
        if self._guest is None:
            from partition.up.guest import GuestPartition

            self._guest = GuestPartition(self.reactor, prepared.limits)
        place = self._guest.open(lambda: hosted.launch.unix_pids)
        return place, lambda: place.has_keepers

    def _turn(self) -> None:
        try:
            self.reactor.run_once(0.0)
        except Exception as error:  # on behalf of no launch: none can go on
            for job in list(self._jobs):
                job.fault(error)
            if not self._jobs:
                raise
        self.look()

    def _is_idle(self) -> bool:
        """Nothing is left of any launch, or it takes too long."""
        if self._guest is None or self._guest.is_idle or self._is_late:
            return True
        if self._late.at is None:
            self._late.set(self.reactor.monotonic() + self._end_s)
        return False

    def _come_late(self) -> None:
        self._is_late = True

    def _close(self) -> None:
        self._is_closed = True
        del _hosts[self.loop]
        self.loop.remove_reader(self.reactor.fileno())
        if self._guest is not None:
            self._guest.close()
        self.reactor.close()

    def _set_timer(self) -> None:
        """Have asyncio call us when something is due that no descriptor tells."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_closed or (due := self.reactor.deadline()) is None:
            return
        wait_s = max(0.0, due - self.reactor.monotonic())
        self._timer = self.loop.call_at(self.loop.time() + wait_s, self._turn)


def _has_none() -> bool:
    """It has no keeper in this process."""
    return False


_hosts: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Host] = weakref.WeakKeyDictionary()
