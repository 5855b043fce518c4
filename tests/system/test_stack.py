"""`yodjob stack`: where the ranks of a job are."""

from __future__ import annotations

import json
import re
import sys
import time

import pytest

from tests.support.partition import finish
from tests.support.wait import wait_until

pytestmark = pytest.mark.warm

PROGRAM = """
import os, time
def barrier():
    open("waits" + os.environ["YOD_RANK"], "w").close()
    time.sleep(600)
def solve():
    if os.environ["YOD_RANK"] == "2":
        odd()
    barrier()
def odd():
    barrier()
solve()
"""


def ids(partition) -> list[str]:
    done = partition.yodjob("list", "--json")
    return [job["id"] for job in json.loads(done.out)["jobs"]]


def stack(partition, job_id: str, *words: str):
    return partition.yodjob("stack", job_id, *words)


def test_the_stacks_of_all_ranks_are_one_tree_whose_odd_one_is_last(anywhere, tmp_path):
    tmp_path.chmod(0o777)
    program = tmp_path / "solve.py"
    program.write_text(PROGRAM)
    words = ("-sz", "5", "--chdir", str(tmp_path), sys.executable, str(program))
    with anywhere.start_yod(*words) as yod:
        wait_until(lambda: len(list(tmp_path.glob("waits*"))) == 5)
        wait_until(lambda: ids(anywhere))
        (job_id,) = ids(anywhere)
        shown = stack(anywhere, job_id)
        assert shown.status == 0, shown.err
        lines = shown.out.splitlines()
        assert re.fullmatch(r"\[0..4\] python[.0-9]*", lines[0])
        rest = ["<module> (solve.py:12)"]
        rest += ["[0..1,3..4] solve (solve.py:9)", "  barrier (solve.py:5)"]
        rest += ["[2] solve (solve.py:8)", "  odd (solve.py:11)", "  barrier (solve.py:5)"]
        assert lines[1:] == rest, shown
        told = json.loads(stack(anywhere, job_id, "--json").out)
        assert told["id"] == job_id and "1 0..4 <module> (solve.py:12)" in told["stacks"]
        yod.terminate()
    assert yod.returncode != 0


def test_a_program_in_c_is_looked_at_and_a_stopped_one_is_named(here):
    with here.start_yod("-sz", "2", "sh", "-c", "kill -STOP $$; exit 3") as yod:
        wait_until(lambda: ids(here))
        (job_id,) = ids(here)

        def stopped() -> str:
            out = stack(here, job_id).out
            return out if "[0..1] sh (stopped)\n" in out else ""

        shown = wait_until(stopped, what="both ranks stopped")
        assert "main" in shown or "(in the kernel" in shown
        yod.terminate()


@pytest.mark.cold
def test_where_tools_are_too_slow_for_all_ranks_the_kernel_tells_of_the_rest(embedded, tmp_path):
    """A debugger that takes half a second for each of 40 ranks, of which a node has 4 at once."""
    for name in ("gdb", "eu-stack"):
        (tmp_path / name).write_text("#!/bin/sh\nsleep 0.5\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "YOD_LOOK_S": "4"}
    with embedded.start_yod("-sz", "40", "sleep", "600", env=env) as yod:
        wait_until(lambda: ids(embedded))
        (job_id,) = ids(embedded)

        def looked() -> str:
            done = stack(embedded, job_id)
            return done.out if "[0..39] sleep\n" in done.out else ""

        assert "(in the kernel: " in wait_until(looked, what="all ranks in the tree")
        yod.terminate()


def test_a_job_that_is_not_there_has_no_stacks(here):
    done = stack(here, "local.77")
    assert (done.status, done.out) == (1, "")
    assert done.err == "yodjob: local.77: there is no such job of yours on this host\n"


def test_a_look_never_holds_the_end_of_a_job_up(here):
    with here.start_yod("-sz", "8", sys.executable, "-c", "import time; time.sleep(600)") as yod:
        wait_until(lambda: ids(here))
        (job_id,) = ids(here)
        asked = here.start_yodjob("stack", job_id)
        began = time.monotonic()
        yod.terminate()
        yod.wait()
        assert time.monotonic() - began < 10.0
        assert finish(asked).status in (0, 1)
