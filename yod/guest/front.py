"""The user's end of a launch in a program that uses :mod:`yod.api`."""

from __future__ import annotations

from collections.abc import Callable

from native.loop.reactor import Reactor
from native.wire.base import DATA_MAX
from yod.guest.collected import Collected, CollectedOutput
from yod.host.front import Input, OnBroken, OnWritten, Output
from yod.host.own import OwnFront
from yod.plan.invocation import Invocation


class GuestFront(OwnFront):
    """The files of this process; its streams and signals only where they are asked for.

    Args:
        collection: takes the output; None: it goes to this process's streams.
        source: gives the input; None: it is this process's.
        takes_signals: this process's signals are for the launch. Only in the main thread.
        remote: directories whose files ranks are to see.

    Attributes:
        heard: signals that have come for the launch, in their order.
    """

    def __init__(
        self,
        reactor: Reactor,
        invocation: Invocation,
        shared_directory: str,
        collection: Collected | None,
        source: Source | None,
        takes_signals: bool,
        remote: tuple[bytes, ...] = (),
    ) -> None:
        super().__init__(reactor, invocation, shared_directory, remote)
        self.heard: list[int] = []
        self._collection = collection
        self._source = source
        self._takes_signals = takes_signals

    @property
    def are_outputs_same(self) -> bool:
        """As those of this process, or apart."""
        return self._collection is None and super().are_outputs_same

    @property
    def why_attached(self) -> str:
        """The program's streams stay the program's."""
        return "it is a launch of a program that uses yod.api"

    def output(
        self,
        number: int,
        on_written: OnWritten,
        on_taken: Callable[[], None],
        on_broken: OnBroken,
    ) -> Output:
        """Where the output goes."""
        if self._collection is None:
            return super().output(number, on_written, on_taken, on_broken)
        return CollectedOutput(self._collection, number, on_written, on_broken)

    def input(self, on_data: Callable[[bytes], None]) -> Input:
        """Where the input comes from."""
        if self._source is None:
            return super().input(on_data)
        self._source.open(on_data)
        return self._source

    def on_signal(self, number: int, call: Callable[[], None]) -> None:
        """Call when a signal has come, if signals are taken at all."""
        if not self._takes_signals:
            return

        def heard() -> None:
            self.heard.append(number)
            call()

        super().on_signal(number, heard)


class Source:
    """Input that the program brings, all at once or bit by bit.

    Args:
        on_wanted: called when rank 0 has room for more.
    """

    def __init__(self, reactor: Reactor, on_wanted: Callable[[], None]) -> None:
        self._reactor = reactor
        self._on_wanted = on_wanted
        self._on_data: Callable[[bytes], None] | None = None
        self._allowed = 0
        self.is_over = False

    def open(self, on_data: Callable[[bytes], None]) -> None:
        """Say who takes the data."""
        self._on_data = on_data

    def allow(self, count_bytes: int) -> None:
        """Take so many more bytes."""
        self._allowed += count_bytes
        self._reactor.call_soon(self._on_wanted)  # not within what the launch is doing

    def resume(self) -> None:
        """Do nothing: it is no terminal."""

    def close(self) -> None:
        """Take nothing any more."""
        self.is_over = True
        self._on_wanted()
        self._on_wanted, self._on_data = _nothing, None

    def give(self, data: memoryview) -> int:
        """Give input.

        Returns:
            How many of the bytes there was room for.
        """
        if self.is_over or self._on_data is None:
            return 0
        count = min(len(data), self._allowed, DATA_MAX)
        if count:
            self._allowed -= count
            self._on_data(bytes(data[:count]))
        return count

    def end(self) -> bool:
        """Give the end of the input; False: rank 0 cannot take it yet."""
        if self.is_over or self._on_data is None or not self._allowed:
            return self.is_over
        self.is_over = True
        self._on_data(b"")
        return True


class Given(Source):
    """Input that is known beforehand."""

    def __init__(self, reactor: Reactor, data: bytes) -> None:
        super().__init__(reactor, self._wanted)
        self._left = memoryview(data)

    def _wanted(self) -> None:
        if self.is_over:
            return
        while count := self.give(self._left):
            self._left = self._left[count:]
        if not self._left:
            self.end()


def _nothing() -> None:
    """Wants no more input."""
