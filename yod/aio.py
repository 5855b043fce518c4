"""Launches in an asyncio program: docs/api.md."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self, Unpack

from native.errors import YodError
from native.host import stdio
from native.loop.reactor import Reactor
from native.port.port import Opened
from yod.aiohost import Host, Hosted
from yod.guest.choices import Choices, Command
from yod.guest.driver import GuestLaunch
from yod.guest.feed import Event, Feed
from yod.guest.front import Given, Source
from yod.guest.request import Request, request
from yod.guest.results import Result
from yod.launch.events import SignalToPass, SuspensionAsked
from yod.launch.phases import Phase
from yod.plan.prepared import Prepared

_BY_PROGRAM = "the program"  # who has cancelled a job, for the user


async def run(
    command: Command,
    *,
    stdin: bytes | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **choices: Unpack[Choices],
) -> Result:
    """Launch a job, and wait for its end.

    When the task is cancelled, the job is: SIGTERM, then SIGKILL. A second cancellation sends
    SIGKILL at once. :exc:`asyncio.CancelledError` is raised when nothing is left of the job.

    Arguments, results and errors are those of :func:`yod.api.run`.
    """
    own = {"has_input": stdin != b"", "has_own_input": stdin is None}
    asked = request(command, **own, **choices)
    job = Job(asked, stdin, None, capture_output, timeout)
    async with job:
        result = await job.wait()
    job._check(result, check)
    return result


def launch(
    command: Command,
    *,
    stdin: bytes | None = b"",
    timeout: float | None = None,
    **choices: Unpack[Choices],
) -> Job:
    """A job to be entered by ``async with``; its output comes as events.

    Args:
        command: a program and its arguments, or members.
        stdin: the whole input of rank 0; None: :meth:`Job.write` brings it.
        timeout: seconds that the job may last; it is ended then, which is no error here.
        choices: ``label``, ``raw`` and ``merge`` mean nothing here, as output comes as it is.

    Raises:
        UsageError: choices that exclude each other, no program, or a wrong size.
    """
    choices["merge"] = False  # events are of one rank
    choices["raw"] = True  # no line waits for its end: the window is all that is held
    asked = request(command, has_input=stdin != b"", **choices)
    return Job(asked, stdin, Feed, False, timeout)


class Job:
    """A job that is launched when its ``async with`` block is entered.

    Leaving the block waits for the end of the job, whose unread output is dropped; leaving it
    by an exception, a cancellation among them, cancels the job first. So nothing is left of the
    job behind the block.
    """

    def __init__(
        self,
        asked: Request,
        stdin: bytes | None,
        new_feed: Callable[[Callable[[], None]], Feed] | None,
        collects_output: bool,
        timeout_s: float | None,
    ) -> None:
        self._asked = asked
        self._stdin = stdin
        self._collects_output = collects_output
        self._timeout_s = timeout_s
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._writing = asyncio.Lock()
        self._feed = None if new_feed is None else new_feed(self._more.set)
        self._source: Source | None = None
        self._hosted: Hosted | None = None

    @property
    def id(self) -> str:
        """What yodjob calls the job; empty: it has no nodes yet, or no id."""
        return self._here.launch.job_id

    @property
    def result(self) -> Result | None:
        """How it has ended; None: it has not."""
        return self._here.result

    async def events(self) -> AsyncIterator[Event]:
        """What happens, up to :class:`Ended`, each event once.

        Output that is not read holds up the ranks, as that of a pipe.
        """
        while (event := await self._next()) is not None:
            yield event

    async def wait(self) -> Result:
        """Wait for the end of the job.

        Output does not wait for nobody: where events are not read, the job may never end.

        Raises:
            InternalError: a bug of ours; the job has been ended.
        """
        here = self._here
        await asyncio.wait([here.over])
        return here.over.result()

    def signal(self, number: int) -> None:
        """Send a signal to every rank.

        Raises:
            YodError: the ranks do not run, not yet or not any more.
        """
        here = self._here
        if here.launch.driver.machine.phase is not Phase.RUNNING:
            raise YodError("the ranks do not run")
        here.do(here.launch.driver.handle, SignalToPass(number))

    def go(self) -> None:
        """Let ranks go that are held at their entry (``attach``).

        Raises:
            YodError: they are not held, not yet or not any more.
        """
        here = self._here
        if here.launch.driver.machine.phase is not Phase.HELD:
            raise YodError("the ranks are not held")
        here.do(here.launch.driver.handle, SuspensionAsked(is_on=False))

    def cancel(self) -> None:
        """Send SIGTERM to all ranks, and later SIGKILL; a second call sends that at once.

        Output is dropped from now on.
        """
        here = self._here
        if self._feed is not None:
            here.do(self._feed.drop)
        here.do(here.launch.cancellation.begin, _BY_PROGRAM)

    async def write(self, data: bytes) -> None:
        """Give input to rank 0, and return when it is on its way; empty: the end of the input.

        Raises:
            BrokenPipeError: the job has ended, or the input has.
            YodError: its whole input was given when it was launched.
        """
        here = self._here
        if self._stdin is not None or self._source is None:
            raise YodError("stdin=None lets a job be written to")
        async with self._writing:
            left = memoryview(data)
            is_done = False
            while not is_done:
                if self._source.is_over:
                    raise BrokenPipeError("the input of the job has ended")
                self._room.clear()
                if data:
                    left = left[here.do_for(0, self._source.give, left) :]
                    is_done = not left
                else:
                    is_done = here.do_for(False, self._source.end)
                if not is_done:
                    await self._room.wait()

    async def __aenter__(self) -> Self:
        if self._hosted is not None:
            raise RuntimeError("a job is launched once")
        loop = asyncio.get_running_loop()
        stdio.take_numbers()
        prepared = await loop.run_in_executor(None, self._asked.prepare)
        self._hosted = hosted = Host.of(loop).launch(prepared, self._feed, self._new)
        if not hosted.has_begun:
            await asyncio.wait([hosted.over])
            hosted.over.result()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        here = self._here
        if error is not None and not here.over.done():
            self.cancel()
        elif self._feed is not None:
            here.do(self._feed.drop)
        while not here.over.done():
            try:
                await asyncio.wait([here.over])
            except asyncio.CancelledError as cancelled:
                error = error or cancelled
                self.cancel()
        if kind is None and error is not None:
            raise error
        if here.over.exception() is not None and error is None:
            here.over.result()

    def _new(
        self,
        prepared: Prepared,
        opened: Opened,
        reactor: Reactor,
        on_over: Callable[[], None],
        before: GuestLaunch | None,
    ) -> GuestLaunch:
        if self._stdin is not None:
            self._source = Given(reactor, self._stdin)
        elif self._feed is not None:
            self._source = Source(reactor, self._room.set)
        return GuestLaunch(
            self._asked,
            prepared,
            opened,
            reactor,
            on_over,
            source=self._source,
            collects_output=self._collects_output,
            feed=self._feed,
            takes_signals=False,
            timeout_s=self._timeout_s,
            before=before,
        )

    @property
    def _here(self) -> Hosted:
        if self._hosted is None:
            raise RuntimeError("a job is launched by `async with`")
        return self._hosted

    async def _next(self) -> Event | None:
        here, feed = self._here, self._feed
        assert feed is not None
        while True:
            self._more.clear()
            event = here.do_for(None, feed.take)
            if event is not None:
                return event
            if here.over.done():
                here.over.result()
                return None
            await self._more.wait()

    def _check(self, result: Result, is_checked: bool) -> None:
        self._here.launch.check(result, is_checked)
