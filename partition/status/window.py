"""The part of the table that fits on a screen, and the keys that move it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from msgspec.structs import replace

from native.wire.status import NodeJob, NodeRow, NodeState
from partition.status import show, why

HEADER = (*show.HEADER, "Why")
_QUIET = (NodeState.FREE, NodeState.BUSY, NodeState.PENDING)


class Key(Enum):
    """What a key of a terminal asks for."""

    QUIT = "quit"
    UP = "up"
    DOWN = "down"
    PAGE_UP = "page up"
    PAGE_DOWN = "page down"
    FIRST = "first"
    LAST = "last"
    ONLY = "only"  # nodes that are not free, or all


_KEYS = {
    b"\x1b[A": Key.UP, b"\x1bOA": Key.UP, b"k": Key.UP,
    b"\x1b[B": Key.DOWN, b"\x1bOB": Key.DOWN, b"j": Key.DOWN,
    b"\x1b[5~": Key.PAGE_UP, b"b": Key.PAGE_UP, b"\x1b[6~": Key.PAGE_DOWN, b" ": Key.PAGE_DOWN,
    b"\x1b[H": Key.FIRST, b"\x1bOH": Key.FIRST, b"\x1b[1~": Key.FIRST, b"g": Key.FIRST,
    b"\x1b[F": Key.LAST, b"\x1bOF": Key.LAST, b"\x1b[4~": Key.LAST, b"G": Key.LAST,
    b"n": Key.ONLY, b"q": Key.QUIT, b"Q": Key.QUIT, b"\x03": Key.QUIT, b"\x04": Key.QUIT,
}  # fmt: skip


def keys(data: bytes) -> list[Key]:
    """The keys in what a terminal has sent; what is none is passed over."""
    found = []
    while data:
        word = next((each for each in _KEYS if data.startswith(each)), None)
        if word is not None:
            found.append(_KEYS[word])
        data = data[len(word) if word else 1 :]
    return found


class Window:
    """The rows, and which of them are seen.

    Attributes:
        rows: those that were chosen, nodes ascending.
        only: nodes that are not free.

    Args:
        select: chooses among all rows.
        stale_s: :func:`partition.status.why.stale_s` for a number of nodes.
    """

    def __init__(
        self, select: Callable[[Iterable[NodeRow]], list[NodeRow]], stale_s: Callable[[int], float]
    ) -> None:
        self.rows: list[NodeRow] = []
        self.only = False
        self._select = select
        self._stale_s = stale_s
        self._by_node: dict[int, NodeRow] = {}
        self._taken_at: dict[int, float] = {}
        self._top = 0

    def changed(self, rows: Sequence[NodeRow], is_whole: bool, now: float) -> None:
        """Take new rows."""
        if is_whole:
            self._by_node, self._taken_at = {}, {}
        for row in show.merge(rows):
            self._by_node[row.node] = row
            self._taken_at[row.node] = now
        self.rows = self._select(self._by_node[node] for node in sorted(self._by_node))

    def press(self, key: Key, height: int) -> None:
        """Move; ``height`` lines are seen."""
        page = max(1, height - 1)
        steps = {Key.UP: -1, Key.DOWN: 1, Key.PAGE_UP: -page, Key.PAGE_DOWN: page}
        match key:
            case Key.FIRST:
                self._top = 0
            case Key.LAST:
                self._top = len(self.rows)
            case Key.ONLY:
                self.only, self._top = not self.only, 0
            case _:
                self._top += steps.get(key, 0)

    def seen(self, height: int, now: float) -> tuple[list[NodeRow], int, int]:
        """The rows that are seen, the place of the first of them, and how many there are."""
        rows = self.rows
        if self.only:
            rows = [row for row in rows if row.state is not NodeState.FREE]
        self._top = max(0, min(self._top, len(rows) - height))
        seen = rows[self._top : self._top + height]
        return [self._aged(row, now) for row in seen], self._top, len(rows)

    def cells(self, row: NodeRow, now: float) -> tuple[str, ...]:
        """A line, under HEADER."""
        said = ""
        stale_s = self._stale_s(len(self._by_node))
        if row.state not in _QUIET or row.silent_s > stale_s:
            said = why.reason(replace(row, jobs=()), now, stale_s)
        return (*show.cells(row), said)

    def _aged(self, row: NodeRow, now: float) -> NodeRow:
        """With the time that has passed since bebopd told of it."""
        passed_s = max(0.0, now - self._taken_at[row.node])
        jobs = tuple(_aged(job, passed_s) for job in row.jobs)
        silent_s = row.silent_s + (passed_s if row.state is NodeState.DOWN else 0.0)
        return replace(row, jobs=jobs, silent_s=silent_s)


def _aged(job: NodeJob, passed_s: float) -> NodeJob:
    return replace(job, elapsed_s=job.elapsed_s + passed_s)
