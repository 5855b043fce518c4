"""Clients that lie to a launch server at random: honest launches beside them do not notice."""

from __future__ import annotations

import pytest

from tests.fuzz.hostile_clients import attack
from tests.support.place import Place


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_honest_launches_go_on_beside_clients_that_lie(place: Place, seed: int) -> None:
    assert attack(place, seed, float("inf"), 3) == 3
