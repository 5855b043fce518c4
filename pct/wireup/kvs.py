"""The key-value machine under PMI-1, PMI-2 and PMIx: pairs, fences, published names.

Ranks put pairs and meet in fences. When every participant of a subtree has entered, the
pairs that they put since the last fence are merged up the tree; at the root all pairs
turn round and come down to every node, and only then may the participants go on. So each
node answers a get at once, from the pairs that fences have spread.

PMIx has its own format of data: there a node's share is one value, keyed by the node's
place and cut into pieces that fit messages (:func:`share`, :func:`joined`).
"""

from __future__ import annotations

from collections.abc import Callable

from native.wire.base import MESSAGE_MAX_BYTES
from native.wire.pmi import Fence, FenceKind, KeyValue, Participants
from pct.account import (
    MEETING_BYTES,
    MEETING_RANK_BYTES,
    WORD_BYTES,
    Account,
    Charge,
    of_pair,
    of_pairs,
)

PIECE_BYTES = MESSAGE_MAX_BYTES * 5 // 8  # of pairs in a fence message; the rest for its ranks
SHARE_BYTES = 64 * 1024  # of a node's data in one pair
PAIR_BYTES = 16  # what a pair has beside its key and value, at most
FENCES_MAX = 4096  # kinds of participants whose fences are counted

Meeting = tuple[FenceKind, tuple[Participants, ...]]  # what a fence's number counts


class KeyValueSpace:
    """The pairs of one world, as one node knows them.

    Args:
        account: what it keeps is taken from it.
    """

    def __init__(self, account: Account) -> None:
        self._charge = Charge(account)
        self._pairs: dict[bytes, bytes] = {}
        self._fresh: dict[bytes, bytes] = {}  # put since the last fence

    def put(self, key: bytes, value: bytes) -> None:
        """Note a pair; other nodes see it after the next fence, this one at once.

        Raises:
            OverLimit: it would be too much; nothing has changed.
        """
        old = self._fresh.get(key)
        before = of_pair(key, old) if old is not None else 0
        self._charge.set(self._charge.held_bytes + of_pair(key, value) - before)
        self._fresh[key] = value

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        value = self._fresh.get(key)
        return self._pairs.get(key) if value is None else value

    def take_fresh(self) -> tuple[KeyValue, ...]:
        """What has been put here since the last fence."""
        fresh, self._fresh = self._fresh, {}
        self._charge.drop(sum(of_pair(*pair) for pair in fresh.items()))
        taken = tuple(KeyValue(key, value) for key, value in fresh.items())
        self.spread(taken)
        return taken

    def spread(self, pairs: tuple[KeyValue, ...]) -> None:
        """Take in the pairs of a fence, whose own charge for them ends."""
        more_bytes = 0
        for pair in pairs:
            key, value = pair.key, pair.value
            old = self._pairs.get(key)
            more_bytes += of_pair(key, value) if old is None else len(value) - len(old)
            self._pairs[key] = value
        self._charge.owe(more_bytes)

    def clear(self) -> None:
        """Free everything that is kept."""
        self._charge.clear()
        self._pairs.clear()
        self._fresh.clear()

    def check(self) -> None:
        """Assert the invariants."""
        pairs = (*self._pairs.items(), *self._fresh.items())
        assert self._charge.held_bytes == sum(of_pair(*pair) for pair in pairs)


class _Open:
    """One fence that is under way, as one node sees it."""

    def __init__(self, fence: Fence) -> None:
        self.fence = fence
        self.is_in_here = False
        self.children_in: set[int] = set()
        self.pairs: list[KeyValue] = []  # until it goes up
        self.has_gone_up = False
        self.come_down: list[KeyValue] = []


class Fences:
    """The fences of a job, as one node sees them.

    Args:
        awaited: for the participants of a fence, whether it waits for this node, and for
            which of its children.
        account: what is kept of them is taken from it.
    """

    def __init__(
        self, awaited: Callable[[Meeting], tuple[bool, set[int]]], account: Account
    ) -> None:
        self._awaited = awaited
        self._charge = Charge(account)
        self._numbers: dict[Meeting, int] = {}
        self._open: dict[Meeting, _Open] = {}

    def enter(self, meeting: Meeting, pairs: tuple[KeyValue, ...]) -> None:
        """Every participant of this node has entered a fence, with these pairs.

        Raises:
            OverLimit: the node cannot keep them.
        """
        fence = self._fence(meeting)
        self._charge.add(of_pairs(pairs))
        fence.is_in_here = True
        fence.pairs += pairs

    def merge(self, place: int, fence: Fence, pairs: tuple[KeyValue, ...], is_last: bool) -> bool:
        """All participants of a child's subtree have entered.

        Returns:
            Whether this is the present fence of these participants, not an earlier one.

        Raises:
            OverLimit: the node cannot keep what it brings.
        """
        meeting = (fence.kind, fence.participants)
        if fence.number != self._numbers.get(meeting, 0):
            return False
        here = self._fence(meeting)
        self._charge.add(of_pairs(pairs))
        here.pairs += pairs
        if is_last:
            here.children_in.add(place)
        return True

    def take_full(self) -> list[tuple[Fence, list[tuple[KeyValue, ...]]]]:
        """The fences that all participants of this subtree have entered, once each.

        Returns:
            Each fence with its pairs, in pieces that fit a message; at least one piece.
        """
        found = []
        for meeting, fence in self._open.items():
            if fence.has_gone_up or not (fence.is_in_here or fence.children_in):
                continue
            waits_here, children = self._awaited(meeting)
            if fence.children_in >= children and (fence.is_in_here or not waits_here):
                fence.has_gone_up = True
                pairs, fence.pairs = fence.pairs, []
                self._charge.drop(of_pairs(pairs))
                found.append((fence.fence, pieces(pairs)))
        return found

    def come_down(
        self, fence: Fence, pairs: tuple[KeyValue, ...], is_last: bool
    ) -> list[KeyValue] | None:
        """A piece of a completed fence's pairs.

        Returns:
            All pairs, when this is the last piece; None: more pieces follow, or the fence
            is known already.

        Raises:
            OverLimit: the node cannot keep what it brings.
        """
        meeting = (fence.kind, fence.participants)
        if fence.number != self._numbers.get(meeting, 0):
            return None
        here = self._fence(meeting)
        self._charge.add(of_pairs(pairs))
        here.come_down += pairs
        if not is_last:
            return None
        del self._open[meeting]
        self._charge.drop(of_pairs(here.pairs) + of_pairs(here.come_down))
        self._numbers.pop(meeting, None)  # the newest last
        self._numbers[meeting] = fence.number + 1
        if len(self._numbers) > FENCES_MAX:
            oldest = next(iter(self._numbers))
            del self._numbers[oldest]
            if oldest not in self._open:
                self._charge.drop(_of_meeting(oldest))
        return here.come_down

    def clear(self) -> None:
        """Free everything that is kept."""
        self._charge.clear()
        self._numbers.clear()
        self._open.clear()
        self._awaited = _none_awaited

    def check(self) -> None:
        """Assert the invariants."""
        known = self._numbers.keys() | self._open.keys()
        pairs = (of_pairs(each.pairs) + of_pairs(each.come_down) for each in self._open.values())
        assert self._charge.held_bytes == sum(map(_of_meeting, known)) + sum(pairs)

    def _fence(self, meeting: Meeting) -> _Open:
        if (found := self._open.get(meeting)) is None:
            if (number := self._numbers.get(meeting)) is None:
                self._charge.add(_of_meeting(meeting))
            found = self._open[meeting] = _Open(Fence(*meeting, number or 0))
        return found


def _of_meeting(meeting: Meeting) -> int:
    """What it costs to know of a fence."""
    ranks = sum(len(each.ranks) for each in meeting[1])
    return MEETING_BYTES + MEETING_RANK_BYTES * ranks


class Names:
    """The names that the ranks of a job have published; the job's root keeps them.

    Args:
        account: what it keeps is taken from it.
    """

    def __init__(self, account: Account) -> None:
        self._charge = Charge(account)
        self._values: dict[bytes, tuple[bytes, bool]] = {}  # value, read once

    def publish(self, pairs: tuple[KeyValue, ...], is_read_once: bool) -> str:
        """Publish names.

        Returns:
            The reason of a refusal; empty: done.

        Raises:
            OverLimit: it would be too much.
        """
        keys = {pair.key for pair in pairs}
        if len(keys) < len(pairs) or not keys.isdisjoint(self._values):
            return "it is published already"
        self._charge.add(sum(_of_name(pair.key, pair.value) for pair in pairs))
        for pair in pairs:
            self._values[pair.key] = (pair.value, is_read_once)
        return ""

    def lookup(self, keys: tuple[bytes, ...], is_waiting: bool) -> tuple[KeyValue, ...] | None:
        """The published ones of these names; None: the asker waits for all and one is missing."""
        if is_waiting and not all(key in self._values for key in keys):
            return None
        there = [key for key in dict.fromkeys(keys) if key in self._values]
        found = tuple(KeyValue(key, self._values[key][0]) for key in there)
        self.unpublish(tuple(key for key in there if self._values[key][1]))
        return found

    def size_of(self, keys: tuple[bytes, ...]) -> int:
        """The approximate size in bytes of a message with these names."""
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
                self._charge.drop(_of_name(key, value))
        return were_there

    def clear(self) -> None:
        """Free everything that is kept."""
        self._charge.clear()
        self._values.clear()

    def check(self) -> None:
        """Assert the invariants."""
        held = sum(_of_name(key, value) for key, (value, _) in self._values.items())
        assert self._charge.held_bytes == held


def _of_name(key: bytes, value: bytes) -> int:
    return of_pair(key, value) + WORD_BYTES


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
    """The data of all nodes, in the order of their places."""
    return b"".join(pair.value for pair in sorted(pairs, key=lambda pair: pair.key))


def _none_awaited(meeting: Meeting) -> tuple[bool, set[int]]:
    """No fence waits behind the end."""
    return False, set()
