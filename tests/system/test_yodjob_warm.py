"""`yodjob submit` by a launch server: as from a process of its own, but for the time it takes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.batch import Jobs, jobs
from tests.support.own_server import OwnServer, own_server
from tests.support.partition import BIN, Done, finish
from tests.support.processes import stopped
from tests.support.wait import wait_for_exit, wait_until

__all__ = ["jobs", "own_server"]

SUBMIT = ("submit", "-quiet", "-o", "/dev/null")
UNKNOWN = "yodjob list tells whether the command was carried out"


class Warm:
    """A `yodjob` with nothing beside it that could run cold."""

    def __init__(self, jobs: Jobs, server: OwnServer, directory: Path) -> None:
        directory.mkdir()
        self.command = directory / "yodjob"
        shutil.copy(BIN / "yodjob", self.command)
        self.server = server
        self.env = {"YOD_LAUNCH_SERVER": str(server.directory), "YOD_COLD": None}
        self._jobs = jobs

    def start(self, *words: Any, **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("cwd", self._jobs.directory)
        env = self.env | options.pop("env", {})
        return self._jobs.partition.start_command(self.command, *words, env=env, **options)

    def run(self, *words: Any, **options: Any) -> Done:
        return finish(self.start(*words, **options))


@pytest.fixture
def warm(jobs: Jobs, own_server: OwnServer, tmp_path: Path) -> Warm:
    return Warm(jobs, own_server, tmp_path / "alone")


@pytest.fixture(autouse=True)
def all_jobs_end(jobs: Jobs) -> Iterator[None]:
    """Before the partition is looked at."""
    yield
    wait_until(lambda: not json.loads(jobs.yodjob("list", "--json").out)["jobs"], what="the end")


def both(jobs: Jobs, server: OwnServer, *words: Any, **options: Any) -> list[Done]:
    """What a line says, warm and cold, with ids left out."""
    found = []
    for chosen in (str(server.directory), "cold"):
        env = {"YOD_LAUNCH_SERVER": chosen, "YOD_COLD": None}
        done = jobs.yodjob(*words, env=env, **options)
        found.append(Done(done.status, re.sub(r"\d+", "N", done.out), done.err))
    return found


def test_the_job_has_the_users_environment_directory_and_umask(warm: Warm, jobs: Jobs):
    script = jobs.script('echo "$MARK $PWD $(umask)" > said.txt; echo told > said')
    words = ("sh", "-c", 'umask 027; exec "$0" "$@"', warm.command, "submit", "-quiet", script)
    env = warm.env | {"MARK": "caf\udce9"}
    start = jobs.partition.start_command
    done = finish(start(*words, env=env, cwd=jobs.directory))
    assert (done.status, done.err) == (0, "") and done.out.strip().isdecimal()
    jobs.said.until("told")
    said = os.fsdecode((jobs.directory / "said.txt").read_bytes())
    assert said == f"caf\udce9 {jobs.directory} 0027\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("submit", "job.sh"), 0),
        (("submit", "-sz", "2", "-name", "x", "--wrap", "true"), 0),
        (("submit", "--test-only", "job.sh"), 0),
        (("submit", "habits.sh"), 0),
        (("submit",), 2),
        (("submit", "none.sh"), 2),
        (("submit", "/bin/true"), 2),
        (("submit", "--nonsense", "job.sh"), 2),
        (("submit", "-sz", "many", "job.sh"), 2),
        (("submit", "-sz", "99", "job.sh"), 1),
        (("submit", "-begin", "yesterday", "job.sh"), 2),
        (("submit", "--partition", "unix:/none/at/all", "job.sh"), 1),
        (("submit", "--wait", "--wrap", "exit 3"), 3),
        (("submit", "--help"), 0),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, tuple) else str(value),
)
def test_a_line_says_what_it_says_cold(own_server: OwnServer, jobs: Jobs, words, status: int):
    jobs.script("true")
    jobs.script("#SBATCH --mail-type=END\ntrue", name="habits.sh")
    first, second = both(jobs, own_server, *words)
    assert first == second and first.status == status


@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_a_script_on_standard_input_is_read(own_server: OwnServer, jobs: Jobs, path: str):
    first, second = both(jobs, own_server, *SUBMIT, path, input=b"#!/bin/sh\ntrue\n")
    assert first == second == Done(0, "N\n", "")


def test_a_script_that_the_shell_makes_is_read(own_server: OwnServer, jobs: Jobs):
    line = f"{BIN}/yodjob submit -quiet -o /dev/null <(printf '#!/bin/sh\ntrue\n')"
    env = {"YOD_LAUNCH_SERVER": str(own_server.directory), "YOD_COLD": None}
    done = finish(jobs.partition.start_command("bash", "-c", line, env=env))
    assert (done.status, done.err) == (0, "")


def test_times_of_day_are_those_of_the_users_zone(warm: Warm, jobs: Jobs):
    jobs.script("true")
    begins = []
    for zone in ("UTC", "UTC+5"):
        env = {"TZ": zone}
        done = warm.run(*SUBMIT, "-begin", "2040-01-01T00:00", "job.sh", env=env)
        begins.append(jobs.row(done.out.strip())["begins"])
        assert jobs.yodjob("cancel", done.out.strip()).status == 0
    assert begins[1] - begins[0] == 5 * 3600


def test_an_id_that_cannot_be_written_is_no_success(own_server: OwnServer, jobs: Jobs):
    jobs.script("true")
    with open("/dev/full", "wb") as full:
        first, second = both(jobs, own_server, *SUBMIT, "job.sh", stdout=full)
    assert first == second
    assert (first.status, first.err) == (
        1,
        "yodjob: standard output: no space left on device\n",
    )


def test_an_interrupt_ends_a_submission_that_waits(warm: Warm, jobs: Jobs):
    jobs.script("true")
    with stopped(jobs.partition.bebopd.unix_pid):
        yodjob = warm.start(*SUBMIT, "job.sh")
        wait_until(lambda: warm.server.states() == ["submitting"], what="a submission")
        yodjob.send_signal(signal.SIGINT)
        done = finish(yodjob)
    assert (done.status, done.out, done.err) == (-signal.SIGINT, "", "")
    warm.server.wait_idle()


def test_a_helper_that_dies_leaves_it_open_whether_the_job_was_taken(warm: Warm, jobs: Jobs):
    jobs.script("true")
    with stopped(jobs.partition.bebopd.unix_pid):
        yodjob = warm.start(*SUBMIT, "job.sh")
        wait_until(lambda: warm.server.states() == ["submitting"], what="a submission")
        for helper in warm.server.helpers:
            os.kill(helper, signal.SIGKILL)
        done = finish(yodjob)
    said = f"yodjob: a helper of the launch server has ended; {UNKNOWN}\n"
    assert (done.status, done.out, done.err) == (1, "", said)
    warm.server.wait_idle()  # it has seen the end of the others, too
    assert warm.run(*SUBMIT, "job.sh").status == 0


def test_a_server_that_dies_leaves_it_open_too(warm: Warm, jobs: Jobs):
    jobs.script("true")
    with stopped(jobs.partition.bebopd.unix_pid):
        yodjob = warm.start(*SUBMIT, "job.sh")
        wait_until(lambda: warm.server.states() == ["submitting"], what="a submission")
        server = warm.server.unix_pid
        warm.server.signal(signal.SIGKILL)
        wait_for_exit(server)
        done = finish(yodjob)
    said = f"yodjob: the launch server (process {server}) has ended; {UNKNOWN}\n"
    assert (done.status, done.out, done.err) == (1, "", said)


def test_what_no_server_does_is_done_without_asking_one(own_server: OwnServer, jobs: Jobs):
    with stopped(own_server.unix_pid):
        env = {"YOD_LAUNCH_SERVER": str(own_server.directory), "YOD_COLD": "never"}
        assert jobs.yodjob("history", env=env).status == 0
        done = jobs.yodjob(*SUBMIT, "--wrap", "true", env=env)  # cold, behind a moment
    assert (done.status, done.err) == (0, "")
