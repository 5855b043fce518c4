"""Where output is shown: its lines, and the stream that they are written to."""

from __future__ import annotations

import os
from collections.abc import Callable

from native.limits import Limits
from native.loop.reactor import Reactor
from yod.host.terminal import OutputStream
from yod.launch.lines import Lines, Piece
from yod.plan.plan import Style


class Display:
    """One terminal, file or pipe that output goes to.

    The clock of its lines stands still while its reader is behind: the end of a line may
    then be on its way, behind a window that is used up.

    Args:
        on_written: called with a rank's stream and how many bytes of it have been written;
            with 0 for yod's own words.
        on_broken: called once with the error that ended it.
    """

    def __init__(
        self,
        reactor: Reactor,
        fd: int,
        lines: Lines,
        on_written: Callable[[int, int], None],
        on_broken: Callable[[OSError], None],
    ) -> None:
        self._reactor = reactor
        self._lines = lines
        self._stream = OutputStream(reactor, fd, on_written, self._taken, on_broken)
        self._behind_since: float | None = None
        self._behind_s = 0.0
        self._stop_timer = reactor.add_timer(self._deadline, self._due)

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written."""
        return self._stream.is_empty

    @property
    def is_line_open(self) -> bool:
        """The last line has no end."""
        return self._lines.is_line_open

    def show(self, rank: int, stream: int, data: bytes) -> None:
        """What a rank has written."""
        self._write(self._lines.add(rank, stream, data, self._now()))

    def say(self, text: str) -> None:
        """A line of yod's own."""
        self._write(self._lines.say(text.encode(errors="surrogateescape"), self._now()))

    def finish(self) -> None:
        """No rank will write any more."""
        self._write(self._lines.finish(self._now()))

    def drop(self) -> int:
        """Show what the reader takes now, and forget the rest; gives how many bytes that has."""
        self.finish()
        return self._stream.drop()

    def close(self) -> None:
        """Stop; what waits is dropped."""
        self._stop_timer()
        self._stream.close()

    def _write(self, pieces: list[Piece]) -> None:
        if not pieces:
            return
        self._stream.write(pieces)
        if self._behind_since is None and not self._stream.is_empty:
            self._behind_since = self._reactor.monotonic()

    def _taken(self) -> None:
        if self._behind_since is not None:
            self._behind_s += self._reactor.monotonic() - self._behind_since
            self._behind_since = None

    def _now(self) -> float:
        if self._behind_since is not None:
            return self._behind_since - self._behind_s
        return self._reactor.monotonic() - self._behind_s

    def _deadline(self) -> float | None:
        due = None if self._behind_since is not None else self._lines.deadline()
        return None if due is None else due + self._behind_s

    def _due(self) -> None:
        self._write(self._lines.due(self._now()))


def open_displays(
    reactor: Reactor,
    style: Style,
    size: int,
    limits: Limits,
    on_written: Callable[[int, int], None],
    on_broken: Callable[[OSError], None],
) -> dict[int, Display]:
    """Standard output (1) and error (2): one display where both are the same."""

    def display(fd: int) -> Display:
        return Display(reactor, fd, Lines(style, size, limits), on_written, on_broken)

    first = display(1)
    return {1: first, 2: first if _are_same() else display(2)}


def _are_same() -> bool:
    """One terminal, pipe or file behind both, also where it was opened twice."""
    try:
        return os.path.samestat(os.fstat(1), os.fstat(2))
    except OSError:  # one is closed
        return False
