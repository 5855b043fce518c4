"""Nodes of running daemons are drained, resumed and restarted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.daemons import Daemons
from tests.support.nobody import as_nobody
from tests.support.partition import BIN, finish
from tests.support.wait import read_until, wait_until

RUNNING = ("sh", "-c", "echo up; read word; echo $word")
AT = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


def yodctl(partition, *words):
    return finish(partition.start_command(BIN / "yodctl", *words))


def started(partition, *words):
    """A job whose ranks end when they are told a word."""
    yod = partition.start_yod(*words, *RUNNING)
    read_until(yod.stdout.fileno(), b"up\n")
    return yod


def nodes(partition):
    done = finish(partition.start_command(BIN / "pingd", "--json"))
    return json.loads(done.out)["nodes"]


def start_ticks(unix_pid):
    return Path(f"/proc/{unix_pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_a_drained_node_is_given_to_no_job_and_its_jobs_end_undisturbed(local):
    job = started(local, "-list", "1")
    done = yodctl(local, "drain", "0..1", "3", "-reason", "fan is loud")
    job_id = local.pingd().splitlines()[2].split(":")[5]
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "nodes 0,3 drained",
        f"node 1 draining: job {job_id} (root) still there",
    ]
    assert local.states() == ["drained", "draining", "free", "drained"]
    assert local.yod("-sz", "4", "sh", "-c", "echo $YOD_NODE").status == 0
    refused = local.yod("-sz", "5", "true")
    assert refused.status == 125
    assert "4 of 16 slots free now (nodes 0..1,3 are drained)" in refused.err
    assert finish(job, b"word\n") == (0, "word\n", "")
    wait_until(lambda: local.states()[1] == "drained")
    shown = finish(local.start_command(BIN / "pingd")).out
    assert re.search(rf"^nodes 0\.\.1,3 drained by root {AT}: fan is loud$", shown, re.M)
    done = yodctl(local, "resume", "0..3")
    assert done.out.splitlines() == ["nodes 0..1,3 resumed", "node 2 not drained before"]
    assert local.yod("-sz", "16", "true").status == 0


def test_a_drain_that_was_answered_outlives_bebopd_and_the_pct(start_local):
    partition: Daemons = start_local(3, pct_options=("-D",))
    job = started(partition, "-list", "2")
    assert yodctl(partition, "drain", "1..2", "-reason", "fan").status == 0
    partition.bebopd.kill()
    partition.pcts[1].kill()
    partition.replace_bebopd(expected=2)
    before = {
        node["node"]: (node["state"], node["drain"]["reason"]) for node in nodes(partition)[1:]
    }
    assert before == {1: ("down", "fan"), 2: ("draining", "fan")}
    assert finish(job, b"word\n") == (0, "word\n", "")
    partition.replace_pct(1, state="drained")
    wait_until(lambda: partition.states() == ["free", "drained", "drained"])
    assert yodctl(partition, "resume", "1..2").out == "nodes 1..2 resumed\n"
    assert partition.states() == ["free"] * 3


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("drain 1", 2, 'nodes are drained for a reason: -reason TEXT, as in -reason "fan"'),
        ("drain 1 4..5 -reason x", 2, "no nodes 4..5 here; this partition has nodes 0..3"),
        ("resume n1", 2, "node list `n1`: 'n' is not allowed"),
        ("restart 9", 2, "no node 9 here; this partition has nodes 0..3"),
        ("drain 1 -reason x --partition embedded", 1, "no partition is up here"),
    ],
)
def test_an_order_that_is_not_possible_is_one_line(local, words, status, text):
    done = yodctl(local, *words.split())
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith(f"yodctl: {text}") and done.err.count("\n") == 1
    assert local.states() == ["free"] * 4


@pytest.mark.usefixtures("needs_root")
def test_another_user_is_refused(local, theirs):
    orders = ("drain 1 -reason mine", "resume 1", "restart 1 --force", "reserve 1 -user nobody")
    for words in map(str.split, orders):
        done = finish(as_nobody(local, theirs, BIN / "yodctl", *words))
        text = (
            "yodctl: nobody may not change nodes of partition `local`: root and group bebop may\n"
        )
        assert done == (1, "", text)
    assert local.states() == ["free"] * 4


@pytest.mark.usefixtures("needs_root")
def test_reserved_nodes_are_their_users_until_they_are_given_to_all_again(start_local):
    partition: Daemons = start_local(3)
    words = ("reserve", "1..2", "--user", "nobody", "-reason", "a demo")
    assert yodctl(partition, *words).out == "nodes 1..2 reserved\n"
    partition.bebopd.kill()
    partition.replace_bebopd(expected=3)
    shown = finish(partition.start_command(BIN / "pingd")).out
    assert re.search(rf"^nodes 1\.\.2 reserved for nobody by root {AT}: a demo$", shown, re.M)
    assert [line.split(":")[3] for line in partition.pingd().splitlines()[1:]] == [
        "false",
        "true",
        "true",
    ]
    refused = partition.yod("-sz", "5", "true")
    assert refused.status == 125
    assert "5 ranks requested, 4 slots there (nodes 1..2 are reserved for nobody)" in refused.err
    done = finish(partition.start_command(BIN / "pingd", "-unreserve", "1"))
    assert (done.status, done.out) == (0, "node 1 given to all users again\n")
    assert partition.yod("-sz", "5", "true").status == 0
    done = finish(partition.start_command(BIN / "pingd", "-list", "0", "-reserve", "no-such-user"))
    assert (done.status, done.err) == (
        2,
        "pingd: no user no-such-user here; a uid goes as well\n",
    )
    assert yodctl(partition, "unreserve", "0..2").out == (
        "node 2 given to all users again\nnodes 0..1 not reserved before\n"
    )


@pytest.mark.usefixtures("needs_root")
def test_nodes_for_batch_jobs_are_given_to_no_interactive_launch(local):
    assert yodctl(local, "dedicate", "batch", "0..2").out == "nodes 0..2 for batch jobs\n"
    shown = finish(local.start_command(BIN / "pingd")).out
    assert "nodes 0..2 for batch jobs only\n" in shown
    assert local.yod("sh", "-c", "echo $YOD_NODE").out == "3\n"
    refused = local.yod("-sz", "5", "true")
    assert refused.status == 125 and "nodes 0..2 are for batch jobs only" in refused.err
    assert yodctl(local, "dedicate", "any", "0..2").status == 0
    assert local.yod("-sz", "16", "true").status == 0


def test_a_pct_restarts_in_its_process_when_its_job_has_ended(start_local):
    partition: Daemons = start_local(2, pct_options=("-D",))
    pct = partition.pcts[1]
    ticks = start_ticks(pct.unix_pid)
    job = started(partition, "-list", "0..1")
    done = yodctl(partition, "restart", "1")
    job_id = partition.pingd().splitlines()[1].split(":")[5]
    assert done.out == f"node 1 to restart when free of jobs; job {job_id} (root) still there\n"
    assert partition.states() == ["busy", "draining"]
    assert finish(job, b"word\nword\n").status == 0
    wait_until(lambda: "node 1 of the partition" in pct.text().partition("begins again")[2])
    wait_until(lambda: partition.states() == ["free", "free"])
    assert pct.text().count("begins again") == 1
    assert pct.is_alive and start_ticks(pct.unix_pid) == ticks
    assert partition.yod("-sz", "8", "true").status == 0


def test_a_forced_restart_ends_the_jobs_that_it_names(start_local):
    partition: Daemons = start_local(2, pct_options=("-D",))
    job = started(partition, "-list", "0..1")
    job_id = partition.pingd().splitlines()[1].split(":")[5]
    yodctl(partition, "drain", "1", "-reason", "fan")
    done = yodctl(partition, "restart", "1", "--force")
    assert done.out == f"node 1 to restart now, which ends job {job_id} (root)\n"
    ended = finish(job)
    assert ended.status != 0 and "node 1 (node1) was lost" in ended.err
    wait_until(lambda: partition.states() == ["free", "drained"])
    assert yodctl(partition, "resume", "1").status == 0
