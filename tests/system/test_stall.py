"""`yod --stall`: a job whose ranks do nothing is said to stand still, with the stacks of all."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.warm

PROGRAM = """
import os
def barrier():
    with open("gate") as gate:
        gate.read()
def solve():
    if os.environ["YOD_RANK"] == "1":
        odd()
    else:
        barrier()
def odd():
    barrier()
solve()
print("through", flush=True)
"""
STANDS = b"the job stands still: for "
STACKS = [
    "<module> (solve.py:13)",
    "[0,2..3] solve (solve.py:10)",
    "  barrier (solve.py:4)",
    "[1] solve (solve.py:8)",
    "  odd (solve.py:12)",
    "  barrier (solve.py:4)",
]


def test_a_job_that_stands_still_shows_where_its_ranks_are_once_and_goes_on(anywhere, tmp_path):
    tmp_path.chmod(0o777)
    program, gate = tmp_path / "solve.py", tmp_path / "gate"
    program.write_text(PROGRAM)
    os.mkfifo(gate)
    gate.chmod(0o666)
    words = ("-sz", "4", "--stall", "0:01", "--chdir", str(tmp_path), sys.executable, str(program))
    with anywhere.start_yod(*words) as yod:
        seen = read_until(yod.stderr.fileno(), b"odd (solve.py:12)\nyod:   barrier (solve.py:4)\n")
        open(gate, "w").close()
        out, err = yod.communicate(timeout=LIMIT_S)
    assert (out, yod.returncode) == (b"through\n" * 4, 0), err
    assert (seen + err).count(STANDS) == 1
    lines = [line.removeprefix("yod: ") for line in seen.partition(STANDS)[2].decode().splitlines()]
    assert lines[0].endswith(" s no rank has written or used processor time")
    assert lines[1].startswith("[0..3] python")
    assert lines[2:] == STACKS


WORKS = """
import os, threading, time
end = time.monotonic() + 3
if os.environ["YOD_RANK"] == "0":
    while time.monotonic() < end: pass
else:
    threading.Event().wait(3)
"""


@pytest.mark.parametrize("how", ["exec", ""])
def test_a_job_of_which_one_rank_computes_or_a_child_of_it_does_not_stand_still(embedded, how):
    words = ("sh", "-c", f'{how} "$0" -c "$1"; exit $?', sys.executable, WORKS)
    done = embedded.yod("-sz", "2", "--stall", "0:01", *words)
    assert done.status == 0 and "stands still" not in done.err, done


def test_a_rank_that_writes_now_and_then_keeps_the_job_alive(embedded):
    words = ("sh", "-c", "for n in 1 2 3 4 5 6; do echo $n; sleep 0.5; done")
    done = embedded.yod("-sz", "1", "--stall", "0:01", *words)
    assert done.status == 0 and "stands still" not in done.err, done


def test_what_is_no_time_is_refused(embedded):
    done = embedded.yod("--stall", "soon", "true")
    assert (done.status, done.out) == (125, "")
    assert done.err.startswith("yod: --stall soon: no time above 0; use minutes, ")
