"""All-to-one: which contributions a node still awaits, from itself and its children."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

SELF = -1  # a node's own contribution, beside the places of its children


class Gather(Generic[T]):
    """Collects one contribution from this node and from each child.

    Invariant: no place is both awaited and already counted.
    """

    def __init__(self, places: range | list[int]) -> None:
        self.awaited: set[int] = {SELF, *places}
        self.given: dict[int, T] = {}

    def give(self, place: int, contribution: T) -> bool:
        """Take a contribution.

        Returns:
            True when it was the last one awaited; False also for a contribution that
            is late or comes twice.
        """
        if place not in self.awaited:
            return False
        self.awaited.discard(place)
        self.given[place] = contribution
        return not self.awaited

    def drop(self, place: int, heirs: range | list[int] = range(0)) -> bool:
        """A child is lost; its heirs are awaited instead.

        Returns:
            True when this has completed the collection.
        """
        if place not in self.awaited:
            return False
        self.awaited.discard(place)
        self.awaited.update(heir for heir in heirs if heir not in self.given)
        return not self.awaited

    @property
    def is_complete(self) -> bool:
        """No contribution is awaited."""
        return not self.awaited
