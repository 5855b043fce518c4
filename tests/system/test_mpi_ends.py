"""However an MPI program ends, its job ends with the status that tells, and nothing is left.

What is left behind (processes, segments in /dev/shm, session directories) is looked for
after every test: see tests/support/leaks.py.
"""

from __future__ import annotations

import signal

import pytest

from tests.support.mpi import Mpi
from tests.support.partition import Done, Partition
from tests.support.wait import LIMIT_S, read_until

pytestmark = pytest.mark.mpi

STAGES = ["before-init", "after-init", "in-collective", "after-finalize"]
# The ranks that wait for the dead one are ended by yod; not after the default time.
SOON = {"YOD_KILL_DELAY_S": "0.2"}


def run(partition: Partition, mpi: Mpi, *words: str) -> Done:
    return partition.yod("-sz", "2", *mpi.program, *words, env={**mpi.program_env, **SOON})


@pytest.mark.warm
def test_mpi_abort_ends_the_job_with_its_code(embedded, mpi_or_intel):
    done = run(embedded, mpi_or_intel, "abort", "7")
    assert done.status == 7, done


@pytest.mark.hosts
def test_mpi_abort_ends_the_job_on_other_hosts_as_well(start_hosts, mpi_or_intel):
    done = run(start_hosts(2, slots=1), mpi_or_intel, "abort", "7")
    assert done.status == 7, done


@pytest.mark.parametrize("stage", STAGES)
def test_a_rank_that_ends_with_a_code_ends_the_job_with_it(embedded, mpi, stage):
    done = run(embedded, mpi, "die", stage, "9")
    assert done.status == 9, done
    assert "rank 1" in done.err and "exit code 9" in done.err


@pytest.mark.parametrize("stage", STAGES)
def test_a_rank_that_is_killed_ends_the_job_with_its_signal(embedded, mpi, stage):
    done = run(embedded, mpi, "die", stage, "-9")
    assert done.status == 128 + signal.SIGKILL, done
    assert "rank 1" in done.err and "SIGKILL" in done.err


@pytest.mark.hosts
@pytest.mark.parametrize("stage", ["after-init", "in-collective"])
def test_a_rank_that_is_killed_on_another_host_ends_the_job(start_hosts, mpi_or_intel, stage):
    """With its signal, even where the other rank's library sees it first and aborts."""
    done = run(start_hosts(2, slots=1), mpi_or_intel, "die", stage, "-9")
    assert done.status == 128 + signal.SIGKILL, done
    lines = [line for line in done.err.splitlines() if line.startswith("yod: rank 1 on ")]
    assert lines and all("killed by SIGKILL" in line for line in lines), done


@pytest.mark.warm
def test_an_interrupted_job_leaves_nothing(embedded, mpi):
    with embedded.start_yod("-sz", "2", *mpi.program, "up", env=mpi.program_env) as yod:
        read_until(yod.stdout.fileno(), b"up\n")
        yod.send_signal(signal.SIGINT)
        _, err = yod.communicate(timeout=LIMIT_S)
    assert b"SIGTERM" in err


@pytest.mark.hosts
def test_a_killed_yod_leaves_nothing_on_its_hosts(start_hosts, mpi):
    hosts = start_hosts(2, slots=1)
    with hosts.start_yod("-sz", "2", *mpi.program, "up", env=mpi.program_env) as yod:
        read_until(yod.stdout.fileno(), b"up\n", times=2)
        yod.kill()


@pytest.mark.warm
def test_a_world_can_be_made_after_one_that_was_aborted(embedded, mpi):
    assert run(embedded, mpi, "abort", "7").status == 7
    assert run(embedded, mpi, "life").status == 0
