"""Where defects register, and how one replaces a method of a machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from partition.session.machine import TABLE as SESSIONS
from tests.sim.scenario import SCENARIOS
from yod.launch.machine import OWNER, TABLE

Patch = pytest.MonkeyPatch
Play = Callable[[int], Any]
DEFECTS: dict[str, Callable[[Patch], None]] = {}
PLAYS: dict[str, tuple[Play, ...]] = {}  # where each is looked for


def defect_of(*plays: Play) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register one that only these can find."""

    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        DEFECTS[apply.__name__] = apply
        PLAYS[apply.__name__] = plays
        return apply

    return register


defect = defect_of(*SCENARIOS)


def wrap(patch: Patch, owner: type, name: str, change: Callable[..., Any]) -> None:
    """Replace a method by ``change(original, self, ...)``, in the tables of machines as well."""
    original = getattr(owner, name)

    def changed(self: Any, *arguments: Any, **named: Any) -> Any:
        return change(original, self, *arguments, **named)

    patch.setattr(owner, name, changed)
    rows: list[dict[Any, Any]] = [*TABLE.values(), *SESSIONS.values()]
    for row in rows:
        for kind in [kind for kind, method in row.items() if method is original]:
            patch.setitem(row, kind, changed)
            patch.setitem(OWNER, changed, owner)
