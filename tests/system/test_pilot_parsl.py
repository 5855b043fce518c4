"""Parsl's apps in the workers of a pilot, and its workers by yod, with Parsl itself."""

from __future__ import annotations

import subprocess

from tests.support.extras import PYTHON
from tests.support.partition import finish
from tests.support.wait import LIMIT_S

SCRIPT = """
import parsl
from parsl.config import Config
from yod.pilot.parsl import YodExecutor

executor = YodExecutor(max_workers=2)
with parsl.load(Config(executors=[executor], usage_tracking=0)):
    @parsl.python_app
    def square(n):
        return n * n

    @parsl.bash_app
    def echo(text, stdout=parsl.AUTO_LOGNAME):
        return f"echo {text}"

    @parsl.python_app
    def rank(parsl_resource_specification={}):
        import os
        return int(os.environ["RP_RANK"])

    @parsl.python_app
    def bad():
        raise ValueError("no")

    print(square(square(3)).result(60))
    app = echo("hello")
    print(app.result(60), open(app.stdout).read().strip())
    print(rank(parsl_resource_specification={"cores": 2}).result(60))
    print(repr(bad().exception(60)))
    print(type(rank(parsl_resource_specification={"core": 2}).exception(60)).__name__)
"""


def test_apps_run_in_a_pilot_with_what_they_need(place, tmp_path):
    command = [PYTHON, "-c", SCRIPT]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "81",
        "0 hello",
        "[0, 1]",
        "ValueError('no')",
        "InvalidResourceSpecification",
    ]


LAUNCHER = """
from yod.pilot.parsl import YodLauncher
print(YodLauncher(options="--label")("echo $YOD_NODE_NAME; exit $YOD_RANK", 2, 2))
"""


def test_the_workers_of_a_block_are_started_by_yod(start_local, tmp_path):
    command = [PYTHON, "-c", LAUNCHER]
    made = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    partition = start_local(3, slots=2)
    done = finish(partition.start_command("/bin/sh", "-c", made.stdout, cwd=tmp_path))
    assert sorted(done.out.splitlines()) == ["0: node0", "1: node0", "2: node1", "3: node1"]
