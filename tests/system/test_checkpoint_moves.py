"""Jobs that make room, or leave a node that is drained, go on from their checkpoints."""

from __future__ import annotations

import shlex
from functools import partial

from tests.support.batch import Jobs
from tests.support.partition import drained, finish
from tests.support.wait import wait_until
from tests.system.test_checkpoint import Study

QUEUES = """
[[queue]]
name = "free"
preempt_mode = "requeue"
preempt_grace = "10:00"

[[queue]]
name = "paid"
priority = 1
preempts = ["free"]

[priority]
queue = 1000
"""


def test_a_job_that_is_preempted_is_written_down_first_and_goes_on_when_it_has_room(
    start_local, tmp_path
):
    (tmp_path / "queues.toml").write_text(QUEUES)
    options = ("--queues", tmp_path / "queues.toml")
    jobs = Jobs(start_local(1, slots=1, bebopd_options=options), tmp_path)
    try:
        study = Study(jobs.partition, tmp_path)
        words = shlex.join(study.words(4))
        step = f"exec yod --restart {study.kept} --checkpoint-on preempt -sz 1 {words}"
        free = jobs.submit(text=f"#YOD -queue free\n{step}")
        says = partial(jobs.says, free)
        wait_until(lambda: says("rank 0 at 2\n"), what="two steps")
        assert jobs.wait(jobs.submit("-queue", "paid", "--wrap", "true")) == 0
        wait_until(lambda: says("rank 0 begins at 2\n"), what="the second time")
        assert study.names() == ["checkpoint.1"]
        study.let(9)
        assert jobs.wait(free) == 0
    finally:
        jobs.close()


def test_a_job_leaves_a_node_that_is_drained_behind_its_checkpoint(start_local, tmp_path):
    jobs = Jobs(start_local(2), tmp_path)
    try:
        study = Study(jobs.partition, tmp_path)
        words = shlex.join(study.words(4))
        text = f"exec yod --restart {study.kept} -sz 1 {words}"
        job_id = jobs.submit("--requeue-on", "75", text=text)
        says = partial(jobs.says, job_id)
        wait_until(lambda: says("rank 0 at 2\n"), what="two steps")
        (node,) = jobs.row(job_id)["nodes"]
        with drained(jobs.partition, node):
            assert jobs.yodjob("checkpoint", "--kill", job_id).status == 0
            wait_until(lambda: says("rank 0 begins at 2\n"), what="the second time")
            assert jobs.row(job_id)["nodes"] == [1 - node]
            study.let(9)
            assert jobs.wait(job_id) == 0
    finally:
        jobs.close()


def test_yodjob_goes_on_from_a_checkpoint_as_yod_does(embedded, tmp_path):
    study = Study(embedded, tmp_path)
    yod = study.start()
    assert study.ask("--kill").status == 0
    assert finish(yod).status == 75
    study.let(9)
    done = finish(study.command("restart", study.kept))
    assert (done.status, done.out.count(" begins at 2\n"), done.out.count(" at 4\n")) == (0, 2, 2)
    none = finish(study.command("restart", tmp_path))
    assert (none.status, none.out) == (125, "")
    assert none.err == f"yod: {tmp_path}: no checkpoint is there\n"
