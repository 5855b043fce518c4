"""Small counts by number, in four bytes each. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable


class Tally:
    """How often each number is there.

    Args:
        numbers: that are there; none is negative.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._counts = array("I", bytes(4 * 64))
        for number in numbers:
            self.add(number)

    def __contains__(self, number: int) -> bool:
        return number < len(self._counts) and self._counts[number] > 0

    def add(self, number: int) -> None:
        """Once more."""
        if number >= len(self._counts):
            grown = max(number + 1, 2 * len(self._counts))
            self._counts.extend(array("I", bytes(4 * (grown - len(self._counts)))))
        self._counts[number] += 1

    def remove(self, number: int) -> bool:
        """Once less; whether it is gone."""
        self._counts[number] -= 1
        return not self._counts[number]

    def items(self) -> dict[int, int]:
        """The count of each number that is there."""
        return {number: count for number, count in enumerate(self._counts) if count}
