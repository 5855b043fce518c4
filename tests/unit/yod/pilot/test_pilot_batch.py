"""Batch systems: what is asked of them, and what their recorded answers mean."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from msgspec.structs import replace

from tests.support.wait import wait_until
from yod.pilot.batch.ends import End, meaning_of
from yod.pilot.batch.oar import Oar
from yod.pilot.batch.pbs import Pbs
from yod.pilot.batch.slurm import Slurm
from yod.pilot.batch.system import Ask, Home, JobStage, script
from yod.pilot.batch.systems import SYSTEMS

ASK = Ask("p", "/s/job.log", 100, 0, 0, 0, 0, 90.5)
FULL = Ask("p", "/s/job.log", 0, 3, 64, 4, 1000, 60.0, "long", "bio", ("nvme",), True)
HOME = Home("/s d/pilot.sh", "0a1b", ["/opt/python", "-m", "call", "p", "h", "7"], "beef", "h", "/")
WAITING, RUNNING, OVER = JobStage.WAITING, JobStage.RUNNING, JobStage.OVER

# As the commands of these systems have answered.
QSTAT = """\
Job Id: 17.pbs
    Job_Name = pilot.0000
    Job_Owner = ann@login1
    job_state = {state}
    queue = workq
    server = pbs
    comment = Not Running: Insufficient amount of resource: ncpus (R: 4 A: 0 T: 2
\t)
    Exit_status = 271
    Submit_arguments = /home/ann/s/pilot.0000/pilot.sh
"""
OARSUB = """\
[ADMISSION RULE] Modify resource description with type constraints
# INFO: Moldable instance:  1  Estimated nb resources:  8  Walltime:  3600
OAR_JOB_ID=4711
"""
OARSTAT = """\
Job_Id: 4711
    name = pilot.0000
    owner = ann
    state = {state}
    message = Karma = 0.012
    exit_code = 0
"""


def test_a_slurm_job_has_tasks_for_its_slots():
    assert Slurm().head(ASK) == [
        *("--job-name=p", "--output=/dev/null", "--time=91", "--ntasks=100")
    ]
    assert Slurm().head(FULL)[2:] == [
        *("--time=60", "--nodes=3", "--ntasks-per-node=64", "--exclusive", "--gpus-per-node=4"),
        *("--mem=1000", "--partition=long", "--account=bio", "--constraint=nvme"),
    ]


def test_hosts_of_which_the_nodes_are_to_be_are_named():
    ask = replace(ASK, hosts=("n1", "n2"))
    assert "--nodelist=n1,n2" in Slurm().head(ask)
    assert "-p network_address in ('n1', 'n2')" in Oar().head(ask)


@pytest.mark.parametrize(
    ("status", "output", "stage", "words"),
    [
        (0, "PENDING  0  Priority  \n", WAITING, "PENDING (Priority)"),
        (0, "RUNNING  0  None  \n", RUNNING, "RUNNING"),
        (
            0,
            "PENDING  0  Nodes required are down  \n",
            WAITING,
            "PENDING (Nodes required are down)",
        ),
        (0, "COMPLETING  0  None\n", RUNNING, "COMPLETING"),
        (0, "CANCELLED  0  None\n", OVER, "CANCELLED"),
        (0, "TIMEOUT  0  TimeLimit\n", OVER, "TIMEOUT (TimeLimit)"),
        (0, "", OVER, "slurm does not know it any more"),
        (
            256,
            "slurm_load_jobs error: Invalid job id specified\n",
            OVER,
            "slurm does not know it any more",
        ),
    ],
)
def test_squeue_says_how_a_job_stands(status, output, stage, words):
    stand = Slurm().read_stand(status, output)
    assert (stand.stage, stand.words) == (stage, words)


@pytest.mark.parametrize(
    ("code", "status"), [("20992", 82), ("82:0", 82), ("0", 0), ("9", 0), ("N/A", None)]
)
def test_squeue_says_with_which_status_a_script_has_ended(code, status):
    assert Slurm().read_stand(0, f"FAILED  {code}  NonZeroExitCode\n").status == status


def test_a_status_of_a_job_that_could_not_tell_its_client_is_put_in_words():
    def told(status):
        return meaning_of(status, "/s/p", "/opt/python", "10.0.0.1:7")

    assert told(81) == "its first node does not see /s/p, and has no yod at /opt/python"
    assert told(82).startswith(
        "its first node does not see /s/p, and does not reach the application at 10.0.0.1:7 ("
    )
    assert told(83).endswith("and at 10.0.0.1:7 is nobody who has this pilot's key")
    assert [told(status) for status in (None, 0, 1, 137)] == [""] * 4


def test_ids_are_read_from_what_submissions_answer():
    assert Slurm().read_id("17\n") == Slurm().read_id("17;cluster\n") == "17"
    assert Slurm().read_id("sbatch: warning: x\n17\n") == "17"
    assert Slurm().read_id("sbatch: error: invalid partition specified: x\n") == ""
    assert Pbs().read_id("17.pbs\n") == "17.pbs"
    assert Pbs().read_id("4711.node-1.cluster.org\n") == "4711.node-1.cluster.org"
    assert Pbs().read_id("qsub: Unknown queue\n") == ""
    assert Oar().read_id(OARSUB) == "4711"
    assert Oar().read_id("There are not enough resources for your request\n") == ""


def test_a_pbs_job_has_chunks_of_cores():
    assert Pbs().head(ASK) == [
        *("-N p", "-j oe", "-o /s/job.log", "-V"),
        *("-l select=100:ncpus=1:mpiprocs=1", "-l walltime=1:30:30"),
    ]
    assert Pbs().head(FULL)[4:] == [
        "-l select=3:ncpus=64:mpiprocs=64:ngpus=4:mem=1000mb",
        *("-l walltime=1:00:00", "-l place=scatter:excl", "-q long", "-A bio", "-l nvme"),
    ]
    per_node = Pbs().head(replace(ASK, cores_per_node=32))
    assert "-l select=4:ncpus=32:mpiprocs=32" in per_node
    assert "-l select=2:ncpus=50:mpiprocs=50" in Pbs().head(replace(ASK, nodes=2))


def test_qstat_says_how_a_job_stands():
    stand = Pbs().read_stand(0, QSTAT.format(state="Q"))
    assert stand.stage is WAITING
    assert stand.words.startswith("in state Q (Not Running: Insufficient amount of resource: ncpus")
    assert Pbs().read_stand(0, QSTAT.format(state="R")).stage is RUNNING
    assert Pbs().read_stand(0, QSTAT.format(state="C")).words == "ended with status 271"
    gone = "qstat: 17.pbs Job has finished, use -x or -H to obtain historical job information\n"
    assert Pbs().read_stand(35 << 8, gone).stage is OVER
    assert Pbs().read_stand(153 << 8, "qstat: Unknown Job Id 17.pbs\n").stage is OVER


def test_an_oar_job_has_cores_or_nodes():
    assert Oar().head(ASK) == [
        *("-n p", "-d /", "-O /dev/null", "-E /dev/null", "-l /core=100,walltime=1:30:30")
    ]
    assert Oar().head(FULL)[4:] == [
        *("-l /nodes=3,walltime=1:00:00", "-q long", "--project bio", "-p nvme")
    ]
    assert "-l /nodes=2/core=50,walltime=1:30:30" in Oar().head(replace(ASK, nodes=2))


OAR_EVENTS = """\
2026-11-28 09:17:48> [1] OUTPUT_FILES: [bipbip 1] Cannot create .stdout and .stderr files in /s\
 on the node node1
2026-11-28 09:17:48> [1] SWITCH_INTO_ERROR_STATE: [bipbip 1] Ask to change the job state
"""


def test_oarstat_says_how_a_job_stands():
    stand = Oar().read_stand(0, OARSTAT.format(state="Waiting"))
    assert (stand.stage, stand.words) == (WAITING, "Waiting (Karma = 0.012)")
    for word, stage in (
        ("Launching", WAITING),
        ("Running", RUNNING),
        ("Terminated", OVER),
        ("Error", OVER),
    ):
        assert Oar().read_stand(0, OARSTAT.format(state=word)).stage is stage
    assert Oar().read_stand(0, "").stage is OVER
    gone = Oar().read_stand(0, OARSTAT.format(state="Error") + OAR_EVENTS)
    why = "Cannot create .stdout and .stderr files in /s on the node node1"
    assert (gone.stage, gone.words, gone.status) == (OVER, f"Error ({why})", 0)
    ended = OARSTAT.format(state="Terminated").replace(
        "exit_code = 0", "exit_code = 20992 (82,0,0)"
    )
    assert Oar().read_stand(0, ended).status == 82


def oar_job(tmp_path, monkeypatch, home):
    """The command line of a job of OAR, as a node runs it."""
    monkeypatch.setattr("yod.pilot.batch.oar._PIPE", f"{tmp_path}/pipe-")
    *options, line = Oar().submit(ASK, home)
    assert options[:5] == ["oarsub", "-n", "p", "-d", "/"] and "-l" in options
    assert HOME.key not in line
    return subprocess.Popen(
        ["bash", "-c", line],
        env={"PATH": os.environ["PATH"], "OAR_JOB_ID": "17"},
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_job_of_oar_runs_its_script_where_its_node_sees_it(tmp_path, monkeypatch):
    path = tmp_path / "pilot.sh"
    path.write_text(f"#!/bin/sh\n: {HOME.mark}\npwd\n")
    path.chmod(0o700)
    home = replace(HOME, script=str(path), directory=str(tmp_path))
    with oar_job(tmp_path, monkeypatch, home) as job:
        assert job.communicate() == (f"{tmp_path}\n", None)
    assert job.returncode == 0


RUNS = """\
Job_Id: 17
    name = p
    state = {state}
    assigned_hostnames = node1+node2
    command = exec /bin/sh
"""


def test_a_job_of_oar_whose_node_does_not_is_sent_it_by_a_pipe_of_its_own(tmp_path, monkeypatch):
    home = replace(HOME, caller=["/bin/true"], directory="/nowhere")
    with oar_job(tmp_path, monkeypatch, home) as job:
        *oarsh, take = Oar().send("17", RUNS.format(state="Running"))
        assert oarsh == ["env", "OAR_JOB_ID=17", "oarsh", "node1"]
        pipe = tmp_path / "pipe-17"
        wait_until(pipe.exists)
        assert pipe.stat().st_mode & 0o777 == 0o600
        text = f"#!/bin/sh\ncat <<'END'\n{HOME.key}\nEND\npwd\nexit 7\n"
        subprocess.run(["sh", "-c", take], input=text, text=True, check=True)
        assert job.communicate() == (f"{HOME.key}\n/\n", None)
    assert job.returncode == 7 and not pipe.exists()
    late = subprocess.run(["sh", "-c", take], input=text, text=True, check=False)
    assert late.returncode == 1 and not pipe.exists()


def test_a_job_of_oar_that_gets_no_script_says_why_by_its_status(tmp_path, monkeypatch):
    def status(**changes):
        home = replace(HOME, caller=["/bin/true"], **changes)
        with oar_job(tmp_path, monkeypatch, home) as job:
            return job.wait()

    monkeypatch.setattr("yod.pilot.batch.oar._UNSENT_S", 0.05)
    assert status() == End.NO_SCRIPT
    (tmp_path / "pipe-17").touch()  # somebody else's
    assert status() == End.NO_PIPE
    with oar_job(tmp_path, monkeypatch, HOME) as job:
        assert job.wait() == End.NO_YOD


def test_a_script_is_sent_to_a_job_of_oar_that_runs_and_to_no_other():
    assert Oar().send("17", RUNS.format(state="Launching")) == []
    assert Oar().send("17", OARSTAT.format(state="Running")) == []
    assert Slurm().send("17", "RUNNING  0  None\n") == Pbs().send("17", QSTAT) == []


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_script_begins_with_options_and_loses_no_word(name):
    system = SYSTEMS[name]
    text = script(
        system,
        ASK,
        ["module load x"],
        {"PATH": "/a b:/c", "YOD_X": "it's"},
        "/opt/python",
        ["-sz", "8"],
        ["/opt/python", "-m", "agent", '{"a": "$HOME b"}'],
    )
    first, *lines = [line for line in text.splitlines() if not line.startswith("exec >>")]
    assert first == "#!/bin/sh"
    count = len(system.head(ASK))
    assert all(line.startswith(f"#{system.mark} -") for line in lines[:count])
    assert lines[count + 1 : count + 4] == [
        *("export PATH='/a b:/c'", """export YOD_X='it'"'"'s'""", "module load x")
    ]
    (held,) = [line for line in lines if "alloc" in line]
    assert shlex.split(held)[-4:] == ["/opt/python", "-m", "agent", '{"a": "$HOME b"}']
    assert held.index("-sz 8") < held.index("agent")
    assert system.cancel("17")[-1] == "17"
    assert "17" in " ".join(system.query("17"))


def words(system, tmp_path, directory, python="true"):
    """What a script does in a place: each command is a line."""
    home = replace(HOME, script=str(directory / "pilot.sh"), caller=["echo", "call", "p"])
    log = tmp_path / "job.log"
    text = script(system, replace(ASK, log=str(log)), ["echo first"], {}, python, [], ["a"], home)
    path = tmp_path / "spooled"
    path.write_text(text.replace(f"{python} -P", "echo"))
    done = subprocess.run(
        ["sh", path], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return done, text, log.read_text() if log.exists() else ""


@pytest.mark.parametrize("system", [Slurm(), Pbs(), Oar()], ids=["slurm", "pbs", "oar"])
def test_a_script_whose_directory_is_seen_starts_an_agent_and_calls_nobody(system, tmp_path):
    path = tmp_path / "pilot.sh"
    path.write_text("# 0a1b")
    done, _, log = words(system, tmp_path, tmp_path)
    said = done.stdout + done.stderr + log
    assert "first\n" in said and " alloc -quiet a" in said and "call p" not in said
    assert bool(log) is not system.keeps_log


@pytest.mark.parametrize("content", [None, "another one"])
def test_a_script_whose_directory_is_not_seen_calls_with_the_key_as_input(tmp_path, content):
    away = tmp_path / "away"
    away.mkdir()
    if content is not None:
        (away / "pilot.sh").write_text(content)
    done, text, log = words(Slurm(), tmp_path, away, "/bin/true")
    assert done.stdout.startswith("first\ncall p\n") and "alloc" not in done.stdout + log
    assert (log, done.returncode) == ("", 0)
    (at,) = [n for n, line in enumerate(text.splitlines()) if line == HOME.key]
    assert text.splitlines()[at - 1] == "echo call p <<'END'"
    assert words(Slurm(), tmp_path, away, "/no/python")[0].returncode == 81
