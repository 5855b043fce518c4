"""Processes that do not end when they are killed, and what becomes of their node."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.batch import Jobs
from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, read_until, wait_for_exit, wait_until

FREEZER = Path("/sys/fs/cgroup/freezer")
SOON = {"YOD_UNKILLABLE_S": "0.5"}

# Stops the keeper, which is its parent, again and again.
STOPS_ITS_KEEPER = """
import os, signal
keeper = os.getppid()
print(os.getpid(), flush=True)
while True:
    os.kill(keeper, signal.SIGSTOP)
"""


@pytest.fixture
def freezer(needs_root: None) -> Iterator[Path]:
    """A group whose frozen processes no signal reaches: those of cgroup v1 cannot be killed."""
    if not FREEZER.is_dir():
        pytest.skip("there is no cgroup v1 freezer here")
    group = FREEZER / f"yod-test-{os.getpid()}"
    group.mkdir()
    yield group
    (group / "freezer.state").write_text("THAWED")
    wait_until(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def nodes(partition):
    done = finish(partition.start_command(BIN / "pingd", "--json"))
    return json.loads(done.out)["nodes"]


def start(partition, *words):
    """A yod to which every signal is a press, and the process id that its rank says."""
    yod = partition.start_yod(*words, env={"YOD_PRESS_S": "0"})
    return yod, int(read_until(yod.stdout.fileno(), b"\n"))


def leave(yod):
    """Three presses: the nodes are reset, and yod has gone."""
    for said in (b"again to send SIGKILL\n", b"again to reset the nodes and leave\n", b"leaving\n"):
        yod.terminate()
        read_until(yod.stderr.fileno(), said)
    yod.communicate(timeout=LIMIT_S)


def test_a_rank_that_holds_its_keeper_down_keeps_no_node(start_local):
    for limit_s in ("0.5", "3", "12"):
        local = start_local(1, env={"YOD_UNKILLABLE_S": limit_s})
        yod, rank = start(local, "-sz", "1", sys.executable, "-c", STOPS_ITS_KEEPER)
        leave(yod)
        wait_for_exit(rank)
        state = wait_until(lambda local=local: {"free", "drained"} & set(local.states()))
        if state == {"free"}:  # else what was killed had no processor to end for so long
            break
    assert state == {"free"}


def test_a_node_with_a_process_that_cannot_be_killed_is_drained_until_it_is_resumed(
    start_local, freezer
):
    local = start_local(2, env=SOON)
    yod, rank = start(local, "-list", "1", "sh", "-c", "echo $$; read word")
    (freezer / "cgroup.procs").write_text(f"{rank}")
    (freezer / "freezer.state").write_text("FROZEN")
    leave(yod)
    wait_until(lambda: local.states() == ["free", "draining"])
    drain = nodes(local)[1]["drain"]
    assert f"cannot be killed: process {rank} (sh, state " in drain["reason"]
    assert drain["by"] == "its PCT"
    (freezer / "freezer.state").write_text("THAWED")
    wait_until(lambda: local.states() == ["free", "drained"])
    assert finish(local.start_command(BIN / "yodctl", "resume", "1")).status == 0
    assert local.yod("-list", "1", "true").status == 0


def test_so_is_that_of_a_batch_script_which_cannot_be_killed(start_local, freezer, tmp_path):
    local = start_local(2, env=SOON)
    jobs = Jobs(local, tmp_path)
    job_id = jobs.submit("--wrap", "echo $$ > said; read line < go")
    script = int(jobs.said.until("\n"))
    (freezer / "cgroup.procs").write_text(f"{script}")
    (freezer / "freezer.state").write_text("FROZEN")
    for _ in range(2):  # the second one kills its broker
        assert jobs.yodjob("cancel", job_id).status == 0
    wait_until(lambda: nodes(local)[0]["drain"] is not None)
    drain = nodes(local)[0]["drain"]
    assert f"job {job_id}: cannot be killed: process {script} (" in drain["reason"]
    assert jobs.state(job_id) != "CANCELLED"  # its process is there
    (freezer / "freezer.state").write_text("THAWED")
    jobs.wait(job_id)
    assert jobs.state(job_id) == "CANCELLED"
    wait_until(lambda: local.states() == ["drained", "free"])
    assert finish(local.start_command(BIN / "yodctl", "resume", "0")).status == 0
    jobs.close()
