"""Partitions and launch servers that stay up from test to test.

To bring a partition up and down takes far longer than most tests in it. A test that asks for
nothing special gets one that is up already. At the end of the test the leak watch compares the
partition with its state before; one that has changed, or has lost a daemon, is taken down, and
the next test gets a new one. With launch servers it is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from tests.support.leaks import Watch
from tests.support.place import Place

STANDING_MAX = 4  # partitions that stand idle in one test process


class Stays(Protocol):
    """What stays up."""

    def start(self) -> None:
        """Bring it up."""

    def stop(self) -> None:
        """Take it down."""

    @property
    def is_as_started(self) -> bool:
        """Every process of it runs, and none has taken another's place."""

    def begin_test(self, watch: Watch) -> None:
        """A test begins: its end compares this with its present state."""

    def log(self) -> str:
        """What its processes have said, for messages."""


Lent = TypeVar("Lent", bound=Stays)


class Key(NamedTuple):
    """What makes two partitions serve alike."""

    kind: str
    count: int = 0
    slots: int = 0
    ram_bytes: int = 0  # of each host


class Standing:
    """The partitions of one test process.

    Args:
        place: of all of them.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._idle: list[tuple[Key, Any]] = []  # the longest idle first
        self._lent: dict[Stays, Key] = {}

    def take(self, key: Key, make: Callable[[Place], Lent]) -> Lent:
        """One of the kind that nobody uses; it is started where there is none."""
        for number, (other, partition) in enumerate(self._idle):
            if other == key:
                del self._idle[number]
                self._lent[partition] = key
                return partition  # type: ignore[no-any-return]
        partition = make(self._place)
        partition.start()
        self._lent[partition] = key
        return partition

    def give_back(self, partition: Stays, is_clean: bool) -> None:
        """A test has ended; ``is_clean`` is what the leak watch says."""
        key = self._lent.pop(partition)
        if not is_clean or not partition.is_as_started:
            partition.stop()
            return
        self._idle.append((key, partition))
        if len(self._idle) > STANDING_MAX:
            self._idle.pop(0)[1].stop()

    def close(self) -> None:
        """Take all of them down."""
        while self._idle:
            self._idle.pop()[1].stop()
