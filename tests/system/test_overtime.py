"""What is to end when its time is over, and whose owner stops the process that is to end it."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Iterator
from subprocess import Popen

import pytest

from native.duration import written
from tests.support.batch import Jobs, brokers
from tests.support.partition import BIN, finish
from tests.support.wait import read_until, wait_for_exit

SOON = {"YOD_OVERTIME_S": "1", "YOD_KILL_WAIT_S": "0.5", "YOD_HEARTBEAT_S": "1"}
OVERDUE = "its time limit was over, and its broker has not ended it: bebopd did"
LATER = pytest.param(True, marks=pytest.mark.long)
STAY = "yod true; echo up > said; exec sleep 600"


@pytest.fixture
def own(start_local, tmp_path) -> Iterator[Jobs]:
    """Two nodes of two slots, which are this test's alone."""
    jobs = Jobs(start_local(2, slots=2, env=SOON), tmp_path)
    yield jobs
    jobs.close()


def stop_broker_of_a_job(own: Jobs, left_s: float) -> tuple[str, int]:
    """A job that has so long left, or less, when its broker is stopped: its id, and the broker."""
    began = time.monotonic()
    job_id = own.submit("-sz", "3", "-time", "1:00:00", "--wrap", STAY)
    own.said.until("up\n")
    (broker,) = brokers()
    limit = written(math.ceil(time.monotonic() - began + left_s))
    assert own.yodjob("update", "-time", limit, job_id) == (0, "", "")
    os.kill(broker, signal.SIGSTOP)
    return job_id, broker


@pytest.mark.parametrize("is_restarted", [False, LATER], ids=["same bebopd", "later bebopd"])
def test_a_job_ends_after_its_time_though_its_broker_is_stopped(own, is_restarted):
    for left_s in (1.5, 6, 24):
        job_id, broker = stop_broker_of_a_job(own, left_s)
        if is_restarted:
            own.partition.bebopd.kill()
            own.partition.replace_bebopd()
        assert own.wait(job_id) == 124
        row = own.row(job_id)
        assert row["state"] == "TIMEOUT"
        wait_for_exit(broker)
        if row["reason"] == OVERDUE:  # else its broker was not stopped in time
            break
    assert row["reason"] == OVERDUE
    events = own.yodjob("show", "--events", job_id).out
    assert "not ended by its broker 1.5 s after its time limit: killed" in events
    assert own.wait(own.submit("-sz", "4", "--wrap", "true")) == 0


KEPT = "its time limit was over, and its owner's process has not ended it: bebopd did"
HOLDERS = {
    "launch": ("yod", "-sz", "4", "sh", "-c", "echo up; exec sleep 600"),
    "allocation": ("yodjob", "alloc", "-sz", "4", "sh", "-c", "yod true; echo up; exec sleep 600"),
}


def stop_holder(own: Jobs, left_s: int, command: str, *words: str) -> Popen[bytes]:
    """What has nodes for so long, and is stopped when it runs."""
    at = 1 if words[0] == "alloc" else 0
    limited = (*words[:at], "-time", written(left_s), *words[at:])
    process = own.partition.start_command(BIN / command, *limited)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"up\n")
    process.send_signal(signal.SIGSTOP)
    return process


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_stopped_owner_keeps_no_node_beyond_its_time(own, kind):
    for left_s in (2, 8, 30):
        process = stop_holder(own, left_s, *HOLDERS[kind])
        took = own.partition.yod("--wait", "-sz", "4", "true")
        assert took.status == 0, took
        process.send_signal(signal.SIGCONT)
        finish(process)
        rows = json.loads(own.yodjob("history", "--json").out)["jobs"]
        reasons = {row["reason"] for row in rows if row["state"] == "TIMEOUT"}
        if KEPT in reasons:  # else it was not stopped in time
            break
    assert KEPT in reasons
