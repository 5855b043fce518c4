"""Batch jobs that stand still while one of another queue has their slots, with real processes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from native.host import userdirs
from tests.support.batch import Jobs
from tests.support.partition import finish
from tests.support.wait import wait_until
from tests.system.test_suspend import state

ME = userdirs.user_name(os.getuid())
RULES = """
[[queue]]
name = "free"
preempt_mode = "suspend"

[[queue]]
name = "paid"
preempts = ["free"]
"""
# A shell that starts programs by vfork waits for them in state D, also where both stand still.
SCRIPT = """#YOD -queue free
yod -sz 4 bash -c 'echo rank $$ >>ranks; while [ ! -e done ]; do sleep 0.05; done'"""


@pytest.fixture
def lending(start_local, tmp_path) -> Iterator[Jobs]:
    """Two nodes of two slots, whose queue `paid` has jobs of `free` stand still."""
    file = tmp_path / "queues.toml"
    file.write_text(RULES)
    jobs = Jobs(start_local(2, slots=2, bebopd_options=("--queues", file)), tmp_path)
    yield jobs
    jobs.close()


def begun(jobs: Jobs) -> tuple[str, list[int]]:
    """A job on all slots, and its ranks."""
    free, ranks = jobs.submit("-sz", "4", text=SCRIPT), jobs.directory / "ranks"
    wait_until(lambda: ranks.exists() and len(ranks.read_text().splitlines()) == 4)
    return free, [int(line.split()[1]) for line in ranks.read_text().splitlines()]


def stand_still(unix_pids: list[int]) -> bool:
    return all(state(each) == "T" for each in unix_pids)


def run(unix_pids: list[int]) -> bool:
    return all(state(each) in "RSD" for each in unix_pids)


def ends_well(jobs: Jobs, free: str) -> None:
    (jobs.directory / "done").touch()
    assert jobs.wait(free) == 0


def test_a_job_stands_still_for_another_under_two_bebopds_and_goes_on(lending):
    free, ranks = begun(lending)
    paid = lending.submit("-queue", "paid", "-sz", "3", "--wrap", "echo up >said; read line <go")
    lending.said.until("up")
    wait_until(lambda: stand_still(ranks))
    whom = f"job {paid} of {ME} (queue paid)"
    row = lending.row(free)
    assert (row["state"], row["reason"]) == ("SUSPENDED", f"its slots are lent to {whom}")
    assert f"its slots are lent to {whom}" in lending.yodjob("why", free).out
    assert f" {free} " in lending.yodjob("list").out
    refused = lending.yodjob("resume", free)
    assert f"is suspended for {whom}: it goes on when that has ended" in refused.err
    lending.partition.bebopd.kill()
    lending.partition.replace_bebopd()
    wait_until(lambda: (lending.state(free), lending.state(paid)) == ("SUSPENDED", "RUNNING"))
    assert stand_still(ranks)
    lending.go.say()
    assert lending.wait(paid) == 0
    wait_until(lambda: run(ranks))
    assert lending.state(free) == "RUNNING"
    ends_well(lending, free)
    events = lending.yodjob("show", "--events", free).out
    assert f"suspended for {whom}" in events and "the others have left its slots" in events
    assert f"suspends 1 job: {free}" in lending.yodjob("show", "--events", paid).out


def test_a_job_that_stands_still_is_cancelled_and_the_other_goes_on(lending):
    free, ranks = begun(lending)
    paid = lending.submit("-queue", "paid", "-sz", "2", "--wrap", "echo up >said; read line <go")
    lending.said.until("up")
    wait_until(lambda: stand_still(ranks))
    assert lending.yodjob("cancel", free).status == 0
    assert lending.wait(free) == 143
    assert lending.state(paid) == "RUNNING"
    lending.go.say()
    assert lending.wait(paid) == 0


def test_a_launch_has_a_job_stand_still(lending):
    free, ranks = begun(lending)
    launch = lending.partition.start_yod(
        "--wait",
        "-queue",
        "paid",
        "-sz",
        "1",
        "sh",
        "-c",
        "echo up >said; read line <go",
        cwd=lending.directory,
    )
    lending.said.until("up")
    wait_until(lambda: stand_still(ranks))
    assert lending.state(free) == "SUSPENDED"
    lending.go.say()
    assert finish(launch).status == 0
    wait_until(lambda: run(ranks))
    ends_well(lending, free)


def test_a_job_goes_on_when_the_node_of_the_other_is_lost(lending):
    all_up = "yod -sz 4 true"  # a node that is lost before its allocation is open ends the job
    script = f"#YOD -queue free\n{all_up}\necho $$ >rank; while [ ! -e done ]; do sleep 0.05; done"
    free, file = lending.submit("-sz", "4", text=script), lending.directory / "rank"
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    rank = [int(file.read_text())]
    root = lending.row(free)["nodes"][0]
    other = 1 - root
    launch = lending.partition.start_yod(
        "--wait",
        "-queue",
        "paid",
        "-sz",
        "2",
        f"-list={other}",
        "sleep",
        "1000",
        cwd=lending.directory,
    )
    wait_until(lambda: stand_still(rank))
    lending.partition.pcts[other].kill()
    wait_until(lambda: run(rank))
    assert lending.state(free) == "RUNNING"
    assert finish(launch).status != 0
    ends_well(lending, free)
    lending.partition.replace_pct(other)
