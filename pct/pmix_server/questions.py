"""What the library's thread hands to the main thread, and what the PCT is asked.

An upcall runs on libpmix's own thread. It queues what is to be done and wakes the main
thread by an eventfd; the main thread sends the question to the PCT, which answers by the
question's serial number.
"""

from __future__ import annotations

import os
import time

from pct.pmix_server.keys import Code
from pct.pmix_server.plain import Answer, FenceDone, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Sent = TypeVar("_Sent", FenceDone, Answer, Table, FenceDone | Answer)


class Questions:
    """The calls that wait for the main thread, and the questions that wait for the PCT.

    Attributes:
        wake: an eventfd that is readable when :meth:`run` has something to do.
    """

    def __init__(self) -> None:
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._queued: list[Callable[[], object]] = []
        self._serial = 0
        self._waiting: dict[int, Callable[[Any], None]] = {}  # by our serial
        self._deadlines: dict[int, float] = {}  # by our serial, monotonic

    def queue(self, call: Callable[[], object]) -> int:
        """On the library's thread: let the main thread make a call."""
        self._queued.append(call)
        os.eventfd_write(self.wake, 1)
        return Code.SUCCESS

    def run(self) -> None:
        """Make the calls that have been queued."""
        while self._queued:
            self._queued.pop(0)()

    def ask(self, answer: Callable[[_Sent], None], timeout_s: float = 0) -> int:
        """Serial of a new question.

        Args:
            answer: called with the PCT's answer.
            timeout_s: seconds until the question is answered with a timeout; 0: never.
        """
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        self._waiting[self._serial] = answer
        if timeout_s > 0:
            self._deadlines[self._serial] = time.monotonic() + timeout_s
        return self._serial

    def answer(self, message: FenceDone | Answer | Table) -> None:
        """Pass an answer on; one that comes after its question's timeout is dropped."""
        if answer := self._waiting.pop(message.serial, None):
            self._deadlines.pop(message.serial, None)
            answer(message)

    def deadline(self) -> float | None:
        """When :meth:`expire` has something to do, monotonic."""
        return min(self._deadlines.values(), default=None)

    def expire(self) -> None:
        """Answer the questions whose client does not want to wait longer."""
        now = time.monotonic()
        for serial in [serial for serial, at in self._deadlines.items() if at <= now]:
            self.answer(Answer(serial, Code.TIMEOUT, ()))
