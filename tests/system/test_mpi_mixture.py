"""A job that mixes MPI libraries says so before it goes, whichever two they are."""

from __future__ import annotations

import itertools

import pytest

from tests.support.mpi import LIBRARIES, mpi_named

pytestmark = pytest.mark.mpi

WARNING = "yod: warning: different MPI libraries form no common world"
IDLE = """
#include <mpi.h>
int main(int count, char **words) { return count > 9 ? MPI_Init(&count, &words) : 0; }
"""


def idle(mpi):
    """The words of a program that has the library and does not use it."""
    if mpi.library.main_kind == "python":
        return f"{mpi.library.python} -c pass"
    return str(mpi.compile("idle", IDLE))


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(LIBRARIES, 2)))
def test_two_libraries_in_one_job_are_told_of_before_it_goes(
    embedded, mpi_directory, tmp_path, one, other
):
    first, second = mpi_named(one, mpi_directory), mpi_named(other, mpi_directory)
    path = tmp_path / "job.load"
    path.write_text(f"{idle(first)}\n-sz 2 {idle(second)}\n")
    done = embedded.yod(path)
    assert done.status == 0, done
    line = done.err.splitlines()[0]
    assert line.startswith(WARNING)
    assert f"rank 0 ({idle(first).partition(' ')[0]}, {path}:1) " in line
    assert f"ranks 1..2 ({idle(second).partition(' ')[0]}, {path}:2) " in line
    assert WARNING not in embedded.yod("--mpi=none", path).err


def test_one_library_in_two_programs_is_no_mixture(embedded, mpi, tmp_path):
    path = tmp_path / "job.load"
    words = idle(mpi)
    path.write_text(f"{words}\n{words} x\n")
    done = embedded.yod(path)
    assert (done.status, WARNING in done.err) == (0, False), done
