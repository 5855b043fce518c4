"""pingd's requests: jobs are interrupted and killed, whatever their yods do; pcts are killed."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess

import pytest

from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, read_until, wait_until


def pingd(partition, *words):
    process = subprocess.Popen(
        [BIN / "pingd", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=partition.environment(),
    )
    return finish(process)


def start(partition, *words):
    """A job whose ranks are all up, and its id."""
    before = ids(partition)
    yod = partition.start_yod(*words)
    size = int(words[words.index("-sz") + 1])
    read_until(yod.stdout.fileno(), b"up\n", times=size)
    (job_id,) = ids(partition) - before
    return yod, job_id


def ids(partition):
    nodes = json.loads(pingd(partition, "--json").out)["nodes"]
    return {job["id"] for node in nodes for job in node["jobs"]}


SLEEP = ("sh", "-c", "echo up; exec sleep 600")
STUBBORN = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 600; done")


def test_an_interrupt_sends_sigterm_and_yod_says_what_its_ranks_died_of(local):
    yod, job_id = start(local, "-sz", "5", *SLEEP)
    done = pingd(local, "-interrupt", "-job", job_id)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"SIGTERM to job {job_id} (") and done.out.endswith("on 2 nodes\n")
    ended = finish(yod)
    assert ended.status == 128 + signal.SIGTERM
    assert "killed by SIGTERM" in ended.err


def test_a_reset_kills_what_an_interrupt_leaves(local):
    yod, job_id = start(local, "-sz", "2", *STUBBORN)
    assert pingd(local, "-interrupt", "-mine").status == 0
    assert ids(local) == {job_id}
    assert pingd(local, "-reset", "-mine", "-list", "0..3").out.startswith(
        f"SIGKILL to job {job_id}"
    )
    assert finish(yod).status == 128 + signal.SIGKILL
    wait_until(lambda: ":busy:" not in pingd(local, "-parse").out)


def test_a_reset_frees_the_nodes_of_a_job_whose_yod_is_stopped(start_local, nothing_left_behind):
    partition = start_local(1, env={"YOD_END_S": "0.5"})
    yod, _ = start(partition, "-sz", "1", *SLEEP)
    yod.send_signal(signal.SIGSTOP)
    assert pingd(partition, "-reset", "-all").status == 0
    wait_until(lambda: ":free:" in pingd(partition, "-parse").out)
    yod.send_signal(signal.SIGCONT)
    assert finish(yod).status == 128 + signal.SIGKILL


def test_a_nicekill_kills_later(start_local):
    partition = start_local(1, env={"YOD_NICE_KILL_S": "0.5"})
    yod, job_id = start(partition, "-sz", "1", *STUBBORN)
    done = pingd(partition, "-nicekill", "-job", job_id)
    assert done.out.startswith(f"SIGTERM, and SIGKILL later, to job {job_id} (")
    assert finish(yod).status == 128 + signal.SIGKILL


def test_the_pct_of_a_killed_node_begins_anew_and_its_jobs_have_ended(local):
    yod, job_id = start(local, "-sz", "1", "-list", "3", *SLEEP)
    done = pingd(local, "-kill", "-job", job_id)
    assert done.out.startswith(f"node 3 to restart now, which ends job {job_id} (")
    assert finish(yod).status != 0
    wait_until(lambda: "3:node3:free:" in pingd(local, "-parse").out)


def test_at_a_terminal_the_user_is_asked(local):
    yod, job_id = start(local, "-sz", "1", *SLEEP)
    for answer, status in ((b"n\n", 1), (b"y\n", 0)):
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [BIN / "pingd", "-reset", "-job", job_id],
            stdin=follower,
            stdout=subprocess.DEVNULL,
            stderr=follower,
            env=local.environment(),
        )
        os.close(follower)
        read_until(leader, f"pingd: kill job {job_id}? (y/n) ".encode())
        os.write(leader, answer)
        assert process.wait(LIMIT_S) == status
        os.close(leader)
    finish(yod)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-interrupt"], "of what? -job N, -pbsjob N, -mine, -list LIST or -all"),
        (["-kill"], "of what? "),
        (["-reset", "-kill", "1"], "-reset is a request: one at a time"),
        (["-interrupt", "-all", "-parse"], "-interrupt is a request: one at a time"),
        (["-nicekill", "-list", "1"], "-nicekill is for whole jobs"),
        (["-reset", "-job", "999999"], "no job 999999 holds nodes here"),
        (["-reset", "-list", "99"], "no node 99"),
        (["-kill", "-list", "99"], "no node 99"),
        (["-reset", "-list", "x"], "node list `x`"),
        (["-kill", "-job", "999999"], "no node here meets all conditions"),
        (["-reason", "fan"], "-reason goes with -reserve"),
        (["-interrupt", "-all", "-reason", "fan"], "-reason goes with -reserve"),
    ],
)
def test_a_wrong_request_is_said_in_a_line(local, words, error):
    done = pingd(local, *words)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"pingd: {error}")
