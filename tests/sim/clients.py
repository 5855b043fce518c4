"""Connections of a job's processes to their PCT: what ``pct/host/connections.py`` has of them."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.clock import Clock


class Socket:
    """A stream socket, at a process's end and at its PCT's.

    What is sent arrives in order, in pieces, each after a while; then the end of it.

    Args:
        on_data: the process's: takes what the PCT has written.
        on_end: the process's: the PCT has hung up.
    """

    def __init__(
        self,
        clock: Clock,
        slowness: float,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._slowness = slowness
        self._on_data = on_data
        self._on_end = on_end
        self._due = {"up": 0.0, "down": 0.0}
        self._is_closed = False  # by the process
        self._is_cut = False  # by the PCT
        self._waiting: list[bytes] = []  # until the PCT has it
        self.to_pct: Callable[[bytes], None] | None = None  # empty: it has been closed

    def accept(self, to_pct: Callable[[bytes], None]) -> None:
        """The PCT reads from it."""
        self.to_pct = to_pct
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self._up(data)

    def send(self, data: bytes) -> None:
        """The process writes."""
        if self._is_closed:
            return
        if len(data) > 1 and self._clock.rng.random() < 0.1:
            cut = self._clock.rng.randrange(1, len(data))
            self._up(data[:cut])
            data = data[cut:]
        self._up(data)

    def close(self) -> None:
        """The process closes it, or has ended."""
        if not self._is_closed:
            self._is_closed = True
            self._up(b"")

    def reply(self, data: bytes) -> None:
        """The PCT writes."""

        def arrive() -> None:
            if not self._is_closed:
                self._on_data(data)

        self._later("down", arrive)

    def hang_up(self) -> None:
        """The PCT closes it, behind what it has written; or is no more."""
        if not self._is_cut:
            self._is_cut = True
            self._later("down", lambda: None if self._is_closed else self._on_end())

    def _up(self, data: bytes) -> None:
        if self.to_pct is None:
            self._waiting.append(data)
            return

        def arrive() -> None:
            if not self._is_cut and self.to_pct is not None:
                self.to_pct(data)

        self._later("up", arrive)

    def _later(self, way: str, call: Callable[[], None]) -> None:
        soon = self._clock.rng.uniform(1e-5, 5e-4) * self._slowness
        self._due[way] = max(self._due[way], self._clock.now + soon)
        self._clock.at(self._due[way], call)
