"""One job on one node, and on a small tree: from its load to its ranks' run."""

import pytest

from native.errors import PeerProtocolError
from native.machine import Send
from native.wire import alloc, codec, io, keeper, load
from native.wire.keeper import HowHeld
from native.wire.load import Mpi, Protocol
from native.wire.runs import Run
from pct.events import (
    CheckObjects,
    DropJob,
    InputTaken,
    KeeperEnd,
    KeeperGo,
    KeeperSignal,
    ObjectsChecked,
    OutputRead,
    StartKeeper,
    TellBebopd,
    WriteInput,
)
from pct.job.machine import Job
from pct.job.progress import JobState
from pct.pmi_events import OpenPmi, PmiOpened
from pct.wireup import environment, foreign
from tests.unit.pct.job_of import (
    ALL_DONE,
    BEGIN,
    EMPTY,
    GO,
    JOB_ID,
    NOW,
    OPENED,
    PMI1,
    PORT,
    PRESENT,
    PROGRAM,
    STRANGER,
    YOD,
    Tree,
    a_job,
    arguments,
    credential,
    ended,
    held,
    keeper_spec,
    load_message,
    pct,
    received,
    slowest,
    started,
    to_yod,
    vote,
)

# -- one node --------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "hold"),
    [
        ({}, keeper.Hold.AUTO),
        ({"awaits_user": True}, keeper.Hold.FOR_DEBUGGERS),
        ({"awaits_user": True, "holds_before_exec": True}, keeper.Hold.BEFORE_EXEC),
    ],
)
def test_ranks_are_held_where_the_load_says(fields, hold):
    job = a_job(**fields)
    (program,) = keeper_spec(job.handle(PRESENT, NOW)).programs
    assert program.hold is hold


def test_a_job_on_one_node_goes_from_load_to_released():
    message = load_message(1)
    job = Job(message, credential(), YOD, BEGIN)
    assert job.begin(BEGIN) == [
        CheckObjects(JOB_ID, (PROGRAM,), False, 1000, 100, (100, 27)),
        OpenPmi(JOB_ID, 1),
    ]
    assert job.state is JobState.FORMING
    assert job.handle(OPENED, NOW) == []

    actions = job.handle(PRESENT, NOW)
    spec = keeper_spec(actions)
    assert actions == [
        StartKeeper(JOB_ID, spec),
        TellBebopd(alloc.Hosting(JOB_ID)),
        to_yod(load.Vote(JOB_ID, 1, (), (), slowest(0, 1.0))),
    ]
    assert job.state is JobState.STARTING

    assert job.handle(started(0), NOW) == []
    assert job.handle(held(0), NOW) == [
        to_yod(load.Held(JOB_ID, (0,), (3000,), (), slowest(0, 1.0), True))
    ]
    assert job.state is JobState.HELD

    assert spec.is_alone and job.handle(GO, NOW) == []  # the keeper has let them go
    assert job.state is JobState.RUNNING

    outcome = load.Outcome(0, True, (0,), (20,), (3000,), (2000,), (1500,), (250,), (8,))
    assert job.handle(ended(0), BEGIN + 2) == [to_yod(load.Completions(JOB_ID, (outcome,)))]
    assert job.handle(OutputRead(JOB_ID, 0, 1, b""), NOW) == []
    assert job.handle(OutputRead(JOB_ID, 0, 2, b""), NOW) == []

    assert job.handle(ALL_DONE, NOW) == [KeeperEnd(JOB_ID)]
    assert job.state is JobState.ENDING
    assert job.handle(EMPTY, NOW) == [
        to_yod(load.Released.of(JOB_ID, (20,))),
        TellBebopd(alloc.Freed.of(JOB_ID, (20,))),
        DropJob(JOB_ID),
    ]
    assert job.state is JobState.RELEASED


def test_the_keeper_is_told_everything_about_the_ranks_of_its_node():
    files = (b"/hosts/openmpi", b"/hosts/hydra")
    variables = foreign.variables(b"/bin/yod-agent", *files)
    job = Job(
        load_message(2, 1, ranks_each=2, input_ranks=((0, 0),)), credential(2, 2), pct(0), BEGIN
    )
    job.begin(BEGIN)
    job.handle(PmiOpened(JOB_ID, PORT, b"/bin/yod-agent", files), BEGIN)
    spec = keeper_spec(job.handle(PRESENT, NOW))
    assert spec == keeper.KeeperSpec(
        job_id=JOB_ID,
        uid=1000,
        gid=100,
        groups=(100, 27),
        umask=0o22,
        limits=((7, 1024),),
        environment=(
            b"A=1",
            b"YOD_JOB_ID=7",
            b"YOD_SIZE=4",
            b"YOD_NODE=21",
            b"YOD_NODE_NAME=n21",
            b"YOD_LOCAL_SIZE=2",
            b"MPI_LOCALNRANKS=2",
            *environment.defaults({b"A"}, (*environment.UNBOUND, b"YOD_AGENT=" + PORT, *variables)),
        ),
        programs=(keeper.ProgramSpec(b"/bin/a.out", (b"a.out", b"-x"), b"/home"),),
        ranks=tuple(
            keeper.RankSpec(
                rank=2 + local,
                program=0,
                environment=(
                    b"YOD_RANK=%d" % (2 + local),
                    b"YOD_LOCAL_RANK=%d" % local,
                    b"YOD_MEMBER=0",
                    b"YOD_CORES_PER_RANK=1",
                    b"MPI_LOCALRANKID=%d" % local,
                    b"PMI_PORT=" + PORT,
                    b"PMI_ID=%d" % (2 + local),
                    b"PMI_RANK=%d" % (2 + local),
                    b"PMI_SIZE=4",
                ),
                wants_stdin=False,
                wants_pmi=False,
            )
            for local in range(2)
        ),
    )


def test_only_rank_0_gets_input_and_only_a_pmi_job_gets_pmi():
    job = a_job(ranks_each=2, input_ranks=((0, 0),), mpi=Mpi(()))
    ranks = keeper_spec(job.handle(PRESENT, NOW)).ranks
    assert [rank.wants_stdin for rank in ranks] == [True, False]
    assert not any(rank.wants_pmi or b"PMI" in b"".join(rank.environment) for rank in ranks)


def test_no_rank_starts_before_its_listener_is_open():
    job = Job(load_message(1), credential(), YOD, BEGIN)
    job.begin(BEGIN)
    assert [type(action) for action in job.handle(PRESENT, NOW)] == [TellBebopd, Send]
    assert [type(action) for action in job.handle(OPENED, NOW)] == [StartKeeper]
    assert job.handle(OPENED, NOW) == []


def test_ranks_get_a_socket_each_where_there_is_no_listener_and_for_pmi_2():
    def spec_of(mpi, address):
        job = Job(load_message(1, mpi=mpi), credential(), YOD, BEGIN)
        job.begin(BEGIN)
        job.handle(PRESENT, BEGIN)
        (rank,) = keeper_spec(job.handle(PmiOpened(JOB_ID, address), NOW)).ranks
        return rank

    without = spec_of(PMI1, b"")
    assert without.wants_pmi
    assert without.environment[-2:] == (b"PMI_RANK=0", b"PMI_SIZE=1")
    assert b"PMI_ID=0" not in without.environment
    both = spec_of(Mpi((Protocol.PMI1, Protocol.PMI2)), PORT)
    assert both.wants_pmi and b"PMI_PORT=" + PORT in both.environment


def test_a_node_starts_only_the_programs_of_its_own_ranks():
    members = (
        load.MemberLoad(1, 0, (b"one",), b"/"),
        load.MemberLoad(1, 1, (b"two",), b"/"),
        load.MemberLoad(1, 1, (b"two", b"again"), b"/"),
    )
    both = load.Arguments(members, ())
    present = ObjectsChecked(JOB_ID, ((0, b"/bin/one"), (1, b"/bin/two")), (), ())
    job = a_job(size=3, place=2, parent=pct(0), objects=(PROGRAM, PROGRAM), arguments=both)
    spec = keeper_spec(job.handle(present, NOW))
    assert [(each.path, each.argv) for each in spec.programs] == [(b"/bin/two", (b"two", b"again"))]
    assert spec.ranks[0].program == 0
    assert b"YOD_MEMBER=2" in spec.ranks[0].environment


@pytest.mark.parametrize(
    "mpi, home",
    [
        (Mpi((Protocol.PMIX,)), b"/home/jd"),
        (Mpi((Protocol.PMI1,), library=b"/lib/libmpi.so"), b"/home/jd"),
        (Mpi((Protocol.PMI1,)), None),
    ],
)
def test_devices_are_looked_for_only_where_an_mpi_library_would(mpi, home):
    given = load.Arguments(arguments(1).members, (b"HOME=/home/jd",))
    job = Job(load_message(1, mpi=mpi, arguments=given), credential(1), YOD, BEGIN)
    (opened,) = (action for action in job.begin(BEGIN) if isinstance(action, OpenPmi))
    assert opened.home == home


def test_no_rank_goes_before_the_subtree_is_held():
    job = a_job(PRESENT, started(0))
    with pytest.raises(PeerProtocolError, match="go while starting"):
        job.handle(GO, NOW)
    job.handle(held(0), NOW)
    job.handle(GO, NOW)
    with pytest.raises(PeerProtocolError, match="go while running"):
        job.handle(GO, NOW)


def test_ranks_held_before_exec_are_told_with_the_map():
    job = a_job(PRESENT, started(0), started(1), held(0, HowHeld.TRACE), ranks_each=2)
    (action,) = job.handle(held(1, HowHeld.BEFORE_EXEC), NOW)
    assert action.message.before_exec == (1,)


def test_a_long_map_goes_up_in_pieces_with_the_ranks_held_before_exec_of_each():
    runs = (Run(0, 1), Run(1, 8201))
    job = a_job(PRESENT, started(0), size=2, runs=runs, arguments=arguments(8202))
    below = tuple(range(1, 8202))
    job.handle(received(pct(1), vote(1)), NOW)
    job.handle(received(pct(1), load.Held(JOB_ID, below, below, below, slowest(1), True)), NOW)
    pieces = [action.message for action in job.handle(held(0, HowHeld.TRACE), NOW)]
    assert [len(piece.ranks) for piece in pieces] == [8192, 10]
    assert sorted(len(piece.before_exec) for piece in pieces) == [9, 8192]
    assert [piece.is_last for piece in pieces] == [False, True]
    assert all(codec.decode(codec.encode(piece)) == piece for piece in pieces)


def test_a_signal_goes_to_the_keeper_once_there_is_one():
    signal = received(YOD, load.Signal(JOB_ID, 10))
    assert a_job().handle(signal, NOW) == []
    assert a_job(PRESENT).handle(signal, NOW) == [KeeperSignal(JOB_ID, 10)]


def test_input_goes_to_the_root_with_credit_from_go_on():
    job = a_job(PRESENT, started(0), held(0), input_ranks=((0, 0),))
    assert job.handle(GO, NOW) == [to_yod(io.InputCredit(JOB_ID, 16 * 1024))]
    data = received(YOD, io.Input(JOB_ID, b"yes\n"))
    assert job.handle(data, NOW) == [WriteInput(JOB_ID, b"yes\n")]
    assert job.handle(InputTaken(JOB_ID, 4), NOW) == [to_yod(io.InputCredit(JOB_ID, 4))]


# -- a tree of three -------------------------------------------------------


def test_a_tree_of_three_forms_starts_runs_and_ends_with_one_word_each_to_yod():
    tree = Tree(3)
    assert tree.states() == [JobState.FORMING] * 3
    tree.everywhere(PRESENT)
    assert tree.take_to_yod() == [load.Vote(JOB_ID, 3, (), (), slowest(0))]
    assert tree.to_bebopd == [alloc.Hosting(JOB_ID)]

    for rank in (2, 0, 1):
        assert tree.take_to_yod() == []
        tree.at(rank, started(rank), held(rank))
    (mapped,) = tree.take_to_yod()
    assert dict(zip(mapped.ranks, mapped.unix_pids, strict=True)) == {0: 3000, 1: 3001, 2: 3002}
    assert mapped.is_last
    assert all(tree.took(place, KeeperGo) == [] for place in range(3))

    tree.from_yod(load.Go(JOB_ID))
    assert all(tree.took(place, KeeperGo) == [KeeperGo(JOB_ID)] for place in range(3))

    for rank in range(3):
        tree.at(rank, ended(rank))
    (done,) = tree.take_to_yod()
    assert [sorted(outcome.ranks) for outcome in done.outcomes] == [[0, 1, 2]]

    tree.from_yod(load.AllDone(JOB_ID))
    for place in range(3):
        tree.at(place, OutputRead(JOB_ID, place, 1, b""), OutputRead(JOB_ID, place, 2, b""), EMPTY)
    (released,) = tree.take_to_yod()
    assert sorted(released.nodes) == [20, 21, 22]
    assert tree.states() == [JobState.RELEASED] * 3
    assert [sorted(freed.nodes) for freed in tree.to_bebopd[1:]] == [[20, 21, 22]]


def test_the_vote_is_the_only_barrier_of_a_launch():
    """A node with its objects starts its ranks while others are still being asked."""
    tree = Tree(3)
    tree.at(1, PRESENT)
    assert len(tree.took(1, StartKeeper)) == 1
    assert tree.to_yod == []


# -- who may say what ------------------------------------------------------


def test_a_stranger_is_refused_and_a_relative_out_of_turn_is_late():
    job = a_job(size=7, place=1, parent=pct(0))
    with pytest.raises(PeerProtocolError, match=r"^Go from 0\.0\.0\.9:9|^Go from table entry 9"):
        job.handle(received(STRANGER, load.Go(JOB_ID)), NOW)
    assert job.handle(received(pct(5), load.Go(JOB_ID)), NOW) == []


def test_a_child_may_not_command_nor_a_parent_report():
    job = a_job(size=3)
    with pytest.raises(PeerProtocolError, match="AllDone is not a child's to send"):
        job.handle(received(pct(1), load.AllDone(JOB_ID)), NOW)
    with pytest.raises(PeerProtocolError, match="Vote is not a parent's to send"):
        job.handle(received(YOD, vote(1)), NOW)


def test_completions_of_nobody_leave_no_deadline_behind():
    """A deadline in the past that nothing clears made the loop spin."""
    job = a_job(PRESENT, size=3)
    before = job.deadline()
    assert job.handle(received(pct(1), load.Completions(JOB_ID, ())), NOW) == []
    assert job.deadline() == before


def test_a_held_map_is_taken_once():
    job = a_job(PRESENT, size=3)
    piece = load.Held(JOB_ID, (1,), (3001,), (), slowest(1), True)
    job.handle(received(pct(1), piece), NOW)
    job.handle(received(pct(1), piece), NOW)
    job.handle(received(pct(2), load.Held(JOB_ID, (2,), (3002,), (), slowest(2), True)), NOW)
    for place in (1, 2):
        job.handle(received(pct(place), vote(place)), NOW)
    job.handle(started(0), NOW)
    (action,) = job.handle(held(0), NOW)
    assert sorted(action.message.ranks) == [0, 1, 2]
