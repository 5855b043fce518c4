"""What a relay that folds lines has of them: queues, an index, bundles that are to be sent."""

from __future__ import annotations

from collections import deque

from native.wire.io import Lines, LinesRun, room_bytes

LOOK_BYTES = 16 * 1024  # of each queue, for a line that is due elsewhere
Runs = tuple[LinesRun, ...]
Owed = tuple[tuple[int, int], ...]  # place of a child, bytes of credit that it gets back


class Part:
    """Lines that came together, or nearly so.

    Attributes:
        lines: that it had when it was looked at; some may have left since. None: it was not.
        owed: what its sender is credited when the last of it is sent.
    """

    __slots__ = ("lines", "owed", "runs", "since", "size")

    def __init__(self, size: int, runs: Runs, since: float, owed: Owed) -> None:
        self.size = size
        self.runs = runs
        self.since = since
        self.owed = owed
        self.lines: frozenset[bytes] | None = None


class Source:
    """What a rank of this node, or a child, has sent.

    Attributes:
        data: its whole lines that wait; ``parts`` says what they are.
        tail: the beginning of a line.
        end: the offset behind all that a rank has written.
        is_inside: the beginning of its present line has been passed.
    """

    __slots__ = ("data", "end", "is_inside", "parts", "tail", "tail_since")

    def __init__(self) -> None:
        self.data = bytearray()
        self.parts: deque[Part] = deque()
        self.tail = bytearray()
        self.tail_since = 0.0
        self.end = 0
        self.is_inside = False

    def begin(self, size: int) -> bytes:
        """The first bytes that wait."""
        with memoryview(self.data) as data:
            return bytes(data[:size])

    def head(self) -> bytes:
        """The first line that waits."""
        return self.begin(self.data.index(b"\n") + 1)

    def fitting(self, size: int, run_count: int) -> int:
        """How much of the first ``size`` bytes fits into one message, in whole lines."""
        room = room_bytes(run_count)
        if size <= room:
            return size
        return self.data.rfind(b"\n", 0, room) + 1 or self.data.index(b"\n") + 1


class Index:
    """The lines of parts that were looked at. Nothing is done for each line that one part has."""

    def __init__(self) -> None:
        self._lines: set[bytes] = set()
        self._counts: dict[bytes, int] = {}  # of a line that several parts have: how many

    @property
    def is_empty(self) -> bool:
        """There are no lines."""
        return not (self._lines or self._counts)

    def add(self, source: Source) -> None:
        """Look at the parts of a source that were not looked at: the last ones of its queue."""
        end = len(source.data)
        for part in reversed(source.parts):
            if part.lines is not None:
                break
            start = end - part.size
            with memoryview(source.data) as data:
                lines = frozenset(bytes(data[start : end - 1]).split(b"\n"))
            part.lines = lines
            counts = self._counts
            for line in lines & self._lines:
                counts[line] = counts.get(line, 1) + 1
            self._lines |= lines
            end = start

    def remove(self, lines: frozenset[bytes]) -> None:
        """A part has left."""
        counts = self._counts
        several = counts.keys() & lines
        for line in several:
            if (count := counts[line]) > 2:
                counts[line] = count - 1
            else:
                del counts[line]
        self._lines -= lines - several if several else lines

    def shared(self, source: Source) -> set[bytes]:
        """The lines of a source's first part that others have, or had not long ago."""
        counts = self._counts
        found = counts.keys() & (source.parts[0].lines or frozenset())
        if found and len(source.parts) > 1:
            own = dict.fromkeys(found, 0)
            for part in source.parts:
                for line in found & (part.lines or frozenset()):
                    own[line] += 1
            found = {line for line in found if counts[line] > own[line]}
        return found


class Bundle:
    """Lines of the same ranks, one behind the other: one message."""

    __slots__ = ("_pieces", "owed", "runs", "size")

    def __init__(self, runs: Runs, block: bytes, owed: Owed) -> None:
        self.runs = runs
        self.size = len(block)
        self.owed = list(owed)
        self._pieces = [block]

    def takes(self, runs: Runs, block: bytes, owed: Owed) -> bool:
        """Add lines; False: they are of other ranks, or there is no room."""
        size = self.size
        if len(runs) != len(self.runs) or size + len(block) > room_bytes(len(runs)):
            return False
        for (first, last, offset), (begin, end, since) in zip(runs, self.runs, strict=True):
            if first != begin or last != end or offset != since + size:
                return False
        self._pieces.append(block)
        self.size = size + len(block)
        self.owed += owed
        return True

    def message(self, job_id: int, stream: int) -> Lines:
        """What is sent."""
        return Lines(job_id, stream, self.runs, b"".join(self._pieces))


def place_of(source: Source, line: bytes) -> int:
    """Where a line is near the head of a queue, from 1; 0: it is not there."""
    if source.data.startswith(line):
        return 1
    at = source.data.find(b"\n" + line, 0, LOOK_BYTES)
    return 0 if at < 0 else at + 2


def common(block: bytes, other: Source) -> bytes:
    """The whole lines that a block and the first part of a queue begin with, both."""
    size = min(len(block), other.parts[0].size)
    if size == len(block) and other.data.startswith(block):
        return block
    if other.data.startswith(block[:size]):
        return block[:size]
    same, differs = 0, size  # the lengths of a beginning that is the same, and of one that is not
    while differs - same > 1:
        middle = (same + differs) // 2
        if other.data[same:middle] == block[same:middle]:
            same = middle
        else:
            differs = middle
    return block[: block.rfind(b"\n", 0, same) + 1]


def joined(runs: list[LinesRun]) -> Runs:
    """The same ranks, ascending, and neighbours at one offset in one run."""
    runs.sort()
    found = [runs[0]]
    for first, last, offset in runs[1:]:
        begin, end, other = found[-1]
        if first == end + 1 and offset == other:
            found[-1] = (begin, last, offset)
        else:
            found.append((first, last, offset))
    return tuple(found)
