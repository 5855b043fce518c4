"""Pilots that come while tasks wait, and go when there is nothing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yod.pilot.client.pilot import Pilot
from yod.pilot.client.pmgr import PilotManager
from yod.pilot.model import states
from yod.pilot.model.description import PilotDescription
from yod.pilot.scheduler.auto import Auto, End, Stands, Submit

if TYPE_CHECKING:
    from yod.pilot.client.tasking import Tasking


class AutoPilots:
    """The pilots that a task manager submits by itself.

    All is done in the session's thread.
    """

    def __init__(
        self,
        tasking: Tasking,
        pmgr: PilotManager,
        description: PilotDescription,
        rule: Auto,
    ) -> None:
        self._tasking = tasking
        self._pmgr = pmgr
        self._description = description
        self._rule = rule
        self._pilots: dict[str, Pilot] = {}
        self._was_active: set[str] = set()
        self._reactor = tasking.session.loop.reactor
        self._timer = self._reactor.timer(self.look)
        self.failure = ""

    def look(self) -> None:
        """Something may have changed."""
        for uid, pilot in list(self._pilots.items()):
            if pilot.state == states.PMGR_ACTIVE and uid not in self._was_active:
                self._was_active.add(uid)
                self._rule.became(True)
            if pilot.state in states.FINAL:
                del self._pilots[uid]
                if uid not in self._was_active and pilot.state == states.FAILED:
                    self._rule.became(False)
                    self.failure = pilot.reason
        stands = [
            Stands(uid, pilot.state == states.PMGR_ACTIVE, self._tasking.held_by(uid))
            for uid, pilot in self._pilots.items()
        ]
        waiting = self._tasking.waiting
        for action in self._rule.decide(waiting, stands, self._reactor.monotonic()):
            match action:
                case Submit():
                    pilot = self._pmgr.submit_pilots(self._description)
                    self._pilots[pilot.uid] = pilot
                    self._tasking.add(pilot)
                case End(uid):
                    self._pilots.pop(uid).end()
        self._timer.set(self._rule.deadline())

    @property
    def why(self) -> str:
        """Why no more pilots come; empty: they do."""
        if not self._rule.has_given_up:
            return ""
        return f"no more pilots are submitted, as the last ones have failed: {self.failure}"

    def close(self) -> None:
        """Submit nothing more."""
        self._timer.close()
