"""A job whose broker is stopped ends when its time is over: bebopd has the broker killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.batch import Jobs, brokers
from tests.support.wait import wait_for_exit

SOON = {"YOD_OVERTIME_S": "1", "YOD_KILL_WAIT_S": "0.5", "YOD_HEARTBEAT_S": "1"}
LIMIT = "0:03"
LATER = pytest.param(True, marks=pytest.mark.long)
STAY = "yod true; echo up > said; exec sleep 600"


@pytest.fixture
def own(start_local, tmp_path) -> Iterator[Jobs]:
    """Two nodes of two slots, which are this test's alone."""
    jobs = Jobs(start_local(2, slots=2, env=SOON), tmp_path)
    yield jobs
    jobs.close()


@pytest.mark.parametrize("is_restarted", [False, LATER], ids=["same bebopd", "later bebopd"])
def test_a_job_ends_after_its_time_though_its_broker_is_stopped(own, is_restarted):
    job_id = own.submit("-sz", "3", "-time", LIMIT, "--wrap", STAY)
    own.said.until("up\n")
    (broker,) = brokers()
    os.kill(broker, signal.SIGSTOP)
    if is_restarted:
        own.partition.bebopd.kill()
        own.partition.replace_bebopd()
    assert own.wait(job_id) == 124
    row = own.row(job_id)
    assert row["state"] == "TIMEOUT"
    assert row["reason"] == "its time limit was over, and its broker has not ended it: bebopd did"
    events = own.yodjob("show", "--events", job_id).out
    assert "not ended by its broker 1.5 s after its time limit: killed" in events
    wait_for_exit(broker)
    assert own.wait(own.submit("-sz", "4", "--wrap", "true")) == 0
