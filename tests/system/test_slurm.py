"""yod in a job of a real Slurm, whose nodes are a partition for the time of the job."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.support import slurm as slurms
from tests.support.leaks import marked
from tests.support.partition import BIN, Done, down_of_a_job, finish
from tests.support.place import Place
from tests.support.processes import command_line
from tests.support.wait import LIMIT_S, wait_until


@pytest.fixture(scope="module")
def three() -> Iterator[slurms.Slurm]:
    if why := slurms.missing():
        pytest.skip(why)
    with slurms.Slurm(3, cpus=4) as slurm:
        yield slurm


class Site:
    """A Slurm of three nodes with four processors each, and a user's place."""

    def __init__(self, slurm: slurms.Slurm, place: Place) -> None:
        self._slurm = slurm
        self.place = place
        path = f"{BIN}:{os.environ['PATH']}"
        self.env = {**os.environ, "SLURM_CONF": slurm.environment["SLURM_CONF"], "PATH": path}

    def salloc(self, *options: str, script: str, env: dict[str, str] | None = None) -> Done:
        """Run a shell script in a job."""
        words = ["salloc", "-Q", *options, "sh", "-c", script]
        return finish(self.start(*words, env=env))

    def start(self, *words: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def directories(self) -> list[Path]:
        return list((self.place.runtime / "yod").glob("slurm-*"))

    def settle(self) -> None:
        self._slurm.settle()


@pytest.fixture
def site(three: slurms.Slurm, place: Place) -> Iterator[Site]:
    found = Site(three, place)
    yield found
    found.settle()
    wait_until(lambda: not marked(place.mark))  # bebopd and the PCTs end with the job
    for path in found.directories():
        subprocess.run(["rm", "-r", str(path)], check=True)


def test_yod_makes_the_nodes_of_its_job_a_partition_once(site):
    script = "yod -sz 12 sh -c 'echo $YOD_NODE_NAME'; yod -sz 12 true; pingd -parse"
    done = site.salloc("-N3", "--exclusive", script=script)
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert sorted(lines[:12]) == ["n0"] * 4 + ["n1"] * 4 + ["n2"] * 4
    assert done.err.count(" are up, until it ends (") == 1
    assert done.err.startswith("yod: 3 nodes of slurm job ")


def test_a_node_has_as_many_slots_as_the_job_has_tasks_there(site):
    script = "yod -sz 5 sh -c 'echo $YOD_NODE_NAME'; yod -sz 6 true"
    done = site.salloc("-N3", "-n5", script=script)
    assert sorted(done.out.split()) == ["n0"] * 3 + ["n1", "n2"]
    assert done.status == 125
    assert "6 ranks requested" in done.err


def test_yods_that_begin_at_once_share_one_partition(site):
    script = "for i in 1 2 3; do yod -sz 2 hostname & done; wait; pgrep -c -f 'bebopd.*slurm job'"
    done = site.salloc("-N3", "--exclusive", script=script)
    assert done.err.count(" are up, until it ends (") == 1
    assert done.out.splitlines()[:-1] == [os.uname().nodename] * 6


def test_yodctl_in_a_job_is_about_its_nodes(site):
    script = "yodctl up; yodctl status; yodctl up; yodctl down; yodctl status"
    done = site.salloc("-N3", "--exclusive", script=script)
    assert " nodes of slurm job " in done.out
    assert "3 nodes: 3 free" in done.out and "12 slots: 0 in use" in done.out
    assert "are up already at unix:" in done.out
    assert down_of_a_job(done.out)
    assert done.out.endswith("no partition is up\n")
    assert site.directories() == []


def test_a_script_of_a_batch_job_has_its_partition(site, tmp_path):
    (tmp_path / "job").write_text("#!/bin/sh\nyod -sz 12 sh -c 'echo $YOD_RANK'\n")
    out = tmp_path / "out"
    words = ["sbatch", "-W", "-N3", "--exclusive", "-o", str(out), str(tmp_path / "job")]
    done = finish(site.start(*words))
    assert done.status == 0, out.read_text()
    said = [line for line in out.read_text().split("\n")[:-1] if line.isdecimal()]
    assert sorted(map(int, said)) == list(range(12))


def test_the_partition_ends_with_the_job_also_where_that_is_cancelled(site):
    script = "yod true; echo $SLURM_JOB_ID; exec sleep 600"
    job = site.start("salloc", "-QK", "-N3", "--exclusive", "sh", "-c", script)
    assert job.stdout is not None
    job_id = job.stdout.readline().decode().strip()
    assert finish(site.start("scancel", job_id)).status == 0
    job.communicate(timeout=LIMIT_S)
    wait_until(lambda: not marked(site.place.mark))


def test_a_yod_that_is_killed_while_it_brings_nodes_up_leaves_none(site):
    script = "yod true & echo $!; wait; exec sleep 600"
    job = site.start("salloc", "-QK", "-N3", "--exclusive", "sh", "-c", script)
    assert job.stdout is not None
    yod = int(job.stdout.readline())
    wait_until(lambda: any(path.joinpath("key").exists() for path in site.directories()))
    os.kill(yod, 9)
    wait_until(lambda: len(marked(site.place.mark)) <= 2)  # salloc and its command
    job.terminate()
    job.communicate(timeout=LIMIT_S)


def test_pcts_that_cannot_begin_are_an_error_with_their_words(site):
    done = site.salloc("-N3", "--exclusive", script="yod true", env={"YOD_MEMORY": "much"})
    assert done.status == 125
    assert "srun has ended" in done.err
    assert "YOD_MEMORY" in done.err or "much" in done.err


def test_a_job_that_slurm_does_not_know_is_an_error(site):
    told = {
        "SLURM_JOB_ID": "999999",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_TASKS_PER_NODE": "1(x2)",
    }
    done = finish(site.start("yod", "true", env=told))
    assert done.status == 125
    assert done.err.startswith("yod: slurm job 999999: srun has ended\n")
    assert finish(site.start("yod", "--partition", "embedded", "true", env=told)).status == 0


def test_another_partition_may_be_chosen_in_a_job(site):
    done = site.salloc("-N3", "--exclusive", script="YOD_PARTITION=embedded yod -sz 2 hostname")
    assert (done.status, done.err) == (0, "")
    done = finish(site.start("yod", "--partition", "batch", "true"))
    assert done.status == 125
    assert done.err == "yod: --partition batch: this is no batch job\n"


def test_a_warm_yod_does_the_same(site):
    env = {"YOD_LAUNCH_SERVER": ""}
    assert finish(site.start("yodctl", "up", env=env)).status == 0
    script = "yod -sz 12 hostname; yod -sz 12 true"
    done = site.salloc("-N3", "--exclusive", script=script, env={**env, "YOD_COLD": "never"})
    assert (done.status, done.out) == (0, f"{os.uname().nodename}\n" * 12)
    assert done.err.count(" are up, until it ends (") == 1
    assert finish(site.start("yodctl", "down", env=env)).status == 0


def test_a_job_of_one_node_elsewhere_has_a_pct_there(site):
    done = site.salloc("-N1", "--exclusive", script="yod -sz 4 sh -c 'echo $YOD_NODE_NAME'")
    assert done.status == 0
    assert done.out == "n0\n" * 4


def test_yodctl_up_local_in_a_job_is_a_partition_of_this_host(site):
    script = "yodctl up --local 2 && yod -sz 2 true && yodctl down"
    done = site.salloc("-N3", "--exclusive", script=script)
    assert (done.status, done.err) == (0, "")
    assert "ended 3 daemons of 3" in done.out


def test_a_script_that_pbs_commands_hand_in_has_the_nodes_of_its_slurm_job(site, tmp_path):
    if shutil.which("generate_pbs_nodefile") is None:
        pytest.skip("needs slurm-wlm-torque")
    script, out = tmp_path / "job", tmp_path / "out"
    script.write_text(
        "#!/bin/sh\n"
        "PBS_NODEFILE=$(generate_pbs_nodefile) && export PBS_NODEFILE PBS_JOBID=$SLURM_JOB_ID\n"
        "yod -sz 6 sh -c 'echo $YOD_NODE_NAME'\nrm $PBS_NODEFILE\n"
    )
    words = ["qsub", "-V", "-o", str(out), "-e", str(tmp_path / "err")]
    done = finish(site.start(*words, "-l", "nodes=3:ppn=2", str(script)))
    assert done.status == 0, done.err
    wait_until(lambda: out.exists() and len(out.read_text().split()) >= 6)
    said = out.read_text().split()
    assert (len(said), set(said)) == (6, {"n0", "n1", "n2"})


def test_processes_that_slurm_leaves_behind_are_shown_and_those_of_ranks_are_killed_with_the_job(
    site,
):
    """Slurm's own way to find a job's processes (`proctrack/linuxproc`) knows no orphans."""
    away = "</dev/null >/dev/null 2>&1 &"
    script = (
        f"(setsid sleep 621 {away}) ; (YOD_RANK=0 setsid sleep 622 {away}) ;"
        " yod -sz 12 true; until pingd | grep ' rogue '; do :; done"
    )
    done = site.salloc("-N3", "--exclusive", script=script, env={"YOD_HEALTH_S": "0.2"})
    assert done.status == 0, done.err
    lines = [line for line in done.out.splitlines() if " rogue " in line]
    whose = r"nodes? [0-9.]+ with rogue processes of slurm job \d+, which Slurm does not end"
    match = re.fullmatch(whose + r": (\d+) \(sleep\), \d+ \(sleep\)", lines[0])
    assert match, lines
    left = int(match[1])
    assert command_line(left) == "sleep 621"
    os.kill(left, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in marked(site.place.mark) if "sleep" in command_line(pid)])


@pytest.mark.parametrize("system", ["slurm", "pbs"])
def test_a_sites_bebopd_holds_a_job_to_its_nodes(site, start_local, tmp_path, system):
    """By squeue, and by the qstat of PBS's commands for Slurm."""
    if system == "pbs" and shutil.which("generate_pbs_nodefile") is None:
        pytest.skip("needs slurm-wlm-torque")
    options = ["--batch", system]
    partition = start_local(4, bebopd_options=options, env={"SLURM_CONF": site.env["SLURM_CONF"]})
    host_file = tmp_path / "cplant-host"
    host_file.write_text(f"bebopd unix:{partition.socket}\n")
    script = "yod -sz 8 sh -c 'echo $YOD_NODE' | sort -u; yod -sz 9 true; yod -list 0 true"
    env = {"CPLANT_HOST_FILE": str(host_file)}
    done = site.salloc("-N2", script=script, env=env)
    assert done.out == "0\n1\n", done.err
    assert " has 2 nodes, 0 of them in use: 3 more requested" in done.err
    assert "chooses none: no -list" in done.err
    done = finish(site.start("yod", "true", env=env))
    assert "0 nodes are for jobs outside of batch jobs" in done.err
    told = {**env, "SLURM_JOB_ID": "999999"}
    assert (
        f"{system} has no job 999999 that runs" in finish(site.start("yod", "true", env=told)).err
    )


@pytest.mark.parametrize("system", ["slurm", "pbs"])
def test_what_runs_of_a_slurm_job_that_has_ended_is_a_rogue_session(
    site, start_local, tmp_path, system
):
    if system == "pbs" and shutil.which("generate_pbs_nodefile") is None:
        pytest.skip("needs slurm-wlm-torque")
    options = ["--batch", system, "--interactive", "1"]
    env = {"SLURM_CONF": site.env["SLURM_CONF"], "YOD_BATCH_WORD_S": "0.2"}
    partition = start_local(3, bebopd_options=options, env=env)
    host_file, out = tmp_path / "cplant-host", tmp_path / "out"
    host_file.write_text(f"bebopd unix:{partition.socket}\n")
    # Nothing of Slurm's ends this yod.
    script = (
        f"setsid yod -sz 2 sh -c 'echo go; exec sleep 600' >{out} 2>&1 </dev/null &"
        f" until [ $(grep -c go {out}) = 2 ]; do :; done; echo $SLURM_JOB_ID"
    )
    there = {"CPLANT_HOST_FILE": str(host_file)}
    job_id = site.salloc("-N2", script=script, env=there).out.strip()
    wait_until(lambda: f"{system} job {job_id} has ended" in partition.bebopd.text())
    mark = site.place.mark
    wait_until(lambda: not any("sleep 600" in command_line(pid) for pid in marked(mark)))
    # A node is for those who have no job.
    assert finish(site.start("yod", "true", env=there)).status == 0
    done = finish(site.start("yod", "-N", "2", "true", env=there))
    assert "1 nodes are for jobs outside of batch jobs" in done.err
