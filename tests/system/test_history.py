"""yodjob history and yodctl events: what has been, of jobs, steps and nodes."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.partition import BIN, finish
from tests.support.wait import read_until, wait_until

RUNNING = ("sh", "-c", "echo up; read word")


def rows(partition, *words, **options):
    """What history says, without the ids that others have given before."""
    done = finish(partition.start_command(BIN / "yodjob", "history", "--json", *words, **options))
    assert (done.status, done.err) == (0, ""), done
    return json.loads(done.out)["jobs"]


def ends(found):
    return [(row["name"], row["state"], row["exit_status"], row["slots"]) for row in found]


def test_lone_launches_have_a_row_that_says_how_they_ended(start_local):
    partition = start_local(2, slots=2)
    assert partition.yod("-sz", "4", "true").status == 0
    assert partition.yod("sh", "-c", "exit 3").status == 3
    assert partition.yod("/no/such/program").status == 127
    good, bad = rows(partition, "-n", "2")
    assert ends([good, bad]) == [("true", "COMPLETED", 0, 4), ("sh", "FAILED", 3, 1)]
    assert re.fullmatch(r"rank 0 on node\d: ended with exit code 3", bad["reason"]), bad
    assert good["submitted"] <= good["began"] <= good["ended"]
    assert (good["nodes"], good["node_count"]) == ([0, 1], 2)
    node_s = 2 * (good["ended"] - good["began"])  # one of the two may be free long before
    assert node_s - 0.5 < good["slot_s"] < 2 * node_s + 1.0
    assert abs(bad["slot_s"] - (bad["ended"] - bad["began"])) < 0.5
    shown = finish(partition.start_command(BIN / "yodjob", "show", "--events", bad["id"]))
    events = [line.split("  ", 2)[-1] for line in shown.out.splitlines() if " granted" in line]
    assert len(events) == 1 and shown.status == 0
    assert shown.out.rstrip().endswith(f"FAILED: {bad['reason']}")
    assert finish(partition.start_command(BIN / "yodjob", "wait", bad["id"])).status == 3


def test_a_yod_that_is_killed_has_told_nothing_and_its_row_says_so(start_local):
    partition = start_local(1)
    yod = partition.start_yod(*RUNNING)
    read_until(yod.stdout.fileno(), b"up\n")
    yod.kill()
    finish(yod)
    wait_until(lambda: [row["state"] for row in rows(partition, "-n", "1")] == ["FAILED"])
    (row,) = rows(partition, "-n", "1")
    assert "its front end was lost before it told how it ended" in row["reason"]


def test_an_allocation_and_its_steps_have_rows(start_local):
    partition = start_local(2, slots=2)
    script = "yod -sz 4 true; yod -sz 2 sh -c 'exit 5'; exit 7"
    alloc = partition.start_command(
        BIN / "yodjob", "alloc", "-quiet", "-sz", "4", "sh", "-c", script
    )
    assert finish(alloc).status == 7
    (job,) = rows(partition, "-n", "1")
    job_id = job["id"]
    assert (job["state"], job["exit_status"], job["slots"]) == ("FAILED", 7, 4)
    found = rows(partition, job_id)
    assert [row["id"] for row in found] == [job_id, f"{job_id}.1", f"{job_id}.2"]
    assert ends(found[1:]) == [("true", "COMPLETED", 0, 4), ("sh", "FAILED", 5, 2)]
    assert {row["user"] for row in found} == {job["user"]}
    one = finish(partition.start_command(BIN / "yodjob", "show", "--events", f"{job_id}.2"))
    assert one.out.startswith(f"job {job_id}.2\n") and (one.status, one.err) == (0, "")
    assert re.search(r"granted: 2 slots on node", one.out)
    assert re.search(r"FAILED: rank \d on node\d: ended with exit code 5$", one.out.rstrip())
    missing = finish(partition.start_command(BIN / "yodjob", "history", f"{job_id}.9"))
    assert (missing.status, missing.err) == (
        1,
        f"yodjob: {job_id}.9: the history has no such job of yours\n",
    )


def test_batch_jobs_and_their_steps_have_rows_and_outlive_bebopd(start_local, tmp_path):
    partition = start_local(1, slots=2)
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\nyod -sz 2 true\nyod sh -c 'exit 4'\n")
    submit = (BIN / "yodjob", "submit", "--wait", "-quiet", "-sz", "2", script)
    done = finish(partition.start_command(*submit, cwd=tmp_path))
    job_id = done.out.strip()
    assert done.status == 4
    before = rows(partition, job_id)
    assert ends(before) == [
        ("job.sh", "FAILED", 4, 2),
        ("true", "COMPLETED", 0, 2),
        ("sh", "FAILED", 4, 1),
    ]
    partition.bebopd.kill()
    partition.replace_bebopd(expected=1)
    assert ends(rows(partition, job_id)) == ends(before)
    assert finish(partition.start_command(BIN / "yodjob", "wait", job_id)).status == 4


def test_what_happens_to_nodes_is_told_with_its_cause(start_local):
    partition = start_local(2)

    def yodctl(*words):
        return finish(partition.start_command(BIN / "yodctl", *words))

    assert yodctl("drain", "1", "-reason", "fan").status == 0
    assert yodctl("resume", "1").status == 0
    partition.pcts[0].kill()
    wait_until(lambda: "lost" in yodctl("events", "0").out)
    lines = yodctl("events", "1").out.splitlines()
    said = [line.split("  ", 1)[1] for line in lines]
    assert "node 1 (node1)  up" in said
    assert said[-2:] == ["node 1 (node1)  drained by root: fan", "node 1 (node1)  resumed by root"]
    found = json.loads(yodctl("events", "--json").out)["events"]
    *before, last = (each["event"] for each in found if each["node"] == 0)
    assert "up" in before and last == "lost"
    partition.replace_pct(0)
    assert "restarted" in yodctl("events", "0", "-n", "1").out


@pytest.mark.warm
def test_every_launch_is_in_the_user_log_also_those_of_no_partition(here, tmp_path):
    tmp_path.chmod(0o777)
    env = {"XDG_STATE_HOME": str(tmp_path), "LOGFILENAME": None}

    def logged(*words):
        return finish(here.start_command(BIN / "yodjob", "history", "--log", *words, env=env))

    assert logged("--json") == (0, '{\n "launches": []\n}\n', "")
    assert here.yod("-sz", "2", "true", env=env).status == 0
    assert here.yod("-sz", "2", "sh", "-c", "exit $YOD_RANK", env=env).status == 1
    assert here.yod("/no/such/program", env=env).status == 127
    good, bad = json.loads(logged("--json").out)["launches"]
    assert (good["name"].rpartition("/")[2], good["reason"]) == ("true", None)
    assert bad["reason"].startswith("rank 1 on ")
    assert good["began"] <= good["ended"] <= bad["ended"]
    head, line = logged("-n", "1").out.splitlines()
    assert head.split() == ["JOBID", "NAME", "USER", "NODES", "BEGAN", "TIME", "REASON"]
    assert line.split()[:2] == [bad["id"], "sh"]
    none = finish(
        here.start_command(BIN / "yodjob", "history", "--log", env={"LOGFILENAME": "none"})
    )
    assert none == (1, "", "yodjob: LOGFILENAME=none: there is no user log\n")


def test_without_a_partition_the_history_names_the_log(embedded):
    done = finish(embedded.start_command(BIN / "yodjob", "history"))
    text = "no partition is up here; yodjob history --log shows the launches of yod"
    assert (done.status, done.err) == (1, f"yodjob: {text}\n")
    done = finish(embedded.start_command(BIN / "yodjob", "history", "--log", "17"))
    assert (done.status, "--log takes neither IDs nor a partition" in done.err) == (2, True)
