"""The key-value space of one job, as one node sees it.

Ranks put pairs and meet in barriers. What was put since the last barrier is
merged up the tree when every rank of the subtree is in, and all of it comes
down again; only then may any rank go on. So a get is always answered at once,
from what the barriers have spread.
"""

from __future__ import annotations

from native.wire.base import MESSAGE_MAX_BYTES
from native.wire.pmi import KeyValue

PIECE_BYTES = MESSAGE_MAX_BYTES // 2  # of pairs in one fence message


class KeyValueSpace:
    """Pairs, and who is in the present barrier.

    Attributes:
        number: of the present barrier, from 0.
    """

    def __init__(self, ranks: tuple[int, ...], children: list[int]) -> None:
        self.number = 0
        self.inside: set[int] = set()
        self._ranks = set(ranks)
        self._children = set(children)
        self._pairs: dict[bytes, bytes] = {}
        self._fresh: dict[bytes, bytes] = {}
        self._children_in: set[int] = set()
        self._sent_up = False

    def put(self, key: bytes, value: bytes) -> None:
        """Note a pair; the others see it after the next barrier, this node at once."""
        self._pairs[key] = value
        self._fresh[key] = value

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        return self._pairs.get(key)

    def enter(self, rank: int) -> bool:
        """A rank comes to the barrier. True: it was the last one of this subtree."""
        self.inside.add(rank)
        return self._is_full()

    def leave(self, rank: int) -> bool:
        """A rank is through with PMI or has ended: barriers do not wait for it."""
        self._ranks.discard(rank)
        return self._is_full()

    def leave_child(self, place: int) -> bool:
        """Every rank of a child's subtree has ended. True: the barrier is full here."""
        self._children.discard(place)
        return self._is_full()

    def merge_child(self, place: int, pairs: tuple[KeyValue, ...], is_last: bool) -> bool:
        """What a child's subtree has put. True: the barrier is full here."""
        for pair in pairs:
            self.put(pair.key, pair.value)
        if is_last:
            self._children_in.add(place)
        return self._is_full()

    def take_fresh(self) -> list[tuple[KeyValue, ...]]:
        """What goes up: pieces that fit a message, at least one."""
        self._sent_up = True
        return pieces(self._fresh)

    def spread(self, pairs: tuple[KeyValue, ...]) -> None:
        """What came down."""
        for pair in pairs:
            self._pairs[pair.key] = pair.value

    def release(self) -> set[int]:
        """The barrier is over.

        Returns:
            The ranks that were in it here and may go on.
        """
        released, self.inside = self.inside, set()
        self._children_in.clear()
        self._fresh.clear()
        self._sent_up = False
        self.number += 1
        return released

    def _is_full(self) -> bool:
        return (
            not self._sent_up
            and bool(self.inside or self._children_in)
            and self.inside >= self._ranks
            and self._children_in >= self._children
        )


def pieces(pairs: dict[bytes, bytes]) -> list[tuple[KeyValue, ...]]:
    """Pairs cut into lists that each fit a message; an empty one for no pairs."""
    found: list[tuple[KeyValue, ...]] = []
    piece: list[KeyValue] = []
    room = PIECE_BYTES
    for key, value in pairs.items():
        cost = len(key) + len(value) + 16
        if cost > room and piece:
            found.append(tuple(piece))
            piece, room = [], PIECE_BYTES
        piece.append(KeyValue(key, value))
        room -= cost
    found.append(tuple(piece))
    return found
