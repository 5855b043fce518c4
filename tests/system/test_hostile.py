"""A user with grants who says what they like: nobody else notices."""

import pytest

from tests.fuzz.hostile import attack


@pytest.mark.parametrize("seed", [1, 2])
def test_daemons_and_other_jobs_go_on_under_hostile_messages(start_local, seed):
    partition = start_local(2)
    assert attack(partition, seed, float("inf"), 8) == 8
