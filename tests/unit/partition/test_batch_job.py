"""The batch job that a process runs in, by its variables, and the step that starts PCTs there."""

from __future__ import annotations

import pytest

from partition.find import batch
from partition.find.batch import BatchJob, counts
from partition.hosts import slurm

JOB = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NUM_NODES": "3",
    "SLURM_JOB_NODELIST": "n[0-2]",
    "SLURM_TASKS_PER_NODE": "4(x3)",
    "SLURM_JOB_CPUS_PER_NODE": "8(x3)",
}


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("4", (4,)),
        ("4(x3)", (4, 4, 4)),
        ("3,1(x2)", (3, 1, 1)),
        ("", ()),
        ("0", ()),
        ("x", ()),
        ("4(x", ()),
        ("1(x999999)", ()),
        ("4(x3),", ()),
    ],
)
def test_counts_are_as_slurm_writes_them(text, slots):
    assert counts(text) == slots


def test_the_slots_of_a_job_are_its_tasks():
    assert batch.job(JOB) == BatchJob("slurm", "17", "n[0-2]", (4, 4, 4), False)


def test_the_slots_of_a_shell_in_a_step_are_the_jobs_processors():
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_TASKS_PER_NODE": "1"}
    found = batch.job({**JOB, **step, "SLURMD_NODENAME": "n0"})
    assert found == BatchJob("slurm", "17", "n[0-2]", (8, 8, 8), True)


@pytest.mark.parametrize(
    "more",
    [
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "../17"},
        {"SLURM_JOB_NUM_NODES": "2"},
        {"SLURM_TASKS_PER_NODE": "many"},
        {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3"},
        {"YOD_RANK": "0"},
    ],
)
def test_where_the_variables_do_not_fit_there_is_no_job(more):
    assert batch.job({**JOB, **more}) is None


def test_a_job_of_one_node_needs_pcts_only_elsewhere():
    one = {**JOB, "SLURM_JOB_NUM_NODES": "1", "SLURM_TASKS_PER_NODE": "4"}
    there, here = batch.job(one), batch.job({**one, "SLURMD_NODENAME": "n0"})
    assert there is not None and there.needs_pcts
    assert here is not None and not here.needs_pcts


@pytest.mark.parametrize(
    ("slots", "last"), [((4, 4), ["4"]), ((3, 1), ["3", "1"])], ids=["alike", "not alike"]
)
def test_srun_starts_one_pct_a_node_with_its_slots(slots, last):
    words = slurm.command(BatchJob("slurm", "17", "", slots, False), "/d", "10.0.0.1:7", "tag")
    assert words[words.index("-n") + 1] == words[words.index("-N") + 1] == "2"
    assert words[-len(last) - 4 :] == ["yod", "/d", "10.0.0.1:7", "tag", *last]


def test_srun_takes_no_number_of_tasks_from_the_job():
    given = {"SLURM_NTASKS": "5", "SLURM_JOB_ID": "17", "PATH": "/bin"}
    assert slurm.environment(given) == {"SLURM_JOB_ID": "17", "PATH": "/bin"}
