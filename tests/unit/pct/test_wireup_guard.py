"""Ranks that had an MPI library and joined no world are told of once for the whole job."""

from native.machine import Send
from native.wire import pmi, pmix
from native.wire.load import Mpi, Protocol
from tests.unit.pct.job_of import (
    JOB_ID,
    PMIX,
    SPACE,
    Tree,
    ended,
    joins,
    pct,
    received,
    replaced,
    running,
    server,
)

MPICH = "/usr/lib/libmpich.so.12"


def alone(tree: Tree) -> list[pmi.Alone]:
    return [message for message in tree.take_to_yod() if isinstance(message, pmi.Alone)]


def test_ranks_that_had_an_mpi_library_and_joined_no_world_are_told_of_once_for_all():
    tree = running(7)
    for rank in (6, 3, 4, 1, 0, 5, 2):
        tree.at(rank, ended(rank, mpi_library=MPICH))
    (told,) = alone(tree)
    assert (told.rank, told.library) == (6, MPICH.encode())
    assert told.text.startswith(f"the program had {MPICH} (MPICH) and joined no world")


def test_a_node_tells_of_its_ranks_once():
    job = Tree(1, 3)
    job.run()
    job.take_to_yod()
    for rank in range(3):
        job.at(0, ended(rank, mpi_library=MPICH))
    assert [message.rank for message in alone(job)] == [0]


def test_nothing_is_told_of_ranks_that_joined_or_had_no_library_or_are_alone_by_right():
    tree = running(3)
    tree.at(0, *joins(0), ended(0, mpi_library=MPICH))
    tree.at(1, ended(1))
    assert alone(tree) == []
    single = running(1)
    single.at(0, ended(0, mpi_library=MPICH))
    assert alone(single) == []


def test_a_rank_that_was_killed_says_nothing_of_its_library():
    tree = running(3)
    tree.at(1, ended(1, 9, mpi_library=MPICH))
    assert alone(tree) == []


def test_a_program_that_claims_no_library_is_told_of_if_what_it_speaks_was_not_offered():
    openmpi = b"/opt/openmpi/lib/libmpi.so.40"
    mpi = Mpi((Protocol.PMI1,), library=openmpi, speaks=(Protocol.PMIX,))
    tree = running(3, mpi=mpi)
    tree.at(2, ended(2))
    (told,) = alone(tree)
    assert told.library == openmpi and "it speaks PMIx: use --mpi=pmix" in told.text
    for other in (replaced(mpi, speaks=(Protocol.PMI1,)), replaced(mpi, offered=())):
        tree = running(3, mpi=other)
        tree.at(2, ended(2))
        assert alone(tree) == []


def test_a_client_of_pmix_that_joined_is_not_alone():
    tree = running(3, mpi=PMIX)
    tree.at(1, server(pmix.Joined(pmix.NamedProcess(SPACE, 1))))
    tree.at(1, ended(1, mpi_library="/usr/lib/libmpi.so.40"))
    assert alone(tree) == []


def test_the_reason_why_a_node_had_no_pmix_is_part_of_the_line():
    tree = Tree(2, has_servers=False, mpi=Mpi((Protocol.PMI1, Protocol.PMIX)))
    tree.everywhere(server(pmix.Unavailable("no libpmix.so.2 here")))
    tree.run()
    tree.at(1, ended(1, mpi_library="/usr/lib/libmpi.so.40"))
    (told,) = alone(tree)
    assert "offered was PMI-1, it speaks PMIx: no libpmix.so.2 here" in told.text


def test_a_line_of_below_goes_up_once_from_each_subtree():
    job = running(7).jobs[1]
    line = pmi.Alone(JOB_ID, 3, b"/lib/libmpi.so.12", "alone")
    assert job.handle(received(pct(3), line), 0) == [Send(pct(0), line)]
    assert job.handle(received(pct(4), line), 0) == []
    actions = job.handle(ended(1, mpi_library=MPICH), 0)
    assert not any(isinstance(action.message, pmi.Alone) for action in actions)
