"""Batch jobs when daemons, brokers and disks are lost: none is lost, and none runs twice."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.batch import Jobs, brokers
from tests.support.nobody import NOBODY, as_nobody
from tests.support.partition import BIN, finish
from tests.support.processes import stopped
from tests.support.wait import read_until, wait_for_exit, wait_until

HOLD = "echo $YOD_JOB_ID >> ran; echo up > said; read line < go"
OPENED = "yod true"  # the nodes belong to the job's broker
STAY = "echo up > said; exec sleep 600"
ROOM_BYTES = 2 << 20  # ledger and history, each with its log
SLOW = "YOD_CONNECT_S=0.5 YOD_NOTICE_S=1.5"  # told after three connections


@pytest.fixture
def own(start_local, tmp_path) -> Iterator[Jobs]:
    """Two nodes of two slots, which are this test's alone."""
    jobs = Jobs(start_local(2, slots=2, env={"YOD_HEARTBEAT_S": "1"}), tmp_path)
    yield jobs
    jobs.close()


def lose_bebopd(jobs: Jobs) -> None:
    jobs.partition.bebopd.kill()
    jobs.partition.replace_bebopd()


def ran(jobs: Jobs) -> list[str]:
    """Jobs whose scripts have begun, as often as they have."""
    return (jobs.directory / "ran").read_text().split()


def test_jobs_that_wait_and_run_outlive_bebopd(own):
    first = own.submit("-sz", "4", "--wrap", f"{OPENED}; {HOLD}; exit 3")
    others = [own.submit("-sz", "4", "--wrap", "echo $YOD_JOB_ID >> ran") for _ in range(3)]
    own.said.until("up\n")
    lose_bebopd(own)
    assert [own.state(job_id) for job_id in (first, *others)] == ["RUNNING", *["PENDING"] * 3]
    own.go.say()
    assert own.wait(first) == 3
    assert own.wait(*others) == 0
    assert ran(own) == [f"{job_id}.0" for job_id in (first, *others)]


def test_a_job_whose_end_bebopd_has_not_heard_has_ended(own):
    job_id = own.submit("-sz", "3", "--wrap", f"{OPENED}; {HOLD}; exit 3")
    own.said.until("up\n")
    (broker,) = brokers()
    own.partition.bebopd.kill()
    own.go.say()
    wait_for_exit(broker)
    own.partition.replace_bebopd()
    assert own.wait(job_id) == 3
    assert ran(own) == [f"{job_id}.0"]


def test_a_job_that_was_granted_when_bebopd_was_killed_is_started_once(own):
    first = own.partition.pcts[0].unix_pid
    with stopped(first):
        job_id = own.submit("-sz", "2", "-list", "0", "--wrap", f"{OPENED}; {HOLD}")
        assert own.state(job_id) == "CONFIGURING"
        own.partition.bebopd.kill()
    own.said.until("up\n")
    own.partition.replace_bebopd()
    own.go.say()
    assert own.wait(job_id) == 0
    assert ran(own) == [f"{job_id}.0"]


def test_no_job_is_lost_or_runs_twice_while_bebopd_is_killed_again_and_again(own):
    job_ids = []
    for number in range(4):
        job_ids += [own.submit("--wrap", "echo $YOD_JOB_ID >> ran") for _ in range(4)]
        if not number:
            assert own.wait(job_ids[0]) == 0
        lose_bebopd(own)
    own.yodjob("wait", *job_ids)
    states = {job_id: own.state(job_id) for job_id in job_ids}
    # One whose nodes have another bebopd before its broker has opened them ends, wherever its
    # script is.
    assert set(states.values()) <= {"COMPLETED", "NODE_FAIL"}
    completed = [f"{job_id}.0" for job_id, state in states.items() if state == "COMPLETED"]
    began = ran(own)
    assert len(set(began)) == len(began)
    assert set(completed) <= set(began)
    assert states[job_ids[0]] == "COMPLETED"


def test_a_job_ends_when_the_pct_of_its_first_node_is_killed(own):
    job_id = own.submit("-sz", "4", "--wrap", STAY)
    own.said.until("up\n")
    (broker,) = brokers()
    node = own.row(job_id)["nodes"][0]
    own.partition.pcts[node].kill()
    wait_for_exit(broker)
    own.partition.replace_pct(node)
    assert own.wait(job_id) == 125
    row = own.row(job_id)
    expected = f"node {node} (node{node}), where its script ran, has restarted"
    assert (row["state"], row["reason"]) == ("NODE_FAIL", expected)


def test_a_step_of_a_script_waits_for_a_broker_that_is_slow_to_answer(jobs):
    text = f"kill -STOP $PPID; echo up > said; {SLOW} yod -sz 2 echo ran"
    job_id = jobs.submit("-sz", "2", "--wrap", text)
    jobs.said.until("up\n")
    (broker,) = brokers()
    wait_until(lambda: "waiting for a grant" in jobs.output(job_id), what="yod waits")
    os.kill(broker, signal.SIGCONT)
    assert jobs.wait(job_id) == 0
    assert jobs.output(job_id).count("ran\n") == 2


def test_a_job_ends_when_its_broker_is_killed(jobs):
    job_id = jobs.submit("-sz", "4", "--wrap", STAY)
    jobs.said.until("up\n")
    (broker,) = brokers()
    os.kill(broker, signal.SIGKILL)
    assert jobs.wait(job_id) == 125
    row = jobs.row(job_id)
    assert row["state"] == "NODE_FAIL"
    assert row["reason"].startswith("its broker ended unexpectedly: ")
    assert "KILL" in row["reason"] or "9" in row["reason"]
    assert jobs.wait(jobs.submit("-sz", "4", "--wrap", "true")) == 0


def test_a_job_runs_as_its_owner_and_others_cannot_end_it(jobs, theirs, needs_root):
    script = theirs / "job.sh"
    script.write_text("#!/bin/sh\nid -u; id -G; yod -sz 2 id -u; echo up > said; read line < go\n")
    for name in ("said", "go"):
        os.mkfifo(theirs / name)
        os.chown(theirs / name, NOBODY, NOBODY)
    said = os.open(theirs / "said", os.O_RDWR)
    go = os.open(theirs / "go", os.O_RDWR)

    def yodjob(*words):
        return finish(as_nobody(jobs.partition, theirs, BIN / "yodjob", *words))

    done = yodjob("submit", "-quiet", "-sz", "2", script)
    assert (done.status, done.err) == (0, "")
    theirs_id = done.out.strip()
    read_until(said, b"up\n")
    ours = jobs.submit("-sz", "2", "--wrap", STAY)
    jobs.said.until("up\n")
    done = yodjob("cancel", ours)
    assert (done.status, done.err) == (1, f"yodjob: {ours}: job {ours} belongs to root\n")
    done = yodjob("signal", "KILL", ours)
    assert (done.status, jobs.state(ours)) == (1, "RUNNING")
    os.write(go, b"\n")
    assert yodjob("wait", theirs_id).status == 0
    output = theirs / f"yod-{theirs_id}.out"
    assert output.read_text().split()[0] == str(NOBODY)
    assert output.read_text().split()[-2:] == [str(NOBODY)] * 2
    assert output.stat().st_uid == NOBODY
    assert jobs.yodjob("cancel", ours).status == 0
    assert jobs.wait(ours) == 143
    os.close(said)
    os.close(go)


@pytest.fixture
def small(tmp_path: Path, needs_root: None) -> Iterator[Path]:
    """A file system of little room."""
    path = tmp_path / "small"
    path.mkdir()
    options = f"size={ROOM_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path], check=True)
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)  # bebopd may still end


def test_bebopd_lives_on_when_its_disk_is_full(small, start_local, tmp_path):
    options = ("--state-dir", small / "records")
    jobs = Jobs(start_local(2, slots=2, bebopd_options=options), tmp_path)
    first = jobs.submit("-sz", "4", "--wrap", HOLD)
    jobs.said.until("up\n")
    ballast = small / "ballast"
    with open(ballast, "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while file.write(bytes(4096)) or True:
            pass
    for _ in range(40):  # more than bebopd has ids in reserve
        done = jobs.yodjob("submit", "--wrap", "true")
        assert (done.status, done.out) == (1, "")
        (line,) = done.err.splitlines()
        assert "is not recorded" in line and "full" in line
    ballast.unlink()
    second = jobs.submit("--wrap", "true")
    jobs.go.say()
    assert jobs.wait(first, second) == 0
    jobs.close()
