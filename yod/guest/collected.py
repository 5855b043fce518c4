"""Output of a launch that is kept in memory, for a program that uses :mod:`yod.api`."""

from __future__ import annotations

import errno

from native.limits import Limits
from native.loop.reactor import Reactor
from yod.host.display import Display, time_stamp
from yod.host.front import Front, OnBroken, OnWritten, Screen, tell_written
from yod.launch.lines import Lines, Piece
from yod.plan.plan import Style

MESSAGES_MAX = 1000
LEFT_OUT = "further messages are left out"


class Collected:
    """What a launch has written.

    Args:
        most_bytes: of each stream; a launch that writes more ends.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._data = {1: bytearray(), 2: bytearray()}
        self._messages: list[str] = []

    @property
    def messages(self) -> tuple[str, ...]:
        """Lines of yod itself."""
        return tuple(self._messages)

    def data(self, number: int) -> bytes:
        """Standard output (1) or error (2) of all ranks, as yod would have shown it."""
        return bytes(self._data[number])

    def add(self, number: int, pieces: list[Piece]) -> bool:
        """Keep output; False: there is no room for all of it."""
        kept = self._data[number]
        for data, _, _ in pieces:
            room = self.most_bytes - len(kept)
            kept += data if len(data) <= room else memoryview(data)[:room]
            if len(data) > room:
                return False
        return True

    def say(self, text: str) -> None:
        """Keep a line of yod itself."""
        if len(self._messages) < MESSAGES_MAX:
            self._messages.append(text.removeprefix("yod: "))
        elif len(self._messages) == MESSAGES_MAX:
            self._messages.append(LEFT_OUT)


class CollectedOutput:
    """Standard output or error; nothing ever waits in it."""

    is_empty = True
    is_terminal = False

    def __init__(
        self, collection: Collected, number: int, on_written: OnWritten, on_broken: OnBroken
    ) -> None:
        self._collection = collection
        self._number = number
        self._on_written = on_written
        self._on_broken = on_broken
        self._is_full = False

    def write(self, pieces: list[Piece]) -> None:
        """Keep it; what comes after the limit is dropped, and the launch told."""
        if not self._is_full and not self._collection.add(self._number, pieces):
            self._is_full = True
            most = self._collection.most_bytes
            text = f"more than {most} bytes to collect (collected_bytes)"
            self._on_broken(OSError(errno.ENOBUFS, text))
        tell_written(pieces, self._on_written)

    def drop(self) -> int:
        """Drop nothing: all has been taken."""
        return 0

    def close(self) -> None:
        """Do nothing: what is kept stays."""


class _Lines(Display):
    """Lines of the ranks; those of yod itself are kept apart."""

    collection: Collected

    def say(self, text: str) -> None:
        self.collection.say(text)


def open_collection(
    collection: Collected,
    reactor: Reactor,
    front: Front,
    style: Style,
    size: int,
    limits: Limits,
    on_written: OnWritten,
    on_broken: OnBroken,
    *,
    has_stamps: bool = False,
) -> dict[int, Screen]:
    """Screens for both streams, each in lines as the command shows them.

    Args:
        front: its outputs are those of the collection.
        has_stamps: the time is put in front of each line.
    """
    screens: dict[int, Screen] = {}
    for number in (1, 2):
        lines = Lines(style, size, limits, time_stamp if has_stamps else None)
        screens[number] = screen = _Lines(reactor, front, number, lines, on_written, on_broken)
        screen.collection = collection
    return screens
