"""yod --after: steps that wait for other steps, and launches that wait for other jobs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.partition import BIN, Done, Partition, finish
from tests.support.wait import read_until
from yod import api

# `a STATUS` is step 1: it has all slots, says when it runs, and is told when to end.
# `waits NAME WORDS...` is a yod in the background that has said what it waits for.
SHELL = """
    mkfifo up go
    a() { yod -sz 2 sh -c "[ \\$YOD_RANK = 0 ] || { echo > up; read line < go; exit $1; }"; }
    waits() {
        name=$1; shift; mkfifo $name.told
        { yod "$@" 2> $name.told; echo $name $?; } &
        { read line <&3; echo "$line"; cat <&3 >&2 & } 3< $name.told
    }
    first=$YOD_ALLOCATION.1
"""


@pytest.fixture
def steps(anywhere: Partition, tmp_path: Path) -> Callable[[str], Done]:
    """Run a shell script in an allocation of two slots."""

    def steps(script: str) -> Done:
        words = ("-quiet", "-sz", "2", "sh", "-c", SHELL + script)
        return finish(anywhere.start_command(BIN / "yodjob", "alloc", *words, cwd=tmp_path))

    return steps


def test_a_step_begins_when_another_has_ended_well_and_holds_no_slot_before(steps):
    script = """
        a 0 & read line < up
        waits b --after afterok:$first -sz 2 sh -c 'echo b ran'
        echo > go; wait
        yod --after afterok:$first echo and again
    """
    done = steps(script)
    told, *rest = done.out.splitlines()
    assert told.startswith("yod: waits: job ")
    assert told.endswith(".1 is to end well first; Ctrl-C leaves")
    assert (done.status, rest, done.err) == (0, ["b ran", "b ran", "b 0", "and again"], "")


def test_one_that_waits_for_others_holds_back_no_later_step(steps):
    script = """
        yod sh -c 'echo > up; read line < go' & read line < up
        waits b --after afterany:$first -sz 2 echo b
        yod echo c
        echo > go; wait
    """
    assert steps(script).out.splitlines()[1:] == ["c", "b", "b", "b 0"]


def test_a_step_that_can_never_begin_ends_at_once_with_the_reason(steps):
    script = """
        a 3 & read line < up
        waits b --after afterok:$first echo b
        waits c --after afternotok:$first echo c ran
        echo > go; wait
        yod --after afterok:$first echo b
        echo late $?
    """
    done = steps(script)
    assert done.status == 0
    assert sorted(done.out.splitlines()[2:]) == ["b 125", "c 0", "c ran", "late 125"]
    assert done.err.count("has ended and was to end well (afterok:") == 2


def test_a_step_whose_yod_is_killed_has_not_ended_well(steps):
    script = """
        yod -sz 2 sh -c '[ $YOD_RANK != 0 ] || echo > up; exec sleep 600' & killed=$!
        read line < up
        waits b --after afterok:$first echo b
        waits c --after afternotok:$first echo c ran
        kill -KILL $killed; wait
    """
    done = steps(script)
    assert sorted(done.out.splitlines()[2:]) == ["b 125", "c 0", "c ran"]


def test_a_step_waits_for_the_beginning_of_another_with_overlap_beside_it(steps):
    script = """
        a 0 & read line < up
        yod --after after:$first --overlap echo beside
        echo > go; wait
    """
    done = steps(script)
    assert (done.status, done.out, done.err) == (0, "beside\n", "")


def test_what_does_not_wait_or_names_what_nobody_knows_fails_at_once_with_one_line(steps):
    script = """
        a 0 & read line < up
        yod --immediate --after afterok:$first true; echo $?
        yod --wait=0.1 --after afterok:$first true; echo $?
        yod --after afterok:$YOD_ALLOCATION.9 true; echo $?
        yod --after afterok:9 true; echo $?
        yod --after soon:$first true; echo $?
        echo > go; wait
    """
    done = steps(script)
    assert done.out.split() == ["125"] * 5
    immediate, waits, late, unknown, no_step, no_kind = done.err.splitlines()
    assert immediate.endswith(".1 is to end well first")
    assert waits.endswith(".1 is to end well first; Ctrl-C leaves")
    assert ": no nodes in 0.1 s (--wait): job " in late
    assert "no job " in unknown and "(YOD_ENDED_COUNT)" in unknown
    assert ": 9 is no step of this allocation, as " in no_step
    assert ": no kind soon; after, afterany, afterok, afternotok" in no_kind


def test_a_yod_in_a_step_cannot_wait_for_the_end_of_that_step(steps):
    done = steps("yod sh -c 'yod --overlap --after afterany:$YOD_JOB_ID true'")
    assert done.status == 125
    assert ", and the yod that asks runs in it" in done.err


def test_an_interrupt_leaves_while_a_step_waits_for_another(steps):
    script = """
        a 0 & read line < up
        mkfifo told
        env --default-signal=INT yod --after afterok:$first echo b 2> told & waiting=$!
        { read line; kill -INT $waiting; wait $waiting; echo $?; } < told
        echo > go; wait
    """
    assert steps(script).out == f"{128 + signal.SIGINT}\n"


@pytest.fixture
def four(start_local) -> Partition:
    """Two nodes of two slots."""
    return start_local(2, slots=2)


def holding(partition: Partition, *words: str) -> subprocess.Popen[bytes]:
    """A launch whose rank has said its job's id, and ends with the end of its input."""
    return partition.start_yod(*words, "sh", "-c", "echo $YOD_JOB_ID; read line; exit 4")


def test_a_launch_waits_for_another_one_of_its_partition_without_more_words(four):
    first = holding(four)
    job_id = read_until(first.stdout.fileno(), b"\n").decode().strip()
    second = four.start_yod("--after", f"afternotok:{job_id}", "echo", "second")
    said = read_until(second.stderr.fileno(), b"leaves\n")
    assert said == f"yod: waits: job {job_id} is to fail first; Ctrl-C leaves\n".encode()
    assert finish(first).status == 4
    assert finish(second) == (0, "second\n", "")


def test_a_launch_waits_for_a_batch_job(four, tmp_path):
    os.mkfifo(tmp_path / "go")
    words = ("submit", "-quiet", "--wrap", "read line < go")
    job_id = finish(four.start_command(BIN / "yodjob", *words, cwd=tmp_path)).out.strip()
    launch = four.start_yod("--after", f"afterok:{job_id}", "echo", "behind it")
    read_until(launch.stderr.fileno(), b"is to end well first; Ctrl-C leaves\n")
    (tmp_path / "go").write_text("\n")
    assert finish(launch) == (0, "behind it\n", "")


def test_a_detached_launch_waits_as_a_batch_job_does(four, tmp_path):
    os.mkfifo(tmp_path / "go")
    words = ("submit", "-quiet", "--wrap", "read line < go; exit 1")
    job_id = finish(four.start_command(BIN / "yodjob", *words, cwd=tmp_path)).out.strip()
    done = finish(four.start_yod("--detach", "--after", f"afternotok:{job_id}", "true"))
    assert f" submitted; it waits: job {job_id} is to fail first; yodjob attach " in done.out
    (tmp_path / "go").write_text("\n")
    waited = finish(four.start_command(BIN / "yodjob", "wait", done.out.split()[1]))
    assert waited == (0, "", "")


def test_where_nobody_knows_other_jobs_it_is_refused_with_one_line(embedded):
    line = "without a partition or an allocation nobody knows other jobs"
    for words in (("--after", "afterok:3", "true"), ("--detach", "--after", "afterok:3", "true")):
        done = finish(embedded.start_yod(*words))
        assert (done.status, done.out) == (125, "")
        assert done.err == f"yod: --after afterok:3: {line}\n"


def test_steps_of_a_python_program_wait_as_well(place):
    with api.allocate(1, partition="embedded") as held:
        assert api.run(["false"], allocation=held, quiet=True).exit_status == 1
        done = api.run(["true"], allocation=held, after=f"afternotok:{held.id}.1")
        assert done.exit_status == 0
        done = api.run(["true"], allocation=held, after=f"afterok:{held.id}.1")
        assert done.exit_status == 125
