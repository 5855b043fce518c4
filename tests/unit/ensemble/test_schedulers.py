"""Back-ends: the commands that they say, and how they read recorded answers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ensemble.config import Config
from ensemble.host import schedulers
from ensemble.machine.job import Job, JobState
from ensemble.schedulers.backend import Program
from ensemble.schedulers.oar import Oar, OarHybrid
from ensemble.schedulers.openmpi import OpenMpi, SlurmGlobal
from ensemble.schedulers.slurm import Slurm
from ensemble.schedulers.yod import choices
from native.errors import UsageError

ROOT = Path(__file__).parents[3]
SERVER = Job(1, "study-1", epoch=1)
CLIENT = Job(2, "study-2", epoch=1, client=5)
GROUP = Job(3, "study-3", epoch=1, client=6, group_size=3)
PROGRAM = Program(("/bin/c", "a b"), (("X", "it's"),), 2, "/out", "/out/o", "/out/e")


def test_mpirun_has_the_processes_the_variables_and_a_group_as_one_world():
    mpi = OpenMpi(Config(scheduler_arg_client=("--oversubscribe",)))
    head = ["-n", "2", "--oversubscribe", "-x", "X"]
    assert mpi.make_job(CLIENT, PROGRAM) == ["mpirun", *head, "/bin/c", "a b"]
    words = mpi.make_job(GROUP, PROGRAM)
    assert words.count(":") == 2 and words.count("YOD_SIMULATION=1") == 1
    assert words.count("/bin/c") == 3


def test_a_step_of_the_launchers_allocation_waits_for_room():
    step = SlurmGlobal(Config())
    assert step.make_job(SERVER, PROGRAM)[:3] == ["srun", "--exclusive", "--ntasks=2"]
    assert step.make_job(GROUP, PROGRAM)[:2] == ["sh", "-c"]


def test_a_script_for_sbatch_has_options_environment_and_the_program():
    config = Config(scheduler_arg=("--time", "1:00", "-Aproject"), scheduler_client_command="srun")
    name, text = Slurm(config).make_job(CLIENT, PROGRAM)
    assert name == "sbatch.2.sh"
    assert text.splitlines() == [
        "#!/bin/sh",
        "#SBATCH --job-name=study-2",
        "#SBATCH --output=/out/o",
        "#SBATCH --error=/out/e",
        "#SBATCH --ntasks=2",
        "#SBATCH --time 1:00",
        "#SBATCH -Aproject",
        "export X='it'\"'\"'s'",
        "cd /out",
        "exec srun --ntasks=2 /bin/c 'a b'",
    ]


@pytest.mark.parametrize(("failing", "status"), [("", 0), ("1", 3)])
def test_a_group_runs_side_by_side_and_fails_if_one_does(tmp_path, failing, status):
    line = f'[ "$YOD_SIMULATION" != "{failing}" ] || exit 3; echo $YOD_SIMULATION'
    program = Program(("sh", "-c", line), (), 1, str(tmp_path), "o", "e")
    _, text = Slurm(Config()).make_job(GROUP, program)
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True)
    assert done.returncode == status
    assert sorted(done.stdout.split()) == [n for n in ("0", "1", "2") if n != failing]


def test_a_group_that_is_told_to_end_ends_its_simulations_first(tmp_path):
    line = "trap 'sleep 0.2; echo ended; exit 1' TERM; echo up; sleep 600 & wait"
    program = Program(("sh", "-c", line), (), 1, str(tmp_path), "o", "e")
    _, text = Slurm(Config()).make_job(GROUP, program)
    with subprocess.Popen(["sh", "-c", text], stdout=subprocess.PIPE, start_new_session=True) as sh:
        assert sh.stdout is not None
        assert [sh.stdout.readline() for _ in range(3)] == [b"up\n"] * 3
        sh.terminate()
        assert [sh.stdout.readline() for _ in range(3)] == [b"ended\n"] * 3
        assert sh.wait() == 143
        os.killpg(sh.pid, signal.SIGKILL)


def test_sbatch_gets_the_names_of_files_whole():
    program = Program(("c",), (), 1, "/a b", "/a b/100%.out", "/e")
    _, text = Slurm(Config()).make_job(CLIENT, program)
    assert "#SBATCH --output='/a b/100%%.out'\n#SBATCH --error=/e\n" in text


def test_answers_of_slurm_are_read():
    slurm = Slurm(Config())
    assert slurm.read_id("17\n") == "17"
    assert slurm.read_id("17;cluster\n") == "17"
    assert slurm.read_id("sbatch: some warning\n") == ""
    text = "17|RUNNING|study-1\n18|PENDING|study-2\n19|COMPLETED|a|b\n20|TIMEOUT|x\n"
    assert slurm.read_states(text) == {
        "17": JobState.RUNNING,
        "18": JobState.WAITING,
        "19": JobState.TERMINATED,
        "20": JobState.FAILED,
    }
    assert slurm.read_names(text)["a|b"] == "19"
    ends = "17|COMPLETED\n18|CANCELLED by 1000\n19|RUNNING\n20|DREAMING\n\n"
    assert slurm.read_ends(ends) == {"17": JobState.TERMINATED, "18": JobState.FAILED}
    with pytest.raises(ValueError, match="job 17: unknown state DREAMING"):
        slurm.read_states("17|DREAMING|x\n")
    with pytest.raises(ValueError):
        slurm.read_states("slurm_load_jobs error\n")


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("PENDING REQUEUED SUSPENDED RESIZING CONFIGURING", JobState.WAITING),
        ("COMPLETING RUNNING", JobState.RUNNING),
        ("COMPLETED", JobState.TERMINATED),
        (
            "BOOT_FAIL CANCELLED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT",
            JobState.FAILED,
        ),
    ],
)
def test_every_state_of_slurm_is_the_references(words, state):
    for word in words.split():
        assert Slurm(Config()).read_states(f"1|{word}|x\n") == {"1": state}


# As oarstat 2.5.9 writes them; lines that are not read are left out.
OARSTAT = """\
Job_Id: 17
    job_array_id = 17
    name = study-1
    owner = alice
    state = {}
    command = /out/oarsub.1.sh
    exit_code = {}
    message = R=1,W=2:0:0,J=B,N=study-1
    state = Error

"""


@pytest.mark.parametrize(
    ("word", "code", "state"),
    [
        *((word, "0 (0,0,0)", JobState.WAITING)
          for word in ("Hold", "Launching", "toLaunch", "toAckReservation", "Waiting")),
        *((word, "0 (0,0,0)", JobState.RUNNING) for word in ("Running", "Resuming", "Suspended")),
        ("Finishing", "0 (0,0,0)", JobState.RUNNING),
        ("Terminated", "0 (0,0,0)", JobState.TERMINATED),
        ("Terminated", "256 (1,0,0)", JobState.FAILED),
        ("Error", "0 (0,0,0)", JobState.FAILED),
    ],
)  # fmt: skip
def test_every_state_of_oar_is_read(word, code, state):
    assert Oar(Config()).read_states(OARSTAT.format(word, code)) == {"17": state}


def test_commands_and_answers_of_oar():
    oar = Oar(Config(scheduler_arg=("--resource=nodes=1",)))
    _, text = oar.make_job(SERVER, PROGRAM)
    assert text.splitlines()[1:4] == ["#OAR -n study-1", "#OAR -O /out/o", "#OAR -E /out/e"]
    assert oar.submit(SERVER, "/s") == ["oarsub", "--scanscript", "--resource=nodes=1", "/s"]
    assert oar.read_id("[ADMISSION RULE] Set default walltime\nOAR_JOB_ID=17\n") == "17"
    assert oar.read_id("There are not enough resources for your request\n") == ""
    assert oar.read_names(OARSTAT.format("Running", "0")) == {"study-1": "17"}
    assert oar.is_cancelled(6, "Cannot frag 17 ; This job was already killed.")
    assert not oar.is_cancelled(1, "Cannot frag 17 ; You are not the right user.")
    with pytest.raises(ValueError, match="unknown state Dreaming"):
        oar.read_states(OARSTAT.format("Dreaming", "0"))


def test_clients_of_a_hybrid_fill_the_container_and_some_others_are_best_effort():
    config = Config(
        container_client_size=2,
        besteffort_allocation_frequency=2,
        scheduler_arg_container=("--resource=nodes=3",),
    )
    oar = OarHybrid(config)
    words = oar.submit(SERVER, "/s")
    assert "--type=container" in words and "--resource=nodes=3" in words
    oar.began(SERVER, "17")
    jobs = [Job(uid, f"study-{uid}", 1, uid) for uid in range(2, 8)]
    types = [oar.submit(job, "/c")[2] for job in jobs[:4]]
    assert types == ["--type=inner=17", "--type=inner=17", "/c", "--type=besteffort"]
    oar.ended(jobs[0])
    assert [oar.submit(job, "/c")[2] for job in jobs[4:]] == ["--type=inner=17", "/c"]


@pytest.mark.parametrize("backend", [OpenMpi, SlurmGlobal, Slurm, Oar])
@pytest.mark.parametrize("word", ["-n", "--ntasks=3", "-np", "--np", "-n4"])
def test_options_of_the_launcher_are_refused_among_the_users(backend, word):
    if backend is Oar and word == "-n":
        word = "--name"
    with pytest.raises(UsageError, match=r"scheduler_arg_client: .* is set by the launcher"):
        backend(Config(scheduler_arg_client=(word,))).check()


def test_words_for_yod_are_choices_of_a_launch():
    config = Config(
        scheduler_arg=("--mem=4G",),
        scheduler_arg_client=("-N", "2", "--overlap"),
        client_processes=6,
    )
    found = choices(config, is_server=False)
    assert found == {"size": 6, "mem": "4G", "node_count": 2, "overlap": True}
    with pytest.raises(UsageError, match="-N x: must be a whole number"):
        choices(Config(scheduler_arg=("-N", "x")), is_server=True)


def test_the_back_end_of_the_page_is_one(monkeypatch):
    text = (ROOT / "docs" / "ensemble.md").read_text().partition("## Another scheduler")[2]
    blocks = re.findall(r"(?:^    .*\n|^\n)+", text, re.M)
    block = next(each for each in blocks if "class Spool" in each)
    names: dict[str, Any] = {}
    exec(textwrap.dedent(block), names)
    monkeypatch.setattr(
        schedulers,
        "entry_points",
        lambda group, name: [Point()] if (group, name) == (schedulers.GROUP, "spool") else [],
    )

    class Point:
        value = "my_package:Spool"

        def load(self):
            return names["Spool"]

    spool = schedulers.backend(Config(scheduler="spool"))
    spool.check()
    name, script = spool.make_job(CLIENT, PROGRAM)
    assert (name, script.startswith("#!/bin/sh\n")) == ("put.2.sh", True)
    assert spool.submit(CLIENT, "/s") == ["put", "--name", "study-2", "/s"]
    said = "17 study-2 running\n18 study-3 done\n"
    assert spool.read_states(said) == {"17": JobState.RUNNING, "18": JobState.TERMINATED}
    assert spool.read_names(said) == {"study-2": "17", "study-3": "18"}
    with pytest.raises(UsageError, match="scheduler: spoon: none of yod"):
        schedulers.backend(Config(scheduler="spoon"))
