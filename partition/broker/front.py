"""The front of the launch of an allocation's PCTs: what they say is kept for a failure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from native.loop.reactor import Reactor
from yod.guest.front import Given
from yod.host.front import Input, OnBroken, OnWritten, Output, tell_written
from yod.host.own import OwnFront
from yod.launch.lines import Piece
from yod.plan.invocation import Invocation

KEPT_LINES = 12  # of all PCTs, the last
LINE_BYTES = 4096


class Tail:
    """The last lines of an output.

    Args:
        on_line: takes each line as well; None: nobody does.
    """

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self._on_line = on_line
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._rest = b""

    @property
    def lines(self) -> list[str]:
        """The last lines, the oldest first."""
        return [*self._lines, *([self._rest.decode(errors="replace")] if self._rest else [])]

    def add(self, data: bytes) -> None:
        """Take more of the output; of a line that is too long the end."""
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LINE_BYTES:]
        for line in whole:
            self.add_line(line[-LINE_BYTES:].decode(errors="replace"))

    def add_line(self, line: str) -> None:
        """Take a line."""
        self._lines.append(line)
        if self._on_line is not None:
            self._on_line(line)


class TailOutput:
    """Standard output or error of the PCTs' launch; nothing ever waits in it."""

    is_empty = True
    is_terminal = False

    def __init__(self, tail: Tail, on_written: OnWritten) -> None:
        self._tail = tail
        self._on_written = on_written

    def write(self, pieces: list[Piece]) -> None:
        """Keep the end of it."""
        for data, _, _ in pieces:
            self._tail.add(bytes(data))
        tell_written(pieces, self._on_written)

    def drop(self) -> int:
        """Drop nothing: all has been taken."""
        return 0

    def close(self) -> None:
        """Do nothing: what is kept stays."""


class BrokerFront(OwnFront):
    """The files of this process. Its streams and signals are the user's command's."""

    are_outputs_same = True

    def __init__(
        self, reactor: Reactor, invocation: Invocation, shared_directory: str, tail: Tail
    ) -> None:
        super().__init__(reactor, invocation, shared_directory)
        self._input = Given(reactor, b"")
        self._tail = tail

    def output(
        self,
        number: int,
        on_written: OnWritten,
        on_taken: Callable[[], None],
        on_broken: OnBroken,
    ) -> Output:
        """Where the PCTs' log goes."""
        return TailOutput(self._tail, on_written)

    def input(self, on_data: Callable[[bytes], None]) -> Input:
        """No input."""
        self._input.open(on_data)
        return self._input

    def on_signal(self, number: int, call: Callable[[], None]) -> None:
        """Take none."""
