"""More worlds in a running job: spawned ranks, and the daemons of launchers inside."""

import pytest

from native.errors import PeerProtocolError
from native.machine import Send
from native.wire import agent, keeper, load, pmi, pmix
from native.wire.load import Mpi, Protocol
from native.wire.pmi import KeyValue, Process, SpawnCommand
from pct.events import (
    KeeperEnd,
    KeeperGo,
    KeeperReported,
    KeeperSignal,
    OutputRead,
    PmiClosed,
    PmiConnected,
    PmiHangUp,
    PmiReceived,
    StartKeeper,
)
from pct.job.progress import JobState
from tests.unit.pct.job_of import (
    EMPTY,
    JOB_ID,
    PMI1,
    PMIX,
    SPACE,
    Tree,
    added,
    ended,
    held,
    joins,
    keeper_spec,
    pct,
    received,
    replaced,
    says,
    server,
    spawn,
    started,
)

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
WORKERS = SpawnCommand(b"./worker", (b"-w",), 2)
PORT_NAME = (KeyValue(b"PARENT_ROOT_PORT_NAME", b"tag#0"),)
DENIED = keeper.ExecStep.EXEC


def running(size=3, mpi=PMI1, **fields) -> Tree:
    tree = Tree(size, mpi=mpi, **fields)
    tree.run()
    tree.take_to_yod()
    return tree


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


def cannot(rank: int, world: int = 1) -> tuple[KeeperReported, ...]:
    failed = KeeperReported(JOB_ID, keeper.ExecFailed(rank, 13, DENIED, "/bin/worker"), world)
    return started(rank, world), failed, ended(rank, 126 << 8, False, world)


def asks_for_workers(tree: Tree, rank: int) -> pmi.Ask:
    """A client of PMI spawns two workers."""
    tree.at(rank, *joins(rank), says(rank, *SPAWN_LINES))
    return asked(tree)


# -- spawned ranks ---------------------------------------------------------


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


# -- launchers inside ------------------------------------------------------


def calls(tree: Tree, rank: int, host=b"n22", connection=40) -> None:
    """A launcher's agent beside a rank wants a command on another node."""
    command = agent.encode_command(agent.Command(rank, host, b"/tmp", b"prted --x"))
    place = next(place for place, job in tree.jobs.items() if rank in job.ranks)
    tree.at(place, PmiConnected(JOB_ID, connection, None))
    for start in range(0, len(command), 25):  # in pieces, as a stream may
        tree.at(place, PmiReceived(JOB_ID, connection, command[start : start + 25]))


PRTED = SpawnCommand(
    program=b"/bin/sh", arguments=(b"-c", b"prted --x"), count=1, directory=b"/tmp", hosts=(b"n22",)
)


def test_an_agents_command_is_a_spawn_of_a_tool():
    tree = running(3)
    calls(tree, 1)
    assert asked(tree).question == pmi.Spawn(Process(0, 1), (PRTED,), (), is_tool=True)
    assert tree.said(1, 40) == b""


@pytest.mark.parametrize(("rank", "place"), [(1, 2), (2, 0), (0, 2), (3, 4), (3, 1), (1, 3)])
def test_an_agent_is_told_of_start_and_end_wherever_the_tool_runs(rank, place):
    tree = running(7)
    calls(tree, rank)
    spawned(tree, asked(tree), place)
    assert tree.said(rank, 40) == agent.encode_started()
    tree.at(place, *runs(7), ended(7, 3 << 8, world=1))
    assert tree.said(rank, 40) == agent.encode_started() + agent.encode_ended(3 << 8)
    assert tree.took(rank, PmiHangUp) == [PmiHangUp(JOB_ID, 40)]
    tree.at(rank, PmiClosed(JOB_ID, 40))
    assert tree.took(place, KeeperEnd) == []


def test_a_tool_has_the_jobs_environment_and_no_world():
    tree = running(3, mpi=Mpi((Protocol.PMI1, Protocol.PMIX)))
    calls(tree, 1)
    spawned(tree, asked(tree), 2)
    spec = keeper_spec(tree.took(2, StartKeeper)[1:])
    (rank,) = spec.ranks
    assert not any(entry.startswith((b"PMI", b"MPICH_PMI")) for entry in rank.environment)
    assert b"A=1" in spec.environment
    assert len(tree.told(2, pmix.AddWorld)) == 1


def test_fences_do_not_wait_for_a_tool():
    tree = running(3)
    calls(tree, 1)
    spawned(tree, asked(tree), 2)
    tree.at(2, *runs(3))
    for rank in range(3):
        tree.at(rank, *joins(rank), says(rank, b"cmd=barrier_in"))
    assert tree.said(0, 0).endswith(b"cmd=barrier_out rc=0\n")


@pytest.mark.parametrize(("rank", "place"), [(1, 2), (2, 2), (0, 1), (1, 0)])
def test_an_agent_that_goes_takes_its_tool_with_it(rank, place):
    tree = running(3)
    calls(tree, rank)
    spawned(tree, asked(tree), place)
    tree.at(place, *runs(3))
    assert tree.took(place, KeeperEnd) == []
    tree.at(rank, PmiClosed(JOB_ID, 40))
    assert tree.took(place, KeeperEnd) == [KeeperEnd(JOB_ID, 1)]
    tree.at(place, ended(3, 9, world=1))
    assert tree.said(rank, 40) == agent.encode_started()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_agent_that_goes_before_its_tool_is_there_takes_it_when_it_comes(place):
    """On the agent's own node the keeper was told to end before it was started."""
    tree = running(3)
    calls(tree, 1)
    ask = asked(tree)
    tree.at(1, PmiClosed(JOB_ID, 40))
    spawned(tree, ask, place)
    orders = [action for action in tree.actions[place] if getattr(action, "world", None) == 1]
    assert [type(order) for order in orders] == [StartKeeper, KeeperGo, KeeperEnd]
    tree.at(place, started(3, 1), ended(3, 9, world=1))


def test_a_tool_that_yod_cannot_place_is_refused():
    tree = running(3)
    calls(tree, 1, b"n99")
    ask = asked(tree)
    tree.from_yod(pmi.Reply(JOB_ID, ask.source, ask.serial, -1, (), "n99: no node of this job"))
    assert tree.said(1, 40) == b"cmd=refused n99: no node of this job\n"
    assert tree.took(1, PmiHangUp) == [PmiHangUp(JOB_ID, 40)]


def test_a_command_that_fits_no_message_is_refused_by_its_own_node():
    tree = running(3)
    command = agent.encode_command(agent.Command(1, b"n22", b"/", bytes([65]) * 300_000))
    tree.at(1, PmiConnected(JOB_ID, 40, None), PmiReceived(JOB_ID, 40, command))
    assert tree.said(1, 40).startswith(b"cmd=refused more than ")
    assert tree.took(1, PmiHangUp) == [PmiHangUp(JOB_ID, 40)]


def test_an_agent_of_a_rank_that_is_not_here_is_refused_by_its_own_node():
    tree = running(3)
    command = agent.encode_command(agent.Command(2, b"n22", b"/", b"x"))
    tree.at(1, PmiConnected(JOB_ID, 40, None), PmiReceived(JOB_ID, 40, command))
    assert tree.said(1, 40) == b"cmd=refused rank 2 is none of this node's\n"
    assert tree.take_to_yod() == []


def test_an_agent_that_talks_nonsense_is_hung_up_on_and_harms_nobody():
    tree = running(3)
    tree.at(1, PmiConnected(JOB_ID, 40, None), PmiReceived(JOB_ID, 40, b"cmd=agent x\n"))
    assert tree.took(1, PmiHangUp) == [PmiHangUp(JOB_ID, 40)]
    assert tree.take_to_yod() == []


def test_only_a_tool_can_be_killed_by_a_question():
    tree = running(3)
    spawned(tree, asks_for_workers(tree, 0), 1)
    tree.at(1, *runs(3))
    for world in (0, 1, 5):
        job = tree.jobs[1]
        assert job.handle(received(pct(0), pmi.Ask(JOB_ID, 2, 1, 0, pmi.EndTool(world))), 0) == []


def test_a_tool_that_fails_is_no_loss_of_a_rank():
    """A node stopped: no world has the tool's rank."""
    tree = running(3, mpi=PMIX)
    calls(tree, 1)
    spawned(tree, asked(tree), 2)
    tree.at(2, *runs(3), ended(3, 256, world=1))
    assert tree.said(1, 40).endswith(agent.encode_ended(256))
    assert tree.told(0, pmix.Ended) == []


# -- the guard -------------------------------------------------------------

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
