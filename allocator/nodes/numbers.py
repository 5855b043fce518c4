"""Which number each name of a node has: by the nodes file, earlier ones, or by choice. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping

from allocator.nodes.node import NodeConflictError
from allocator.nodes.tally import Tally


class Numbers:
    """The numbers of all names that have one.

    Args:
        fixed: number by name, from the nodes file.
        remembered: number by name, from an earlier bebopd.
        taken: numbers of the nodes that are there.
    """

    def __init__(
        self, fixed: Mapping[str, int], remembered: Mapping[str, int], taken: Container[int]
    ) -> None:
        self._taken = taken
        self._fixed = dict(fixed)
        self._name_of = {number: name for name, number in fixed.items()}
        self._numbers = {**remembered, **fixed}
        self._named = Tally(self._numbers.values())  # names that have a number
        self._lowest = 0  # no lower number can be given

    def is_fixed(self, number: int) -> bool:
        """Whether the nodes file has it."""
        return number in self._name_of

    def names(self) -> dict[int, str]:
        """The name that has each number."""
        return {number: name for name, number in self._numbers.items()}

    def name_of(self, number: int) -> str:
        """The name of a node that may not be there; empty: not known."""
        names = (name for name, known in self._numbers.items() if known == number)
        return next(names, "")

    def wanted(self, name: str, number: int) -> int:
        """The number of a node that announces itself.

        Args:
            number: that it asks for; -1: any.

        Raises:
            NodeConflictError: it may not have it.
        """
        if number < 0:
            number = self._numbers[name] if name in self._numbers else self._lowest_free()
        elif self._fixed.get(name, number) != number:
            raise NodeConflictError(
                f"{name} is node {self._fixed[name]} by the nodes file,"
                f" and announced itself as node {number}"
            )
        if self._name_of.get(number, name) != name:
            raise NodeConflictError(
                f"node {number} is {self._name_of[number]} by the nodes file, not {name}"
            )
        return number

    def give(self, name: str, number: int) -> None:
        """A name has this number from now on."""
        before = self._numbers.get(name, number)
        if before != number and self._named.remove(before):  # it was remembered, and is free
            self._lowest = min(self._lowest, before)
        if before != number or name not in self._numbers:
            self._named.add(number)
        self._numbers[name] = number

    def fix(self, fixed: Mapping[str, int]) -> None:
        """Go by a nodes file that has changed."""
        for name, number in fixed.items():
            self.give(name, number)
        self._fixed = dict(fixed)
        self._name_of = {number: name for name, number in fixed.items()}

    def check(self) -> None:
        """Assert what must always hold."""
        assert self._named.items() == Counter(self._numbers.values())
        assert all(number in self._named or number in self._taken for number in range(self._lowest))

    def _lowest_free(self) -> int:
        while self._lowest in self._named or self._lowest in self._taken:
            self._lowest += 1
        return self._lowest
