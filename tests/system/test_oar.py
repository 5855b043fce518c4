"""With a real OAR: yod in its jobs, pilots, and studies."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import oar_server
from tests.support.ensemble import CLIENT, SERVER, Study
from tests.support.oar_server import Oar
from tests.support.partition import BIN, finish
from tests.support.wait import wait_until

pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def served() -> Iterator[Oar]:
    if why := oar_server.missing():
        pytest.skip(why)
    with oar_server.serving() as found:
        yield found


@pytest.fixture
def oar(served, nothing_left_behind) -> Iterator[Oar]:
    nothing_left_behind.leave_out(served.processes)
    yield served
    served.demand_clean()


def test_the_first_yod_in_a_job_brings_pcts_up_on_all_of_its_hosts_until_it_ends(oar):
    script = "yod -sz 4 --label hostname && yodctl status && yod -sz 2 true && exit 3"
    done = oar.wait(oar.submit(script, nodes=2))
    assert done.status == 3, done
    assert sorted(done.out.splitlines()[:4]) == ["0: node1", "1: node1", "2: node2", "3: node2"]
    assert "2 nodes: 2 free" in done.out
    assert re.fullmatch(r"yod: 2 nodes of oar job \d+ are up, until it ends \(.* s\)\n", done.err)


@pytest.mark.long
def test_a_job_that_is_deleted_leaves_no_rank_on_any_host(oar):
    job_id = oar.submit("yod -sz 4 sh -c 'echo up; exec sleep 600'", nodes=2)
    wait_until(lambda: oar.output(job_id).count("up\n") == 4, what="all ranks run")
    assert oar.run("oardel", job_id).status == 0
    oar.wait(job_id)


class OarStudy(Study):
    """A study whose launcher runs on the host of OAR's server."""

    def __init__(self, oar: Oar, place, directory: Path, **keys) -> None:
        self._oar = oar
        bind = {"bind": oar.head.address, "server_timeout": 60}
        super().__init__(place, directory, timer_delay=1.0, **bind, **keys)

    def start_other(self, *words: str, **options) -> subprocess.Popen[bytes]:
        return self._oar.start(words, cwd=self.directory)


@pytest.fixture
def study(oar, place):
    made = []

    def make(**keys) -> OarStudy:
        directory = Path(tempfile.mkdtemp(prefix="study-", dir=oar.directory))
        made.append(OarStudy(oar, place, directory, **keys))
        return made[-1]

    yield make
    for each in made:
        assert each.left() == set()


def test_a_study_runs_by_oarsub_and_a_client_that_fails_is_told_and_asked_for_again(oar, study):
    fails = "[ $MELISSA_CLIENT_ID != 2 ] || [ -e again ] || { touch again; exit 5; }"
    made = study(scheduler="oar", server=SERVER.replace("10", "3"), client=f"{fails}\n{CLIENT}")
    done = made.run()
    assert (done.status, done.out) == (0, ""), done.err
    (said,) = made.files("job.1.server.out")
    states = [re.findall(rf"^{client} (\w+)$", said, re.M) for client in range(3)]
    assert [each[-1] for each in states] == ["TERMINATED"] * 3
    assert states[2].count("FAILED") == 1
    assert sum("of epoch 1" in text for text in made.files("job.*.client-*.out")) == 3
    assert "OAR_JOB_ID=" in (made.out / "oarsub.1.out").read_text()


@pytest.mark.long
def test_clients_run_in_the_container_that_the_server_is(oar, study):
    made = study(
        scheduler="oar-hybrid",
        server=SERVER.replace("10", "3"),
        container_client_size=1,
        scheduler_arg_container=["--resource=/resource_id=2,walltime=0:10:0"],
        scheduler_arg_client=["--resource=/resource_id=1,walltime=0:05:0"],
    )
    done = made.run()
    assert (done.status, done.out) == (0, ""), done.err
    assert sum("of epoch 1" in text for text in made.files("job.*.client-*.out")) == 3
    types = [oar.types(job_id) for job_id in made.ids()]
    assert "container" in types[0]
    assert sum("inner" in each for each in types[1:]) >= 1


@pytest.mark.long
def test_an_interrupted_launcher_deletes_its_jobs(oar, study):
    waits = "server.submit(0, 2)\nwhile True: server.poll(60)"
    made = study(scheduler="oar", server=waits, client="exec sleep 600")
    launcher = made.start()
    made.wait_for("): submitted", 3)
    launcher.terminate()
    assert finish(launcher).status == 128 + 15
    wait_until(lambda: all(map(oar.is_over, made.ids())), what="all jobs are over")


PILOT = """
import json
import yod.pilot as rp
with rp.Session("s") as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    pilot = pmgr.submit_pilots({"resource": "oar.here", "nodes": 2, "runtime": 5})
    tmgr.add_pilots(pilot)
    task = tmgr.submit_tasks(
        {"executable": "sh", "arguments": ["-c", "echo $RP_RANK $YOD_NODE_NAME"], "ranks": 4}
    )
    tmgr.wait_tasks(timeout=100)
    found = {"states": [pilot.state, task.state], "out": task.stdout, "why": pilot.reason,
             "job": pilot.job and pilot.job.job_id}
print(json.dumps({**found, "end": pilot.state}))
"""


@pytest.mark.long
def test_a_pilot_is_a_job_of_oar_on_all_of_its_nodes(oar):
    directory = oar.directory / "pilot"
    directory.mkdir()
    done = finish(
        oar.start([sys.executable, "-c", textwrap.dedent(PILOT)], cwd=directory, env=PILOT_HOST)
    )
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["states"] == ["PMGR_ACTIVE", "DONE"], found
    hosts = [line.split() for line in sorted(found["out"].splitlines())]
    assert [rank for rank, _ in hosts] == ["0", "1", "2", "3"]
    assert sorted(host for _, host in hosts) == ["node1", "node1", "node2", "node2"]
    assert found["end"] == "CANCELED"
    wait_until(lambda: oar.is_over(found["job"]), what="its job is over")


PILOT_HOST: Mapping[str, str] = {"YOD_PILOT_HOST": "node0", "PYTHONPATH": str(BIN.parents[1])}


UNSEEN = """
import sys
import yod.pilot as rp
from pathlib import Path

def square(n):
    return n * n

def shell(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})

Path("in.dat").write_text("from the application")
with rp.Session("s") as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    pilot = pmgr.submit_pilots({"resource": "oar.here", "nodes": 2, "runtime": 5})
    tmgr.add_pilots(pilot)
    task = tmgr.submit_tasks(shell("cat in.dat; hostname >where",
        input_staging=["in.dat"], output_staging=["where > where.1"]))
    mpi = tmgr.submit_tasks(shell("hostname", ranks=2, ranks_per_node=1))
    call = tmgr.submit_tasks({"mode": rp.TASK_FUNCTION, "function": square, "args": [7]})
    states = tmgr.wait_tasks(timeout=110)
    print(states, [each.reason for each in (task, mpi, call)], pilot.reason)
    print(repr(task.stdout), Path("where.1").read_text().strip() in ("node1", "node2"))
    print(sorted(mpi.stdout.split()), call.return_value)
    print(Path("s/client.sock.tcp").read_text().split()[2], pilot.job.job_id, flush=True)
    sys.stdin.read()
print(pilot.state, pilot.reason)
"""
UNSENT = """
import yod.pilot as rp
with rp.Session("s") as session:
    pilot = rp.PilotManager(session).submit_pilots(
        {"resource": "oar.here", "nodes": 1, "runtime": 5})
    pilot.wait(timeout=100)
print(pilot.state, pilot.reason)
"""


@pytest.fixture
def unseen(oar) -> Iterator[Path]:
    """The directory of an application, in whose place nodes have another one."""
    directory = Path(tempfile.mkdtemp(prefix="unseen-", dir=oar.directory))
    for host in oar.nodes:
        host.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", directory], check=True)
    yield directory
    for host in oar.nodes:
        host.run(["umount", "--lazy", directory], check=True)  # a job of it may be ending


def test_a_pilot_on_nodes_with_files_of_their_own_runs_tasks_and_all_comes_home(oar, unseen):
    words = [sys.executable, "-c", UNSEEN]
    running = oar.start(words, cwd=unseen, env=PILOT_HOST, stdin=subprocess.PIPE)
    assert running.stdout is not None
    lines = [running.stdout.readline().decode() for _ in range(4)]
    assert lines[:3] == [
        "['DONE', 'DONE', 'DONE'] ['', '', ''] \n",
        "'from the application' True\n",
        "['node1', 'node2'] 49\n",
    ]
    key, job_id = lines[3].split()
    assert key in (unseen / "s/pilot.0000/pilot.sh").read_text()
    told = oar.run("oarstat", "--full", "--job", job_id).out
    seen = [line for host in (oar.head, *oar.nodes) for line in host.processes().values()]
    assert "pilot.sh" in told and key not in told
    assert len(seen) > 10 and not any(key in each for each in seen)
    done = finish(running)
    assert (done.out, done.err) == ("CANCELED \n", "")
    here = {path.name for path in (unseen / "s/pilot.0000").iterdir()}
    assert {"agent_0.prof", "task.000000", "agent.log"} <= here and "job.log" not in here
    wait_until(lambda: oar.is_over(job_id), what="its job is over")


@pytest.mark.long
def test_a_job_that_cannot_be_sent_its_script_says_why(oar, unseen, tmp_path):
    oarsh = tmp_path / "oarsh"
    # The job waits for its script no longer: who opens its pipe and writes nothing ends it.
    oarsh.write_text(
        "#!/bin/sh\npipe=/tmp/yod-oar-$OAR_JOB_ID\n"
        'test -p $pipe || exit 1\ntimeout 60 sh -c ": >$pipe"\n'
        "echo 'oarsh: no way to this node' >&2; exit 5\n"
    )
    oarsh.chmod(0o755)
    first = {"PATH": f"{tmp_path}:{oar.environment()['PATH']}"}
    words = [sys.executable, "-c", UNSENT]
    done = finish(oar.start(words, cwd=unseen, env={**PILOT_HOST, **first}))
    assert done.err == ""
    why = f"its first node does not see {unseen}/s/pilot.0000, and has not got its script by oarsh"
    assert re.fullmatch(
        rf"FAILED oar job \d+: {re.escape(why)} from here: oarsh: no way to this node\n", done.out
    ), done.out


AGAIN = """
import os, sys
import yod.pilot as rp
session = rp.Session("s")
pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
if sys.argv[1] == "first":
    tmgr.add_pilots(pmgr.submit_pilots({"resource": "oar.here", "nodes": 2, "runtime": 5}))
    tmgr.submit_tasks({"executable": "hostname"})
    print(pmgr.wait_pilots(state=rp.PMGR_ACTIVE_PENDING, timeout=110), flush=True)
    os._exit(0)
tmgr.add_pilots(pmgr.get_pilots())
print("here", flush=True)
print(tmgr.wait_tasks(timeout=110), [task.stdout for task in tmgr.get_tasks()])
session.close()
print([pilot.state for pilot in pmgr.get_pilots()])
"""


@pytest.mark.long
def test_a_job_that_waited_gets_its_script_from_a_later_client(oar, unseen):
    holds = oar.submit("sleep 600", nodes=2)

    def start(which):
        return oar.start([sys.executable, "-c", AGAIN, which], cwd=unseen, env=PILOT_HOST)

    assert finish(start("first")).out == "['PMGR_ACTIVE_PENDING']\n"
    second = start("second")
    assert second.stdout is not None and second.stdout.readline() == b"here\n"
    assert oar.run("oardel", holds).status == 0
    done = finish(second)
    assert done.err == ""
    assert done.out in [f"['DONE'] ['node{n}\\n']\n['CANCELED']\n" for n in (1, 2)]
