"""The time of a job that is handed in: its step may make a checkpoint when that is over."""

from __future__ import annotations

import pytest

from native.limits import Limits
from yod.detaching import _time
from yod.plan.checkpoint import GRACE_S, NODES_S

LATE = {"-time": ["10"], "--checkpoint-dir": ["d"], "--checkpoint-on": ["timeout"]}


@pytest.mark.parametrize(
    ("more", "drain_s"),
    [({}, 0.0), ({"--checkpoint-local": ["/dev/shm"]}, Limits().checkpoint_drain_s)],
)
def test_a_job_has_the_time_for_the_last_checkpoint_of_its_step(more, drain_s):
    assert _time({**LATE, **more}) == (600.0 + GRACE_S + NODES_S + drain_s, None, False)
    assert _time({"-time": ["10"]}) == (600.0, None, True)


def test_a_job_has_the_time_that_the_ranks_of_its_step_have_to_end():
    given = {"-time": ["10"], "--grace": ["0:30"]}
    assert _time(given) == (630.0, None, False)
    assert _time({"--grace": ["0:30"]}) == (0.0, None, True)
    assert _time({**LATE, "--grace": ["0:30"]}) == (630.0 + GRACE_S + NODES_S, None, False)
