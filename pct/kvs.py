"""The key-value machine under PMI-1, PMI-2 and PMIx: pairs, fences, published names.

Ranks put pairs and meet in fences. What was put since the last fence is merged up the
tree when every participant of the subtree is in, and all of it comes down again; only
then may any of them go on. So a get is always answered at once, from what the fences
have spread.

PMIx makes its data itself: there a node's share is one value, keyed by the node's
place and cut into pieces that fit messages (:func:`share`, :func:`joined`).
"""

from __future__ import annotations

from collections.abc import Callable

from native.wire.base import MESSAGE_MAX_BYTES
from native.wire.pmi import Fence, FenceKind, KeyValue, Participants

PIECE_BYTES = MESSAGE_MAX_BYTES * 5 // 8  # of pairs in a fence message; the rest for its ranks
SHARE_BYTES = 64 * 1024  # of a node's data in one pair
PAIR_BYTES = 16  # what a pair has beside its key and value, at most
NAMES_MAX = 65536  # published at once in one job
NAMES_BYTES = 64 << 20  # of them
FENCES_MAX = 4096  # kinds of participants whose fences are counted

Meeting = tuple[FenceKind, tuple[Participants, ...]]  # what a fence's number counts


class KeyValueSpace:
    """The pairs of one world, as one node knows them."""

    def __init__(self) -> None:
        self._pairs: dict[bytes, bytes] = {}
        self._fresh: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes) -> None:
        """Note a pair; other nodes see it after the next fence, this one at once."""
        self._pairs[key] = value
        self._fresh[key] = value

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        return self._pairs.get(key)

    def take_fresh(self) -> tuple[KeyValue, ...]:
        """What has been put here since the last fence."""
        fresh, self._fresh = self._fresh, {}
        return tuple(KeyValue(key, value) for key, value in fresh.items())

    def spread(self, pairs: tuple[KeyValue, ...]) -> None:
        """What a fence has brought."""
        for pair in pairs:
            self._pairs[pair.key] = pair.value


class _Open:
    """One fence that is under way, as one node sees it."""

    def __init__(self, fence: Fence) -> None:
        self.fence = fence
        self.is_in_here = False
        self.children_in: set[int] = set()
        self.pairs: list[KeyValue] = []
        self.has_gone_up = False
        self.come_down: list[KeyValue] = []


class Fences:
    """The fences of a job, as one node sees them.

    Args:
        awaited: for the participants of a fence, whether it waits for this node, and for
            which of its children.
    """

    def __init__(self, awaited: Callable[[Meeting], tuple[bool, set[int]]]) -> None:
        self._awaited = awaited
        self._numbers: dict[Meeting, int] = {}
        self._open: dict[Meeting, _Open] = {}

    def enter(self, meeting: Meeting, pairs: tuple[KeyValue, ...]) -> None:
        """Every participant of this node is in, with these pairs."""
        fence = self._fence(meeting)
        fence.is_in_here = True
        fence.pairs += pairs

    def merge(self, place: int, fence: Fence, pairs: tuple[KeyValue, ...], is_last: bool) -> bool:
        """A child's subtree is in.

        Returns:
            Whether it is the present fence of these participants, and no earlier one.
        """
        meeting = (fence.kind, fence.participants)
        if fence.number != self._numbers.get(meeting, 0):
            return False
        here = self._fence(meeting)
        here.pairs += pairs
        if is_last:
            here.children_in.add(place)
        return True

    def take_full(self) -> list[tuple[Fence, list[tuple[KeyValue, ...]]]]:
        """The fences for which all of this subtree are in, once each.

        Returns:
            Each fence, and what goes up: pieces that fit a message, at least one.
        """
        found = []
        for meeting, fence in self._open.items():
            if fence.has_gone_up or not (fence.is_in_here or fence.children_in):
                continue
            waits_here, children = self._awaited(meeting)
            if fence.children_in >= children and (fence.is_in_here or not waits_here):
                fence.has_gone_up = True
                found.append((fence.fence, pieces(fence.pairs)))
        return found

    def come_down(
        self, fence: Fence, pairs: tuple[KeyValue, ...], is_last: bool
    ) -> list[KeyValue] | None:
        """A fence is over, or a piece of what it brings.

        Returns:
            All that it brings, with the last piece; None: not yet, or long known.
        """
        meeting = (fence.kind, fence.participants)
        if fence.number != self._numbers.get(meeting, 0):
            return None
        here = self._fence(meeting)
        here.come_down += pairs
        if not is_last:
            return None
        del self._open[meeting]
        self._numbers.pop(meeting, None)  # the newest last
        self._numbers[meeting] = fence.number + 1
        if len(self._numbers) > FENCES_MAX:
            del self._numbers[next(iter(self._numbers))]
        return here.come_down

    def _fence(self, meeting: Meeting) -> _Open:
        if (found := self._open.get(meeting)) is None:
            number = self._numbers.get(meeting, 0)
            found = self._open[meeting] = _Open(Fence(*meeting, number))
        return found


class Names:
    """What the ranks of a job have published; kept by its root."""

    def __init__(self) -> None:
        self._values: dict[bytes, tuple[bytes, bool]] = {}  # value, read once
        self._bytes = 0

    def publish(self, pairs: tuple[KeyValue, ...], is_read_once: bool) -> str:
        """Note names.

        Returns:
            Why not; empty: done.
        """
        keys = {pair.key for pair in pairs}
        if len(keys) < len(pairs) or not keys.isdisjoint(self._values):
            return "it is published already"
        size = sum(len(pair.key) + len(pair.value) for pair in pairs)
        if len(self._values) + len(pairs) > NAMES_MAX or self._bytes + size > NAMES_BYTES:
            return f"the job has {NAMES_MAX} names or {NAMES_BYTES} bytes of them"
        for pair in pairs:
            self._values[pair.key] = (pair.value, is_read_once)
        self._bytes += size
        return ""

    def lookup(self, keys: tuple[bytes, ...], is_waiting: bool) -> tuple[KeyValue, ...] | None:
        """What there is of these; None: somebody who waits for all of them has to wait."""
        if is_waiting and not all(key in self._values for key in keys):
            return None
        there = [key for key in dict.fromkeys(keys) if key in self._values]
        found = tuple(KeyValue(key, self._values[key][0]) for key in there)
        self.unpublish(tuple(key for key in there if self._values[key][1]))
        return found

    def size_of(self, keys: tuple[bytes, ...]) -> int:
        """About how many bytes a message has that tells of these."""
        there = [key for key in dict.fromkeys(keys) if key in self._values]
        return sum(len(key) + len(self._values[key][0]) + PAIR_BYTES for key in there)

    def unpublish(self, keys: tuple[bytes, ...]) -> bool:
        """Take names away. True: all were there."""
        were_there = True
        for key in keys:
            value, _ = self._values.pop(key, (None, False))
            if value is None:
                were_there = False
            else:
                self._bytes -= len(key) + len(value)
        return were_there


def pieces(pairs: list[KeyValue]) -> list[tuple[KeyValue, ...]]:
    """Pairs cut into lists that each fit a message; an empty one for no pairs."""
    found: list[tuple[KeyValue, ...]] = []
    piece: list[KeyValue] = []
    room = PIECE_BYTES
    for pair in pairs:
        cost = len(pair.key) + len(pair.value) + PAIR_BYTES
        if cost > room and piece:
            found.append(tuple(piece))
            piece, room = [], PIECE_BYTES
        piece.append(pair)
        room -= cost
    found.append(tuple(piece))
    return found


def share(place: int, data: bytes) -> tuple[KeyValue, ...]:
    """A node's data for a PMIx fence: pairs that sort by place, then by piece."""
    return tuple(
        KeyValue(
            place.to_bytes(4, "big") + number.to_bytes(4, "big"),
            data[start : start + SHARE_BYTES],
        )
        for number, start in enumerate(range(0, len(data), SHARE_BYTES))
    )


def joined(pairs: list[KeyValue]) -> bytes:
    """Everybody's data, in the order of the places."""
    return b"".join(pair.value for pair in sorted(pairs, key=lambda pair: pair.key))
