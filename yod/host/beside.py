"""What is shown where one rank has the user's terminal, and others write beside it."""

from __future__ import annotations

from collections.abc import Callable

from native.limits import Limits
from yod.launch.lines import Lines, Piece, Stamp
from yod.plan.plan import Style


class BesideTerminal(Lines):
    """The bytes of one rank pass as they come; all others are lines, also those of yod.

    Args:
        rank: that has the terminal.

    Attributes:
        is_raw: whether what is shown on is raw now: there a newline alone would not go back to the
            left. A rank's terminal is so only while it runs, and in the foreground.
    """

    def __init__(
        self, style: Style, size: int, limits: Limits, stamp: Stamp | None, rank: int
    ) -> None:
        super().__init__(style, size, limits, stamp)
        self.is_raw: Callable[[], bool] = lambda: False
        self._rank = rank

    def add(self, rank: int, stream: int, data: bytes, now: float) -> list[Piece]:
        """A rank has written."""
        if rank != self._rank:
            return self._beside(super().add(rank, stream, data, now))
        pieces: list[Piece] = []
        if not data:
            return pieces
        source = self._sources.get((rank, stream)) or self._meet(rank, stream)
        if self._open is not source:
            self._cut(pieces)
        ready: list[Piece] = []
        source.is_cut = False
        self._open = None if data.endswith(b"\n") else source
        self._open_bytes = 0
        self._shown_at = now
        if self._open is None:
            self._show_ready(ready)
        return [*self._beside(pieces), (data, stream, len(data)), *self._beside(ready)]

    def say(self, text: bytes, now: float) -> list[Piece]:
        """Show a line of yod itself, at once."""
        return self._beside(super().say(text, now))

    def due(self, now: float) -> list[Piece]:
        """The deadline has come."""
        return self._beside(super().due(now))

    def finish(self, now: float) -> list[Piece]:
        """Show what is held."""
        return self._beside(super().finish(now))

    def _beside(self, pieces: list[Piece]) -> list[Piece]:
        if not self.is_raw():
            return pieces
        return [(bytes(data).replace(b"\n", b"\r\n"), stream, n) for data, stream, n in pieces]
