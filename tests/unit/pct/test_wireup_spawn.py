"""More worlds in a running job: spawned ranks."""

import pytest

from native.errors import PeerProtocolError
from native.wire import keeper, load, pmi, pmix
from native.wire.pmi import KeyValue, Process, SpawnCommand
from pct.events import KeeperEnd, KeeperGo, KeeperReported, KeeperSignal, OutputRead, StartKeeper
from pct.job.progress import JobState
from tests.unit.pct.job_of import (
    EMPTY,
    JOB_ID,
    PMIX,
    SPACE,
    added,
    ended,
    joins,
    keeper_spec,
    pct,
    received,
    replaced,
    running,
    says,
    server,
    spawn,
    started,
)
from tests.unit.pct.spawn_of import SPAWN_LINES, asked, asks_for_workers, runs, spawned

WORKERS = SpawnCommand(b"./worker", (b"-w",), 2)
PORT_NAME = (KeyValue(b"PARENT_ROOT_PORT_NAME", b"tag#0"),)
DENIED = keeper.ExecStep.EXEC


def cannot(rank: int, world: int = 1) -> tuple[KeeperReported, ...]:
    failed = KeeperReported(JOB_ID, keeper.ExecFailed(rank, 13, DENIED, "/bin/worker"), world)
    return started(rank, world), failed, ended(rank, 126 << 8, False, world)


@pytest.mark.parametrize("rank", [0, 1, 6])
def test_a_spawn_goes_to_yod_and_its_answer_back_to_the_rank_that_asked(rank):
    tree = running(7)
    ask = asks_for_workers(tree, rank)
    assert ask == pmi.Ask(JOB_ID, rank, 0, 1, pmi.Spawn(Process(0, rank), (WORKERS,), PORT_NAME))
    spawned(tree, ask, 3, 5)
    assert b"spawn_result" not in tree.said(rank, rank)
    tree.at(5, *runs(8))
    assert b"spawn_result" not in tree.said(rank, rank)
    tree.at(3, *runs(7))
    assert tree.said(rank, rank).endswith(b"cmd=spawn_result rc=0\n")
    assert tree.take_to_yod() == []


def test_the_nodes_of_a_new_world_start_its_ranks_and_let_them_go_at_once():
    tree = running(3)
    spawned(tree, asks_for_workers(tree, 1), 2, 2)
    start = tree.took(2, StartKeeper)[-1]
    assert start.world == 1
    assert tree.took(2, KeeperGo)[-1] == KeeperGo(JOB_ID, 1)
    assert start.spec.programs == (keeper.ProgramSpec(b"/bin/worker", (b"worker", b"-w"), b"/tmp"),)
    first, second = start.spec.ranks
    assert (first.rank, second.rank) == (3, 4)
    variables = dict(entry.partition(b"=")[::2] for entry in second.environment)
    assert variables[b"YOD_RANK"] == b"4" and variables[b"YOD_LOCAL_RANK"] == b"1"
    assert variables[b"PMI_ID"] == b"4" and variables[b"PMI_SPAWNED"] == b"1"
    assert variables[b"PMI_RANK"] == b"1" and variables[b"PMI_SIZE"] == b"2"
    assert variables[b"MODE"] == b"fast"
    assert len(tree.took(0, StartKeeper)) == len(tree.took(1, StartKeeper)) == 1


def test_spawned_ranks_are_a_world_of_their_own():
    tree = running(3)
    spawned(tree, asks_for_workers(tree, 0), 1, 2)
    for place, rank in ((1, 3), (2, 4)):
        tree.at(place, *runs(rank), *joins(rank))
    space = SPACE.encode() + b"_1"
    preput = b"cmd=get kvsname=%s key=PARENT_ROOT_PORT_NAME" % space
    tree.at(1, says(3, b"cmd=get_my_kvsname", preput))
    assert tree.said(1, 3).splitlines()[-2:] == [
        b"cmd=my_kvsname kvsname=" + space,
        b"cmd=get_result rc=0 msg=success value=tag#0",
    ]
    tree.at(1, says(3, b"cmd=barrier_in"))
    assert not tree.said(1, 3).endswith(b"barrier_out rc=0\n")
    tree.at(2, says(4, b"cmd=barrier_in"))
    for place, rank in ((1, 3), (2, 4)):
        assert tree.said(place, rank).endswith(b"cmd=barrier_out rc=0\n")
    assert b"barrier_out" not in tree.said(0, 0)


def test_a_spawn_that_one_node_cannot_start_is_answered_with_its_text_once():
    tree = running(7)
    spawned(tree, asks_for_workers(tree, 4), 3, 6)
    tree.at(6, *cannot(8))
    answer = tree.said(4, 4).splitlines()[-1]
    assert answer.startswith(b"cmd=spawn_result rc=-1 msg=n26:_cannot_execute_/bin/worker")
    tree.at(3, *runs(7))
    assert tree.said(4, 4).count(b"spawn_result") == 1
    assert not any(isinstance(message, load.Failure) for message in tree.take_to_yod())


def test_a_rank_that_ends_before_its_entry_fails_its_spawn_and_not_the_job():
    tree = running(3)
    spawned(tree, asks_for_workers(tree, 1), 2)
    tree.at(2, started(3, 1), ended(3, 9, False, world=1))
    assert b"rc=-1 msg=n22:_it_ended_before_its_entry" in tree.said(1, 1)
    assert [type(message) for message in tree.take_to_yod()] == [load.Completions]


def test_a_spawn_that_yod_refuses_is_answered():
    tree = running(3)
    ask = asks_for_workers(tree, 2)
    tree.from_yod(pmi.Reply(JOB_ID, ask.source, ask.serial, -1, (), "no such program"))
    assert tree.said(2, 2).endswith(b"cmd=spawn_result rc=-1 msg=no_such_program\n")


@pytest.mark.parametrize("last", [load.AllDone(JOB_ID), load.Reset(JOB_ID)])
def test_a_spawn_that_meets_the_end_starts_nothing(last):
    tree = running(3)
    ask = asks_for_workers(tree, 1)
    tree.from_yod(last)
    spawned(tree, ask, 1, 2)
    assert all(len(tree.took(place, StartKeeper)) == 1 for place in range(3))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"runs": ()}, "do not add up"),
        ({"members": (load.MemberLoad(3, 0, (b"w",), b""),)}, "do not add up"),
        ({"first_rank": (1 << 20) - 1}, "more than 1048576 ranks"),
        ({"environments": ((), ())}, "not one environment for each member"),
        ({"paths": ()}, "a program without a path"),
        ({"first_rank": 2}, "world 1 from rank 2 on"),
    ],
)
def test_a_spawn_that_contradicts_itself_is_refused_and_starts_nothing(wrong, text):
    tree = running(3)
    with pytest.raises(PeerProtocolError, match=text):
        tree.from_yod(replaced(spawn(1, 1, 2, first_rank=3), **wrong))
    with pytest.raises(PeerProtocolError, match="a place that is none of the job's 3"):
        tree.from_yod(spawn(1, 1, 3, first_rank=3))
    assert tree.took(1, StartKeeper)[1:] == []
    tree.from_yod(spawn(1, 1, 2, first_rank=3))
    assert len(tree.took(1, StartKeeper)) == 2
    with pytest.raises(PeerProtocolError, match="world 1 from rank 5 on"):
        tree.from_yod(spawn(1, 1, 2, first_rank=5))
    tree.from_yod(spawn(2, 1, 2, first_rank=5))
    assert len(tree.took(1, StartKeeper)) == 3


def test_signals_and_the_end_are_for_spawned_ranks_too():
    tree = running(3)
    spawned(tree, asks_for_workers(tree, 0), 2)
    tree.at(2, *runs(3))
    tree.from_yod(load.Signal(JOB_ID, 10))
    assert tree.took(2, KeeperSignal) == [KeeperSignal(JOB_ID, 10)]  # of all worlds
    tree.from_yod(load.AllDone(JOB_ID))
    assert tree.took(2, KeeperEnd) == [KeeperEnd(JOB_ID)]
    for place in range(3):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    assert tree.jobs[2].state is JobState.ENDING
    closed = [OutputRead(JOB_ID, 3, stream, b"") for stream in (1, 2)]
    tree.at(2, *closed, KeeperReported(JOB_ID, keeper.KeeperEmpty(), 1))
    (released,) = tree.take_to_yod()
    assert sorted(released.nodes) == [20, 21, 22]


def test_completions_of_spawned_ranks_wait_for_the_whole_subtree_as_others_do():
    tree = running(3)
    spawned(tree, asks_for_workers(tree, 0), 1, 2)
    for place, rank in ((1, 3), (2, 4)):
        tree.at(place, *runs(rank))
    for rank in range(3):
        tree.at(rank, ended(rank))
    tree.at(1, ended(3, world=1))
    assert tree.take_to_yod() == []
    tree.at(2, ended(4, world=1))
    (done,) = tree.take_to_yod()
    assert sorted(done.outcomes[0].ranks) == [0, 1, 2, 3, 4]


def test_spawned_ranks_of_pmix_start_when_their_server_has_their_world():
    tree = running(3, mpi=PMIX, has_servers=True)
    tree.has_servers = False
    tree.at(1, server(pmix.SpawnPrograms(33, pmix.NamedProcess(SPACE, 1), (WORKERS,))))
    ask = asked(tree)
    assert ask.question == pmi.Spawn(Process(0, 1), (WORKERS,), ())
    spawned(tree, ask, 1, 2)
    for place, local in ((0, ()), (1, (0,)), (2, (1,))):
        world = tree.told(place, pmix.AddWorld)[-1]
        assert (world.serial, world.nspace, world.local_ranks) == (1, f"{SPACE}_1", local)
        assert (world.first_rank, world.parent) == (3, pmix.NamedProcess(SPACE, 1))
        assert world.nodes == ("n21", "n22")
        assert len(tree.took(place, StartKeeper)) == 1
        tree.at(place, added(world))
    assert keeper_spec(tree.took(1, StartKeeper)[1:]).ranks[0].environment[-3:] == (
        b"PMI_SPAWNED=1",
        b"PMIX_RANK=0",
        b"MODE=fast",
    )
    tree.at(1, *runs(3))
    tree.at(2, *runs(4))
    assert tree.told(1, pmix.Answer) == [
        pmix.Answer(33, 0, (KeyValue(b"world", b"1"),), f"{SPACE}_1")
    ]


def test_a_spawn_of_pmix_that_fails_is_answered_without_a_namespace():
    tree = running(3, mpi=PMIX)
    tree.at(2, server(pmix.SpawnPrograms(4, pmix.NamedProcess(SPACE, 2), (WORKERS,))))
    spawned(tree, asked(tree), 1)
    tree.at(1, *cannot(3))
    (answer,) = tree.told(2, pmix.Answer)
    assert (answer.serial, answer.status, answer.nspace) == (4, -1, "")


def test_worlds_meet_in_a_connect():
    tree = running(3, mpi=PMIX)
    tree.at(0, server(pmix.SpawnPrograms(1, pmix.NamedProcess(SPACE, 0), (WORKERS,))))
    spawned(tree, asked(tree), 1, 2)
    both = (pmix.NamedProcess(SPACE, -1), pmix.NamedProcess(f"{SPACE}_1", -1))
    for place in (2, 1):
        tree.at(place, server(pmix.Enter(4, pmi.FenceKind.CONNECT, both, b"")))
    assert tree.told(1, pmix.FenceDone) == []
    tree.at(0, server(pmix.Enter(9, pmi.FenceKind.CONNECT, both[::-1], b"")))
    assert tree.told(0, pmix.FenceDone) == [pmix.FenceDone(9, 0, b"")]
    for place in (1, 2):
        assert tree.told(place, pmix.FenceDone) == [pmix.FenceDone(4, 0, b"")]


def test_a_spawned_rank_spawns_as_a_rank_of_its_world():
    tree = running(3)
    spawned(tree, asks_for_workers(tree, 0), 1, 2)
    tree.at(2, *runs(4), *joins(4), says(4, *SPAWN_LINES))
    assert asked(tree).question.parent == Process(1, 1)


def test_a_place_below_may_not_spawn_in_the_name_of_another():
    job = running(7).jobs[1]
    question = pmi.Spawn(Process(0, 6), (WORKERS,), ())
    with pytest.raises(PeerProtocolError, match="a question of place 6 from place 3"):
        job.handle(received(pct(3), pmi.Ask(JOB_ID, 6, 0, 1, question)), 0)
    with pytest.raises(PeerProtocolError, match="a question of place 4 from place 3"):
        job.handle(received(pct(3), pmi.Ask(JOB_ID, 4, 0, 1, question)), 0)
