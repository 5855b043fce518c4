"""In place of a site's hooks, where there are none: see :mod:`pct.job.hooks`."""

from __future__ import annotations

from native.errors import IllegalTransition
from native.machine import Action
from native.wire import load
from native.wire.keeper import KeeperSpec
from pct.events import HookEnded


class NoHooks:
    """Nothing runs before the start, and nothing after the end."""

    is_ready = True
    is_over = True

    def deadline(self) -> float | None:
        """None: nothing is timed."""
        return None

    def begin(self, arguments: load.Arguments, now: float) -> list[Action]:
        """Nothing."""
        return []

    def changed(self, spec: KeeperSpec) -> KeeperSpec:
        """The specification as it is."""
        return spec

    def printed(self, rank: int) -> bytes:
        """Nothing."""
        return b""

    def advance(self, now: float) -> list[Action]:
        """Nothing."""
        return []

    def due(self, now: float) -> list[Action]:
        """Nothing."""
        return []

    def ended(self, event: HookEnded, now: float) -> list[Action]:
        """None runs.

        Raises:
            IllegalTransition: always.
        """
        raise IllegalTransition("no hooks", event)
