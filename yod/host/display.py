"""A terminal, pipe or file that output is shown on: its lines, and the stream below them."""

from __future__ import annotations

import time
from collections.abc import Callable

from native.limits import Limits
from native.loop.reactor import Reactor
from yod.host.front import Front, OnBroken, OnWritten, Screen
from yod.launch.lines import Lines, Piece, Ranks
from yod.plan.plan import Style

Progress = Callable[[float], str]  # how far a launch is at a time; empty: it shows nothing

_REWRITTEN_S = 1.0  # its seconds go on
_COLUMNS = 79  # a longer line could not be rewritten on a terminal of 80


class Display:
    """One terminal, pipe or file.

    The clock of its lines stands still while its reader is behind. The window of output is
    used up then, and the end of a line may wait in a PCT.

    Args:
        number: 1 or 2: of the stream that the user started yod with.
        on_written: called with the stream and how many of the ranks' bytes were written;
            0 for a line of yod itself.
        on_broken: called once, with the error that ended it.

    Attributes:
        given_bytes: what has been written, or waits for that.
    """

    def __init__(
        self,
        reactor: Reactor,
        front: Front,
        number: int,
        lines: Lines,
        on_written: OnWritten,
        on_broken: OnBroken,
    ) -> None:
        self.number = number
        self.given_bytes = 0
        self._reactor = reactor
        self._lines = lines
        self._stream = front.output(number, on_written, self._taken, on_broken)
        self._behind_since: float | None = None
        self._behind_s = 0.0
        self._timer = reactor.timer(self._due)
        self._progress: Progress | None = None
        self._note_columns = 0  # of the line that shows it; 0: there is none
        self._note_timer = reactor.timer(self._note)

    def show_progress(self, progress: Progress, after_s: float) -> None:
        """Show how far the launch is once it takes long, if this is a terminal.

        One line is rewritten, and taken away before anything else is written.
        """
        if self._stream.is_terminal:
            self._progress = progress
            self._note_timer.set(self._reactor.monotonic() + after_s)

    @property
    def is_terminal(self) -> bool:
        """It was a terminal when the launch began."""
        return self._stream.is_terminal

    @property
    def is_empty(self) -> bool:
        """Nothing waits to be written."""
        return self._stream.is_empty

    @property
    def is_line_open(self) -> bool:
        """The last line has no newline."""
        return self._lines.is_line_open

    def show(self, rank: int, stream: int, data: bytes) -> None:
        """Show what a rank has written."""
        self._write(self._lines.add(rank, stream, data, self._now()))

    def show_lines(self, ranks: Ranks, stream: int, data: bytes) -> None:
        """Show lines that each of some ranks has written."""
        self._write(self._lines.add_lines(ranks, stream, data, self._now()))

    def say(self, text: str) -> None:
        """Show a line of yod itself."""
        *before, (line, _, count) = self._lines.say(
            text.encode(errors="surrogateescape"), self._now()
        )
        self._write([*before, (line, 2, count)])

    def finish(self) -> None:
        """No rank will write any more."""
        self._write(self._lines.finish(self._now()))

    def drop(self) -> int:
        """Write what the reader takes now, and drop the rest.

        Returns:
            How many of the ranks' bytes were dropped.
        """
        self.finish()
        return self._stream.drop()

    def close(self) -> None:
        """Stop; what is not written is dropped."""
        self._timer.close()
        self._note_timer.close()
        self._stream.close()

    def _write(self, pieces: list[Piece]) -> None:
        if pieces:
            if self._note_columns:
                pieces = [(self._rewritten(""), 2, 0), *pieces]
            self.given_bytes += sum(len(data) for data, _, _ in pieces)
            self._stream.write(pieces)
        if self._behind_since is None and not self._stream.is_empty:
            self._behind_since = self._reactor.monotonic()
        self._set_timer()

    def _note(self) -> None:
        assert self._progress is not None
        now = self._reactor.monotonic()
        text = self._progress(now)
        if (text or self._note_columns) and self.is_empty and not self.is_line_open:
            self._stream.write([(self._rewritten(text), 2, 0)])
        self._note_timer.set(now + _REWRITTEN_S if text else None)

    def _rewritten(self, text: str) -> bytes:
        """The bytes that replace the progress line by this text, in the same row of the screen."""
        line = f"yod: {text}"[:_COLUMNS] if text else ""
        gone, self._note_columns = self._note_columns, len(line)
        over = f"\r{' ' * gone}" if gone > len(line) else ""
        return f"{over}\r{line}".encode(errors="replace")

    def _taken(self) -> None:
        if self._behind_since is not None:
            self._behind_s += self._reactor.monotonic() - self._behind_since
            self._behind_since = None
            self._set_timer()

    def _now(self) -> float:
        if self._behind_since is not None:
            return self._behind_since - self._behind_s
        return self._reactor.monotonic() - self._behind_s

    def _set_timer(self) -> None:
        due = None if self._behind_since is not None else self._lines.deadline()
        self._timer.set(None if due is None else due + self._behind_s)

    def _due(self) -> None:
        self._write(self._lines.due(self._now()))


def open_displays(
    reactor: Reactor,
    front: Front,
    style: Style,
    size: int,
    limits: Limits,
    on_written: OnWritten,
    on_broken: OnBroken,
    *,
    has_stamps: bool = False,
    progress: Progress | None = None,
    terminal_rank: int = -1,
) -> dict[int, Screen]:
    """Displays of standard output (1) and error (2); one for both if they are the same.

    Args:
        has_stamps: the time is put in front of each line.
        progress: of the launch; None: it is not shown.
        terminal_rank: has the user's terminal; -1: none has.
    """
    stamp = time_stamp if has_stamps else None

    def display(number: int) -> Display:
        if terminal_rank >= 0:
            from yod.host.beside import BesideTerminal  # few launches

            beside = BesideTerminal(style, size, limits, stamp, terminal_rank)
            shown = Display(reactor, front, number, beside, on_written, on_broken)
            if shown.is_terminal:
                beside.is_raw = lambda: front.is_terminal_raw
            return shown
        lines = Lines(style, size, limits, stamp)
        return Display(reactor, front, number, lines, on_written, on_broken)

    first = display(1)
    second = first if front.are_outputs_same else display(2)
    if progress is not None:
        second.show_progress(progress, limits.progress_s)
    return {1: first, 2: second}


def time_stamp() -> bytes:
    """The local time to the millisecond, as ISO 8601 has it, and a space."""
    now_ns = time.time_ns()
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now_ns // 10**9))
    return f"{text}.{now_ns // 10**6 % 1000:03d} ".encode()
