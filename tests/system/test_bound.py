"""Ranks that are bound to cores, with real processes and a tree of files for the topology."""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.partition import BIN, Done, finish
from tests.support.topology import write_tree
from tests.support.wait import LIMIT_S, read_until

CPUS = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="needs two processors")

SCRIPT = "import os; print(os.environ['YOD_RANK'], *sorted(os.sched_getaffinity(0)))"
SAY = (sys.executable, "-c", SCRIPT)
EACH = [(CPUS[0],), (CPUS[1],)]
BOTH = tuple(CPUS[:2])


@pytest.fixture
def sockets(tmp_path):
    """The environment of a host that has two sockets of one core each."""
    rows = [(cpu, nth, str(cpu)) for nth, cpu in enumerate(BOTH)]
    numa = {nth: str(cpu) for nth, cpu in enumerate(BOTH)}
    root = write_tree(tmp_path / "root", rows, online=",".join(map(str, BOTH)), numa=numa)
    return {"YOD_FSROOT": str(root)}


@pytest.fixture
def halves(tmp_path):
    """The environment of a host that has one socket of two cores, each in a NUMA node."""
    rows = [(cpu, 0, str(cpu)) for cpu in BOTH]
    numa = {nth: str(cpu) for nth, cpu in enumerate(BOTH)}
    root = write_tree(tmp_path / "root", rows, online=",".join(map(str, BOTH)), numa=numa)
    return {"YOD_FSROOT": str(root)}


@pytest.fixture
def threads(tmp_path):
    """The environment of a host that has one core of two threads."""
    siblings = ",".join(map(str, BOTH))
    root = write_tree(tmp_path / "root", [(cpu, 0, siblings) for cpu in BOTH], online=siblings)
    return {"YOD_FSROOT": str(root)}


def cpus_of(done: Done) -> list[tuple[int, ...]]:
    """Rank by rank the processors that it may use."""
    assert done.status == 0, done
    rows = sorted(tuple(map(int, line.split())) for line in done.out.splitlines())
    return [row[1:] for row in rows]


@pytest.mark.parametrize(
    ("words", "cpus"),
    [
        (("-sz", "2", "--ranks-per-socket", "1"), EACH),
        (("--sockets-per-node", "2"), EACH),
        (("--sockets-per-node", "2", "--ranks-per-socket", "1"), EACH),
        (("-sz", "2", "--ranks-per-numa", "1"), EACH),
        (("-sz", "2", "--ranks-per-core", "1"), EACH),
        (("-sz", "1", "--threads-per-core", "1"), EACH[:1]),
        (("-sz", "1", "--ranks-per-core", "1", "--cores-per-rank", "2"), [BOTH]),
    ],
)
def test_ranks_have_cores_of_their_own_where_a_selector_says_so(start_local, sockets, words, cpus):
    one = start_local(1, slots=4, env=sockets)
    assert cpus_of(one.yod(*words, *SAY)) == cpus


def test_ranks_without_such_a_selector_are_bound_to_none(start_local, sockets):
    one = start_local(1, slots=4, env=sockets)
    assert cpus_of(one.yod("-sz", "2", "--cores-per-rank", "2", *SAY)) == [tuple(CPUS)] * 2


def test_a_rank_has_all_threads_of_its_core_or_those_that_are_asked_for(start_local, threads):
    one = start_local(1, slots=4, env=threads)
    assert cpus_of(one.yod("--ranks-per-core", "1", *SAY)) == [BOTH]
    assert cpus_of(one.yod("--threads-per-core", "2", *SAY)) == [BOTH]
    assert cpus_of(one.yod("--threads-per-core", "1", *SAY)) == EACH[:1]


def test_a_rank_may_use_all_of_the_socket_or_of_the_numa_node_that_its_core_is_of(
    start_local, halves
):
    one = start_local(1, slots=4, env=halves)
    assert cpus_of(one.yod("-sz", "2", "--bind", "numa", *SAY)) == EACH
    assert cpus_of(one.yod("-sz", "2", "--bind", "socket", *SAY)) == [BOTH] * 2
    assert cpus_of(one.yod("-sz", "2", "--bind", "core", *SAY)) == EACH
    assert cpus_of(one.yod("-sz", "2", "--bind", "none", *SAY)) == [tuple(CPUS)] * 2
    wide = one.yod("--bind", "numa", "--cores-per-rank", "2", "true")
    assert "2 cores of one NUMA node for each rank requested, the largest has 1" in wide.err, wide


def test_the_picture_of_a_binding_is_what_the_ranks_of_one_host_have(embedded, halves):
    words = ("-sz", "2", "--bind", "socket")
    drawn = embedded.yod(*words, "--dry-run", *SAY, env=halves)
    first, second = BOTH
    text = f"processors {first}-{second}" if second == first + 1 else f"processors {first},{second}"
    for line in (
        "  socket 0, NUMA node 0: [0-1]",
        "  socket 0, NUMA node 1: [0-1]",
        f"  rank 0: socket 0, {text}",
        f"  rank 1: socket 0, {text}",
    ):
        assert line in drawn.out.splitlines(), drawn
    assert cpus_of(embedded.yod(*words, *SAY, env=halves)) == [BOTH] * 2


def test_a_later_job_has_other_cores_until_the_first_gives_its_own_back(start_local, sockets):
    one = start_local(1, slots=4, env=sockets)
    hold = ("sh", "-c", "echo up; read line")
    first = one.start_yod("--ranks-per-core", "1", *hold)
    assert read_until(first.stdout.fileno(), b"up\n") == b"up\n"
    assert cpus_of(one.yod("--ranks-per-core", "1", *SAY)) == EACH[1:]
    refused = one.yod("-sz", "2", "--ranks-per-core", "1", "true")
    assert "3 of 4 slots, 1 of 2 cores free now" in refused.err, refused
    first.communicate(b"\n", timeout=LIMIT_S)
    assert cpus_of(one.yod("--ranks-per-core", "1", *SAY)) == EACH[:1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--sockets-per-node", "3"), "3 sockets of each node requested, no node has more than 2"),
        (
            ("--threads-per-core", "2"),
            "2 threads of each core requested, no core has more than 1",
        ),
        (
            ("--ranks-per-socket", "1", "--cores-per-rank", "2"),
            "2 cores of one socket for each rank requested, the largest has 1",
        ),
    ],
)
def test_what_no_node_can_give_is_refused_at_once(start_local, sockets, words, text):
    done = start_local(1, slots=4, env=sockets).yod("--wait", *words, "true")
    assert (done.status, done.err) == (125, f"yod: {text}\n")


def test_the_embedded_partition_binds_ranks_too(embedded):
    assert cpus_of(embedded.yod("-sz", "2", "--ranks-per-core", "1", *SAY)) == EACH
    many = embedded.yod("-sz", str(len(CPUS) + 1), "--ranks-per-core", "1", "true")
    assert f"there is room for {len(CPUS)} on 1 node" in many.err, many


def test_steps_have_cores_of_those_that_their_allocation_has(start_local, sockets):
    one = start_local(1, slots=4, env=sockets)
    say = f'{SAY[0]} -c "{SCRIPT}"'
    steps = ("", "--ranks-per-core 1", "--bind socket")
    script = "; ".join(f"yod {step} {say}" for step in steps) + "; yod -sz 2 --bind core true"
    hold = one.start_yod("--ranks-per-core", "1", "sh", "-c", "echo up; read line")
    read_until(hold.stdout.fileno(), b"up\n")
    words = ("-quiet", "-sz", "1", "--ranks-per-socket", "1", "sh", "-c", script)
    done = finish(one.start_command(BIN / "yodjob", "alloc", *words))
    assert done.out == f"0 {CPUS[1]}\n" * 3, done
    assert done.status == 125
    hold.communicate(b"\n", timeout=LIMIT_S)


def test_an_allocation_that_asked_for_no_cores_has_none_to_bind_steps_to(start_local, sockets):
    one = start_local(1, slots=4, env=sockets)
    words = ("-quiet", "-sz", "2", "yod", "--ranks-per-core", "1", "true")
    done = finish(one.start_command(BIN / "yodjob", "alloc", *words))
    assert done.status == 125
    assert "no node has any to be bound to" in done.err, done
