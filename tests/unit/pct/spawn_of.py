"""Spawns for tests: what a rank asks, what yod answers, and what the new ranks do."""

from native.wire import load, pmi
from tests.unit.pct.job_of import Tree, held, joins, says, spawn, started

SPAWN_LINES = (
    b"mcmd=spawn",
    b"nprocs=2",
    b"execname=./worker",
    b"totspawns=1",
    b"spawnssofar=1",
    b"argcnt=1",
    b"arg1=-w",
    b"preput_num=1",
    b"preput_key_0=PARENT_ROOT_PORT_NAME",
    b"preput_val_0=tag#0",
    b"info_num=0",
    b"endcmd",
)


def asked(tree: Tree) -> pmi.Ask:
    """The only question that has come to yod."""
    (ask,) = tree.take_to_yod()
    assert isinstance(ask, pmi.Ask)
    return ask


def spawned(tree: Tree, ask: pmi.Ask, *places: int, world=1, **fields) -> load.StartWorld:
    """yod answers: one rank on each of these places, behind those of the load."""
    question = ask.question
    message = spawn(
        world,
        *places,
        source=ask.source,
        serial=ask.serial,
        parent=question.parent,
        pairs=question.pairs,
        is_tool=question.is_tool,
        **{"first_rank": tree.size, **fields},
    )
    tree.from_yod(message)
    return message


def runs(rank: int, world: int = 1):
    return started(rank, world), held(rank, world=world)


def asks_for_workers(tree: Tree, rank: int) -> pmi.Ask:
    """A client of PMI spawns two workers."""
    tree.at(rank, *joins(rank), says(rank, *SPAWN_LINES))
    return asked(tree)
