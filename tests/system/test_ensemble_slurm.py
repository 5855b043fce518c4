"""yod-ensemble with a real Slurm: by sbatch, in an allocation, and both."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from bench.support import slurm as slurms
from tests.support.ensemble import Study
from tests.support.partition import BIN, Done, finish
from tests.support.wait import wait_until

HOLDS = """
server.submit(0, 3)
open(f"server.{server.epoch}", "w").write(str(os.getpid()))
while server.epoch < 2:
    server.poll(60)
for client, state in server.updates():
    pass
server.finish()
"""
ONCE = "[ $YOD_ENSEMBLE_EPOCH != 1 ] || exec sleep 600"


@pytest.fixture(scope="module")
def slurm() -> Iterator[slurms.Slurm]:
    if why := slurms.missing():
        pytest.skip(why)
    with slurms.Slurm(2, cpus=4) as found:
        yield found


@pytest.fixture
def study(slurm, place, tmp_path):
    env = {"SLURM_CONF": slurm.environment["SLURM_CONF"]}

    def make(**keys):
        keys.setdefault("scheduler", "slurm")
        return Study(place, tmp_path, env=keys.pop("env", {}) | env, **keys)

    yield make
    subprocess.run(["scancel", "--me"], env={**os.environ, **env}, check=True)
    slurm.settle()


def jobs(study: Study) -> list[str]:
    """Jobs that wait or run."""
    words = ["squeue", "--me", "--noheader", "--format=%i"]
    return finish(study.start_other(*words)).out.split()


def test_a_study_runs_by_sbatch_and_each_state_is_told_once(study):
    fails = "[ $MELISSA_CLIENT_ID != 3 ] || [ -e again ] || { touch again; exit 5; }; echo well"
    made = study(client=fails, server=SERVER_OF_4)
    done = made.run()
    assert (done.status, done.out) == (0, ""), done.err
    assert sum("well" in text for text in made.files("job.*.client-*.out")) == 4
    (said,) = made.files("job.*.server.out")
    states = [re.findall(rf"^{client} (\w+)$", said, re.M) for client in range(4)]
    assert [each[-1] for each in states] == ["TERMINATED"] * 4
    assert "FAILED" in states[3] and all(a != b for s in states for a, b in itertools.pairwise(s))
    assert {path.name for path in made.out.glob("sbatch.*.sh")} >= {"sbatch.1.sh", "sbatch.2.sh"}
    assert (made.out / "sbatch.1.out").read_text().strip().isdecimal()
    assert (made.out / "sbatch.1.err").read_text() == ""
    assert "|COMPLETED|" in (made.out / "squeue.out").read_text()
    assert jobs(made) == []
    made.is_clean()


SERVER_OF_4 = """
server.submit(0, 4)
for client, state in server.updates():
    print(client, state.name, flush=True)
    if state is State.FAILED:
        server.submit(client)
server.finish()
"""


def test_a_launcher_that_is_killed_finds_its_jobs_again_by_name(study):
    made = study(server=HOLDS, client=ONCE)
    launcher = made.start()
    wait_until((made.out / "server.1").exists, what="a server")
    made.wait_for("): submitted", 4)
    launcher.kill()
    finish(launcher)
    # The ids of two are not known, as if it had been killed before their answers came.
    lines = (made.out / "journal").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line).get("uid") not in (1, 3)]
    (made.out / "journal").write_text("".join(kept))
    done = made.run("resume", "out")
    assert done.status == 0, done.err
    assert "4 jobs of an earlier launcher: cancelled" in done.err
    assert jobs(made) == []
    made.is_clean()


def test_an_interrupted_launcher_cancels_what_waits_and_what_runs(study):
    made = study(server=HOLDS, client=ONCE, scheduler_arg_client=["--exclusive"])
    launcher = made.start()
    made.wait_for("): submitted", 4)
    launcher.send_signal(signal.SIGTERM)
    assert finish(launcher).status == 128 + signal.SIGTERM
    wait_until(lambda: jobs(made) == [])
    made.is_clean()


def stand_in(study: Study, name: str, text: str) -> dict[str, str]:
    """A command of Slurm's that is in trouble at first."""
    directory = study.directory / "bin"
    directory.mkdir(exist_ok=True)
    real = shutil.which(name)
    path = directory / name
    path.write_text(f'#!/bin/sh\nreal={real}\n{text}\nexec $real "$@"\n')
    path.chmod(0o755)
    return {"PATH": f"{directory}:{BIN}:{os.environ['PATH']}"}


@pytest.mark.long
def test_an_sbatch_that_hangs_after_it_has_submitted_doubles_no_job(study):
    made = study(server=SERVER_OF_4, command_timeout=1.5)
    text = '[ -e once ] || { touch once; $real "$@" >/dev/null; exec sleep 600; }'
    made.environment.update(stand_in(made, "sbatch", text))
    done = made.run()
    assert done.status == 0, done.err
    assert "sbatch did not answer within 1.5 s; the scheduler is asked for its name" in done.err
    assert len(made.files("job.1.server.out")) == 1 and not made.files("job.2.server.out")
    made.is_clean()


@pytest.mark.long
def test_a_job_that_vanishes_from_squeue_and_sacct_is_cancelled_and_asked_for_again(study):
    made = study(server=SERVER_OF_4, client="[ $MELISSA_CLIENT_ID != 1 ] || sleep 20")
    made.environment.update(stand_in(made, "squeue", '$real "$@" | grep -v -e "-3$"; exit 0'))
    made.environment.update(stand_in(made, "sacct", "exit 0"))
    done = made.run()
    assert done.status == 0, done.err
    assert re.search(r"client 1 \(job \d+\): the scheduler knows it no more; cancelled", done.err)
    (said,) = made.files("job.*.server.out")
    assert re.findall(r"^1 (FAILED|TERMINATED)$", said, re.M) == ["FAILED", "TERMINATED"]
    assert jobs(made) == []
    made.is_clean()


SACCT = r"""
for word; do case $word in --jobs=*) ids=${word#--jobs=} ;; esac; done
for id in $(echo "$ids" | tr , ' '); do echo "$id|COMPLETED"; done; exit 0
"""


def test_a_job_that_squeue_has_forgotten_has_ended_as_sacct_says(study):
    made = study(server=SERVER_OF_4)
    forgets = '$real "$@" | grep -v -e "|COMPLETED|.*-3$"; exit 0'
    made.environment.update(stand_in(made, "squeue", forgets))
    made.environment.update(stand_in(made, "sacct", SACCT))
    done = made.run()
    assert done.status == 0, done.err
    assert "the scheduler knows it no more" not in done.err
    (said,) = made.files("job.*.server.out")
    assert re.findall(r"^1 (FAILED|TERMINATED)$", said, re.M) == ["TERMINATED"]
    assert re.fullmatch(r"\d+\|COMPLETED\n", (made.out / "sacct.out").read_text())
    made.is_clean()


@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="no Open MPI")
def test_a_study_runs_by_yod_by_open_mpi_and_by_slurm_with_one_word_changed(study):
    made = study(server=SERVER_OF_4)
    directory = made.directory / "bin"
    directory.mkdir()
    (directory / "mpirun").symlink_to(str(shutil.which("mpirun.openmpi")))
    made.environment["PATH"] = f"{directory}:{made.environment['PATH']}"
    made.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    made.environment |= {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
    for word in ("yod", "openmpi", "slurm"):
        made.out = made.directory / f"by 100% {word}"
        made.configure(scheduler=word, output_dir=str(made.out))
        done = made.run()
        assert done.status == 0, f"{word}: {done.err}"
        assert sum("client" in text for text in made.files("job.*.client-*.out")) == 4
        made.is_clean()


@pytest.mark.long
def test_a_scheduler_that_is_down_for_a_while_is_waited_for(study):
    made = study(server=SERVER_OF_4)
    down = (
        'if [ ! -e up ]; then echo "$0: error: Unable to contact slurm controller" >&2; exit 1; fi'
    )
    for name in ("sbatch", "squeue"):
        made.environment.update(stand_in(made, name, down))
    launcher = made.start()
    made.wait_for("the server: not submitted: sbatch: ", 2)
    (made.directory / "up").touch()
    (made.out / "up").touch()
    done = finish(launcher)
    assert done.status == 0, done.err
    made.is_clean()


def in_allocation(made: Study, *options: str) -> Done:
    words = ["salloc", "-Q", *options, str(BIN / "yod-ensemble"), "--config", "study.json"]
    return finish(made.start_other(*words))


def test_one_allocation_is_for_server_and_clients(study):
    made = study(scheduler="slurm-global", server=SERVER_OF_4)
    done = in_allocation(made, "-N2", "-n8")
    assert done.status == 0, done.err
    assert sum("client" in text for text in made.files("job.*.client-*.out")) == 4
    made.is_clean()


@pytest.mark.long
def test_the_server_runs_in_the_allocation_and_clients_are_submitted(study):
    made = study(scheduler="slurm-semiglobal", server=SERVER_OF_4)
    done = in_allocation(made, "-N1", "-n1")
    assert done.status == 0, done.err
    assert len(list(made.out.glob("sbatch.*.sh"))) == 4
    made.is_clean()


@pytest.mark.long
@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="no Open MPI")
def test_mpirun_runs_jobs_in_an_allocation(study):
    mpirun = "mpirun.openmpi"
    made = study(
        scheduler="slurm-openmpi",
        server=SERVER_OF_4,
        scheduler_arg=["--allow-run-as-root", "--oversubscribe"],
        scheduler_client_command=mpirun,
        scheduler_server_command=mpirun,
    )
    done = in_allocation(made, "-N1", "-n4")
    assert done.status == 0, done.err
    made.is_clean()
