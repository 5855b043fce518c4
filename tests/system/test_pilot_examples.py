"""The programs in examples/pilot."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.partition import ROOT
from tests.support.wait import LIMIT_S

EXAMPLES = ROOT / "examples" / "pilot"
PRINTED = {
    "bag.py": r"\{'DONE': 100\}\n",
    "mpi.py": (
        r"task.000000 DONE \['rank 0 of 1'\] \n"
        r"task.000001 DONE \['rank 0 of 2', 'rank 1 of 2'\] \n"
        r"task.000002 DONE \['rank 0 of 4', .* 'rank 3 of 4'\] \n"
    ),
    "staging.py": r"\['DONE', 'DONE', 'DONE', 'DONE'\]\n\['8', '8', '8', '8'\]\n",
    "callbacks.py": (
        r"(pilot.0000: PMGR_\w+\n){4}"
        r"(task.00000\d of generation \d: DONE\n){5}pilot.0000: CANCELED\n"
    ),
    "pilots.py": r"\[\('pilot.0000', \d+\), \('pilot.0001', \d+\)\]\n\{'pilot.0001'\}\n",
    "raptor.py": r"328350 hello raptor\nDONE \['DONE'\]\n",
    "service.py": r"DONE hello AGENT_EXECUTING 4711\nCANCELED\n",
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_says(place, tmp_path, name):
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(PRINTED[name], done.stdout), done.stdout


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} >= PRINTED.keys()
