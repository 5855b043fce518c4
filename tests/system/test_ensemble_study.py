"""The example study in a small version, and servers written in C."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.support import oar
from tests.support.ensemble import Study
from tests.support.partition import BIN, EXAMPLES, finish

C_SERVER = r"""
#include <yod_ensemble.h>
int main(void)
{
    struct yod_ensemble server;
    struct yod_ensemble_update update;
    int ended = 0, found;

    if (yod_ensemble_open(&server) != 0)
        return 1;
    if (yod_ensemble_variable(&server, "FROM_C=yes") != 0
        || yod_ensemble_group_size(&server, 2) != 0 || yod_ensemble_submit(&server, 0, 5) != 0)
        return 2;
    while (ended < 5) {
        found = yod_ensemble_poll(&server, 60000, &update);
        if (found != 1)
            return 3;
        printf("%u %d\n", (unsigned)update.client, (int)update.state);
        if (update.client == 4 && update.state == YOD_ENSEMBLE_RUNNING)
            yod_ensemble_cancel(&server, 4);
        ended += update.state >= YOD_ENSEMBLE_TERMINATED;
    }
    if (yod_ensemble_finish(&server) != 0)
        return 4;
    yod_ensemble_close(&server);
    return 0;
}
"""


def mean_of_all(study: dict) -> np.ndarray:
    """The mean of the last step, computed without the launcher."""
    n, steps = study["points"], study["steps"]
    draws = np.random.default_rng(study["seed"]).uniform(0, 100, (study["simulations"], 5))
    plates = np.repeat(draws[:, :1, None], n, 1).repeat(n, 2)
    plates[:, 0], plates[:, -1] = draws[:, 1, None], draws[:, 2, None]
    plates[:, :, 0], plates[:, :, -1] = draws[:, 3, None], draws[:, 4, None]
    for _ in range(steps * 10):
        around = plates[:, :-2, 1:-1] + plates[:, 2:, 1:-1] + plates[:, 1:-1, :-2]
        around += plates[:, 1:-1, 2:]
        plates[:, 1:-1, 1:-1] += 0.2 * (around - 4 * plates[:, 1:-1, 1:-1])
    return plates.mean(0)


SCHEDULERS = [
    "yod",
    pytest.param(
        "openmpi",
        marks=[
            pytest.mark.long,
            pytest.mark.mpi,
            pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="no Open MPI"),
        ],
    ),
]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_example_loses_and_doubles_no_field_though_clients_and_server_fail(
    place, tmp_path, scheduler
):
    for path in (EXAMPLES / "ensemble").iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    whole = json.loads((tmp_path / "study.json").read_text())
    whole["study"] |= {"simulations": 16, "points": 8, "steps": 4}
    section = whole["launcher_config"]
    section |= {"scheduler": scheduler, "output_dir": str(tmp_path / "out"), "bind": "127.0.0.1"}
    if scheduler == "openmpi":
        section["scheduler_arg"] = ["--allow-run-as-root", "--oversubscribe"]
        section["scheduler_client_command"] = section["scheduler_server_command"] = "mpirun.openmpi"
    (tmp_path / "study.json").write_text(json.dumps(whole))
    command = [BIN / "yod-ensemble", "--config", tmp_path / "study.json"]
    path = f"{BIN}:{os.environ['PATH']}"
    done = finish(
        subprocess.Popen(
            command,
            env={**place.environment(), "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    )
    assert done.status == 0, done.err
    said = "".join(path.read_text() for path in (tmp_path / "out").glob("job.*.server.out"))
    assert "client 3 has failed, and is asked for again" in said
    assert "goes on: 2 of 4 clients have ended" in said
    found = re.search(r"16 simulations; mean ([\d.]+), heat\.svg", said)
    assert found and found[1] == f"{mean_of_all(whole['study']).mean():.4f}"
    assert (tmp_path / "out" / "heat.svg").read_text().endswith("</svg>")


def test_a_server_in_c_does_the_same(place, tmp_path, programs):
    flags = subprocess.run(
        [sys.executable, "-m", "native", "--cflags"], capture_output=True, text=True, check=True
    ).stdout.split()
    warnings = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    program = programs.compile("ensemble_server", C_SERVER, *flags, *warnings)
    client = '[ $MELISSA_CLIENT_ID != 4 ] || exec sleep 600; echo "$FROM_C $YOD_GROUP_SIZE"'
    made = Study(place, tmp_path, client=client, server_executable=str(program))
    done = made.run()
    assert done.status == 0, done.err
    assert made.files("job.*.client-*.out").count("yes 2\nyes 2\n") == 4
    (said,) = made.files("job.*.server.out")
    assert sorted(said.split("\n"))[1:] == sorted(
        [f"{client} {state}" for client in range(4) for state in (0, 1, 2)]
        + [f"4 {state}" for state in (0, 1, 3)]
    )
    made.is_clean()


@pytest.mark.parametrize("scheduler", ["oar", pytest.param("oar-hybrid", marks=pytest.mark.long)])
def test_a_study_runs_by_the_commands_of_oar(place, tmp_path, scheduler):
    directory = oar.make(tmp_path)
    path = f"{directory}:{BIN}:{os.environ['PATH']}"
    fails = "[ $MELISSA_CLIENT_ID != 3 ] || [ -e again ] || { touch again; exit 5; }; echo well"
    made = Study(place, tmp_path, client=fails, scheduler=scheduler, env={"PATH": path})
    done = made.run()
    assert done.status == 0, done.err
    assert "client 3 (job" in done.err
    assert sum("well" in text for text in made.files("job.*.client-*.out")) == 10
    types = [path.read_text() for path in (directory / "jobs").glob("*.words")]
    assert sum("--type=container" in text for text in types) == (scheduler == "oar-hybrid")
    made.is_clean()
