"""Submit hooks with real processes: whose they are, what they change, and how they fail."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from native.host import userdirs
from tests.support.batch import Jobs
from tests.support.partition import BIN, finish
from tests.support.processes import command_line, descendants
from tests.support.wait import wait_until

MODULE = """
def fill(request):
    if request["name"] == "unlucky":
        raise RuntimeError("no luck")
    if not request["time_s"]:
        return {"change": {"time_s": 7200, "name": "by-" + request["user"]}}
"""


@pytest.fixture
def site():
    """A directory that all users can read."""
    directory = Path(tempfile.mkdtemp(prefix="yod-site"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def start(start_local, tmp_path, site):
    """Gives the jobs of a partition whose bebopd has these hooks, and programs of a directory.

    An entry point runs as the user of the tests: another one may not read their Python.
    """
    (site / "hooks").mkdir()
    pipes: list[Jobs] = []

    def begin(*names, env=None):
        words = ["--submit-hooks", ",".join([*names, str(site / "hooks")])]
        if names and os.geteuid() == 0:
            words += ["--submit-user", "root"]
        env = {"YOD_SUBMIT_HOOK_S": "60", **(env or {})}
        directory = tmp_path / str(len(pipes))
        directory.mkdir()
        pipes.append(Jobs(start_local(1, bebopd_options=words, env=env), directory))
        return pipes[-1]

    yield begin
    for jobs in pipes:
        jobs.close()


def hook(site, name, text):
    """A program in the directory of hooks."""
    path = site / "hooks" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def entry_point(site):
    """An environment in which Python finds an entry point of the site's."""
    (site / "yod_site.py").write_text(MODULE)
    info = site / "yod_site-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: yod-site\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[yod.submit]\nfill = yod_site:fill\n")
    return {"PYTHONPATH": str(site)}


def refused(jobs, *words):
    """Why a job is not taken."""
    done = jobs.yodjob("submit", *words, "--wrap", "true")
    assert (done.status, done.out) == (1, ""), done
    return done.err


def test_hooks_change_and_refuse_and_those_that_fail_refuse_with_their_names(start, site):
    hook(
        site, "10-long", """grep -q '"time_s":7200' || echo '{"refuse": "2 hours are the rule"}'"""
    )
    hook(
        site,
        "20-whims",
        """case $(cat) in
        *'"name":"fails"'*) echo before >&2; echo "no disk" >&2; exit 3;;
        *'"name":"nonsense"'*) echo hello;;
        *'"name":"much"'*) head -c 10000000 /dev/zero;;
        *'"name":"dies"'*) kill -9 $$;;
        esac""",
    )
    jobs = start("fill", env=entry_point(site))
    job_id = jobs.submit("--wrap", "true")
    assert jobs.wait(job_id) == 0
    row = jobs.row(job_id)
    assert (row["time_s"], row["name"]) == (7200.0, f"by-{userdirs.user_name(os.getuid())}")
    assert refused(jobs, "-time", "5") == "yodjob: 10-long: 2 hours are the rule\n"
    long = ("-time", "2:00:00", "-name")
    failed = "yodjob: submit hook 20-whims failed: "
    assert refused(jobs, *long, "fails") == f"{failed}ended with exit code 3: no disk\n"
    assert refused(jobs, *long, "nonsense").startswith(f"{failed}its answer is none: ")
    assert refused(jobs, *long, "much") == f"{failed}it has said more than 65536 bytes\n"
    assert refused(jobs, *long, "dies").startswith(f"{failed}")
    text = refused(jobs, *long, "unlucky")
    assert (
        text == "yodjob: submit hook fill failed: ended with exit code 1: RuntimeError: no luck\n"
    )
    assert jobs.wait(jobs.submit(*long, "lucky", "--wrap", "true")) == 0


def test_one_that_hangs_is_killed_with_all_that_it_has_started_and_others_go_on(start, site):
    begun = site / "begun"
    begun.touch(0o666)
    begun.chmod(0o666)
    hook(site, "hangs", f"grep -q slow || exit 0; sleep 1234 & echo up > {begun}; wait")
    words = (BIN / "yodjob", "submit", "-name", "slow", "-time", "1", "--wrap", "true")
    for limit_s in (3, 12, 48):  # the others' hooks end within it, but on a slow machine
        begun.write_text("")
        jobs = start(env={"YOD_SUBMIT_HOOK_S": str(limit_s)})
        slow = jobs.partition.start_command(*words, cwd=jobs.directory)
        wait_until(lambda slow=slow: begun.read_text() or slow.poll() is not None)
        other = jobs.yodjob("submit", "-quiet", "--wrap", "true")
        goes_on = slow.poll() is None
        done = finish(slow)
        says = f"not over after {limit_s} s (YOD_SUBMIT_HOOK_S of bebopd)"
        assert done == (1, "", f"yodjob: submit hook hangs failed: {says}\n")
        if goes_on and says not in other.err:
            break
    assert goes_on and other.status == 0, other
    assert jobs.wait(other.out.strip()) == 0
    ours = descendants(os.getpid())
    wait_until(lambda: not any("sleep 1234" in command_line(pid) for pid in ours))


@pytest.mark.usefixtures("needs_root")
def test_they_run_as_nobody_with_nothing_of_bebopds_and_a_hook_that_is_new_at_sighup(start, site):
    jobs = start(env={"SECRET": "1"})
    hook(
        site,
        "who",
        """echo "{\\"refuse\\": \\"$(id -un) $YOD_HOOK $SECRET $(ls /proc/self/fd | wc -l)\\"}\"""",
    )
    os.kill(jobs.partition.bebopd.unix_pid, signal.SIGHUP)
    wait_until(lambda: jobs.yodjob("submit", "--wrap", "true").status == 1)
    name, point, count = refused(jobs).removeprefix("yodjob: who: ").split()
    assert (name, point, count) == ("nobody", "submit", "4")


def test_a_job_whose_entry_point_is_not_there_is_refused(start):
    jobs = start("fill")
    text = "there is no entry point fill of the group yod.submit"
    assert refused(jobs) == f"yodjob: submit hook fill failed: ended with exit code 1: {text}\n"
