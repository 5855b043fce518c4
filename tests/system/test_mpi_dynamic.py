"""MPI programs that start more processes, or meet by name; mpi4py's own programs.

MPICH 4.0 as Debian builds it can do neither, under any launcher: there its own error is
what the user gets. MPICH 5 as Debian builds it starts processes on one host alone.
"""

from __future__ import annotations

import signal

import pytest

from tests.support.mpi import Mpi, without_noise
from tests.support.partition import EXAMPLES, Done, Partition

pytestmark = pytest.mark.mpi

SOON = {"YOD_KILL_DELAY_S": "0.2"}


def run(partition: Partition, mpi: Mpi, *words: str, size: int = 2) -> Done:
    env = {**mpi.program_env, **mpi.library.spawn_env, **SOON}
    return partition.yod("-sz", str(size), *mpi.program, *words, env=env)


def says(done: Done, mpi: Mpi, *lines: str) -> None:
    """A run ended well and said these lines, in any order; or as the library must."""
    if mpi.library.cannot_spawn:
        assert mpi.library.cannot_spawn in done.err and done.status != 0, done
        return
    assert sorted(without_noise(done.out).splitlines()) == sorted(lines), done
    assert (done.status, without_noise(done.err)) == (0, ""), done


def met(parents: int, children: int) -> list[str]:
    """What a world says that has started another, and what that says."""
    count = parents + children
    said = [f"parent {r} of {parents} met {children}: {count}" for r in range(parents)]
    return said + [f"child {r} of {children} met {parents}: {count}" for r in range(children)]


@pytest.mark.warm
@pytest.mark.parametrize("parents", [1, 2])
def test_spawned_processes_meet_their_parents(embedded, mpi_or_intel, parents):
    done = run(embedded, mpi_or_intel, "spawn", "2", size=parents)
    says(done, mpi_or_intel, *["appnum 0"] * 2, *met(parents, 2))


@pytest.mark.hosts
def test_spawned_processes_meet_their_parents_on_hosts(start_hosts, mpi_or_intel):
    mpi_or_intel.skip_on_connecting_worlds()
    done = run(start_hosts(2, slots=2), mpi_or_intel, "spawn", "2")
    says(done, mpi_or_intel, *["appnum 0"] * 2, *met(2, 2))


def test_processes_spawned_in_the_other_language_meet_their_parents(embedded, spawning_mpi):
    """From C with PyPI's libraries, with mpi4py from Debian's."""
    program, env = spawning_mpi.python_program, spawning_mpi.python_env
    if spawning_mpi.library.main_kind == "python":
        program, env = spawning_mpi.c_program, spawning_mpi.c_env
    env = {**env, **spawning_mpi.library.spawn_env}
    done = embedded.yod("-sz", "2", *program, "spawn", "2", env=env)
    says(done, spawning_mpi, *["appnum 0"] * 2, *met(2, 2))


def test_several_programs_are_spawned_as_one_world(embedded, mpi):
    done = run(embedded, mpi, "spawn-multiple")
    says(done, mpi, "appnum 0", "appnum 1", "appnum 1", *met(2, 3))


@pytest.mark.warm
def test_a_spawn_of_a_program_that_does_not_exist_is_an_error_and_no_more(embedded, mpi):
    """The application may go on."""
    done = run(embedded, mpi, "spawn-missing", size=1)
    assert done.out == "not spawned\n", done
    assert done.status == 0, done


@pytest.mark.parametrize(("how", "status"), [("9", 9), ("-9", 128 + signal.SIGKILL)])
def test_a_spawned_process_that_ends_badly_ends_the_job(embedded, mpi_or_intel, how, status):
    done = run(embedded, mpi_or_intel, "spawn-die", how, size=1)
    if mpi_or_intel.library.cannot_spawn:
        assert mpi_or_intel.library.cannot_spawn in done.err and done.status != 0, done
    else:
        assert done.status == status, done


@pytest.mark.parametrize("size", [2, 4])
def test_two_halves_of_a_world_meet_by_a_published_name(embedded, mpi, size):
    mpi.skip_on_connecting_worlds()
    done = run(embedded, mpi, "publish", size=size)
    if mpi.library.cannot_spawn:
        assert "not currently supported" in done.err or "not supported" in done.err, done
        assert done.status != 0
        return
    says(done, mpi, *(f"rank {rank} connected: {size}" for rank in range(size)))


@pytest.mark.hosts
def test_two_halves_of_a_world_meet_by_a_published_name_on_hosts(start_hosts, mpi):
    mpi.skip_on_connecting_worlds()
    done = run(start_hosts(2, slots=1), mpi, "publish")
    if mpi.library.cannot_spawn:
        assert done.status != 0
        return
    says(done, mpi, *(f"rank {rank} connected: 2" for rank in range(2)))


# -- mpi4py's own programs --------------------------------------------------


def python(partition: Partition, mpi: Mpi, size: int, *words: str) -> Done:
    env = {**mpi.python_env, **mpi.library.spawn_env}
    return partition.yod("-sz", str(size), mpi.library.python, *words, env=env)


def test_mpi4py_says_hello(embedded, mpi):
    done = python(embedded, mpi, 3, "-m", "mpi4py.bench", "helloworld")
    host = embedded.node_names[0]
    lines = {f"Hello, World! I am process {rank} of 3 on {host}." for rank in range(3)}
    assert set(done.out.splitlines()) == lines, done
    assert done.status == 0


def test_mpi4py_sends_a_message_round(embedded, mpi):
    done = python(embedded, mpi, 2, "-m", "mpi4py.bench", "ringtest", "-n", "4096", "-l", "3")
    assert "(2 processes, 4096 bytes)" in done.out, done
    assert done.status == 0


def test_an_exception_under_mpi4py_run_aborts_the_whole_world(embedded, mpi, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from mpi4py import MPI\n"
        "assert MPI.COMM_WORLD.Get_rank() == 0, 'not the first'\n"
        "MPI.COMM_WORLD.Barrier()\n"
    )
    done = python(embedded, mpi, 2, "-m", "mpi4py.run", str(script))
    assert done.status == 1, done
    assert "not the first" in done.err


POOL = """
import operator
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    with MPIPoolExecutor({}) as pool:
        print(sum(pool.map(operator.mul, range(10), range(10))), flush=True)
"""


def test_a_pool_of_the_ranks_of_the_world_computes(embedded, mpi, tmp_path):
    """One rank is the master, as ``python -m mpi4py.futures`` has it."""
    script = tmp_path / "pool.py"
    script.write_text(POOL.format(""))
    done = python(embedded, mpi, 3, "-m", "mpi4py.futures", str(script))
    assert (done.status, done.out) == (0, "285\n"), done


def computes(done: Done, mpi: Mpi, answer: str) -> None:
    """The answer came. Intel MPI then fails in MPI_Comm_disconnect, under any launcher."""
    status = 128 + signal.SIGSEGV if mpi.library.family == "intel" else 0
    assert (done.status, without_noise(done.out)) == (status, answer), done


@pytest.mark.parametrize("where", ["embedded", pytest.param("hosts", marks=pytest.mark.hosts)])
def test_a_pool_of_spawned_processes_computes(spawning_mpi, tmp_path, request, where):
    partition: Partition
    if where == "embedded":
        partition = request.getfixturevalue("embedded")
    else:
        spawning_mpi.skip_on_connecting_worlds()
        partition = request.getfixturevalue("start_hosts")(2, slots=2)
    script = tmp_path / "pool.py"
    script.write_text(POOL.format("max_workers=2"))
    computes(python(partition, spawning_mpi, 1, str(script)), spawning_mpi, "285\n")


def test_the_pool_of_the_examples_computes(embedded, spawning_mpi):
    done = python(embedded, spawning_mpi, 1, str(EXAMPLES / "pool.py"))
    computes(done, spawning_mpi, "sum of squares 2470\n")


PROCESSES = """
from mpi4py.util.pool import Pool
if __name__ == "__main__":
    with Pool(2) as pool:
        print(pool.map(abs, range(-3, 0)), flush=True)
"""


def test_a_pool_in_the_manner_of_multiprocessing_computes(embedded, spawning_mpi, tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(PROCESSES)
    computes(python(embedded, spawning_mpi, 1, str(script)), spawning_mpi, "[3, 2, 1]\n")
