"""`yod --stall`: a job whose ranks do nothing is said to stand still, with the stacks of all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from tests.support.partition import Partition
from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.warm

# They work until all have begun, however long that takes.
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
open("begun" + os.environ["YOD_RANK"], "w").close()
while not all(os.path.exists(f"begun{rank}") for rank in range(4)):
    pass
solve()
print("through", flush=True)
"""
STANDS = b"the job stands still: for "
STACKS = [
    "<module> (solve.py:16)",
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
import os, sys, threading, time
limit_s = float(sys.argv[1])
end = time.monotonic() + limit_s
if os.environ["YOD_RANK"] == "0":
    while time.monotonic() < end: pass
else:
    threading.Event().wait(limit_s)
"""


def stands_never_still(partition: Partition, size: int, words: Callable[[int], tuple[str, ...]]):
    """A job of such words is not said to stand still.

    A rank that gets no processor for the limit stands still indeed, so a longer one is tried then.

    Args:
        words: of a program, by the limit.
    """
    for limit_s in (1, 4, 16):
        stall = f"0:{limit_s:02}"
        done = partition.yod("-sz", str(size), "--stall", stall, *words(limit_s))
        assert done.status == 0, done
        if "stands still" not in done.err:
            return
    raise AssertionError(done)


@pytest.mark.parametrize("how", ["exec", ""])
def test_a_job_of_which_one_rank_computes_or_a_child_of_it_does_not_stand_still(embedded, how):
    script = f'{how} "$0" -c "$1" "$2"; exit $?'

    def words(limit_s: int) -> tuple[str, ...]:
        return ("sh", "-c", script, sys.executable, WORKS, str(3 * limit_s))

    stands_never_still(embedded, 2, words)


def test_a_rank_that_writes_now_and_then_keeps_the_job_alive(embedded):
    script = "for n in 1 2 3 4 5 6; do echo $n; sleep $0; done"
    stands_never_still(embedded, 1, lambda limit_s: ("sh", "-c", script, str(limit_s / 2)))


def test_what_is_no_time_is_refused(embedded):
    done = embedded.yod("--stall", "soon", "true")
    assert (done.status, done.out) == (125, "")
    assert done.err.startswith("yod: --stall soon: no time above 0; use minutes, ")
