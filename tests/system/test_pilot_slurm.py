"""Pilots as jobs of a real Slurm, and by commands that answer as those of PBS and OAR."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import yod.pilot as rp
from bench.support import slurm as slurms
from tests.support.leaks import marked
from tests.support.partition import BIN
from tests.support.wait import LIMIT_S, wait_until


@pytest.fixture(scope="module")
def two() -> Iterator[slurms.Slurm]:
    if why := slurms.missing():
        pytest.skip(why)
    with slurms.Slurm(2, cpus=2) as slurm:
        yield slurm


@pytest.fixture
def work(place, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("YOD_PILOT_HOST", "127.0.0.1")
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    return work


@pytest.fixture
def site(two, work, place, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", two.environment["SLURM_CONF"])
    yield two
    two.settle()
    wait_until(lambda: not marked(place.mark))  # bebopd and the PCTs end with the job
    for path in (place.runtime / "yod").glob("slurm-*"):
        subprocess.run(["rm", "-r", str(path)], check=True)


def shell(script, **entries):
    return rp.TaskDescription({"executable": "sh", "arguments": ["-c", script], **entries})


def test_a_pilot_is_a_job_of_slurm_on_all_of_its_nodes(site, work):
    with rp.Session("s") as session:
        pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
        Path(session.socket).unlink()  # the agent comes by TCP, as from another host
        pilot = pmgr.submit_pilots({"resource": "slurm.here", "cores": 4, "runtime": 5})
        tmgr.add_pilots(pilot)
        meet = "while [ $(ls -d ../t? | wc -l) -lt 4 ]; do sleep 0.01; done"
        tasks = tmgr.submit_tasks(
            [shell(f"echo $YOD_NODE_NAME; {meet}", uid=f"t{n}") for n in range(4)]
        )
        mpi = tmgr.submit_tasks(shell("echo $RP_RANK $YOD_NODE_NAME", ranks=4))
        assert tmgr.wait_tasks(timeout=LIMIT_S) == [rp.DONE] * 5, (pilot.reason, mpi.reason)
        assert sorted(task.stdout.split()[0] for task in tasks) == ["n0", "n0", "n1", "n1"]
        assert sorted(mpi.stdout.split()) == ["0", "1", "2", "3", "n0", "n0", "n1", "n1"]
        assert [node["cores"] for node in pilot.nodelist] == [2, 2]
    assert pilot.state == rp.CANCELED
    assert "job.log" in os.listdir("s/pilot.0000")
    assert (work / "s" / "pilot.0000" / "pilot.sh").read_text().startswith("#!/bin/sh\n#SBATCH")


def test_a_job_that_waits_says_why_and_one_that_is_refused_too(site):
    words = ["sbatch", "--parsable", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600"]
    held = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    try:
        with rp.Session("s") as session:
            pmgr = rp.PilotManager(session)
            asked = {"resource": "slurm.here", "nodes": 2, "runtime": 5}
            pilot = pmgr.submit_pilots(asked)
            refused = pmgr.submit_pilots({**asked, "queue": "nowhere"})
            wait_until(lambda: "PENDING" in pilot.why)
            assert pilot.why.startswith("slurm job ")
            assert pilot.state == rp.PMGR_ACTIVE_PENDING
            assert refused.wait(timeout=LIMIT_S) == rp.FAILED
            assert refused.reason.startswith("sbatch has failed: ")
            pilot.cancel()
            assert pilot.wait(timeout=LIMIT_S) == rp.CANCELED
            ended = pmgr.submit_pilots(asked)
            wait_until(lambda: "PENDING" in ended.why)
            assert ended.job is not None
            subprocess.run(["scancel", ended.job.job_id], check=True)
            assert ended.wait(timeout=LIMIT_S) == rp.FAILED
            assert "CANCELLED" in ended.reason or "does not know it" in ended.reason
    finally:
        subprocess.run(["scancel", held], check=True)


AGAIN = """
import os, sys
import yod.pilot as rp
session = rp.Session("s")
pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
if sys.argv[1] == "first":
    tmgr.add_pilots(pmgr.submit_pilots({"resource": "slurm.here", "cores": 4, "runtime": 5}))
    task = tmgr.submit_tasks(
        {"executable": "sh", "arguments": ["-c", "while [ ! -e ../../go ]; do sleep 0.01; done"]}
    )
    if len(sys.argv) > 2:
        task.wait(rp.AGENT_EXECUTING, timeout=60)
    else:
        pmgr.wait_pilots(state=rp.PMGR_ACTIVE_PENDING, timeout=60)
    os._exit(0)
tmgr.add_pilots(pmgr.get_pilots())
open("s/go", "w").close()
print(tmgr.wait_tasks(timeout=60), [pilot.state for pilot in pmgr.get_pilots()])
session.close()
print([pilot.state for pilot in pmgr.get_pilots()])
"""


@pytest.mark.parametrize(
    "when",
    [
        pytest.param(["runs"], id="while it runs"),
        pytest.param([], id="before its job begins", marks=pytest.mark.long),
    ],
)
def test_a_later_client_finds_a_job_again(site, when):
    def run(*words):
        command = [sys.executable, "-c", AGAIN, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("first", *when)
    assert run("second") == "['DONE'] ['PMGR_ACTIVE']\n['CANCELED']\n"


COMMAND = """\
#!/bin/sh
echo "$0 $*" >>{calls}
case ${{0##*/}} in
{cases}
esac
"""


@pytest.mark.parametrize("system", ["pbs", "oar"])
def test_pilots_are_handed_in_to_pbs_and_oar_by_their_commands(work, system, monkeypatch):
    calls = work / "calls"
    cases = {
        "pbs": """\
            qsub) echo 17.server ;;
            qstat) echo 'Job Id: 17.server'; echo '    job_state = Q'; echo '    comment = busy' ;;
            qdel) : ;;
        """,
        "oar": """\
            oarsub) echo '# INFO: Moldable instance: 1'; echo OAR_JOB_ID=17 ;;
            oarstat) echo 'Job_Id: 17'; echo '    state = Waiting'; echo '    message = busy' ;;
            oardel) : ;;
        """,
    }[system]
    directory = work / "bin"
    directory.mkdir()
    names = {"pbs": ("qsub", "qstat", "qdel"), "oar": ("oarsub", "oarstat", "oardel")}[system]
    for name in names:
        path = directory / name
        path.write_text(COMMAND.format(calls=calls, cases=textwrap.dedent(cases)))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    with rp.Session("s") as session:
        pmgr = rp.PilotManager(session)
        pilot = pmgr.submit_pilots({"resource": f"{system}.here", "cores": 4, "runtime": 5})
        assert pilot.wait(rp.PMGR_ACTIVE_PENDING, timeout=LIMIT_S) == rp.PMGR_ACTIVE_PENDING
        wait_until(lambda: "busy" in pilot.why)
        (directory / names[1]).write_text("#!/bin/sh\nexit 153\n")
        pilot.cancel()
        assert pilot.wait(timeout=LIMIT_S) == rp.CANCELED
    asked = calls.read_text()
    assert f"/{names[0]} " in asked and "pilot.sh" in asked
    assert f"/{names[2]} 17" in asked


def test_a_batch_system_that_is_not_there_is_said(work, monkeypatch):
    monkeypatch.setenv("PATH", str(BIN))
    with rp.Session("s") as session:
        pilot = rp.PilotManager(session).submit_pilots({"resource": "oar.here", "cores": 1})
        assert pilot.wait(timeout=LIMIT_S) == rp.FAILED
        assert pilot.reason == "oarsub: No such file or directory"
