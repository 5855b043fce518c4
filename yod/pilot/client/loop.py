"""The thread of a session: one loop, in which everything of it happens.

The application's threads call in by :meth:`Loop.post` and :meth:`Loop.call`; what they read of
tasks and pilots is written by this thread alone.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from native.errors import InternalError, YodError
from native.loop.reactor import Reactor

_LOOK_S = 1.0  # how often who waits for the thread looks whether it lives

T = TypeVar("T")


class Loop:
    """A loop in a thread of its own.

    When something raises in it that is a bug of ours, the thread ends, and whoever waits for
    anything of the session gets an error. So does who waits when it is closed.

    Args:
        name: of the session.

    Attributes:
        fault: what has raised; empty: nothing has.
        changed: waited on by those that wait for a state; notified by this thread.
    """

    def __init__(self, name: str) -> None:
        self.reactor = Reactor(takes_sigchld=False)
        self.changed = threading.Condition()
        self.fault = ""
        self._name = name
        self._posted: deque[Callable[[], object]] = deque()
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._watch = self.reactor.watch(self._event, self._take)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """The calling thread is the loop's."""
        return threading.current_thread() is self._thread

    def post(self, call: Callable[[], object]) -> None:
        """Have something done in the loop, soon."""
        self._posted.append(call)
        if not self._is_closed:
            os.eventfd_write(self._event, 1)

    def call(self, call: Callable[[], T]) -> T:
        """Have something done in the loop, and return what it returns or raises."""
        if self.is_here:
            return call()
        self.check()
        done = threading.Event()
        result: list[T] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                result.append(call())
            except Exception as error:
                failure.append(error)
            finally:
                done.set()

        self.post(run)
        while not done.wait(_LOOK_S):
            self.check()
        if failure:
            raise failure[0]
        return result[0]

    def check(self) -> None:
        """Raise if the thread has ended.

        Raises:
            InternalError: by a bug.
            YodError: the session is closed.
        """
        if self.fault:
            raise InternalError(f"the thread of the session has failed: {self.fault}")
        if self._is_closed:
            raise YodError(f"session {self._name} is closed")

    def close(self) -> None:
        """End the thread. What was posted has been done."""
        if self._is_closed or self.is_here:
            return
        self.post(self.reactor.stop)
        self._thread.join()
        with self.changed:
            self._is_closed = True
            self.changed.notify_all()
        self._watch.close()
        os.close(self._event)
        self.reactor.close()

    def _run(self) -> None:
        try:
            self.reactor.run()
        except Exception as error:
            from native.machine import fault_text

            self.fault = fault_text(error)
            with self.changed:
                self.changed.notify_all()

    def _take(self) -> None:
        os.eventfd_read(self._event)
        while self._posted:
            self._posted.popleft()()
