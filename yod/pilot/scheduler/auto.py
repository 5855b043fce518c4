"""How many pilots there are: one more while tasks wait, one less when it has nothing to do."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

FAILED_MAX = 3  # pilots in a row that never became active; then there are no more


class Stands(Struct, frozen=True):
    """One pilot that is not over.

    Attributes:
        held: tasks that it has.
    """

    uid: str
    is_active: bool
    held: int


class Submit(Struct, frozen=True):
    """Submit one pilot."""


class End(Struct, frozen=True):
    """End a pilot."""

    uid: str


class Auto:
    """The rule.

    Args:
        most: so many pilots at a time.
        idle_s: a pilot without a task is ended after so long.
    """

    def __init__(self, most: int, idle_s: float) -> None:
        self._most = most
        self._idle_s = idle_s
        self._idle_since: dict[str, float] = {}
        self.failed = 0

    @property
    def has_given_up(self) -> bool:
        """Pilots fail; no more are submitted."""
        return self.failed >= FAILED_MAX

    def became(self, is_active: bool) -> None:
        """A pilot of ours is active, or has failed before it was."""
        self.failed = 0 if is_active else self.failed + 1

    def decide(self, waiting: int, pilots: Iterable[Stands], now: float) -> list[Submit | End]:
        """What to do now.

        Args:
            waiting: tasks that no pilot has.
        """
        pilots = list(pilots)
        idle = {each.uid for each in pilots if each.is_active and not each.held and not waiting}
        since = {uid: self._idle_since.get(uid, now) for uid in idle}
        actions: list[Submit | End] = []
        for uid, began in list(since.items()):
            if now - began >= self._idle_s:
                actions.append(End(uid))
                del since[uid]
        self._idle_since = since
        is_one_coming = any(not each.is_active for each in pilots)
        has_place = len(pilots) < self._most and not self.has_given_up
        if waiting and has_place and not is_one_coming:
            actions.append(Submit())
        return actions

    def deadline(self) -> float | None:
        """When to decide again though nothing happens."""
        return min(self._idle_since.values()) + self._idle_s if self._idle_since else None
