"""Pilots as jobs of a real Slurm whose nodes do not see the session's directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.support.slurm import Slurm, missing
from tests.support.hosts import Hosts
from tests.support.leaks import marked
from tests.support.partition import BIN, Done, finish
from tests.support.pilot_calls import CALLS, EXPECTED, TASKS
from tests.support.pilots import check_profiles
from tests.support.place import Place
from tests.support.wait import wait_until

pytestmark = pytest.mark.hosts

NODES = 2


class Site:
    """Two nodes with a Slurm, and the host of the application, each with files of its own."""

    def __init__(self, hosts: Hosts, slurm: Slurm, data: Path) -> None:
        self.hosts = hosts
        self.slurm = slurm
        self.data = data  # the application's; on the nodes there is another one of this name
        self.home = hosts[NODES]
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, *words: str, stdin: int = subprocess.DEVNULL, **env: str
    ) -> subprocess.Popen[bytes]:
        """Start a command on the application's host."""
        own = {"SLURM_CONF": self.slurm.environment["SLURM_CONF"]}
        path = {"PATH": f"{BIN}:{os.environ['PATH']}"}
        process = self.home.popen(
            words,
            cwd=self.data,
            env={**self.home.environment(), **path, **own, **env},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def run(self, script: str, *words: str, **env: str) -> Done:
        """Run a program of the application's."""
        return finish(self.start(sys.executable, "-c", script, *words, **env))

    def ask(self, *words: str) -> str:
        """What a command of Slurm says."""
        done = finish(self.start(*words))
        assert done.status == 0, done.err
        return done.out

    def on_nodes(self, *words: str | Path) -> list[str]:
        return [self.hosts[n].run(words, check=True).stdout for n in range(NODES)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if why := missing():
        pytest.skip(why)
    data = tmp_path_factory.mktemp("data")
    with Hosts(NODES + 1) as hosts, Slurm(NODES, cpus=2, hosts=list(hosts)) as slurm:
        site = Site(hosts, slurm, data)
        site.on_nodes("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", data)
        yield site


@pytest.fixture
def site(nodes: Site, place: Place) -> Iterator[Site]:
    yield nodes
    for process in nodes.started:
        with process:
            if process.poll() is None:
                process.kill()
    nodes.started.clear()
    nodes.slurm.settle()
    wait_until(lambda: not marked(place.mark))  # bebopd and the PCTs end with the job
    check_profiles(nodes.data)
    nodes.on_nodes("sh", "-c", f"rm -rf {nodes.data}/* /run/yod-ram/yod")
    for path in nodes.data.iterdir():
        subprocess.run(["rm", "-r", path], check=True)


def test_a_job_on_nodes_with_files_of_their_own_runs_tasks_and_all_comes_home(site):
    running = site.start(sys.executable, "-c", TASKS, "slurm.here", stdin=subprocess.PIPE)
    assert running.stdout is not None
    lines = [running.stdout.readline().decode() for _ in range(4)]
    assert lines[:3] == [
        "['DONE', 'DONE', 'DONE'] ['', '', '']\n",
        "'from the application\\n' True\n",
        "['node0', 'node1'] 49\n",
    ]
    key, job = lines[3].split()
    # The script has the key, and is the user's and the batch system's alone.
    script = site.data / "s/pilot.0000/pilot.sh"
    assert key in script.read_text() and script.stat().st_mode & 0o777 == 0o700
    told = site.ask("scontrol", "show", "job", "-dd", job) + site.ask("squeue", "-o", "%all")
    words = [line for host in site.hosts for line in host.processes().values()]
    assert len(words) > 10 and key not in told and not any(key in each for each in words)
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"]
    read = finish(site.start(*nobody, "scontrol", "write", "batch_script", job, "-"))
    assert "Invalid user id" in read.err and key not in read.out
    done = finish(running)
    assert (done.out, done.err) == ("CANCELED \n", "")
    here = os.listdir(site.data / "s/pilot.0000")
    assert {"agent_0.prof", "task.000000", "agent.log"} <= set(here)
    assert "job.log" not in here  # the agent has run here, and not on the node
    assert site.on_nodes("find", site.data, "-type", "f", "-name", "*.dat") == ["", ""]


@pytest.mark.long
def test_functions_raptors_and_executors_run_in_such_jobs(site):
    done = site.run(CALLS, "slurm.here")
    assert done.err == "", done.out
    assert done.out.splitlines() == EXPECTED.splitlines()


BEGIN = """
import yod.pilot as rp
with rp.Session("s") as session:
    pilot = rp.PilotManager(session).submit_pilots(
        {"resource": "slurm.here", "cores": 4, "runtime": 5})
    pilot.wait(timeout=110)
print(pilot.state, pilot.reason)
"""
WITH_BACKUP = """
import yod.pilot as rp
with rp.Session("backup") as session:
    tmgr = rp.TaskManager(session)
    pilot = rp.PilotManager(session).submit_pilots(
        {"resource": "slurm.here", "nodes": 1, "backup_nodes": 1, "runtime": 5})
    tmgr.add_pilots(pilot)
    task = tmgr.submit_tasks(rp.TaskDescription({"executable": "hostname"}))
    task.wait(timeout=110)
    print(pilot.state, task.state, task.slots[0]["node"])
"""
OTHER_KEY = """\
#!/bin/sh
sed 's/^[0-9a-f]\\{64\\}$/'$(printf %064d 1)/ "$2" | exec /usr/bin/sbatch --parsable
"""


def test_a_job_that_does_not_reach_its_application_says_so_in_one_line(site):
    done = site.run(BEGIN, YOD_PILOT_HOST="10.77.0.99")
    assert done.err == ""
    (line,) = done.out.splitlines()
    assert line.startswith("FAILED slurm job ")
    assert f"does not see {site.data}/s/pilot.0000, and does not reach the application at" in line
    assert "10.77.0.99:" in line and "YOD_PILOT_HOST" in line


@pytest.mark.long
def test_a_job_with_another_key_is_not_let_in_and_says_so(site, tmp_path):
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(OTHER_KEY)
    sbatch.chmod(0o755)
    done = site.run(BEGIN, PATH=f"{tmp_path}:{BIN}:{os.environ['PATH']}")
    assert done.err == ""
    (line,) = done.out.splitlines()
    assert line.startswith("FAILED slurm job ")
    assert line.endswith("is nobody who has this pilot's key")


@pytest.mark.long
def test_a_node_that_cannot_have_the_sandbox_fails_the_pilot_by_its_name(site):
    site.hosts[1].run(["mount", "-o", "remount,ro", site.data], check=True)
    try:
        done = site.run(BEGIN)
        spare = site.run(WITH_BACKUP)
    finally:
        site.hosts[1].run(["mount", "-o", "remount,rw", site.data], check=True)
    assert done.err == ""
    (line,) = done.out.splitlines()
    assert line.startswith("FAILED the starters have ended on node1: mkdir: cannot create")
    assert line.endswith("Read-only file system")
    assert (spare.err, spare.out) == ("", "PMGR_ACTIVE DONE node0\n")


LOST = """
import subprocess
import yod.pilot as rp
with rp.Session("s") as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    asked = {"resource": "slurm.here", "cores": 2, "runtime": 5}
    lost = pmgr.submit_pilots(asked)
    tmgr.add_pilots(lost)
    sleep = {"executable": "sh", "arguments": ["-c", "echo $RP_PILOT_ID; test $RP_PILOT_ID ="
             " pilot.0001 || sleep 600"]}
    fixed, free = tmgr.submit_tasks([sleep, {**sleep, "restartable": True}])
    tmgr.wait_tasks(state=rp.AGENT_EXECUTING, timeout=110)
    tmgr.add_pilots(pmgr.submit_pilots(asked))
    subprocess.run(["scancel", lost.job.job_id], check=True)
    print(fixed.wait(timeout=110), fixed.reason)
    print(free.wait(timeout=110), free.stdout)
    print(lost.state, lost.reason)
"""


@pytest.mark.long
def test_tasks_of_a_job_that_is_cancelled_fail_by_its_name_or_run_elsewhere(site):
    done = site.run(LOST)
    assert done.err == ""
    fixed, free, _, lost = done.out.splitlines()
    assert fixed.startswith("FAILED its pilot pilot.0000 is FAILED: the starter of node node")
    assert free == "DONE pilot.0001"
    assert lost.startswith("FAILED the starter of node node")


AGAIN = """
import os, sys
import yod.pilot as rp
session = rp.Session("s")
pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
if sys.argv[1] == "first":
    tmgr.add_pilots(pmgr.submit_pilots({"resource": "slurm.here", "cores": 4, "runtime": 5}))
    task = tmgr.submit_tasks({"executable": "sh", "arguments": ["-c", "hostname; sleep 1"]})
    if sys.argv[2] == "runs":
        print(task.wait(rp.AGENT_EXECUTING, timeout=110))
    else:
        print(pmgr.wait_pilots(state=rp.PMGR_ACTIVE_PENDING, timeout=110))
    sys.stdout.flush()
    os._exit(0)
tmgr.add_pilots(pmgr.get_pilots())
print("here", flush=True)
print(tmgr.wait_tasks(timeout=110), [task.stdout for task in tmgr.get_tasks()])
session.close()
print([pilot.state for pilot in pmgr.get_pilots()])
"""


@pytest.mark.long
@pytest.mark.parametrize("when", ["runs", "waits"])
def test_a_later_client_finds_such_a_pilot_and_a_job_that_waits_finds_a_later_client(site, when):
    held = ""
    if when == "waits":
        held = site.ask(
            *("sbatch", "--parsable", "-N2", "--exclusive", "-o", "/dev/null"),
            *("--wrap", "sleep 600"),
        ).strip()
    first = site.run(AGAIN, "first", when)
    assert first.out == ("AGENT_EXECUTING\n" if when == "runs" else "['PMGR_ACTIVE_PENDING']\n")
    second = site.start(sys.executable, "-c", AGAIN, "second", when)
    assert second.stdout is not None and second.stdout.readline() == b"here\n"
    if held:
        site.ask("scancel", held)
    done = finish(second)
    assert done.err == ""
    assert done.out in [f"['DONE'] ['node{n}\\n']\n['CANCELED']\n" for n in range(NODES)]
