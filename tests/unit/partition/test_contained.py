"""What a launch whose ranks CRIU writes down is made of, and which ones are refused."""

from __future__ import annotations

import os

import pytest

from allocator.nodes.features import where
from native.errors import UsageError
from native.wire.alloc import NodeSpec
from native.wire.load import Protocol
from partition.checkpoint import contained
from partition.checkpoint.preparing import Restarted
from yod.plan.checkpoint import Backend, Checkpointing
from yod.plan.invocation import Invocation
from yod.plan.plan import Member, Options
from yod.program import speech

MPICH = speech.Speech((Protocol.PMI1,), "linked to libmpi.so.12", "/l/libmpi.so.12", (), True)
OPEN_MPI = speech.Speech(
    (Protocol.PMIX,), "linked to libmpi.so.40", "/l/libmpi.so.40", ("/l/libpmix.so.2",), True
)
OTHER = speech.Speech((Protocol.PMI2,), "libmpi_abi", "/l/libmpi_abi.so", (), True)
PREDICTED = speech.Speech((Protocol.PMI1,), "mpi4py will load it", "/l/libmpi.so.12")
NONE = speech.Speech((), "not known")


@pytest.fixture
def within(monkeypatch, tmp_path):
    """A function: what becomes of members whose programs speak so."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    tool = contained.Tool("/usr/sbin/criu", "", "4.2")
    invocation = Invocation(
        words=("yod",),
        environment={b"PATH": os.fsencode(tmp_path)},
        directory=str(tmp_path),
        umask=0o22,
        limits=(),
        ignored_signals=(),
        processors=2,
    )

    def within(spoken, *specs, mpi="auto", words=(), found=None):
        program = tmp_path / "program"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        monkeypatch.setattr(speech, "speech_of", lambda program, environment: spoken)
        members = [Member(spec, (str(program), *words)) for spec in specs]
        given = Checkpointing("kept", backend=Backend.CRIU)
        how = Options(mpi=mpi)
        return contained.within(members, given, invocation, how, found=found, tool=tool)

    return within


def test_a_world_is_on_one_node_and_speaks_pmi_1(within):
    (member,), _, mpi = within(MPICH, NodeSpec(8))
    assert (member.spec, mpi) == (NodeSpec(8, node_count=1), "pmi1")
    assert member.words[1:3] == ("/usr/sbin/criu", "start")
    (member,), _, mpi = within(NONE, NodeSpec(8))
    assert (member.spec, mpi) == (NodeSpec(8), "none")


def test_what_the_user_says_of_mpi_goes_before_what_a_program_shows(within):
    assert within(NONE, NodeSpec(2), mpi="pmi1")[2] == "pmi1"
    (member,), _, mpi = within(OPEN_MPI, NodeSpec(2), mpi="none")
    assert (member.spec, mpi) == (NodeSpec(2), "none")
    with pytest.raises(UsageError, match="--mpi=pmi2: not with --checkpoint-by criu"):
        within(MPICH, NodeSpec(2), mpi="pmi2")


def test_a_world_of_pmix_has_a_server_of_its_own_and_none_of_the_node(within):
    (member,), given, mpi = within(OPEN_MPI, NodeSpec(2))
    assert (member.spec.node_count, given.mpi, mpi) == (1, "pmix", "none")
    assert member.words[2].startswith("start pmix exec ")
    assert member.words[2].endswith(" -- /l/libpmix.so.2")
    found = Restarted("/", 2, [], "/", Backend.CRIU, "pmix", None)
    (member,), given, mpi = within(NONE, NodeSpec(2), found=found)
    assert (member.words[2], given.mpi, mpi) == ("restore pmix", "pmix", "none")


def test_an_mpi_program_that_speaks_something_else_is_refused_with_that(within):
    with pytest.raises(UsageError, match=r"no protocol of MPI .* \(pmi1, pmix\): libmpi_abi"):
        within(OTHER, NodeSpec(2))


def test_a_python_program_is_one_of_mpi_if_it_imports_mpi4py(within, tmp_path):
    assert within(PREDICTED, NodeSpec(2))[2] == "none"
    (tmp_path / "x.py").write_text("from mpi4py import MPI\n")
    assert contained.pythons.imports_mpi4py("/usr/bin/python3", (str(tmp_path / "x.py"),))
    assert contained.pythons.imports_mpi4py("/usr/bin/python3", ("-c", "import os; import mpi4py"))
    assert contained.pythons.imports_mpi4py(str(tmp_path / "x.py"), ("word",))
    assert not contained.pythons.imports_mpi4py("/usr/bin/python3", ("-c", "print('mpi4py')"))


@pytest.mark.parametrize(
    "specs",
    [
        (NodeSpec(4, node_count=2),),
        (NodeSpec(2, (0, 1), one_per_node=True),),
        (NodeSpec(4, per_node=2),),
        (NodeSpec(1), NodeSpec(1)),
    ],
)
def test_a_world_that_may_lie_on_several_nodes_is_refused(within, specs):
    with pytest.raises(UsageError, match="cannot save the connections of MPI ranks between nodes"):
        within(MPICH, *specs)


def test_a_restart_has_the_mpi_of_its_checkpoint(within):
    found = Restarted("/", 2, [], "/", Backend.CRIU, "pmi1", None)
    (member,), _, mpi = within(NONE, NodeSpec(2, node_count=1), found=found)
    assert (member.spec.node_count, member.words[2], mpi) == (1, "restore", "pmi1")


@pytest.mark.parametrize(
    ("asked", "placed"),
    [
        ("", "criu"),
        ("gpu", "gpu&criu"),
        ("a|b", "(a|b)&criu"),
        ("(a|b)&[c|d]", "(a|b)&[c|d]&criu"),
        ("ib*4", "ib*4&criu"),
    ],
)
def test_ranks_are_placed_where_criu_works_and_where_else_they_were_to_be(
    asked, placed, monkeypatch
):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    there = {name: frozenset((1,)) for name in ("a", "b", "c", "d", "gpu", "ib", "criu")}
    assert contained.constrained(asked, {}) == placed
    assert where(there, placed, frozenset())
    assert contained.constrained(asked, {b"YOD_CRIU": b"/own/criu"}) == asked
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert contained.constrained(asked, {}) == f"{placed}-users"


def test_a_world_of_a_user_other_than_root_is_refused(within, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UsageError, match=r"--checkpoint-by criu with MPI: .* for root only"):
        within(MPICH, NodeSpec(2))
    assert within(MPICH, NodeSpec(2), mpi="none")[2] == "none"


def test_a_checkpoint_goes_on_as_the_user_that_it_is_of(within, monkeypatch):
    found = Restarted("/", 2, [], "/", Backend.CRIU, "none", None)
    within(NONE, NodeSpec(2), found=found)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="ranks come back for the user alone whose they were"):
        within(NONE, NodeSpec(2), found=found)
