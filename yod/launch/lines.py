"""Output in whole lines: the lines of two ranks are not mixed.

There is one machine for each terminal, file or pipe that output is written to. Standard
output and standard error share it if they are the same. A *source* is one stream of a rank.

    complete line   shown as it comes, if no open line is shown
    open line       has no newline yet. It is held until nothing has been shown for
                    ``line_quiet_s``. Then the oldest is shown, and what its source writes
                    next is shown at once
    held lines      those of other sources while an open line is shown: at most for
                    ``line_hold_s``, and at most ``line_room_bytes``
    cut line        an open line that is shown and has to give way to held lines. A newline
                    ends it; its rest is shown later, behind the label of its rank
    long line       ``line_max_bytes`` or more are shown before the line is complete; it
                    gives way to any complete line

The bytes of a job of one rank are shown as they come.

Times are seconds on the caller's clock, which stands still while the reader is behind.
"""

from __future__ import annotations

from collections.abc import Callable

from native.limits import Limits
from yod.plan.plan import Style

# Bytes to write, the stream that they belong to, and how many of them a rank wrote.
Piece = tuple[bytes | bytearray | memoryview, int, int]

Stamp = Callable[[], bytes]

Ranks = tuple[tuple[int, int], ...]  # first and last of each range, ascending

NEWLINE: Piece = (b"\n", 1, 0)

# Of a rank's standard error so much is kept, and of so many ranks.
WORDS_BYTES, WORDS_LINES, WORDS_RANKS = 2048, 12, 1024


class _Source:
    """One stream of one rank.

    Attributes:
        since: when the first byte of its held line came.
        is_cut: its line was cut; what comes next is the rest.
    """

    __slots__ = ("is_cut", "label", "since", "stream")

    def __init__(self, stream: int, label: bytes) -> None:
        self.stream = stream
        self.label = label
        self.since = 0.0
        self.is_cut = False


class Lines:
    """State machine of one terminal, file or pipe that output is written to.

    Every call that takes ``now`` returns what is to be written, in order.

    Args:
        size: ranks that the job begins with.
        stamp: gives what is put in front of a line that is shown now; None: nothing is.
    """

    def __init__(self, style: Style, size: int, limits: Limits, stamp: Stamp | None = None) -> None:
        self._stamp = stamp
        self._has_ranks = style in (Style.LABELLED, Style.MERGED)
        self._label_form = b"[%*d] " if style is Style.MERGED else b"%*d: "
        self._is_labelled = self._has_ranks or stamp is not None
        self._is_raw = style is Style.RAW or (size == 1 and not self._is_labelled)
        self._may_grow = style is Style.WHOLE  # a spawned rank ends is_raw
        self._limits = limits
        self._width = 0 if style is Style.MERGED else len(str(size - 1))
        self._sources: dict[tuple[int, int], _Source] = {}
        self._tails: dict[_Source, bytearray] = {}  # open lines that are held, oldest first
        self._tail_bytes = 0
        self._ready: list[Piece] = []  # complete lines that wait for the open one
        self._ready_bytes = 0
        self._ready_since = 0.0
        self._open: _Source | None = None  # the source of the open line that is shown
        self._open_bytes = 0
        self._shown_at = float("-inf")

    # -- the machine's face -----------------------------------------------

    @property
    def is_line_open(self) -> bool:
        """The last line that is shown has no newline."""
        return self._open is not None

    @property
    def held_bytes(self) -> int:
        """Output that has arrived and is not shown yet."""
        return self._tail_bytes + self._ready_bytes

    def add(self, rank: int, stream: int, data: bytes, now: float) -> list[Piece]:
        """A rank has written."""
        if not data:
            return []
        return self._add(self._sources.get((rank, stream)) or self._meet(rank, stream), data, now)

    def add_lines(self, ranks: Ranks, stream: int, data: bytes, now: float) -> list[Piece]:
        """Each of some ranks has written these lines."""
        return self._add(_Source(stream, b"[%s] " % format_ranks(ranks).encode()), data, now)

    def _add(self, source: _Source, data: bytes, now: float) -> list[Piece]:
        stream = source.stream
        pieces: list[Piece] = []
        if self._is_raw:
            pieces.append((data, stream, len(data)))
            source.is_cut = False
            self._open = None if data.endswith(b"\n") else source
            return pieces
        end = data.rfind(b"\n") + 1
        if self._open is source and not end:
            self._open_bytes += len(data)
            self._show(source, data, pieces, now)
        elif self._open is None or self._open is source:
            if end:
                self._show(source, self._upto(data, end), pieces, now)
                self._open = None
                self._show_ready(pieces)
        elif end:
            self._wait(source, self._upto(data, end), now)
        if end < len(data) and self._open is not source:
            self._hold(source, data[end:], now)
        if self._open is not None or self._tails:
            self._settle(source, pieces, now)
        return pieces

    def say(self, text: bytes, now: float) -> list[Piece]:
        """Show a line of yod itself, at once."""
        pieces: list[Piece] = []
        self._cut(pieces)
        self._show_ready(pieces)
        pieces.append((text + b"\n", 1, 0))
        self._shown_at = now
        return pieces

    def deadline(self) -> float | None:
        """When :meth:`due` is to be called."""
        hold_s = self._limits.line_hold_s
        times = []
        if self._ready:
            times.append(self._ready_since + hold_s)
        if self._tails:
            times.append(next(iter(self._tails)).since + hold_s)
            if self._open is None:
                times.append(self._is_quiet_at)
        return min(times, default=None)

    def due(self, now: float) -> list[Piece]:
        """The deadline has come."""
        pieces: list[Piece] = []
        hold_s = self._limits.line_hold_s
        late = [source for source in self._tails if source.since + hold_s <= now]
        if late or (self._ready and self._ready_since + hold_s <= now):
            self._cut(pieces)
            self._show_ready(pieces)
            for source in late:
                self._show_open(source, pieces, now)
        elif self._tails and self._open is None and now >= self._is_quiet_at:
            self._show_open(next(iter(self._tails)), pieces, now)
        return pieces

    def finish(self, now: float) -> list[Piece]:
        """Show what is held. Only the last line of all may stay without a newline."""
        pieces: list[Piece] = []
        if self._ready or self._tails:
            self._cut(pieces)
        self._show_ready(pieces)
        for source in list(self._tails):
            self._show_open(source, pieces, now)
        return pieces

    def check(self) -> None:
        """Assert the invariants."""
        assert self._tail_bytes == sum(map(len, self._tails.values()))
        assert self._ready_bytes == sum(count for _, _, count in self._ready)
        assert self._open is not None or not self._ready
        assert self._open not in self._tails
        assert self.held_bytes <= self._limits.line_room_bytes or self._is_raw

    # -- rules ------------------------------------------------------------

    @property
    def _is_quiet_at(self) -> float:
        return self._shown_at + self._limits.line_quiet_s

    def _settle(self, source: _Source, pieces: list[Piece], now: float) -> None:
        """Show what may not wait any longer, or need not, after ``source`` has written."""
        limits = self._limits
        if self._ready and self._open_bytes >= limits.line_max_bytes:
            self._cut(pieces)
            self._show_ready(pieces)
        if self.held_bytes > limits.line_room_bytes:
            self._cut(pieces)
            self._show_ready(pieces)
            while self._tail_bytes > limits.line_room_bytes // 2:
                self._show_open(next(iter(self._tails)), pieces, now)
        if self._open is None and self._tails:
            if len(self._tails.get(source, b"")) >= limits.line_max_bytes:
                self._show_open(source, pieces, now)
            elif now >= self._is_quiet_at:
                self._show_open(next(iter(self._tails)), pieces, now)

    # -- what is held -----------------------------------------------------

    def _meet(self, rank: int, stream: int) -> _Source:
        if rank and self._may_grow:
            self._is_raw = False
        source = _Source(stream, self._label_form % (self._width, rank))
        self._sources[rank, stream] = source
        return source

    def _upto(self, data: bytes, end: int) -> bytes | memoryview:
        """The first ``end`` bytes; they are copied only if labels are inserted."""
        return data[:end] if self._is_labelled else memoryview(data)[:end]

    def _hold(self, source: _Source, data: bytes, now: float) -> None:
        """Hold an open line, or more of it."""
        self._tail_bytes += len(data)
        if (tail := self._tails.get(source)) is not None:
            tail += data
            return
        self._tails[source] = bytearray(data)
        source.since = now

    def _wait(self, source: _Source, lines: bytes | memoryview, now: float) -> None:
        """Hold complete lines until the open one gives way."""
        if not self._ready:
            self._ready_since = now
        self._ready_bytes += len(lines) + len(self._tails.get(source, b""))
        self._render(source, lines, self._ready)

    # -- what is shown ----------------------------------------------------

    def _show(
        self, source: _Source, data: bytes | memoryview, pieces: list[Piece], now: float
    ) -> None:
        self._render(source, data, pieces)
        self._shown_at = now

    def _show_open(self, source: _Source, pieces: list[Piece], now: float) -> None:
        """Show a held line, which is the open one from now on."""
        self._cut(pieces)
        self._open_bytes = len(self._tails[source])
        self._show(source, b"", pieces, now)
        self._open = source

    def _show_ready(self, pieces: list[Piece]) -> None:
        if self._ready:
            pieces += self._ready
            self._ready = []
            self._ready_bytes = 0

    def _cut(self, pieces: list[Piece]) -> None:
        """End the open line, if there is one."""
        if self._open is not None:
            pieces.append(NEWLINE)
            self._open.is_cut = True
            self._open = None

    def _render(self, source: _Source, data: bytes | memoryview, pieces: list[Piece]) -> None:
        """Append what is held of a source, then ``data``: complete lines, or one open line."""
        stream = source.stream
        stamp = b"" if self._stamp is None else self._stamp()
        if source in self._tails:
            tail = self._tails.pop(source)
            self._tail_bytes -= len(tail)
        else:
            tail = bytearray()
        if source is not self._open:
            if source.is_cut and (tail or data)[:1] == b"\n":
                # The line was complete where it was cut: it has its newline already.
                pieces.append((b"", stream, 1))
                data = data[1:]  # a held line has none
                source.is_cut = False
            if (source.is_cut or self._is_labelled) and (tail or data):
                pieces.append((self._label(source, stamp), stream, 0))
            source.is_cut = False
        if tail:
            pieces.append((tail, stream, len(tail)))
        if self._is_labelled and data[-1:] == b"\n":
            label = self._label(source, stamp)
            labelled = bytes(data).replace(b"\n", b"\n" + label)
            pieces.append((memoryview(labelled)[: -len(label)], stream, len(data)))
        elif data:
            pieces.append((data, stream, len(data)))

    def _label(self, source: _Source, stamp: bytes) -> bytes:
        """What is put in front of a line; the rest of one that was cut names its rank."""
        return stamp + source.label if self._has_ranks or source.is_cut else stamp


class LastWords:
    """The end of each rank's standard error: evidence, should the rank fail.

    Of very many ranks, those are known that have written last.
    """

    def __init__(self) -> None:
        self._ends: dict[int, bytes] = {}
        self._last: Ranks = ()  # those that have written last, on either stream

    def add(self, ranks: Ranks, stream: int, data: bytes) -> None:
        """These ranks have written."""
        self._last = ranks
        if stream != 2:
            return
        end = data[-WORDS_BYTES:]
        for first, last in ranks:
            for rank in range(first, last + 1):
                known = self._ends.pop(rank, b"")  # comes last again
                self._ends[rank] = (known + end)[-WORDS_BYTES:]
                if len(self._ends) > WORDS_RANKS:
                    del self._ends[next(iter(self._ends))]

    def of(self, rank: int) -> list[str]:
        """Its last lines, few; the first of them may lack its beginning."""
        lines = self._ends.get(rank, b"").decode(errors="replace").splitlines()
        return [
            "".join(c if c.isprintable() or c == "\t" else "?" for c in line)
            for line in lines[-WORDS_LINES:]
        ]

    def are_seen(self, rank: int) -> bool:
        """Nothing was written after what this rank has written."""
        return self._last == ((rank, rank),)


def format_ranks(ranks: Ranks) -> str:
    """The ranks as text: ``0-3,8``."""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranks)
