"""One job on one node, and on a small tree: launch, failures, losses, end."""

import gc
import weakref

import pytest

from native.errors import PeerProtocolError
from native.machine import DeadlineReached, Log, PeerGone, Send
from native.wire import alloc, codec, group, io, keeper, load
from native.wire.keeper import ExecStep, HowHeld
from native.wire.load import Mpi, Protocol
from pct.events import (
    PMIX_SERVER,
    CheckObjects,
    DropJob,
    DropObject,
    InputTaken,
    KeeperEnd,
    KeeperGo,
    KeeperNotStarted,
    KeeperReported,
    KeeperSignal,
    KillOrphans,
    LeftoversRemoved,
    MapNotGiven,
    NoPlace,
    ObjectArrived,
    ObjectLost,
    ObjectPassedOn,
    ObjectsChecked,
    ObjectStored,
    OpenPmi,
    OrphansKilled,
    OutputRead,
    PauseOutput,
    PmiOpened,
    PmixServerEnded,
    PublishObject,
    ReadObject,
    ReceiveObject,
    RemoveLeftovers,
    ResumeOutput,
    SendObject,
    StartKeeper,
    TellBebopd,
    WriteInput,
)
from pct.job.machine import Job
from pct.job.progress import JobState
from pct.wireup import environment, foreign
from tests.unit.pct.job_of import (
    BEGIN,
    CARRIER,
    EMPTY,
    JOB_ID,
    LACKING,
    OPENED,
    PMI1,
    PMIX,
    PORT,
    PRESENT,
    PROGRAM,
    STRANGER,
    YOD,
    Tree,
    arguments,
    credential,
    ended,
    failure,
    held,
    keeper_spec,
    load_message,
    pct,
    received,
    slowest,
    started,
    vote,
)

NOW = BEGIN + 1


def a_job(*events, size=1, place=0, ranks_each=1, parent=YOD, **fields) -> Job:
    """A job that has begun, listens for its clients, and has had these events."""
    message = load_message(size, place, ranks_each, **fields)
    job = Job(message, credential(size, ranks_each), parent, BEGIN)
    job.begin(BEGIN)
    if message.arguments is not None:
        job.handle(OPENED, BEGIN)
    for event in events:
        job.handle(event, BEGIN)
        job.check()
    return job


def to_yod(message):
    return Send(YOD, message)


GO = received(YOD, load.Go(JOB_ID))
ALL_DONE = received(YOD, load.AllDone(JOB_ID))
RESET = received(YOD, load.Reset(JOB_ID))
RUNNING = (PRESENT, started(0), held(0), GO)


# -- one node --------------------------------------------------------------


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

    assert job.handle(GO, NOW) == [KeeperGo(JOB_ID)]
    assert job.state is JobState.RUNNING

    outcome = load.Outcome(0, True, (0,), (20,), (3000,), (2000,), (1500,), (250,), (8,))
    assert job.handle(ended(0), BEGIN + 2) == [to_yod(load.Completions(JOB_ID, (outcome,)))]
    assert job.handle(OutputRead(JOB_ID, 0, 1, b""), NOW) == []
    assert job.handle(OutputRead(JOB_ID, 0, 2, b""), NOW) == []

    assert job.handle(ALL_DONE, NOW) == [KeeperEnd(JOB_ID)]
    assert job.state is JobState.ENDING
    assert job.handle(EMPTY, NOW) == [
        TellBebopd(alloc.Freed(JOB_ID, (20,))),
        to_yod(load.Released(JOB_ID, (20,))),
        DropJob(JOB_ID),
    ]
    assert job.state is JobState.RELEASED


def test_the_keeper_is_told_everything_about_the_ranks_of_its_node():
    files = (b"/hosts/openmpi", b"/hosts/hydra")
    variables = foreign.variables(b"/bin/yod-agent", *files)
    job = Job(load_message(2, 1, ranks_each=2, has_input=True), credential(2, 2), pct(0), BEGIN)
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
    job = a_job(ranks_each=2, has_input=True, mpi=Mpi(()))
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


def test_a_lacking_object_is_received_before_ranks_start():
    job = a_job()
    assert job.handle(LACKING, NOW) == [
        ReceiveObject(JOB_ID, 0, PROGRAM, 4096, ()),
        TellBebopd(alloc.Hosting(JOB_ID)),
        to_yod(load.Vote(JOB_ID, 1, (0,), (), slowest(0, 1.0))),
    ]
    assert job.state is JobState.LOADING
    actions = job.handle(ObjectStored(JOB_ID, 0, b"/store/a.out"), BEGIN + 2)
    spec = keeper_spec(actions)
    assert actions == [
        StartKeeper(JOB_ID, spec),
        to_yod(load.Loaded(JOB_ID, slowest(0, 2.0))),
    ]
    assert spec.programs[0].path == b"/store/a.out"
    assert job.state is JobState.STARTING


def test_a_node_without_room_waits_for_the_shared_path():
    job = a_job()
    no_place = ObjectsChecked(JOB_ID, (), (), (NoPlace(0, "/dev/shm: full"),))
    room = load.NoRoom(0, 20, "n20", "/dev/shm: full")
    assert job.handle(no_place, NOW) == [
        TellBebopd(alloc.Hosting(JOB_ID)),
        to_yod(load.Vote(JOB_ID, 1, (), (room,), slowest(0, 1.0))),
    ]
    shared = received(YOD, load.UseShared(JOB_ID, 0, b"/enfs/a.out"))
    actions = job.handle(shared, NOW)
    assert keeper_spec(actions).programs[0].path == b"/enfs/a.out"
    assert actions[1:] == [to_yod(load.Loaded(JOB_ID, slowest(0, 1.0)))]


def test_room_for_an_object_that_is_shared_after_all_is_given_back():
    job = a_job(LACKING)
    actions = job.handle(received(YOD, load.UseShared(JOB_ID, 0, b"/enfs/a.out")), NOW)
    assert actions[0] == DropObject(JOB_ID, 0)
    assert keeper_spec(actions).programs[0].path == b"/enfs/a.out"


@pytest.mark.parametrize("number", [0, 1, 1024])
def test_a_shared_path_of_nothing_or_of_the_arguments_changes_nothing(number):
    job = a_job(LACKING, objects=(CARRIER,), arguments=None)
    assert job.handle(received(YOD, load.UseShared(JOB_ID, number, b"/x")), NOW) == []
    assert job.state is JobState.LOADING


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


def test_arguments_that_came_as_an_object_are_used():
    job = a_job(objects=(CARRIER, PROGRAM), arguments=None)
    job.handle(ObjectsChecked(JOB_ID, ((1, b"/bin/a.out"),), (0,), ()), NOW)
    content = codec.encode_part(arguments(1, object_index=1))
    assert job.handle(ObjectArrived(JOB_ID, 0, CARRIER.digest), NOW) == [ReadObject(JOB_ID, 0)]
    actions = job.handle(ObjectStored(JOB_ID, 0, b"", content), NOW)
    assert OpenPmi(JOB_ID, 1) in actions
    actions = job.handle(OPENED, NOW)
    assert keeper_spec(actions).programs[0].argv == (b"a.out", b"-x")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\xc1", "not an arguments object: MessagePack data is malformed: invalid opcode '\\xc1'"),
        (
            codec.encode_part(arguments(2, object_index=1)),
            "the members' sizes do not add up to the grant's ranks",
        ),
        (
            codec.encode_part(arguments(1, object_index=0)),
            "no object 0 to execute, there are 2",
        ),
        (
            codec.encode_part(arguments(1, object_index=2)),
            "no object 2 to execute, there are 2",
        ),
    ],
    ids=["no arguments", "too many ranks", "the arguments themselves", "no such object"],
)
def test_arguments_that_do_not_fit_the_load_fail_it_and_start_nothing(content, text):
    job = a_job(objects=(CARRIER, PROGRAM), arguments=None)
    job.handle(ObjectsChecked(JOB_ID, ((1, b"/bin/a.out"),), (0,), ()), NOW)
    (action,) = job.handle(ObjectStored(JOB_ID, 0, b"", content), NOW)
    assert action.message.kind is load.FailureKind.OBJECT
    assert action.message.text.startswith(text[:60])
    assert job.handle(DeadlineReached(), BEGIN + 20) == []


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
    runs = (alloc.Run(0, 1), alloc.Run(1, 8201))
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
    job = a_job(PRESENT, started(0), held(0), has_input=True)
    assert job.handle(GO, NOW) == [
        KeeperGo(JOB_ID),
        to_yod(io.InputCredit(JOB_ID, 16 * 1024)),
    ]
    data = received(YOD, io.Input(JOB_ID, b"yes\n"))
    assert job.handle(data, NOW) == [WriteInput(JOB_ID, b"yes\n")]
    assert job.handle(InputTaken(JOB_ID, 4), NOW) == [to_yod(io.InputCredit(JOB_ID, 4))]


# -- failures on one node --------------------------------------------------


@pytest.mark.parametrize(
    ("errno", "step", "kind", "text"),
    [
        (2, ExecStep.OPEN, load.FailureKind.NOT_FOUND, "no such file or directory"),
        (20, ExecStep.OPEN, load.FailureKind.NOT_FOUND, "not a directory"),
        (13, ExecStep.EXEC, load.FailureKind.NOT_EXECUTABLE, "permission denied"),
        (8, ExecStep.EXEC, load.FailureKind.NOT_EXECUTABLE, "neither a binary"),
    ],
)
def test_a_program_that_cannot_be_executed_names_rank_path_and_reason(errno, step, kind, text):
    job = a_job(PRESENT)
    report = KeeperReported(JOB_ID, keeper.ExecFailed(0, errno, step, "/bin/a.out"))
    (action,) = job.handle(report, NOW)
    assert action.message.kind is kind
    assert action.message.rank == 0
    assert action.message.phase == "starting"
    assert text in action.message.text and "/bin/a.out" in action.message.text


@pytest.mark.parametrize(
    ("wait_status", "text"),
    [
        (3 << 8, "ended with exit code 3 before its entry"),
        (11, "killed by SIGSEGV before its entry"),
        (35, "killed by signal 35 before its entry"),
    ],
)
def test_a_rank_that_ends_before_its_entry_fails_the_job_and_is_counted(wait_status, text):
    job = a_job(PRESENT, started(0))
    actions = job.handle(ended(0, wait_status, was_released=False), NOW)
    outcome = load.Outcome(wait_status, False, (0,), (20,), (3000,), (1000,), (1500,), (250,), (8,))
    assert actions == [
        to_yod(failure(load.FailureKind.EARLY_EXIT, "starting", text, rank=0)),
        to_yod(load.Completions(JOB_ID, (outcome,))),
    ]


def test_a_failure_is_told_once_for_its_kind():
    job = a_job(PRESENT, started(0), started(1), ranks_each=2)
    first = job.handle(ended(0, 256, was_released=False), NOW)
    second = job.handle(ended(1, 256, was_released=False), NOW)
    kinds = [type(action.message) for action in (*first, *second)]
    assert kinds == [load.Failure, load.Completions, load.Completions]


def test_a_lost_object_fails_the_job():
    assert a_job(LACKING).handle(ObjectLost(JOB_ID, 0, "it arrived damaged"), NOW) == [
        to_yod(failure(load.FailureKind.OBJECT, "loading", "it arrived damaged"))
    ]


def test_an_object_is_published_when_it_has_arrived_and_has_been_passed_on():
    tree = Tree(3)
    tree.everywhere(LACKING)
    arrived, passed_on = ObjectArrived(JOB_ID, 0, PROGRAM.digest), ObjectPassedOn(JOB_ID, 0)
    publish = PublishObject(JOB_ID, 0, PROGRAM.mode)
    tree.at(0, arrived)
    assert not tree.took(0, PublishObject)
    tree.at(0, passed_on, passed_on)
    assert tree.took(0, PublishObject) == [publish]
    tree.at(1, arrived)  # a leaf passes nothing on
    assert tree.took(1, PublishObject) == [publish]


def test_an_object_with_another_digest_is_not_published_and_fails_the_job():
    tree = Tree(1)
    tree.at(0, LACKING, ObjectArrived(JOB_ID, 0, bytes(32)), ObjectPassedOn(JOB_ID, 0))
    assert not tree.took(0, PublishObject)
    assert tree.to_yod[-1] == failure(load.FailureKind.OBJECT, "loading", "it arrived damaged")


def test_an_object_that_is_not_wanted_any_more_is_not_published():
    job = a_job(LACKING, received(YOD, load.UseShared(JOB_ID, 0, b"/shared/a.out")))
    assert job.handle(ObjectArrived(JOB_ID, 0, PROGRAM.digest), NOW) == []


def test_an_object_that_is_lost_with_a_peer_is_not_told_a_second_time():
    lost = ObjectLost(JOB_ID, 0, "the child was lost", is_consequence=True)
    assert a_job(LACKING).handle(lost, NOW) == [Log("object 0: the child was lost", JOB_ID)]


def test_a_node_without_room_for_the_arguments_fails_the_job_and_does_not_vote():
    job = a_job(arguments=None, objects=(CARRIER, PROGRAM))
    no_place = ObjectsChecked(JOB_ID, ((1, b"/bin/a.out"),), (), (NoPlace(0, "none left"),))
    text = "the arguments: none left"
    told = to_yod(failure(load.FailureKind.OBJECT, "forming the group", text))
    assert job.handle(no_place, NOW) == [told]


def test_arguments_that_arrive_after_all_done_start_nothing():
    job = a_job(size=3, objects=(CARRIER, PROGRAM), arguments=None, mpi=PMIX)
    for place in (1, 2):
        job.handle(received(pct(place), vote(place)), NOW)
    job.handle(ObjectsChecked(JOB_ID, ((1, b"/bin/a.out"),), (0,), ()), NOW)
    job.handle(ALL_DONE, NOW)
    content = codec.encode_part(arguments(3, object_index=1))
    assert job.handle(ObjectArrived(JOB_ID, 0, CARRIER.digest), NOW) == []
    assert job.handle(ObjectStored(JOB_ID, 0, b"", content), NOW) == []
    assert job.state is JobState.ENDING


def test_a_lost_keeper_fails_the_job_and_leaves_nothing_to_end():
    job = a_job(*RUNNING)
    lost = KeeperReported(JOB_ID, keeper.KeeperLost("killed by SIGKILL"))
    assert job.handle(lost, NOW) == [
        to_yod(failure(load.FailureKind.KEEPER_LOST, "running", "killed by SIGKILL")),
        KillOrphans(JOB_ID, 0),
    ]
    assert job.handle(OrphansKilled(JOB_ID, 0), NOW) == [RemoveLeftovers(JOB_ID, 0)]
    assert job.handle(EMPTY, NOW) == []
    job.handle(OutputRead(JOB_ID, 0, 1, b""), NOW)
    job.handle(OutputRead(JOB_ID, 0, 2, b""), NOW)
    assert job.handle(ALL_DONE, NOW)[-1] == DropJob(JOB_ID)


@pytest.mark.parametrize("world", [0, PMIX_SERVER], ids=["ranks", "PMIx server"])
def test_a_node_is_free_only_when_the_orphans_of_a_lost_keeper_are_killed(world):
    tree = Tree(1, mpi=PMIX)
    tree.run()
    job = tree.jobs[0]
    for stream in (1, 2):
        job.handle(OutputRead(JOB_ID, 0, stream, b""), NOW)
    if world:
        job.handle(EMPTY, NOW)
        lost = PmixServerEnded(JOB_ID, "killed by SIGKILL", has_orphans=True)
    else:
        job.handle(PmixServerEnded(JOB_ID, "exited"), NOW)
        lost = KeeperReported(JOB_ID, keeper.KeeperLost("killed by SIGKILL"))
    assert KillOrphans(JOB_ID, world) in job.handle(lost, NOW)
    assert DropJob(JOB_ID) not in job.handle(ALL_DONE, NOW)
    assert job.handle(OrphansKilled(JOB_ID, world), NOW) == [RemoveLeftovers(JOB_ID, world)]
    assert job.handle(LeftoversRemoved(JOB_ID, world), NOW)[-1] == DropJob(JOB_ID)


def test_what_ranks_have_left_in_shared_memory_is_removed_before_the_node_is_free():
    job = a_job(*RUNNING)
    for stream in (1, 2):
        job.handle(OutputRead(JOB_ID, 0, stream, b""), NOW)
    job.handle(ALL_DONE, NOW)
    empty = KeeperReported(JOB_ID, keeper.KeeperEmpty())
    assert job.handle(empty, NOW) == [RemoveLeftovers(JOB_ID, 0)]
    first, *_, last = job.handle(LeftoversRemoved(JOB_ID, 0, ("mpich_shm_7",)), NOW)
    assert first == Log("removed mpich_shm_7, which nobody has mapped", JOB_ID)
    assert last == DropJob(JOB_ID)


def test_a_keeper_that_cannot_be_started_fails_the_job_and_leaves_nothing_to_end():
    job = a_job(PRESENT)
    assert job.handle(KeeperNotStarted(JOB_ID, 0, "no process"), NOW) == [
        to_yod(failure(load.FailureKind.KEEPER_LOST, "starting", "no process"))
    ]
    assert job.handle(ALL_DONE, NOW)[-1] == DropJob(JOB_ID)


def test_a_map_that_cannot_be_written_fails_the_job():
    text = "the map of the ranks that use Portals cannot be written: no space"
    assert a_job(*RUNNING).handle(MapNotGiven(JOB_ID, "no space"), NOW) == [
        to_yod(failure(load.FailureKind.NO_WIREUP, "running", text))
    ]


def test_who_does_not_come_to_its_entry_in_time_is_named():
    job = a_job(PRESENT, started(0), held(0), started(1), ranks_each=2)
    assert job.deadline() == BEGIN + 30.0
    assert job.handle(DeadlineReached(), BEGIN + 30) == [
        to_yod(
            failure(
                load.FailureKind.TIMED_OUT,
                "starting",
                "no answer in 30 s from n20 (ranks not at their entry: 1)",
            )
        )
    ]
    assert job.deadline() is None


def test_children_that_do_not_answer_in_time_are_named():
    job = a_job(PRESENT, received(pct(2), vote(2)), size=3)
    (forming,) = job.handle(DeadlineReached(), BEGIN + 100)
    assert forming.message.text == "no answer in 33 s from n21"
    job = a_job(PRESENT, *(received(pct(place), vote(place, 0)) for place in (1, 2)), size=3)
    (loading,) = job.handle(DeadlineReached(), BEGIN + 100)
    assert loading.message.text == "no answer in 33 s from n21, n22"
    assert loading.message.kind is load.FailureKind.TIMED_OUT


def test_a_held_job_waits_as_long_as_yod_likes():
    assert a_job(PRESENT, started(0), held(0)).deadline() is None


def test_all_done_ends_a_job_in_every_state_of_its_launch():
    for events in [(), (PRESENT,), (LACKING,), (PRESENT, started(0)), RUNNING]:
        job = a_job(*events)
        actions = job.handle(ALL_DONE, NOW)
        if PRESENT in events:
            assert actions == [KeeperEnd(JOB_ID)]
            for stream in (1, 2):
                job.handle(OutputRead(JOB_ID, 0, stream, b""), NOW)
            actions = job.handle(EMPTY, NOW)
        assert actions[-2:] == [to_yod(load.Released(JOB_ID, (20,))), DropJob(JOB_ID)]


def test_a_job_that_is_over_takes_no_object_that_arrives_late():
    job = a_job(ALL_DONE)
    assert job.state is JobState.RELEASED
    assert job.handle(PRESENT, NOW) == []
    assert job.handle(ObjectStored(JOB_ID, 0, b"/x"), NOW) == []
    assert job.handle(PeerGone(YOD, "gone"), NOW) == []


def test_a_job_that_is_over_has_let_go_of_what_its_ranks_put():
    job = a_job(*RUNNING)
    space = weakref.ref(job._wiring.wireup._worlds[0].space)
    gc.disable()
    try:
        for event in (ALL_DONE, EMPTY, *(OutputRead(JOB_ID, 0, each, b"") for each in (1, 2))):
            job.handle(event, NOW)
        assert job.state is JobState.RELEASED
        assert space() is None
    finally:
        gc.enable()


def test_nothing_is_released_before_the_last_byte_of_output_has_gone_up():
    job = a_job(*RUNNING, ALL_DONE)
    assert job.handle(EMPTY, NOW) == []
    assert job.handle(OutputRead(JOB_ID, 0, 1, b"bye"), NOW) == [
        to_yod(io.Output(JOB_ID, 0, 1, 0, b"bye"))
    ]
    assert job.handle(OutputRead(JOB_ID, 0, 1, b""), NOW) == []
    actions = job.handle(OutputRead(JOB_ID, 0, 2, b""), NOW)
    assert actions[-1] == DropJob(JOB_ID)


# -- output ----------------------------------------------------------------


def filled(*events, **fields) -> Job:
    """A running job whose window is used up; more output waits."""
    job = a_job(*RUNNING, *events, **fields)
    for _ in range(2):
        actions = job.handle(OutputRead(JOB_ID, 0, 1, bytes(64 * 1024)), NOW)
    assert actions == [PauseOutput(JOB_ID, 1)]
    return job


def test_output_beyond_the_window_pauses_the_ranks_until_there_is_credit():
    job = filled()
    credit = received(YOD, io.OutputCredit(JOB_ID, 1, 64 * 1024 + 256))
    assert job.handle(credit, NOW) == [
        to_yod(io.Output(JOB_ID, 0, 1, 64 * 1024, bytes(64 * 1024))),
        ResumeOutput(JOB_ID, 1),
    ]


def test_standard_error_never_waits_for_the_reader_of_standard_output():
    """With one window for both, a stopped pager kept errors from the screen."""
    job = filled()
    error = to_yod(io.Output(JOB_ID, 0, 2, 0, b"x"))
    assert job.handle(OutputRead(JOB_ID, 0, 2, b"x"), NOW) == [error]


def test_a_lost_yod_ends_the_job_though_its_output_window_is_full():
    """A killed yod never empties its window, so the slots were never freed."""
    job = filled()
    actions = job.handle(PeerGone(YOD, "killed"), NOW)
    assert actions == [KeeperEnd(JOB_ID), ResumeOutput(JOB_ID, 1)]
    assert job.handle(EMPTY, NOW) == []
    assert job.handle(OutputRead(JOB_ID, 0, 1, b"more"), NOW) == []
    job.handle(OutputRead(JOB_ID, 0, 1, b""), NOW)
    assert job.handle(OutputRead(JOB_ID, 0, 2, b""), NOW) == [
        TellBebopd(alloc.Freed(JOB_ID, (20,))),
        DropJob(JOB_ID),
    ]


def test_a_yod_that_is_lost_while_the_job_ends_keeps_nothing_from_ending():
    job = filled(ALL_DONE)
    assert job.handle(PeerGone(YOD, "killed"), NOW) == [ResumeOutput(JOB_ID, 1)]
    for event in (EMPTY, OutputRead(JOB_ID, 0, 1, b""), OutputRead(JOB_ID, 0, 2, b"")):
        actions = job.handle(event, NOW)
    assert actions == [TellBebopd(alloc.Freed(JOB_ID, (20,))), DropJob(JOB_ID)]


def test_a_reset_sends_what_is_left_of_the_output_without_credit():
    job = filled(ALL_DONE)
    assert job.handle(RESET, NOW) == [
        to_yod(io.Output(JOB_ID, 0, 1, 64 * 1024, bytes(64 * 1024))),
        ResumeOutput(JOB_ID, 1),
    ]
    for event in (EMPTY, OutputRead(JOB_ID, 0, 1, b""), OutputRead(JOB_ID, 0, 2, b"")):
        actions = job.handle(event, NOW)
    assert actions[-2:] == [to_yod(load.Released(JOB_ID, (20,))), DropJob(JOB_ID)]


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


def test_an_object_goes_only_to_the_children_that_lack_it():
    tree = Tree(3)
    tree.at(0, PRESENT)
    tree.at(1, LACKING)
    tree.at(2, PRESENT)
    assert tree.took(0, SendObject) == [
        SendObject(JOB_ID, 0, PROGRAM, b"/bin/a.out", 4096, (pct(1),))
    ]
    assert tree.took(1, ReceiveObject) == [ReceiveObject(JOB_ID, 0, PROGRAM, 4096, ())]
    assert tree.take_to_yod() == [load.Vote(JOB_ID, 3, (), (), slowest(0))]
    assert tree.states() == [JobState.LOADING, JobState.LOADING, JobState.STARTING]
    tree.at(1, ObjectStored(JOB_ID, 0, b"/store/a.out"))
    assert tree.states() == [JobState.STARTING] * 3


def test_an_object_that_the_root_lacks_is_passed_on_while_it_arrives():
    tree = Tree(3)
    tree.everywhere(LACKING)
    assert tree.took(0, ReceiveObject) == [
        ReceiveObject(JOB_ID, 0, PROGRAM, 4096, (pct(1), pct(2)))
    ]
    assert tree.take_to_yod() == [load.Vote(JOB_ID, 3, (0,), (), slowest(0))]
    for place in (2, 0, 1):
        assert tree.take_to_yod() == []
        tree.at(place, ObjectStored(JOB_ID, 0, b"/store/a.out"))
    assert [type(message) for message in tree.take_to_yod()] == [load.Loaded]


def test_one_node_without_room_is_named_for_each_object():
    tree = Tree(3)
    full = ObjectsChecked(JOB_ID, (), (), (NoPlace(0, "full"),))
    tree.everywhere(full)
    (merged,) = tree.take_to_yod()
    assert len(merged.no_room) == 1 and merged.no_room[0].text == "full"
    tree.from_yod(load.UseShared(JOB_ID, 0, b"/enfs/a.out"))
    assert all(len(tree.took(place, StartKeeper)) == 1 for place in range(3))
    assert [type(message) for message in tree.take_to_yod()] == [load.Loaded]


def test_a_failure_below_reaches_yod_at_once_and_the_tree_waits_for_the_word_to_end():
    tree = Tree(3)
    tree.everywhere(PRESENT)
    tree.take_to_yod()
    tree.at(2, KeeperReported(JOB_ID, keeper.ExecFailed(2, 2, ExecStep.OPEN, "/bin/a.out")))
    (told,) = tree.take_to_yod()
    assert (told.kind, told.node, told.rank) == (load.FailureKind.NOT_FOUND, 22, 2)
    tree.from_yod(load.AllDone(JOB_ID))
    assert all(tree.took(place, KeeperEnd) == [KeeperEnd(JOB_ID)] for place in range(3))


def test_equal_ends_are_one_outcome_and_an_abnormal_one_does_not_wait():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.at(1, ended(1))
    assert tree.take_to_yod() == []
    tree.at(2, ended(2, 256))
    known = [outcome for done in tree.take_to_yod() for outcome in done.outcomes]
    assert [(each.wait_status, each.ranks) for each in known] == [(0, (1,)), (256, (2,))]
    tree.at(0, ended(0))
    (last,) = tree.take_to_yod()
    assert last.outcomes[0].ranks == (0,)


def test_normal_ends_wait_a_moment_for_the_rest_of_the_subtree():
    tree = Tree(7)
    tree.run()
    tree.take_to_yod()
    for rank in (3, 4, 5):
        tree.at(rank, ended(rank))
    assert tree.take_to_yod() == []
    tree.wait(0.1)  # place 1 and 2 send what they have
    tree.wait(0.2)  # the root sends what it has
    done = [outcome.ranks for message in tree.take_to_yod() for outcome in message.outcomes]
    assert sorted(rank for ranks in done for rank in ranks) == [3, 4, 5]


def test_output_of_a_leaf_goes_through_its_parent_and_credit_comes_back():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    for part in range(8):
        tree.at(2, OutputRead(JOB_ID, 2, 1, bytes([part]) * 8192))
    data = [message.data[:1] for message in tree.take_to_yod()]
    assert data == [bytes([part]) for part in range(8)]
    tree.at(2, OutputRead(JOB_ID, 2, 1, bytes(40 * 1024)))
    assert tree.took(2, PauseOutput) == []  # the root has given credit


def test_output_of_a_leaf_stops_when_yod_takes_none_and_nothing_is_lost():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    for part in range(60):
        tree.at(2, OutputRead(JOB_ID, 2, 1, bytes([part]) * 8192))
    assert tree.took(2, PauseOutput) == [PauseOutput(JOB_ID, 1)]
    taken = tree.take_to_yod()
    while taken[-1].data[0] < 59:
        tree.from_yod(io.OutputCredit(JOB_ID, 1, 32 * 1024))
        more = tree.take_to_yod()
        assert sum(len(message.data) + 64 for message in more) < 32 * 1024 + 8192 + 64
        taken += more
    assert [message.offset for message in taken] == [part * 8192 for part in range(60)]
    assert tree.took(2, ResumeOutput)[-1:] == [ResumeOutput(JOB_ID, 1)]


def test_the_end_waits_for_output_of_the_children_and_not_for_ever():
    """The root had released itself before its child's last output came: nobody asked again."""
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    for _ in range(2):
        tree.at(2, OutputRead(JOB_ID, 2, 1, bytes(40 * 1024)))  # fills yod's window
    tree.from_yod(load.AllDone(JOB_ID))
    for place in (0, 1):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    last = [OutputRead(JOB_ID, 2, 1, b"last"), *(OutputRead(JOB_ID, 2, s, b"") for s in (1, 2))]
    tree.at(2, *last, EMPTY)
    assert load.Released not in map(type, tree.take_to_yod())
    tree.from_yod(io.OutputCredit(JOB_ID, 1, 64 * 1024))
    assert [type(message) for message in tree.take_to_yod()] == [io.Output, load.Released]


# -- losses ----------------------------------------------------------------


def test_a_lost_child_is_told_to_yod_and_not_waited_for_at_the_end():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.lose(2, 0)
    assert tree.take_to_yod() == [
        failure(load.FailureKind.NODE_LOST, "running", "connection reset", place=2)
    ]
    tree.from_yod(load.AllDone(JOB_ID))
    for place in (1, 0):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    (released,) = tree.take_to_yod()
    assert sorted(released.nodes) == [20, 21]


def test_a_lost_yod_ends_the_whole_tree():
    tree = Tree(3)
    tree.run()
    tree.at(0, PeerGone(YOD, "killed"))
    assert tree.states() == [JobState.ENDING] * 3
    for place in (1, 2, 0):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    assert [sorted(freed.nodes) for freed in tree.to_bebopd[1:]] == [[20, 21, 22]]


def test_a_node_whose_parent_is_lost_is_adopted_by_the_next_ancestor():
    tree = Tree(7)
    tree.run()
    tree.from_yod(load.Signal(JOB_ID, 15))
    tree.take_to_yod()
    tree.lose(1, 0, 3, 4)
    assert tree.jobs[3].parent == tree.jobs[4].parent == pct(0)
    assert tree.took(3, KeeperSignal) == [KeeperSignal(JOB_ID, 15)] * 2  # repeated on adoption
    assert [message.kind for message in tree.take_to_yod()] == [load.FailureKind.NODE_LOST]

    tree.from_yod(load.AllDone(JOB_ID))
    assert tree.states() == [JobState.ENDING] * 6
    for place in tree.alive()[::-1]:
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    (released,) = [m for m in tree.take_to_yod() if isinstance(m, load.Released)]
    assert sorted(released.nodes) == [20, 22, 23, 24, 25, 26]


def test_an_adopted_node_reports_its_completions_again():
    tree = Tree(7)
    tree.run()
    tree.at(3, ended(3, 256))
    tree.at(4, ended(4, 256))
    tree.take_to_yod()
    tree.lose(1, 0, 3, 4)
    done = [message for message in tree.take_to_yod() if isinstance(message, load.Completions)]
    assert [message.outcomes[0].ranks for message in done] == [(3,), (4,)]


def test_a_node_asks_ancestor_after_ancestor_and_gives_up_after_orphan_s():
    job = a_job(PRESENT, started(7), held(7), size=15, place=7, parent=pct(3))
    assert job.handle(PeerGone(pct(3), "gone"), NOW) == [Send(pct(1), group.Orphan(JOB_ID, 7))]
    assert job.handle(PeerGone(pct(1), "gone"), NOW) == [Send(pct(0), group.Orphan(JOB_ID, 7))]
    assert job.deadline() == NOW + 10.0
    assert job.handle(DeadlineReached(), NOW + 10) == [KeeperEnd(JOB_ID)]
    assert job.state is JobState.ENDING


def test_a_node_without_any_ancestor_left_ends_its_ranks_and_frees_itself():
    job = a_job(PRESENT, started(1), held(1), size=3, place=1, parent=pct(0))
    assert job.handle(PeerGone(pct(0), "gone"), NOW) == [KeeperEnd(JOB_ID)]
    for stream in (1, 2):
        job.handle(OutputRead(JOB_ID, 1, stream, b""), NOW)
    assert job.handle(EMPTY, NOW) == [TellBebopd(alloc.Freed(JOB_ID, (21,))), DropJob(JOB_ID)]


def test_an_orphan_is_taken_only_from_its_place_below():
    job = a_job(size=7)
    with pytest.raises(PeerProtocolError, match="is not at place 3 of the job"):
        job.handle(received(pct(4), group.Orphan(JOB_ID, 3)), NOW)
    with pytest.raises(PeerProtocolError, match="is not at place 9 of the job"):
        job.handle(received(pct(4), group.Orphan(JOB_ID, 9)), NOW)
    below = a_job(size=7, place=1, parent=pct(0))
    with pytest.raises(PeerProtocolError, match="place 5 is not below place 1"):
        below.handle(received(pct(5), group.Orphan(JOB_ID, 5)), NOW)
    assert job.handle(received(pct(3), group.Orphan(JOB_ID, 3)), NOW) == [
        Send(pct(3), group.Adopted(JOB_ID))
    ]


def test_an_orphan_of_a_job_that_is_ending_is_told_so():
    job = a_job(PRESENT, started(0), ALL_DONE, size=7)
    assert job.handle(received(pct(3), group.Orphan(JOB_ID, 3)), NOW) == [
        Send(pct(3), group.Adopted(JOB_ID)),
        Send(pct(3), load.AllDone(JOB_ID)),
    ]


def test_a_reset_ends_each_node_by_itself():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.lose(0)
    for place in (1, 2):
        tree.from_yod(load.Reset(JOB_ID), place)
        assert tree.jobs[place].state is JobState.ENDING
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    assert tree.take_to_yod() == [load.Released(JOB_ID, (21,)), load.Released(JOB_ID, (22,))]


def test_a_reset_node_tells_yod_what_its_lost_parent_may_have_kept():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.gone.add(0)  # takes what it is sent, and does nothing
    tree.at(1, ended(1, 3 << 8))
    assert tree.take_to_yod() == []
    tree.from_yod(load.Reset(JOB_ID), 1)
    (told,) = [each for each in tree.take_to_yod() if isinstance(each, load.Completions)]
    assert [outcome.ranks for outcome in told.outcomes] == [(1,)]


def test_a_reset_of_a_node_that_waits_for_its_children_frees_it():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.from_yod(load.AllDone(JOB_ID))
    tree.at(0, OutputRead(JOB_ID, 0, 1, b""), OutputRead(JOB_ID, 0, 2, b""), EMPTY)
    assert tree.take_to_yod() == []
    tree.from_yod(load.Reset(JOB_ID))
    assert tree.take_to_yod() == [load.Released(JOB_ID, (20,))]


def test_heirs_that_never_call_are_not_waited_for():
    tree = Tree(7)
    tree.run()
    tree.take_to_yod()
    tree.lose(1, 0)
    tree.lose(3)
    tree.lose(4)
    tree.from_yod(load.AllDone(JOB_ID))
    for place in (5, 6, 2, 0):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    assert tree.jobs[0].state is JobState.ENDING
    tree.wait(11.5)
    (released,) = [m for m in tree.take_to_yod() if isinstance(m, load.Released)]
    assert sorted(released.nodes) == [20, 22, 25, 26]


def test_the_children_of_a_lost_child_are_told_to_end_and_waited_for():
    tree = Tree(7)
    tree.run()
    tree.take_to_yod()
    tree.from_yod(load.AllDone(JOB_ID))
    tree.lose(1, 0)  # and its children have not noticed yet
    assert [message.kind for message in tree.take_to_yod()] == [load.FailureKind.NODE_LOST]
    for place in (3, 4):
        tree.at(place, PeerGone(pct(1), "gone"))
    for place in tree.alive()[::-1]:
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    (released,) = tree.take_to_yod()
    assert sorted(released.nodes) == [20, 22, 23, 24, 25, 26]


def test_a_node_that_is_reset_tells_its_parent_too():
    tree = Tree(3)
    tree.run()
    tree.take_to_yod()
    tree.from_yod(load.Reset(JOB_ID), 2)
    tree.at(2, OutputRead(JOB_ID, 2, 1, b""), OutputRead(JOB_ID, 2, 2, b""), EMPTY)
    assert tree.take_to_yod() == [load.Released(JOB_ID, (22,))]
    assert tree.to_bebopd[1:] == [alloc.Freed(JOB_ID, (22,))]
    tree.from_yod(load.AllDone(JOB_ID))
    for place in (1, 0):
        closed = [OutputRead(JOB_ID, place, stream, b"") for stream in (1, 2)]
        tree.at(place, *closed, EMPTY)
    (released,) = tree.take_to_yod()
    assert sorted(released.nodes) == [20, 21, 22]


def test_an_orphans_output_waits_for_its_next_parent():
    tree = Tree(7)
    tree.run()
    tree.take_to_yod()
    tree.gone.add(1)
    orphan = tree.jobs[3]
    actions = orphan.handle(PeerGone(pct(1), "gone"), NOW)
    assert actions == [Send(pct(0), group.Orphan(JOB_ID, 3))]
    assert orphan.handle(OutputRead(JOB_ID, 3, 1, b"kept"), NOW) == [PauseOutput(JOB_ID, 1)]
    adopted = orphan.handle(received(pct(0), group.Adopted(JOB_ID)), NOW)
    assert Send(pct(0), io.Output(JOB_ID, 3, 1, 0, b"kept")) in adopted


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
