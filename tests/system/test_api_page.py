"""The examples of docs/api.md, each as a program of its own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.partition import ROOT, finish
from tests.support.wait import LIMIT_S

PAGE = (ROOT / "docs" / "api.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
ON_DAEMONS = {  # examples that need a partition
    "api.submit": r"in the queue: True\nCOMPLETED 0 2\nFAILED 3\n",
}
PRINTED = {  # by a word of the example
    'api.run(["echo"': r"(hello\n){4}0\n",
    "stdin_ranks": r"(got [0-5]\n){6}",
    "merge=True": r"\[0-3\] loaded mesh\n\[2\] two iterations more\n",
    "remote_io=data": r"(from the host of the program\n){2}back\n",
    "some input": r"(\d \S+ \d+ 0 run \d+\n){2}",
    "JobFailedError": r"[12] .*ended with exit code [12].*\n",
    "no-such-program": r"the job did not end in 0.5 s; .*\nno-such-program: .*\n",
    "read_load_file": r"((master|worker \d)\n){8}",
    "gather": r"\['0', '1', '2', '3', '4'\]\n",
    "api.Started": r"job \S+ runs: .*\n(.*\n)*over: 0\n",
    "api.allocate(4)": r"held: 4\n(0 [1-4]\n){4}",
    'api.launch(["cat"]': r"b'a line\\n'\nnothing is left of the job\nout of time\n",
}


@pytest.mark.parametrize("word", PRINTED)
def test_an_example_does_what_the_page_says(here, tmp_path, word):
    (example,) = [text for text in EXAMPLES if word in text]
    options = {"cwd": tmp_path, "stdin": subprocess.DEVNULL}
    with here.start_command(sys.executable, "-c", example, **options) as python:
        out, err = python.communicate(timeout=LIMIT_S)
    assert python.returncode == 0, err.decode()
    assert re.fullmatch(PRINTED[word], out.decode()), (out, err)


@pytest.mark.parametrize("word", ON_DAEMONS)
def test_an_example_with_a_partition_does_what_the_page_says(start_local, tmp_path, word):
    (example,) = [text for text in EXAMPLES if word in text]
    options = {"cwd": tmp_path, "stdin": subprocess.DEVNULL}
    partition = start_local(1, slots=2)
    done = finish(partition.start_command(sys.executable, "-c", example, **options))
    assert (done.status, done.err) == (0, "")
    assert re.fullmatch(ON_DAEMONS[word], done.out), done.out


def test_every_example_is_run():
    assert len(EXAMPLES) == len(PRINTED) + len(ON_DAEMONS)
