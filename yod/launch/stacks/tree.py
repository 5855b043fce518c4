"""Stacks of many ranks as one tree: where they are alike they share its beginning. Pure.

As text a tree has a line for each frame, those that it calls below it::

    DEPTH RANKS FRAME

where ranks are as in ``0..3,7``. A text that was cut is read as far as its lines are whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from native import nodelist
from native.errors import UsageError

DEPTH_MAX = 200
FRAME_MAX = 200  # characters


class Tree:
    """Frames, the outermost first, and the ranks that are in each."""

    def __init__(self) -> None:
        self.ranks: set[int] = set()
        self.below: dict[str, Tree] = {}

    def add(self, ranks: Iterable[int], frames: Sequence[str]) -> None:
        """These ranks are in these frames, the outermost first."""
        at = self
        at.ranks.update(ranks)
        for frame in frames[:DEPTH_MAX]:
            at = at.below.setdefault(" ".join(frame.split())[:FRAME_MAX] or "?", Tree())
            at.ranks.update(ranks)

    def read(self, text: str) -> None:
        """Add what another tree says."""
        path = [self]
        for line in text.rpartition("\n")[0].splitlines():
            depth_text, _, rest = line.partition(" ")
            ranks_text, _, frame = rest.partition(" ")
            depth = int(depth_text) if depth_text.isascii() and depth_text.isdigit() else DEPTH_MAX
            if not (depth < len(path) and depth < DEPTH_MAX and frame):
                continue
            try:
                ranks = nodelist.parse(ranks_text)
            except UsageError:
                continue
            at = path[depth].below.setdefault(frame[:FRAME_MAX], Tree())
            at.ranks.update(ranks)
            self.ranks.update(ranks)
            path[depth + 1 :] = [at]

    def text(self) -> str:
        """As text, which :meth:`read` takes."""
        return "".join(
            f"{depth} {nodelist.format_nodes(sorted(tree.ranks))} {frame}\n"
            for depth, frame, tree in self._walk(0)
        )

    def lines(self) -> list[str]:
        """For people: a line for each frame, the ranks where they part, the fewest last."""
        lines: list[str] = []
        self._show(lines, "", self.ranks)
        return lines

    def _walk(self, depth: int) -> Iterator[tuple[int, str, Tree]]:
        for frame, tree in self._in_order():
            yield depth, frame, tree
            yield from tree._walk(depth + 1)

    def _in_order(self) -> list[tuple[str, Tree]]:
        return sorted(self.below.items(), key=lambda item: (-len(item[1].ranks), item[0]))

    def _show(self, lines: list[str], indent: str, ranks: set[int]) -> None:
        """One way on stays at its indent; where ranks part, each way has its ranks in front."""
        gone_on: set[int] = set()
        below = self._in_order()
        parts = len(below) > 1 or any(tree.ranks != ranks for _, tree in below)
        for frame, tree in below:
            gone_on |= tree.ranks
            shown = f"[{nodelist.format_nodes(sorted(tree.ranks))}] " if parts or not lines else ""
            lines.append(f"{indent}{shown}{frame}")
            tree._show(lines, indent + ("  " if parts else ""), tree.ranks)
        if (here := ranks - gone_on) and below:
            lines.append(f"{indent}[{nodelist.format_nodes(sorted(here))}] (here)")
