"""Whose MPI library a path names, and what it speaks."""

import pytest

from native import mpi
from native.wire.load import Protocol


@pytest.mark.parametrize(
    ("library", "family"),
    [
        ("/usr/lib/x86_64-linux-gnu/libmpi.so.40", "Open MPI"),
        ("/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4", "Open MPI"),
        ("/usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so", "Open MPI"),
        ("/home/a/.venv/lib/openmpi/libmpi.so.40", "Open MPI"),
        ("/usr/lib/x86_64-linux-gnu/libmpich.so.12", "MPICH"),
        ("/home/a/.venv/lib/libmpi.so.12", "MPICH"),
        ("/opt/intel/oneapi/mpi/2021.18/lib/libmpi.so.12", "Intel MPI"),
        ("/opt/impi-rt/lib/libmpi.so.12", "Intel MPI"),
        ("/opt/cray/pe/lib64/libmpi_cray.so.12", "Cray MPICH"),
        ("libmpich.so.12", "MPICH"),
        ("/opt/own/libmpi_own.so", ""),
        ("/usr/lib/libc.so.6", ""),
        ("", ""),
    ],
)
def test_a_path_tells_whose_library_it_is(library, family):
    assert mpi.family(library) == family


@pytest.mark.parametrize(
    ("family", "protocols"),
    [
        ("Open MPI", (Protocol.PMIX,)),
        ("MPICH", (Protocol.PMI1,)),
        ("Intel MPI", (Protocol.PMI1,)),
        ("Cray MPICH", ()),
        ("", ()),
    ],
)
def test_a_family_speaks_what_was_seen_of_it(family, protocols):
    assert mpi.protocols_of(family) == protocols


def test_protocols_have_the_names_that_people_use():
    assert mpi.names(()) == "nothing"
    assert mpi.names((Protocol.PMI1, Protocol.PMIX)) == "PMI-1 and PMIx"
    assert set(mpi.NAMES) == set(Protocol)
