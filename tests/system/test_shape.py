"""How the ranks of a launch lie on nodes, with real processes."""

from __future__ import annotations

import pytest

from tests.support.partition import BIN, Done, Partition, finish
from tests.support.wait import LIMIT_S, read_until


@pytest.fixture
def three(start_local) -> Partition:
    """Three nodes of four slots."""
    return start_local(3, slots=4)


def nodes_of(done: Done) -> list[str]:
    """Rank by rank the node that it saw itself on."""
    assert done.status == 0, done
    by_rank = sorted((int(rank), node) for rank, node in map(str.split, done.out.splitlines()))
    return [node for _, node in by_rank]


# until the end of rank 0's input
HOLDS = ("sh", "-c", "echo $YOD_CORES_PER_RANK; [ $YOD_RANK = 0 ] && read line; true")
SAY = ("sh", "-c", "echo $YOD_RANK $YOD_NODE")


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        (("-N", "3"), "012"),
        (("-N2", "--ranks-per-node", "3"), "000111"),
        (("-sz", "5", "-N", "2"), "00011"),
        (("-sz", "4", "--ranks-per-node=2"), "0011"),
        (("-list", "2,1", "--ranks-per-node", "2"), "2211"),
        (("-sz", "3", "--cores-per-rank", "3"), "012"),
        (("-sz", "3", "--cores-per-rank", "2"), "001"),
        (("-sz", "5", "--distribution", "cyclic"), "01201"),
        (("-N", "2", "-sz", "5", "--distribution=plane=2"), "00110"),
    ],
)
def test_ranks_are_where_nodes_and_ranks_per_node_say(three, words, nodes):
    assert nodes_of(three.yod(*words, *SAY)) == list(nodes)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("-N", "4"), "4 nodes requested, the partition has 3"),
        (("-N", "2", "-sz", "1"), "1 rank on 2 nodes: these contradict one another"),
        (
            ("-N", "2", "--ranks-per-node", "5"),
            "10 ranks requested on 2 nodes, at most 5 on each, 12 slots there on 3 nodes,"
            " at most 4 on one",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_once_with_numbers(three, words, text):
    done = three.yod("--wait", *words, "true")
    assert (done.status, done.out) == (125, "")
    assert done.err == f"yod: {text}\n"


def test_a_rank_has_its_cores_and_is_told_how_many(three):
    script = "echo $YOD_CORES_PER_RANK; [ $YOD_RANK = 0 ] && read line; true"
    job = three.start_yod("-sz", "3", "--cores-per-rank", "4", "sh", "-c", script)
    assert read_until(job.stdout.fileno(), b"4\n4\n4\n") == b"4\n4\n4\n"
    refused = three.yod("true")
    assert refused.err == (
        "yod: 1 rank requested, 0 of 12 slots free now (nodes 0..2 are in use)\n"
    )
    job.communicate(b"\n", timeout=LIMIT_S)
    assert job.returncode == 0
    assert three.yod("sh", "-c", "echo $YOD_CORES_PER_RANK").out == "1\n"


def test_mpi_ranks_that_are_dealt_find_one_another(three):
    done = three.yod(
        *("-sz", "6", "--distribution=cyclic", "--mpi=pmi1"),
        *("sh", "-c", "echo $PMI_RANK $YOD_NODE"),
    )
    assert nodes_of(done) == list("012012")


def test_a_load_files_lines_have_shapes_of_their_own(three, tmp_path):
    file = tmp_path / "load"
    file.write_text(
        "--cores-per-rank 4 sh -c 'echo $YOD_RANK $YOD_NODE'\n"
        "-N 2 --ranks-per-node 2 sh -c 'echo $YOD_RANK $YOD_NODE'\n"
    )
    assert nodes_of(three.yod(file)) == list("01122")


def test_an_allocation_has_the_cores_of_its_ranks(three):
    script = "echo $YOD_SLOTS $YOD_NODE_SLOTS; yod -sz 2 --cores-per-rank 3 echo x"
    words = ("-quiet", "-N", "2", "--cores-per-rank", "3", "sh", "-c", script)
    done = finish(three.start_command(BIN / "yodjob", "alloc", *words))
    assert (done.status, done.out) == (0, "6 3,3\nx\nx\n")


def test_an_allocations_slots_are_dealt_to_its_nodes(three):
    words = ("-quiet", "-sz", "5", "--distribution", "cyclic", "sh", "-c", "echo $YOD_NODE_SLOTS")
    done = finish(three.start_command(BIN / "yodjob", "alloc", *words))
    assert (done.status, done.out) == (0, "2,2,1\n")


def test_an_exclusive_job_is_alone_on_its_nodes(three):
    job = three.start_yod("-N", "2", "--exclusive", *HOLDS)
    read_until(job.stdout.fileno(), b"1\n1\n")
    assert nodes_of(three.yod("-sz", "4", *SAY)) == list("2222")
    refused = three.yod("-sz", "5", "true")
    assert refused.err == (
        "yod: 5 ranks requested, 4 of 12 slots free now (nodes 0..1 are in use)\n"
    )
    job.communicate(b"\n", timeout=LIMIT_S)
    assert job.returncode == 0


def test_an_exclusive_allocation_holds_whole_nodes_and_its_steps_may_be_alone(three):
    script = "echo $YOD_NODE_SLOTS; yod -N 1 --exclusive yod --immediate -sz 5 true"
    words = ("-quiet", "-N", "2", "--exclusive", "sh", "-c", script)
    done = finish(three.start_command(BIN / "yodjob", "alloc", *words))
    assert (done.status, done.out) == (125, "4,4\n")
    assert "yod: 5 ranks requested, 4 of 8 slots free now (node 0 " in done.err


def test_an_embedded_partition_is_one_node(embedded):
    done = embedded.yod("-N", "2", "true")
    assert (done.status, done.err) == (125, "yod: 2 nodes requested, the partition has 1\n")
    assert embedded.yod("-N", "1", "--ranks-per-node", "3", "echo", "x").out == "x\n" * 3


def test_steps_ask_an_allocation_as_jobs_ask_the_partition(three):
    script = f"yod -N 2 {SAY[0]} -c '{SAY[2]}'; yod -N 3 true"
    words = ("-quiet", "-N", "2", "--ranks-per-node", "2", "sh", "-c", script)
    done = finish(three.start_command(BIN / "yodjob", "alloc", *words))
    assert sorted(done.out.splitlines()) == ["0 0", "1 1"]
    assert (done.status, done.err) == (125, "yod: 3 nodes requested, the partition has 2\n")
