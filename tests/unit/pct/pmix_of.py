"""A running job for tests whose ranks speak PMIx, and what its servers say and are told."""

from native.wire import pmix
from native.wire.pmi import FenceKind
from native.wire.pmix import NamedProcess
from tests.unit.pct.job_of import PMIX, SPACE, Tree, server


def process(rank: int, nspace: str = SPACE) -> NamedProcess:
    return NamedProcess(nspace, rank)


EVERYBODY = (process(-1),)


def running(size=3, ranks_each=1, mpi=PMIX, **fields) -> Tree:
    tree = Tree(size, ranks_each, mpi=mpi, **fields)
    tree.run()
    tree.take_to_yod()
    return tree


def enters(serial, data=b"", kind=FenceKind.PMIX, processes=EVERYBODY):
    """A server says that all its participants are in a fence."""
    return server(pmix.Enter(serial, kind, processes, data))


def done(tree: Tree, place: int) -> list[pmix.PmixMessage]:
    return tree.told(place, pmix.FenceDone)


def answered(tree: Tree, place: int) -> list[pmix.PmixMessage]:
    return tree.told(place, pmix.Answer)
