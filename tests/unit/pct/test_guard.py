"""The line for each way of getting singletons instead of a world."""

import pytest

from native.wire.base import TEXT_MAX
from native.wire.load import Mpi, Protocol
from pct.wireup.guard import why_alone

PMI1, PMI2, PMIX = Protocol.PMI1, Protocol.PMI2, Protocol.PMIX
OPENMPI = "/opt/openmpi/lib/libmpi.so.40"
MPICH = "/usr/lib/x86_64-linux-gnu/libmpich.so.12"
INTEL = "/opt/intel/mpi/lib/libmpi.so.12"
OWN = "/opt/own/libmpi_own.so"


def line(library, offered=(PMI1,), expected="", speaks=(), why_no_pmix="") -> str:
    """The line, without what all of them begin with."""
    load = Mpi(offered, library=expected.encode(), speaks=speaks)
    text = why_alone(library, load, offered, why_no_pmix)
    assert text.startswith(f"the program had {library}")
    assert "\n" not in text
    end = " and joined no world: each rank that called MPI_Init was a world of one; "
    _, found, rest = text.partition(end)
    assert found
    return rest


@pytest.mark.parametrize(
    ("library", "offered", "text"),
    [
        (OPENMPI, (PMI1,), "offered was PMI-1, it speaks PMIx: use --mpi=pmix"),
        (OPENMPI, (), "offered was nothing, it speaks PMIx: use --mpi=pmix"),
        (MPICH, (PMIX,), "offered was PMIx, it speaks PMI-1: use --mpi=pmi1"),
        (INTEL, (PMI2,), "offered was PMI-2, it speaks PMI-1: use --mpi=pmi1"),
        (MPICH, (), "offered was nothing, it speaks PMI-1: use --mpi=pmi1"),
    ],
)
def test_a_library_that_was_offered_something_else_is_told_what_to_use(library, offered, text):
    assert line(library, offered) == text


@pytest.mark.parametrize("library", [OPENMPI, MPICH])
def test_a_library_that_was_offered_what_it_speaks_never_asked(library):
    assert line(library, (PMI1, PMIX)) == (
        "offered was PMI-1 and PMIx, which it speaks:"
        " its environment was changed, it ran as another user, or it never called MPI_Init"
    )


def test_a_node_without_libpmix_says_where_it_looked_and_how_to_name_one():
    why = "no libpmix.so.2 beside the program, nor in the system"
    assert line(OPENMPI, (PMI1,), why_no_pmix=why) == (
        f"offered was PMI-1, it speaks PMIx: {why}; --libpmix PATH names a libpmix.so.2"
    )


def test_why_there_is_no_pmix_is_not_said_to_those_who_do_not_speak_it():
    assert "libpmix" not in line(MPICH, (), why_no_pmix="no libpmix.so.2")


def test_another_library_than_the_expected_one_is_named():
    assert line(MPICH, (PMIX,), expected=OPENMPI, speaks=(PMIX,)) == (
        f"expected was {OPENMPI}; offered was PMIx, it speaks PMI-1: use --mpi=pmi1"
    )


def test_what_is_known_of_the_expected_library_counts_more_than_its_name():
    assert line(OWN, (PMI1,), expected=OWN, speaks=(PMIX,)) == (
        "offered was PMI-1, it speaks PMIx: use --mpi=pmix"
    )
    assert line(MPICH, (PMI1,), expected=MPICH, speaks=(PMIX, PMI2)) == (
        "offered was PMI-1, it speaks PMIx and PMI-2: use --mpi=pmix"
    )


def test_one_path_with_and_without_usr_is_one_library():
    assert "expected" not in line("/lib/libmpi.so.40", expected="/usr/lib/libmpi.so.40")


def test_the_file_behind_a_link_is_the_expected_library():
    assert "expected" not in line("/opt/lib/libmpi.so.40.30.4", expected="/opt/lib/libmpi.so.40")
    debian = "/usr/lib/x/openmpi/lib/libmpi.so.40.30.4"
    assert "expected" not in line(debian, expected="/lib/x/libmpi.so.40")
    assert "expected" not in line("/opt/impi/libmpi.so", expected="/opt/impi/libmpi.so.12")
    assert "expected" in line("/opt/b/libmpi.so.40.30.4", expected="/opt/a/libmpi.so.40")
    assert "expected" in line("/opt/a/libmpi.so.401", expected="/opt/a/libmpi.so.40")


def test_a_library_that_nobody_knows_may_be_offered_anything():
    assert line(OWN) == "offered was PMI-1; --mpi=pmi1, pmi2 or pmix offers another"


def test_a_known_library_is_called_by_its_name():
    text = why_alone(OPENMPI, Mpi(()), (), "")
    assert text.startswith(f"the program had {OPENMPI} (Open MPI) and joined no world")


def test_a_line_fits_its_message():
    assert len(why_alone("/" * 4096, Mpi((PMI1,)), (PMI1,), "x" * 4096)) == TEXT_MAX
