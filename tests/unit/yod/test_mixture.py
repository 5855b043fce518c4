"""Members with different MPI libraries are told of: real files, named as the real ones are."""

import os
from itertools import count

import pytest

from native.limits import Limits
from native.wire.alloc import NodeSpec
from native.wire.load import Protocol
from tests.support.invocations import invocation
from tests.unit.yod.elf_of import elf_of
from yod.plan.plan import Member, Options
from yod.program.mixture import Part, warning
from yod.program.planning import make_plan

_sizes = count()


@pytest.fixture
def library(tmp_path):
    """Makes a library; no two have one size."""

    def make(path, *, name="", filling=None):
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        extra = bytes(next(_sizes) if filling is None else filling)
        place.write_bytes(elf_of((), name=name or place.name) + extra)
        return str(place)

    return make


def said(*libraries):
    return warning([Part(f"p{number}", 1, each) for number, each in enumerate(libraries)])


def test_the_line_says_which_members_have_which_library_and_what_to_do(library):
    mpich, open_mpi = library("m/libmpi.so.12"), library("o/libmpi.so.40")
    parts = [
        Part("./master, job.load:1", 1, mpich),
        Part("helper, job.load:2", 2, ""),
        Part("./worker, job.load:3", 3, open_mpi),
        Part("./other, job.load:4", 1, open_mpi),
    ]
    assert warning(parts) == (
        "warning: different MPI libraries form no common world, MPI_Init may wait for ever:"
        f" rank 0 (./master, job.load:1) {mpich} (MPICH);"
        f" ranks 3..5 (./worker, job.load:3) {open_mpi} (Open MPI) and 1 more member;"
        " build all members with one library, or run a job for each"
    )
    assert "(Open MPI) and 2 more members;" in warning([*parts, parts[-1]])


def test_intel_and_mpich_are_two_though_they_have_one_interface(library):
    library("i/libmpi_shm_heap_proxy.so")
    intel = library("i/libmpi.so", name="libmpi.so.12")
    assert "(Intel MPI)" in said(library("m/libmpich.so.12"), intel)
    assert not said(intel, intel)


def test_two_releases_of_one_library_are_two(library):
    first, second = library("4/libmpich.so.12"), library("5/libmpi.so.12")
    assert f"{first} (MPICH); rank 1 (p1) {second} (MPICH)" in said(first, second)


def test_a_link_a_copy_and_a_neighbour_are_the_same_library(library, tmp_path):
    first = library("a/libmpi.so.40", filling=7)
    copy = library("b/libmpi.so.40", filling=7)
    neighbour = library("a/libmpi.so.40.1", name="libmpi.so.40")
    (tmp_path / "c").mkdir()
    os.symlink(first, tmp_path / "c/libmpi.so.40")
    assert not said(first, copy, neighbour, str(tmp_path / "c/libmpi.so.40"))


def test_nothing_is_said_of_what_is_not_known(library, tmp_path):
    mpich = library("m/libmpich.so.12")
    assert not said()
    assert not said("", mpich)
    assert not said(mpich, library("o/openmpi/libpmix.so.2"))  # no MPI
    assert not said(mpich, library("g/libmpi_gnu.so.12"))  # one of a family that mixes its own
    assert not said(mpich, "libmpich.so.12")  # not found here
    assert "(Open MPI)" in said(mpich, "libmpi.so.40")


@pytest.mark.parametrize(("choice", "is_said"), [("auto", True), ("pmi1", True), ("none", False)])
def test_the_plan_of_a_mixed_job_has_the_line(library, tmp_path, choice, is_said):
    members = []
    for name in ("libmpi.so.12", "libmpi.so.40"):
        found = library(f"{name}.of/{name}")
        loader = tmp_path / f"ld-{name}"
        loader.write_text(f"#!/bin/sh\nprintf '\\t{name} => {found} (0x7f00)\\n'\n")
        loader.chmod(0o755)
        program = tmp_path / f"program-{name}"
        program.write_bytes(elf_of((name,), loader=str(loader)))
        program.chmod(0o755)
        members.append(Member(NodeSpec(1), (str(program),), "job.load:1"))
    options = Options(mpi=choice)
    plan = make_plan(members, options, Limits(), invocation(), is_shipped=False)[0]
    assert bool(plan.warnings) == is_said
    assert not is_said or "job.load:1) " in plan.warnings[0]
    alone = make_plan(members[:1] * 2, options, Limits(), invocation(), is_shipped=False)[0]
    assert not alone.warnings
    assert Protocol.PMI1 in plan.mpi.offered or choice == "none"
