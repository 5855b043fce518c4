"""A batch job that asks for it runs again, elsewhere, when a node of it is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.batch import Jobs, brokers
from tests.support.processes import stopped
from tests.support.wait import wait_for_exit, wait_until

SOON = {"YOD_HEARTBEAT_S": "1", "YOD_LIVENESS_S": "3", "YOD_NODE_FAIL_S": "2"}
HOLD = (
    "echo $YOD_JOB_ID ${YOD_RESTART_COUNT:-0} >> ran; echo up > said;"
    " test ${YOD_RESTART_COUNT:-0} -gt 0 || exec sleep 600"
)


@pytest.fixture
def own(start_local, tmp_path) -> Iterator[Jobs]:
    """Three nodes of two slots, which are this test's alone."""
    jobs = Jobs(start_local(3, slots=2, env=SOON), tmp_path)
    yield jobs
    jobs.close()


def ran(jobs: Jobs) -> list[str]:
    """A line for each time that a script has begun: its job, and how often it was placed before."""
    return (jobs.directory / "ran").read_text().splitlines()


def events(jobs: Jobs, job_id: str) -> str:
    return jobs.yodjob("show", "--events", job_id).out


def root_of(jobs: Jobs, job_id: str) -> int:
    return int(jobs.row(job_id)["nodes"][0])


def test_a_job_whose_first_node_is_lost_runs_again_on_others(own):
    job_id = own.submit("-sz", "2", "--requeue", "--wrap", HOLD)
    own.said.until("up\n")
    first = root_of(own, job_id)
    (broker,) = brokers()
    own.partition.pcts[first].kill()
    wait_for_exit(broker)
    own.said.until("up\n")
    assert own.wait(job_id) == 0
    assert root_of(own, job_id) != first
    assert ran(own) == [f"{job_id}.0 0", f"{job_id}.0 1"]
    assert "waits again (1 of 3): node" in events(own, job_id)
    own.partition.replace_pct(first)


def test_what_a_lost_node_still_has_of_it_ends_when_the_node_is_back(own):
    job_id = own.submit("-sz", "2", "--requeue", "--wrap", f"{HOLD}; read line < go")
    own.said.until("up\n")
    first = root_of(own, job_id)
    (before,) = brokers()
    with stopped(own.partition.pcts[first].unix_pid):
        own.said.until("up\n")  # on another node
        assert root_of(own, job_id) != first
    wait_for_exit(before)
    wait_until(lambda: own.partition.states()[first] == "free", what="the node has nothing of it")
    assert own.state(job_id) == "RUNNING"
    own.go.say()
    assert own.wait(job_id) == 0
    assert ran(own) == [f"{job_id}.0 0", f"{job_id}.0 1"]


def test_bebopd_that_is_killed_meanwhile_knows_the_one_from_the_other(own):
    job_id = own.submit("-sz", "2", "--requeue", "--wrap", f"{HOLD}; read line < go")
    own.said.until("up\n")
    first = root_of(own, job_id)
    (before,) = brokers()
    with stopped(own.partition.pcts[first].unix_pid):
        own.said.until("up\n")
        own.partition.bebopd.kill()
        own.partition.replace_bebopd(2)
        wait_until(lambda: own.state(job_id) == "RUNNING", what="it goes on")
    wait_for_exit(before)
    wait_until(lambda: own.partition.states()[first] == "free", what="the node has nothing of it")
    own.go.say()
    assert own.wait(job_id) == 0
    assert ran(own) == [f"{job_id}.0 0", f"{job_id}.0 1"]


def test_an_element_of_an_array_runs_again_as_well(own):
    text = "echo $YOD_ARRAY_INDEX ${YOD_RESTART_COUNT:-0} >> ran; echo up > said;"
    again = "test ${YOD_RESTART_COUNT:-0} -gt 0 || exec sleep 600"
    job_id = own.submit("-sz", "2", "--requeue", "-array", "7", "--wrap", f"{text} {again}")
    own.said.until("up\n")
    first = root_of(own, f"{job_id}_7")
    own.partition.pcts[first].kill()
    own.said.until("up\n")
    assert own.wait(job_id) == 0
    assert ran(own) == ["7 0", "7 1"]
    own.partition.replace_pct(first)


@pytest.mark.long
def test_a_script_that_fails_since_another_node_was_lost_runs_again(own):
    step = "test ${YOD_RESTART_COUNT:-0} -gt 0 || { echo up > said; exec sleep 600; }"
    text = f"echo ${{YOD_RESTART_COUNT:-0}} >> ran; yod -sz 4 sh -c '{step}' || exit 3"
    job_id = own.submit("-sz", "4", "--requeue", "--wrap", text)
    own.said.until("up\nup\nup\nup\n")
    (_, other) = own.row(job_id)["nodes"]
    own.partition.pcts[other].kill()
    own.partition.replace_pct(other)
    assert own.wait(job_id) == 0
    assert ran(own) == ["0", "1"]


@pytest.mark.long
def test_a_job_whose_broker_is_killed_runs_again_three_times(own):
    job_id = own.submit("-sz", "2", "--requeue", "--wrap", "echo up > said; exec sleep 600")
    for _ in range(4):
        own.said.until("up\n")
        (broker,) = brokers()
        os.kill(broker, signal.SIGKILL)
        wait_for_exit(broker)
    assert own.wait(job_id) == 125
    assert own.state(job_id) == "NODE_FAIL"
    assert "waits again (3 of 3)" in events(own, job_id)


def test_a_job_that_does_not_ask_for_it_ends(own):
    job_id = own.submit("-sz", "2", "--wrap", HOLD)
    own.said.until("up\n")
    first = root_of(own, job_id)
    own.partition.pcts[first].kill()
    assert own.wait(job_id) == 125
    assert ran(own) == [f"{job_id}.0 0"]
    own.partition.replace_pct(first)
