"""Workers for calls."""

from __future__ import annotations

from yod.pilot.work.place import Outcome, Place, Work


class FunctionPool:
    """Runs calls of functions."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def start(self, work: Work) -> None:
        """Run a call."""
        reason = "tasks that are functions cannot be run yet"
        self._place.ended(work.uid, Outcome(exit_code=None, reason=reason))

    def cancel(self, uid: str) -> None:
        """End a call."""

    def close(self) -> None:
        """End all."""
