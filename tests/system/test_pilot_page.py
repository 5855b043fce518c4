"""The examples of docs/pilot.md, each as a program of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support.partition import ROOT
from tests.support.wait import LIMIT_S
from yod.pilot.model.states import TASK

PAGE = (ROOT / "docs" / "pilot.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
PRINTED = {  # by a word of the example
    "echo $((": r"328350\n",
    "yod.pilot.Executor": r"9\n332833500\n\[0, 1\]\n",
    "def square(n):\n    print": (
        r"DONE 9 None square of 3\nDONE 16 None square of 4\n"
        r"FAILED None TypeError\(.*\) square of five\n"
    ),
    "yod.pilot.open": r"DONE hello\n\n\['0', '1', '2', '3', '4'\]\n",
    "def told": "".join(rf"task.000000 {state}\n" for state in [*TASK.states[1:], "DONE"]),
}


@pytest.mark.parametrize("word", PRINTED)
def test_an_example_does_what_the_page_says(place, tmp_path, word):
    (example,) = [text for text in EXAMPLES if word in text]
    command = [sys.executable, "-c", example]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(PRINTED[word], done.stdout), done.stdout


def test_the_first_steps_lead_to_a_picture_as_the_page_has_them(place, tmp_path):
    begin = PAGE.index("## From nothing to results")
    (tmp_path / "first.py").write_text(EXAMPLES[0])
    lines = re.findall(r"^    (\$ .*|\S.*)$", PAGE[begin : PAGE.index("\n## Pilots")], re.M)
    steps = lines[next(n for n, line in enumerate(lines) if line.startswith("$")) :]
    script = "\n".join(line[2:] for line in steps if line.startswith("$"))
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    (session,) = tmp_path.glob("rp.session.*")
    expected = [line for line in steps if not line.startswith("$")]
    named = [line.replace("rp.session.n1.ann.20783.0000", session.name) for line in expected]
    assert done.stdout.splitlines() == named
    assert "exec_cmd" in (session / "plot.html").read_text()


def test_every_example_is_run():
    assert len(EXAMPLES) == len(PRINTED)
