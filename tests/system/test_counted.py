"""Memory and GPUs of nodes, with real processes: the site says what each node has."""

from __future__ import annotations

import pytest

from tests.support.batch import Jobs
from tests.support.partition import BIN, Partition, finish

SHOW = ("sh", "-c", "echo $YOD_RANK $YOD_NODE $CUDA_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES")
STEPS = (
    "yod -sz 2 --gpus-per-rank 1 sh -c 'echo $CUDA_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES';"
    "yod -N 1 --gpus-per-node 3 true; yod --mem 2G true"
)


@pytest.fixture
def two(start_local) -> Partition:
    """Two nodes of four slots, three GPUs and 4 GiB."""
    return start_local(2, slots=4, env={"YOD_GPUS": "a100:3", "YOD_MEMORY": "4G"})


def test_each_rank_sees_its_own_gpus(two):
    done = two.yod("-sz", "3", "--gpus-per-rank", "1", "-N", "2", *SHOW)
    assert sorted(done.out.splitlines()) == ["0 0 0 0", "1 0 1 0", "2 1 0 0"], done
    done = two.yod("-sz", "3", "--gpus-per-rank", "2", "true")
    text = "3 ranks on 1 node with 2 GPUs for each rank requested"
    assert done.status == 125 and text in done.err, done


def test_what_no_node_has_is_refused_with_the_number(two):
    done = two.yod("--wait", "--mem", "5G", "true")
    assert "5 GiB of memory on each node requested, the largest node has 4 GiB" in done.err, done
    done = two.yod("--wait", "--gpus-per-node", "4", "true")
    assert "4 GPUs on each node requested, no node has more than 3" in done.err, done


def test_steps_take_what_their_allocation_was_given(two):
    words = ("--gpus-per-node", "2", "--mem", "1G", "-sz", "2")
    done = finish(two.start_command(BIN / "yodjob", "alloc", "-quiet", *words, "sh", "-c", STEPS))
    assert sorted(done.out.splitlines()) == ["0 0", "1 0"], done
    assert "3 GPUs on each node requested, no node has more than 2" in done.err, done
    assert "2 GiB of memory on each node requested, the largest node has 1 GiB" in done.err, done


def test_who_waits_for_memory_and_gpus_knows_when_and_is_passed_only_by_who_needs_none(
    two, tmp_path
):
    jobs = Jobs(two, tmp_path)
    hold = ("--wrap", "echo up > said; read line <go")
    for node in ("0", "1"):
        jobs.submit("-list", node, "--mem", "3G", "-time", "60", *hold)
        jobs.said.until("up\n")
    asks = ("--mem", "2G", "--gpus-per-node", "3", "-sz", "2", "-N", "2", "-time", "10")
    waits = jobs.submit(*asks, "--wrap", "true")
    done = jobs.yodjob("why", waits)
    assert "2 ranks requested on 2 nodes" in done.out and " (in 59:" in done.out, done
    long = jobs.submit("--gpus-per-node", "1", "-time", "2:00:00", "--wrap", "true")
    assert jobs.wait(jobs.submit("--mem", "1G", "-time", "10", "--wrap", "true")) == 0
    assert jobs.wait(jobs.submit("-time", "2:00:00", "-sz", "3", "--wrap", "true")) == 0
    assert jobs.state(long) == "PENDING"
    for _ in range(2):
        jobs.go.say()
    assert jobs.wait(waits, long) == 0
    jobs.close()
