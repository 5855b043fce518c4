"""Signals at random times to a launch server and all that is around it: nothing runs twice."""

from __future__ import annotations

import pytest

from tests.fuzz.server_kills import trial
from tests.support.place import Place


@pytest.mark.parametrize("seed", [1, 2])
def test_yods_end_in_time_and_nothing_runs_twice_or_stays(place: Place, seed: int) -> None:
    assert len(trial(place, seed, 4)) == 4
