"""Which nodes have which features: by the nodes file, and by what their hosts can do. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from native.wire.status import Feature

Nodes = frozenset[int]
_NONE: Nodes = frozenset()


class Featured:
    """The features of all nodes.

    Attributes:
        changes: of what hosts can do, counted.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._named: Mapping[str, Nodes] = {}
        self._told: dict[int, tuple[Feature, ...]] = {}
        self._all: Mapping[str, Nodes] | None = None  # None: to be made

    def has(self, number: int, features: tuple[Feature, ...]) -> bool:
        """It is what a node has announced last."""
        return features == self._told.get(number, ())

    def tell(self, number: int, features: tuple[Feature, ...]) -> None:
        """A node has announced what its host can do."""
        if self.has(number, features):
            return
        self.changes += 1
        self._all = None
        if features:
            self._told[number] = features
        else:
            del self._told[number]

    def name(self, named: Mapping[str, Nodes]) -> None:
        """Go by a nodes file: the nodes that have each feature."""
        self._named, self._all = named, None

    def all(self) -> Mapping[str, Nodes]:
        """The nodes that have each, by the one or the other."""
        if self._all is None:
            self._all = self._united()
        return self._all

    def _united(self) -> Mapping[str, Nodes]:
        if not self._told:
            return self._named
        found = dict(self._named)
        for feature in Feature:
            told = frozenset(number for number, own in self._told.items() if feature in own)
            if told:
                found[feature.value] = found.get(feature.value, _NONE) | told
        return found
