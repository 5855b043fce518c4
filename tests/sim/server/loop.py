"""The server's loop: the real one, turned by the virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from native.loop.reactor import Owner, Reactor
from tests.sim.clock import SPINS_MAX, Clock, Violation

TURN_S = (1e-7, 2e-6)  # what a turn takes: others act meanwhile
SOON_TURNS_MAX = 100 * SPINS_MAX  # in a row without any time passing but theirs


class Loop:
    """A :class:`Reactor` whose waits are events of the clock.

    Attributes:
        turns: so far.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.reactor = Reactor(lambda: clock.now)
        self.turns = 0
        self._turn_at: float | None = None
        self._spins = 0

    def enter(self, owner: Owner | None, call: Callable[..., object], *arguments: Any) -> None:
        """Call what a descriptor would: something has become readable."""
        self._spins = 0
        self.reactor.run_for(owner, call, *arguments)
        self.rearm()

    def rearm(self) -> None:
        """Turn when the loop has something to do, of which no descriptor tells."""
        due = self.reactor.deadline()
        if due is None:
            self._turn_at = None
            return
        now = self.clock.now
        at = due if due > now else now + self.clock.rng.uniform(*TURN_S)
        if self._turn_at is not None and now <= self._turn_at <= at:
            return  # it will look then
        self._turn_at = at
        self.clock.at(at, lambda: self._turn(at))

    def _turn(self, at: float) -> None:
        if at != self._turn_at:
            return
        self._turn_at = None
        self.turns += 1
        self._spins += 1
        if self._spins > SOON_TURNS_MAX:
            raise Violation("the loop turns, and nothing comes of it")
        self.reactor.run_once(0.0)
        self.rearm()
