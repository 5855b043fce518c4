"""How often a line is looked at: a storm of events is one pass over it, and not one for each. Pure.

The first event after a while of rest is decided at once. What comes within ``every_s`` behind a
pass is gathered, and decided in the next one, so that a site with a long line has time for others.
"""

from __future__ import annotations

from math import inf


class Passes:
    """The passes over one line.

    Args:
        every_s: from the begin of one to the next, at least; 0: one at each event.

    Attributes:
        is_put_off: one is due, and waits for its time.
        count: how many there were.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._last = -inf
        self.is_put_off = False
        self.count = 0

    def put_off(self, now: float) -> float | None:
        """When one that is due may begin; None: now, and it does."""
        next_at = self._last + self._every_s
        self.is_put_off = now < next_at
        if self.is_put_off:
            return next_at
        self._last = now
        self.count += 1
        return None

    def forget(self) -> None:
        """Nobody waits any more."""
        self.is_put_off = False
