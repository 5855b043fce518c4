"""PSI/J's jobs as tasks of a pilot, with PSI/J itself."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.extras import PYTHON
from tests.support.wait import LIMIT_S

HEAD = """
import datetime, os, pathlib, threading
import psij
from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
import yod.pilot.psij
from yod.pilot.psij import YodConfig, YodJobExecutor

executor = JobExecutor.get_instance("yod", config=YodConfig(cores=2, runtime=5))
assert type(executor) is YodJobExecutor
LONG = datetime.timedelta(seconds=60)
here = pathlib.Path.cwd()
"""
JOBS = """
heard = []
executor.set_job_status_callback(lambda job, status: heard.append((job, status.state)))

def spec(words, **more):
    return JobSpec(executable=words[0], arguments=words[1:], stdout_path=here / "out", **more)

pathlib.Path("in").write_text("read\\n")
pathlib.Path("before").write_text("export BEFORE=before\\n")
one = Job(spec(["sh", "-c", 'echo "$1 $MINE $BEFORE"; cat; exit 3', "sh", "$HOME"],
               environment={"MINE": 1}, stdin_path="in", pre_launch=here / "before"))
executor.submit(one)
status = one.wait(LONG)
print(status.state, status.exit_code, pathlib.Path("out").read_text().split())
print([state.name for job, state in heard if job is one])

four = Job(spec(["sh", "-c", "echo $RP_RANK"], launcher="multiple",
                resources=ResourceSpecV1(process_count=2)))
executor.submit(four)
print(four.wait(LONG).state, sorted(pathlib.Path("out").read_text().split()))

bare = Job(spec(["/usr/bin/env"], inherit_environment=False, environment={"A": "b"}))
executor.submit(bare)
print(bare.wait(LONG).state, pathlib.Path("out").read_text().split())

long = Job(spec(["sleep", "600"]))
executor.submit(long)
long.wait(LONG, [JobState.ACTIVE])
other = Job()
executor.attach(other, long.native_id)
print(executor.list() == [long.native_id], other.status.state)
long.cancel()
print(long.wait(LONG).state, other.wait(LONG).state, executor.list())

soon = JobAttributes(duration=datetime.timedelta(seconds=0.2))
late = Job(spec(["sleep", "600"], attributes=soon))
executor.submit(late)
print(late.wait(LONG).state, late.status.message)
large = Job(spec(["true"], resources=ResourceSpecV1(process_count=9)))
executor.submit(large)
print(large.wait(LONG).state, large.status.message)
executor.close()
"""


def run(script: str, cwd) -> list[str]:
    done = subprocess.run(
        [PYTHON, "-c", HEAD + script],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(autouse=True)
def home(place, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # where PSI/J has its files


def test_jobs_run_in_a_pilot_and_their_states_are_told(tmp_path):
    *found, told = run(JOBS, tmp_path)
    assert told.startswith("FAILED a rank needs 9 cores; the largest node has 2 cores")
    assert found == [
        "FAILED 3 ['$HOME', '1', 'before', 'read']",
        "['QUEUED', 'ACTIVE', 'FAILED']",
        "COMPLETED ['0', '1']",
        "COMPLETED ['A=b']",
        "True ACTIVE",
        "CANCELED CANCELED []",
        "CANCELED its time of 0.2 s is over",
    ]


REFUSED = """
for wrong, key in (
    ({"launcher": "jsrun"}, "launcher"),
    ({"resources": ResourceSpecV1(node_count=2)}, "launcher"),
    ({"resources": ResourceSpecV1(exclusive_node_use=True)}, "exclusive_node_use"),
    ({"attributes": JobAttributes(queue_name="q")}, "queue_name"),
    ({"attributes": JobAttributes(custom_attributes={"yod.priorty": 1, "slurm.x": 1})}, "priorty"),
):
    job = Job(JobSpec(executable="true", **wrong))
    try:
        executor.submit(job)
    except psij.InvalidJobException as error:
        assert key in str(error), error
        print(job.status.state, error)
try:
    executor.attach(Job(), "nobody")
except psij.SubmitException as error:
    print(error)
try:
    YodJobExecutor(url="here.there")
except Exception as error:
    print(type(error).__name__, error)
executor.close()
try:
    executor.submit(Job(JobSpec(executable="true")))
except psij.SubmitException as error:
    print(error)
"""


def test_what_cannot_be_is_refused_with_what_to_write_instead(tmp_path):
    found = run(REFUSED, tmp_path)
    assert len(found) == 8
    assert found[0] == "NEW there is no launcher 'jsrun'; known are single, multiple, mpirun, yod"
    assert "did you mean 'priority'?" in found[4]
    assert found[5] == "there is no task 'nobody'"
    assert found[6].startswith("UsageError ")
    assert "is closed" in found[7]
