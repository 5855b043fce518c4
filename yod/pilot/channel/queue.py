"""A queue between programs of tasks, as ``radical.utils.Putter`` and ``Getter`` understand it.

Many put messages, many get them, one at a time: who has asked first gets the next one. Who asks
waits for its answer, also where there is no message yet, and asks again after that. A queue has
lines of its own by name.

Pure: no transport.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct


class Delivery(Struct, frozen=True):
    """A message goes to a getter, which has asked for one of this line."""

    getter: bytes
    line: str
    message: bytes


class _Line(Struct):
    messages: deque[bytes]
    getters: dict[bytes, None]  # that wait; in order


class Queue:
    """One queue.

    Args:
        bytes_max: of the messages in it, from which on it is full.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lines: dict[str, _Line] = {}

    @property
    def is_full(self) -> bool:
        """Nothing more is to be put into it now."""
        return self._bytes >= self._bytes_max

    def put(self, name: str, messages: Sequence[bytes]) -> list[Delivery]:
        """Messages have come, behind those that are there."""
        line = self._line(name)
        line.messages.extend(messages)
        self._bytes += sum(map(len, messages))
        return self._deliver(name, line)

    def get(self, getter: bytes, name: str) -> list[Delivery]:
        """A getter has asked."""
        line = self._line(name)
        line.getters[getter] = None
        return self._deliver(name, line)

    def undelivered(self, delivery: Delivery) -> list[Delivery]:
        """The getter of a message has gone: the next one gets it."""
        line = self._line(delivery.line)
        line.messages.appendleft(delivery.message)
        self._bytes += len(delivery.message)
        return self._deliver(delivery.line, line)

    def _line(self, name: str) -> _Line:
        return self._lines.setdefault(name, _Line(deque(), {}))

    def _deliver(self, name: str, line: _Line) -> list[Delivery]:
        found = []
        while line.messages and line.getters:
            getter = next(iter(line.getters))
            del line.getters[getter]
            message = line.messages.popleft()
            self._bytes -= len(message)
            found.append(Delivery(getter, name, message))
        if not line.messages and not line.getters:
            del self._lines[name]
        return found
