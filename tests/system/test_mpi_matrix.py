"""Each MPI library makes one world, without an option, wherever its ranks are.

The program checks a collective, a megabyte to the next rank, and memory shared with
the ranks of its node; see tests/support/mpi_programs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.mpi import Mpi, without_noise, world
from tests.support.partition import EXAMPLES, Done, Partition
from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.mpi
LONG = pytest.mark.long


@pytest.fixture
def mpi(every_mpi: Mpi) -> Mpi:
    """All five: this is the matrix."""
    return every_mpi


def is_world(done: Done, size: int, on_node: int, times: int = 1) -> None:
    """A run was ``times`` worlds of ``size`` ranks, and nobody complained."""
    assert without_noise(done.err) == ""
    assert sorted(done.out.splitlines()) == sorted(world(size, on_node) * times)
    assert done.status == 0


def run(partition: Partition, mpi: Mpi, size: int) -> Done:
    return partition.yod("-sz", str(size), *mpi.program, "life", env=mpi.program_env)


@pytest.mark.warm
@pytest.mark.parametrize("size", [1, pytest.param(2, marks=LONG), 4])
def test_one_world_in_the_embedded_partition(embedded, mpi, size):
    is_world(run(embedded, mpi, size), size, mpi.on_node(size))


def test_one_world_on_two_nodes_of_one_host(start_local, mpi):
    mpi.skip_on_nodes_of_a_host()
    done = run(start_local(2, slots=2), mpi, 4)
    assert without_noise(done.err) == ""
    # Libraries that see one kernel may find four ranks on a node.
    assert sorted(done.out.splitlines()) in [world(4, mpi.on_node(2)), world(4, mpi.on_node(4))]
    assert done.status == 0


@pytest.mark.hosts
@pytest.mark.parametrize("count", [pytest.param(1, marks=LONG), 2, 4])
def test_one_world_on_hosts(start_hosts, mpi, count):
    hosts = start_hosts(count, slots=4 // count)
    is_world(run(hosts, mpi, 4), 4, mpi.on_node(4 // count))


@pytest.mark.hosts
@pytest.mark.parametrize(
    ("count", "size"),
    [pytest.param(2, 1, marks=LONG), (2, 2), (4, 1), pytest.param(4, 2, marks=LONG)],
)
def test_one_world_of_one_rank_on_each_host_asked_for(start_hosts, mpi, count, size):
    hosts = start_hosts(count, slots=1)
    is_world(run(hosts, mpi, size), size, 1)


@pytest.mark.hosts
@pytest.mark.parametrize(
    ("nodes", "shared"), [((0, 1, 0, 1), (2, 2, 2, 2)), ((1, 0, 0, 0), (1, 3, 3, 3))]
)
def test_one_world_whatever_the_order_of_its_nodes(start_hosts, mpi, tmp_path, nodes, shared):
    """Round robin, and one rank beside three."""
    hosts = start_hosts(2, slots=3)
    load = tmp_path / "order.load"
    words = " ".join(mpi.program)
    load.write_text("".join(f"-sz 1 -list {node} {words} life\n" for node in nodes))
    done = hosts.yod(load, env=mpi.program_env)
    counts = enumerate(map(mpi.on_node, shared))
    expected = {f"rank {rank} of 4, {count} on its node" for rank, count in counts}
    assert (done.status, set(done.out.splitlines())) == (0, expected), done
    assert without_noise(done.err) == ""


@pytest.mark.warm
@pytest.mark.parametrize("is_bound", [False, True])
def test_ranks_run_on_the_processors_of_yod_and_no_library_binds_them_anew(embedded, mpi, is_bound):
    processors = os.sched_getaffinity(0)
    bound = {max(processors)} if is_bound else processors
    try:
        os.sched_setaffinity(0, bound)
        done = embedded.yod("-sz", "2", *mpi.program, "place", env=mpi.program_env)
    finally:
        os.sched_setaffinity(0, processors)
    numbers = ",".join(map(str, sorted(bound)))
    here = mpi.on_node(2)
    lines = [f"rank {r}: {r % here} of {here} here, processors {numbers}" for r in range(2)]
    assert (done.status, without_noise(done.err)) == (0, ""), done
    assert sorted(done.out.splitlines()) == lines


def test_one_world_of_programs_in_the_other_language(embedded, mpi):
    """C with PyPI's libraries, and mpi4py with Debian's."""
    program, env = mpi.python_program, mpi.python_env
    if mpi.library.main_kind == "python":
        program, env = mpi.c_program, mpi.c_env
    is_world(embedded.yod("-sz", "2", *program, "life", env=env), 2, mpi.on_node(2))


def run_twice(partition: Partition, mpi: Mpi) -> Done:
    words = ["sh", "-c", '"$@" && exec "$@"', "sh", *mpi.program, "life"]
    return partition.yod("-sz", "2", *words, env=mpi.program_env)


def test_a_program_run_twice_in_each_rank_makes_two_worlds(embedded, mpi):
    is_world(run_twice(embedded, mpi), 2, mpi.on_node(2), times=2)


@pytest.mark.hosts
def test_a_program_run_twice_in_each_rank_makes_two_worlds_on_hosts(start_hosts, mpi):
    is_world(run_twice(start_hosts(2, slots=1), mpi), 2, 1, times=2)


def both_hear_their_own_line(partition: Partition, mpi: Mpi) -> None:
    """Two worlds that are there at the same time."""
    words = ["-sz", "2", *mpi.program, "wait"]
    with (
        partition.start_yod(*words, env=mpi.program_env) as one,
        partition.start_yod(*words, env=mpi.program_env) as other,
    ):
        for yod in (one, other):
            read_until(yod.stdout.fileno(), b"up\n")
        for yod, word in ((one, "a"), (other, "b")):
            out, err = yod.communicate(word.encode(), timeout=LIMIT_S)
            heard = [line for line in out.decode().splitlines() if line != "up"]
            assert sorted(heard) == [f"rank {rank} of 2 heard {word}" for rank in range(2)]
            assert (yod.returncode, without_noise(err.decode())) == (0, "")


@pytest.mark.warm
def test_two_jobs_at_once_do_not_meet(embedded, mpi):
    both_hear_their_own_line(embedded, mpi)


@pytest.mark.hosts
def test_two_jobs_at_once_on_the_same_hosts_do_not_meet(start_hosts, mpi):
    both_hear_their_own_line(start_hosts(2, slots=2), mpi)


def load_in_two_languages(mpi: Mpi, path: Path, what: str) -> Path:
    """A load file: one rank in C, three in Python."""
    c_words, python_words = (" ".join(words) for words in (mpi.c_program, mpi.python_program))
    path.write_text(f"{c_words} {what}\n-sz 3 {python_words} {what}\n")
    return path


def test_a_master_in_c_and_workers_in_python_are_one_world(embedded, mpi, tmp_path):
    load = load_in_two_languages(mpi, tmp_path / "farm.load", "farm")
    done = embedded.yod(load, env=mpi.mixed_env)
    assert (done.status, done.out) == (0, "3 workers: sum of squares 2470\n")
    assert without_noise(done.err) == ""


@pytest.mark.hosts
def test_programs_in_c_and_in_python_are_one_world_on_hosts(start_hosts, mpi, tmp_path):
    load = load_in_two_languages(mpi, tmp_path / "life.load", "life")
    is_world(start_hosts(2, slots=2).yod(load, env=mpi.mixed_env), 4, mpi.on_node(2))


@pytest.mark.hosts
@pytest.mark.parametrize("where", ["one host", "four hosts"])
def test_the_ring_of_the_examples_is_one_world(mpi, where, request):
    if where == "one host":
        partition: Partition = request.getfixturevalue("embedded")
    else:
        partition = request.getfixturevalue("start_hosts")(4, slots=1)
    python = mpi.library.python
    done = partition.yod("-sz", "4", python, EXAMPLES / "ring.py", env=mpi.python_env)
    assert done.out == "ring of 4: the token came back as 6, expected 6\n"
    assert (done.status, without_noise(done.err)) == (0, "")


def test_the_ring_of_the_examples_in_c_is_one_world(embedded, mpi):
    program = mpi.compile("ring", (EXAMPLES / "ring.c").read_text())
    done = embedded.yod("-sz", "4", program, env=mpi.c_env)
    assert done == (0, "ring of 4: the token came back as 6, expected 6\n", "")


@pytest.mark.warm
def test_the_universe_is_told_where_no_library_takes_it_for_a_bound(here, mpi):
    """MPICH fails once there are more ranks; its own launcher tells it nothing."""
    done = here.yod("-sz", "2", *mpi.program, "universe", env=mpi.program_env)
    sizes = {int(line.removeprefix("universe ")) for line in done.out.splitlines()}
    assert sizes == {4 if mpi.library.family == "openmpi" else -1}, done
