"""The examples of docs/pilot.md, each as a program of its own."""

from __future__ import annotations

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


def test_every_example_is_run():
    assert len(EXAMPLES) == len(PRINTED)
