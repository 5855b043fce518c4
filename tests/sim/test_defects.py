"""The checker finds every defect that is put into the machines."""

from __future__ import annotations

import pytest

from tests.sim.clock import Violation
from tests.sim.defects import DEFECTS, PLAYS

SEEDS = 150  # a defect that needs more to be found is not being looked for

RARE = ("keepers_of_a_client_that_was_hung_up_on_are_waited_for",)  # found by half a minute's seeds


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.long] if each in RARE else []) for each in DEFECTS],
)
def test_a_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch):
    DEFECTS[name](monkeypatch)
    for seed in range(SEEDS):
        for play in PLAYS[name]:
            try:
                play(seed)
            except Violation:
                return
    pytest.fail(f"{name} was not found under {SEEDS} seeds")
