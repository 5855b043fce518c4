"""A site's bebopd holds batch jobs to what their batch system has given them.

PBS is a stand-in of its `qstat`; Slurm is a real one, with and without PBS's commands.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemons import Daemons
from tests.support.partition import BIN, Done, finish
from tests.support.wait import LIMIT_S, read_until

_QSTAT = """\
#!/bin/sh
[ -e "{jobs}/$2" ] || {{ echo "qstat: Unknown Job Id $2" >&2; exit 153; }}
exec cat "{jobs}/$2"
"""


class Site:
    """A partition of four nodes whose bebopd asks `qstat`, and what that knows."""

    def __init__(self, directory: Path, start) -> None:
        self.jobs = directory / "jobs"
        self.jobs.mkdir(parents=True)
        (directory / "bin").mkdir()
        program = directory / "bin" / "qstat"
        program.write_text(_QSTAT.format(jobs=self.jobs))
        program.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        self.partition: Daemons = start(
            4,
            slots=2,
            bebopd_options=["--batch", "pbs", "--interactive", "1"],
            env={"PATH": path, "YOD_BATCH_WORD_S": "0.2"},
        )
        self.host_file = directory / "cplant-host"
        self.host_file.write_text(f"bebopd unix:{self.partition.socket}\n")

    def begin(self, job_id: str, hosts: int, owner: str = "root", state: str = "R") -> None:
        """A job runs, of this owner, with so many hosts."""
        names = "+".join(f"n{number}/0*2" for number in range(hosts))
        (self.jobs / job_id).write_text(
            f"Job Id: {job_id}\n    Job_Name = a\n    Job_Owner = {owner}@n0\n"
            f"    job_state = {state}\n    exec_host = {names}\n"
        )

    def yod(self, *words: str, job_id: str = "17.pbs", start: bool = False):
        env = {
            "YOD_PARTITION": None,
            "CPLANT_HOST_FILE": str(self.host_file),
            "PBS_ENVIRONMENT": "PBS_BATCH",
            "PBS_JOBID": job_id or None,
        }
        run = self.partition.start_yod if start else self.partition.yod
        return run(*words, env=env)


@pytest.fixture
def site(tmp_path: Path, start_local) -> Iterator[Site]:
    yield Site(tmp_path / "site", start_local)


def test_pingd_shows_and_ends_the_jobs_of_a_batch_job_by_its_id(site: Site) -> None:
    def pingd(*words: str) -> Done:
        return finish(
            subprocess.Popen(
                [BIN / "pingd", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=site.partition.environment(),
            )
        )

    def start(job_id: str) -> subprocess.Popen[bytes]:
        yod = site.yod("sh", "-c", "echo go; exec sleep 600", job_id=job_id, start=True)
        read_until(yod.stdout.fileno(), b"go\n")
        return yod

    for job_id in ("17.pbs", "18.pbs"):
        site.begin(job_id, 1)
    first, second = start("17.pbs"), start("18.pbs")
    (line,) = pingd("-parse", "-pbsjob", "17").out.splitlines()[1:]
    assert line.split(":")[4] == "17.pbs"
    assert pingd("-interrupt", "-pbsjob", "17").status == 0
    assert finish(first).status == 128 + signal.SIGTERM
    assert pingd("-reset", "-pbsjob", "17.pbs").err == "pingd: no job there that you may end\n"
    assert second.poll() is None
    assert pingd("-reset", "-pbsjob", "18.pbs").status == 0
    assert finish(second).status == 128 + signal.SIGKILL


def test_the_yods_of_a_batch_job_have_its_nodes_and_no_more(site):
    site.begin("17.pbs", 2)
    for _ in range(2):  # one after another
        done = site.yod("-sz", "4", "sh", "-c", "echo $YOD_NODE")
        assert sorted(done.out.split()) == ["0", "0", "1", "1"], done.err
    running = site.yod("-sz", "3", "sh", "-c", "echo go; exec sleep 600", start=True)
    read_until(running.stdout.fileno(), b"go\n")
    done = site.yod("-sz", "2", "true")  # at once
    assert done.status != 0
    assert "batch job 17.pbs has 2 nodes, 2 of them in use: 1 more requested" in done.err
    running.terminate()
    running.communicate()
    done = site.yod("-list", "0..1", "true")
    assert "a pbs job has a number of nodes, and chooses none: no -list" in done.err


def test_the_word_of_the_batch_system_counts_and_not_that_of_the_user(site):
    site.begin("17.pbs", 1)
    site.begin("18.pbs", 4, owner="somebody")
    site.begin("19.pbs", 4, state="Q")
    assert "has 1 nodes" in site.yod("-sz", "3", "true").err
    assert "pbs job 18.pbs belongs to somebody" in site.yod("true", job_id="18.pbs").err
    for unknown in ("19.pbs", "20.pbs", "20-x"):
        done = site.yod("true", job_id=unknown)
        assert f"pbs has no job {unknown} that runs" in done.err
    assert site.yod("-sz", "2", "true", job_id="").status == 0  # the interactive node
    done = site.yod("-sz", "3", "true", job_id="")
    assert "1 nodes are for jobs outside of batch jobs" in done.err


def test_jobs_end_with_the_batch_job_that_they_are_of(site):
    site.begin("17.pbs", 2)
    running = site.yod("-sz", "3", "setsid", "-w", "sh", "-c", "echo go; sleep 600", start=True)
    read_until(running.stdout.fileno(), b"go\n")
    (site.jobs / "17.pbs").unlink()
    _, errors = running.communicate(timeout=LIMIT_S)
    assert running.returncode != 0
    assert "pbs job 17.pbs has ended" in site.partition.bebopd.text(), errors


def test_a_bebopd_whose_batch_system_is_not_here_says_so():
    done = subprocess.run(
        ["bebopd", "--batch", "pbs", "--state-dir", "/none"],
        env={**os.environ, "PATH": str(Path(os.sys.executable).parent)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stderr) == (2, "bebopd: --batch pbs: no qstat in PATH\n")
