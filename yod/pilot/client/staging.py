"""The files of tasks that the client's side brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from yod.pilot.client.events import TaskEvents
from yod.pilot.client.task import Task
from yod.pilot.files.attempt import failure_of
from yod.pilot.files.bringer import Bringer, Tried
from yod.pilot.model.staging import directives_of

if TYPE_CHECKING:
    from yod.pilot.client.session import Session


class TaskStaging:
    """Brings files of tasks, beside the session's loop.

    Args:
        name: of the thread that does it.
    """

    def __init__(self, session: Session, events: TaskEvents, name: str) -> None:
        self._session = session
        self._events = events
        self._bringer = Bringer(session.loop.reactor, name)

    def bring(self, task: Task, then: Callable[[str], None], *, is_input: bool) -> bool:
        """Bring what is the client's to bring; ``then`` takes the failure, empty where it is done.

        Returns:
            False when there is nothing: ``then`` is not called.
        """
        asked = task.description.get("input_staging" if is_input else "output_staging")
        if not asked:
            return False
        every = directives_of(asked, is_input, task.uid)
        mine = [each for each in every if each.is_clients]
        if not mine:
            return False

        def done(tried: Tried) -> None:
            self._events.staged(task.uid, tried, is_input=is_input)
            then(failure_of(tried))

        self._bringer.bring(mine, self._session.roots(task.pilot, task.sandbox), done)
        return True

    def remove(self, task: Task, then: Callable[[], None]) -> None:
        """Remove the sandbox of a task, which is below its pilot's, and call ``then``."""
        path = task.sandbox

        def work() -> None:
            import shutil

            shutil.rmtree(path, ignore_errors=True)

        self._bringer.do(work, then)

    def close(self) -> None:
        """Bring nothing more."""
        self._bringer.close()
