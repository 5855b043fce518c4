"""Nodes with features, and who asks for them, with real processes."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.batch import Jobs
from tests.support.wait import wait_until

FILE = """\
node0 features=gpu,rack1
node1 features=gpu,ib,rack1
node2 features=ib,rack2
node3 features=rack2
"""
SAY = ("sh", "-c", "echo $YOD_NODE")


@pytest.fixture
def jobs(start_local, tmp_path):
    """Four nodes of two slots."""
    file = tmp_path / "nodes"
    file.write_text(FILE)
    found = Jobs(start_local(4, slots=2, bebopd_options=("--nodes-file", file)), tmp_path)
    yield found
    found.close()


def nodes_of(done) -> list[str]:
    assert (done.status, done.err) == (0, ""), done
    return sorted(done.out.split())


def test_launches_allocations_and_batch_jobs_get_nodes_with_the_features(jobs):
    partition = jobs.partition
    assert nodes_of(partition.yod("--constraint", "ib", "-sz", "3", *SAY)) == ["1", "1", "2"]
    assert nodes_of(partition.yod("--constraint", "gpu&(ib|rack2)", *SAY)) == ["1"]
    done = jobs.yodjob("alloc", "-quiet", "-C", "rack2&ib", "yod", *SAY)
    assert nodes_of(done) == ["2"]
    job_id = jobs.submit(text=f"#SBATCH -C rack2\n#SBATCH -n 3\nyod -sz 3 {SAY[0]} -c '{SAY[2]}'")
    assert jobs.wait(job_id) == 0
    assert jobs.row(job_id)["nodes"] == [2, 3]


def test_an_exclusive_or_gives_all_nodes_from_one_set(jobs):
    both = ("--constraint", "[rack1|rack2]")
    held = jobs.submit("-list", "0", "--wrap", "read line <go")
    wait_until(lambda: jobs.state(held) == "RUNNING")
    assert nodes_of(jobs.partition.yod(*both, "-sz", "4", *SAY)) == ["2", "2", "3", "3"]
    also = jobs.submit("-list", "3", "--wrap", "read line <go")
    wait_until(lambda: jobs.state(also) == "RUNNING")
    waits = jobs.submit(*both, "-sz", "4", "--wrap", "true")
    assert "without the same of [rack1|rack2]" in jobs.yodjob("why", waits).out
    busy = jobs.partition.yod(*both, "-sz", "4", *SAY)
    assert (busy.status, "free now" in busy.err) == (125, True)
    jobs.go.say()
    jobs.go.say()
    assert jobs.wait(held, also, waits) == 0
    assert jobs.row(waits)["nodes"] in ([0, 1], [2, 3])


def test_so_many_nodes_of_a_job_have_the_features_that_are_counted(jobs):
    counts = ("--constraint", "ib*1&gpu*2", "-sz", "3", "-N", "3")
    assert nodes_of(jobs.partition.yod(*counts, *SAY)) == ["0", "1", "2"]
    text = f"#SBATCH -C [rack1*2|rack2*2]\n#SBATCH -N 2\n#SBATCH -n 4\nyod -sz 4 {SAY[0]} -c true"
    held = jobs.submit("-list", "1", "-sz", "2", "--wrap", "read line <go")
    wait_until(lambda: jobs.state(held) == "RUNNING")
    job_id = jobs.submit(text=text)
    assert jobs.wait(job_id) == 0
    assert jobs.row(job_id)["nodes"] == [2, 3]
    waits = jobs.submit("-C", "gpu*2", "-sz", "4", "--wrap", "true")
    assert "free now" in jobs.yodjob("why", waits).out
    jobs.go.say()
    assert jobs.wait(held, waits) == 0
    assert {0, 1} <= set(jobs.row(waits)["nodes"])
    done = jobs.yodjob("submit", "-sz", "8", "-C", "gpu*3", "--wrap", "true")
    line = "yodjob: 3 nodes with gpu requested, there are 2\n"
    assert (done.status, done.err) == (1, line)
    done = jobs.partition.yod("--constraint", "gpu*2", "true")
    line = "yod: 2 nodes with gpu requested for a job of 1 rank\n"
    assert (done.status, done.err) == (125, line)


def test_what_no_node_has_is_refused_at_once(jobs):
    done = jobs.partition.yod("--wait", "--constraint", "fpga", "true")
    assert (done.status, done.err) == (
        125,
        "yod: --constraint fpga: no node has the feature fpga; there are gpu, ib, rack1, rack2\n",
    )
    done = jobs.yodjob("submit", "-sz", "5", "-C", "[rack1|rack2]", "--wrap", "true")
    assert (done.status, done.err) == (
        1,
        "yodjob: 5 ranks requested, 4 slots there (nodes 2..3 are without the same of"
        " [rack1|rack2])\n",
    )
    done = jobs.yodjob("submit", "-C", "a&", "--wrap", "true")
    assert (done.status, done.err) == (
        1,
        "yodjob: --constraint a&: no node has the feature a; there are gpu, ib, rack1, rack2\n",
    )


def test_a_new_nodes_file_holds_for_those_that_wait(jobs):
    text = "yod true; echo up >said; read line <go"
    held = jobs.submit("-C", "rack1", "-sz", "4", "--wrap", text)
    waits = jobs.submit("-C", "gpu", "--wrap", "true")
    assert "without gpu" in jobs.yodjob("why", waits).out
    bebopd = jobs.partition.bebopd
    (jobs.directory / "nodes").write_text(FILE.replace("node3 features=", "node3 features=gpu,"))
    os.kill(bebopd.unix_pid, signal.SIGHUP)
    wait_until(lambda: "is in force" in bebopd.text())
    assert jobs.wait(waits) == 0
    assert jobs.row(waits)["nodes"] == [3]
    jobs.said.until("up\n")  # and its nodes are its broker's
    bebopd.kill()
    jobs.partition.replace_bebopd()
    wait_until(lambda: jobs.state(held) == "RUNNING")
    jobs.go.say()
    assert jobs.wait(held) == 0


def test_a_partition_without_a_nodes_file_has_none(here):
    done = here.yod("--constraint", "gpu", "true")
    assert done.status == 125
    assert "no node has the feature gpu; the nodes file of bebopd names none" in done.err
