"""What a broker says of how its job has ended."""

import pytest

from native.waitstatus import UNKNOWN
from native.wire.base import JobEnd, State
from partition.batch.outcome import outcome_of
from partition.broker.machine import CANCELLED, TIMED_OUT


@pytest.mark.parametrize(
    ("wait_status", "outcome"),
    [
        (0, JobEnd(State.COMPLETED, 0, 0, "")),
        (3 << 8, JobEnd(State.FAILED, 3, 0, "")),
        (9, JobEnd(State.FAILED, 0, 9, "")),
        (11 | 0x80, JobEnd(State.FAILED, 0, 11, "")),
        (None, JobEnd(State.FAILED, 127, 0, "")),
    ],
)
def test_the_scripts_end_is_the_jobs(wait_status, outcome):
    assert outcome_of(127, wait_status, [], is_by_command=True) == outcome


def test_a_job_whose_scripts_status_nobody_knows_has_failed_and_says_why():
    outcome = JobEnd(State.FAILED, 1, 0, "its exit status is not known")
    assert outcome_of(1, UNKNOWN, [], is_by_command=True) == outcome


@pytest.mark.parametrize(
    ("status", "errors", "state"),
    [
        (TIMED_OUT, ["the time limit of 1 s is over"], State.TIMEOUT),
        (-15, [], State.CANCELLED),
        (1, [CANCELLED], State.CANCELLED),
        (125, ["all nodes are lost"], State.NODE_FAIL),
    ],
)
def test_an_end_that_is_not_the_scripts_doing_says_whose_it_is(status, errors, state):
    outcome = outcome_of(status, UNKNOWN, errors, is_by_command=False)
    assert (outcome.state, outcome.exit_status, outcome.signal) == (state, 1, 0)
    assert outcome.reason == "".join(errors)
