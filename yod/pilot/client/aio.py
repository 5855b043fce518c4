"""Pilots in asyncio programs, without managers: docs/pilot.md."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from yod.pilot.client.pilot import Pilot
from yod.pilot.client.pmgr import PilotManager
from yod.pilot.client.session import Session
from yod.pilot.client.task import Task
from yod.pilot.client.tmgr import TaskManager
from yod.pilot.model.description import PilotDescription, TaskDescription

Asked = TaskDescription | dict[str, Any] | Sequence[str] | str


class OpenPilot:
    """A pilot from the beginning of an ``async with`` block to its end.

    Leaving the block ends what still runs.
    """

    def __init__(self, uid: str | None, base: str, description: PilotDescription) -> None:
        self._uid = uid
        self._base = base
        self._description = description
        self._session: Session | None = None
        self._tmgr: TaskManager | None = None
        self.pilot: Pilot | None = None

    @property
    def path(self) -> str:
        """The directory of its session."""
        assert self._session is not None
        return self._session.path

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._session is not None
        closing = asyncio.get_running_loop().run_in_executor(None, self._session.close)
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait([closing])
            raise

    def submit(self, asked: Asked) -> asyncio.Future[Task]:
        """A task; the future is done when it is over, however it ends.

        A future that is cancelled cancels its task.

        Args:
            asked: a description, a program with its arguments, or a program.

        Raises:
            UsageError: the description is wrong.
        """
        return self._submit([asked])[0]

    async def run(self, asked: Asked) -> Task:
        """Run a task, and wait for its end."""
        return await self.submit(asked)

    async def map(self, every: Iterable[Asked]) -> AsyncIterator[Task]:
        """Run tasks, and give each when it is over, in the order of their ends."""
        futures = self._submit(list(every))
        try:
            for ended in asyncio.as_completed(futures):
                yield await ended
        finally:
            for future in futures:
                future.cancel()

    def _begin(self) -> None:
        self._session = Session(self._uid, base=self._base)
        self._tmgr = TaskManager(self._session)
        pilot = PilotManager(self._session).submit_pilots(self._description)
        self._tmgr.add_pilots(pilot)
        self.pilot = pilot

    def _submit(self, every: list[Asked]) -> list[asyncio.Future[Task]]:
        tmgr = self._tmgr
        assert tmgr is not None
        loop = asyncio.get_running_loop()
        tasks: list[Task] = tmgr.submit_tasks([_description(asked) for asked in every])
        futures: list[asyncio.Future[Task]] = []
        for task in tasks:
            future: asyncio.Future[Task] = loop.create_future()
            future.add_done_callback(_canceler(task))
            futures.append(future)

        def over(future: asyncio.Future[Task], task: Task) -> None:
            if not future.done():
                future.set_result(task)

        def tell(future: asyncio.Future[Task], task: Task) -> None:
            loop.call_soon_threadsafe(over, future, task)

        def watch() -> None:
            for future, task in zip(futures, tasks, strict=True):
                tmgr.when_over(task, partial(tell, future))

        tmgr.session.loop.post(watch)
        return futures


def _canceler(task: Task) -> Any:
    def done(future: asyncio.Future[Task]) -> None:
        if future.cancelled():
            task.cancel()

    return done


def _description(asked: Asked) -> TaskDescription:
    if isinstance(asked, dict):
        return asked if isinstance(asked, TaskDescription) else TaskDescription(asked)
    words = [asked] if isinstance(asked, str) else list(asked)
    entries = {"executable": words[0] if words else "", "arguments": words[1:]}
    return TaskDescription({**entries, "literal": True})


def open_pilot(uid: str | None = None, *, base: str = "", **keys: Any) -> OpenPilot:
    """A pilot to be entered by ``async with``.

    Args:
        uid: of the session; default: a new one.
        base: the directory below which the session's is.
        keys: of :class:`PilotDescription`, such as ``cores``.

    Raises:
        UsageError: a key is wrong.
    """
    description = PilotDescription(keys)
    description.verify()
    return OpenPilot(uid, base, description)
