"""A launch from its request to its exit: every phase."""

import signal
from math import inf

import msgspec
import pytest

from native.errors import IllegalTransition, PeerProtocolError, Refusal
from native.limits import Limits
from native.machine import DeadlineReached, Event, PeerGone, Send
from native.wire import alloc, io, load
from native.wire.load import FailureKind, Mpi, Protocol
from native.wire.placed import JobNodes
from native.wire.runs import JobRuns, Run
from tests.unit.yod.launch_of import (
    ALL_DONE,
    BEBOPD,
    GO,
    INT,
    JOB_ID,
    KILL,
    LIMITS,
    LINES,
    PROGRAM,
    RELEASE,
    ROOT,
    Yod,
    completions,
    failure,
    grant,
    held,
    leave,
    node,
    output,
    pct,
    plan,
    released,
    resets,
    sent,
    slowest,
    to_bebopd,
    to_root,
    told,
)
from yod.launch.allocation import ADVICE
from yod.launch.events import (
    CopyToShared,
    Finish,
    Interrupted,
    Leave,
    NotShared,
    ObjectDelivered,
    OutputWritten,
    SendObject,
    Shared,
    Tell,
    UseGrant,
)
from yod.launch.machine import Launch
from yod.launch.phases import Phase

# -- the ordinary way ------------------------------------------------------


def test_a_launch_goes_through_its_phases_and_exits_with_0():
    yod = Yod(2)
    assert yod.first == [to_bebopd(alloc.NodeRequest((alloc.NodeSpec(2),), "a.out", ""))]
    assert yod.phase is Phase.ALLOCATING

    use, send = yod.from_bebopd(grant(2))
    assert use == UseGrant(grant(2))
    assert send.target == ROOT and isinstance(send.message, load.Load)
    assert yod.phase is Phase.FORMING

    vote = load.Vote(JOB_ID, 2, (0,), (), slowest(1))
    assert yod.receive(vote) == [SendObject(JOB_ID, 0, ROOT)]
    assert yod.phase is Phase.LOADING
    assert yod.handle(ObjectDelivered(0)) == []

    assert yod.receive(load.Loaded(JOB_ID, slowest(1))) == []
    assert yod.phase is Phase.STARTING

    assert yod.receive(held(0, 1)) == [GO, *LINES]
    assert yod.phase is Phase.RUNNING
    assert yod.machine.deadline() is None

    assert yod.receive(completions(1)) == []
    assert yod.receive(completions(0)) == [ALL_DONE]
    assert yod.phase is Phase.ENDING

    assert yod.receive(released(0, 1)) == [RELEASE]
    assert yod.phase is Phase.RELEASING
    assert yod.from_bebopd(alloc.Released(JOB_ID)) == [Finish()]
    assert (yod.phase, yod.status) == (Phase.DONE, 0)
    assert yod.machine.deadline() is None


def test_the_load_message_says_what_the_plan_and_the_limits_say():
    limits = Limits(arity_count=4, phase_s=5.0, orphan_s=3.0, chunk_bytes=8192)
    mpi = Mpi((Protocol.PMIX,), is_certain=True, library=b"/l", universe_size=8)
    yod = Yod(2, limits=limits, mpi=mpi, input_ranks=((0, 0),))
    message = yod.from_bebopd(grant(2))[1].message
    assert message == load.Load(
        job_id=JOB_ID,
        credential=b"credential",
        credential_mac=b"mac",
        place=0,
        nodes=JobNodes.of((node(0), node(1))),
        runs=JobRuns.of((Run(0, 1), Run(1, 1))),
        arity=4,
        objects=(PROGRAM,),
        arguments=plan(2).arguments,
        umask=0o22,
        limits=(),
        mpi=mpi,
        input_ranks=((0, 0),),
        chunk_bytes=8192,
        deadline_s=5.0,
        orphan_s=3.0,
        output_window_bytes=limits.output_window_bytes,
    )


@pytest.mark.parametrize("bytes_shipped", [1, 1 << 30])
def test_the_width_of_the_tree_that_the_user_chose_is_that_of_any_job(bytes_shipped):
    large = msgspec.structs.replace(PROGRAM, size=bytes_shipped)
    yod = Yod(2)
    yod.machine = Launch(
        msgspec.structs.replace(plan(2, arity=3), objects=(large,)), LIMITS, BEBOPD, "host:1"
    )
    yod.machine.begin(0.0)
    assert yod.from_bebopd(grant(2))[1].message.arity == 3


def test_large_arguments_are_left_to_the_first_object():
    large = msgspec.structs.replace(plan(1), are_arguments_inline=False)
    machine = Launch(large, LIMITS, BEBOPD, "host:1")
    machine.begin(0.0)
    yod = Yod(1)
    yod.machine = machine
    assert yod.from_bebopd(grant(1))[1].message.arguments is None


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        ((alloc.NodeSpec(1, tuple(range(200_000, 0, -1))),), "the lists of nodes have"),
        ((alloc.NodeSpec(1, tuple(range(1 << 19))),) * 3, "lists of 1572864 nodes in all, at most"),
    ],
)
def test_lists_of_nodes_that_fit_no_message_are_refused_in_one_line(specs, text):
    """Such a launch ended yod with a traceback."""
    long = msgspec.structs.replace(plan(1), specs=specs)
    machine = Launch(long, LIMITS, BEBOPD, "host:1")
    told, finished = machine.begin(0.0)
    assert (told.text.startswith(text), finished) == (True, Finish())
    assert machine.report.exit_status == 125


def test_a_constraint_that_fits_no_message_is_refused_in_one_line():
    """Such a request cost yod its connection to bebopd."""
    options = msgspec.structs.replace(plan(1).options, constraint="x" * 257)
    machine = Launch(msgspec.structs.replace(plan(1), options=options), LIMITS, BEBOPD, "host:1")
    told, finished = machine.begin(0.0)
    assert told.text.startswith("--constraint of 257 characters")
    assert (finished, machine.report.exit_status) == (Finish(), 125)


def test_a_load_that_fits_no_message_is_refused_before_anybody_hears_of_it():
    """Such a job ended yod with a traceback."""
    long = msgspec.structs.replace(
        plan(1), arguments=load.Arguments(plan(1).arguments.members, (b"x" * (1 << 18),))
    )
    yod = Yod(1)
    yod.machine = Launch(long, LIMITS, BEBOPD, "host:1")
    yod.machine.begin(0.0)
    tell, release = yod.from_bebopd(grant(1))
    assert tell.text.startswith("the load message of 1 nodes has 262")
    assert release == RELEASE
    assert leave(yod) == 125


def test_where_nothing_is_lacking_there_is_nothing_to_load():
    yod = Yod(2).to(Phase.FORMING)
    assert yod.receive(load.Vote(JOB_ID, 2, (), (), slowest())) == []
    assert yod.phase is Phase.STARTING


def test_the_map_may_come_in_pieces_and_go_waits_for_the_last():
    yod = Yod(2).to(Phase.STARTING)
    assert yod.receive(held(0, is_last=False)) == []
    assert yod.receive(held(1)) == [GO, *LINES]
    assert yod.report.unix_pids == {0: 3000, 1: 3001}


def test_ranks_held_before_exec_are_counted_over_all_pieces():
    yod = Yod(2).to(Phase.STARTING)
    yod.receive(held(0, is_last=False, before_exec=(0,)))
    text = "2 ranks were held before exec: tracing is forbidden on their nodes"
    assert yod.receive(held(1, before_exec=(1,))) == [Tell(text, is_error=False), GO, *LINES]


def test_a_warning_of_the_plan_is_said_before_a_node_hears_of_the_job():
    yod = Yod(1, warnings=("take care",))
    use, *told = yod.receive(grant(1), BEBOPD)
    assert (type(use), told[0], type(told[1])) == (UseGrant, Tell("take care"), Send)


def test_phases_and_who_was_slowest_are_kept_for_timing():
    yod = Yod(2)
    for phase in (Phase.FORMING, Phase.LOADING):
        yod.now += 1
        yod.to(phase) if phase is Phase.FORMING else yod.receive(
            load.Vote(JOB_ID, 2, (0,), (), slowest(1))
        )
    assert yod.machine.began == {
        Phase.ALLOCATING: 100.0,
        Phase.FORMING: 101.0,
        Phase.LOADING: 102.0,
    }
    assert yod.machine.slowest == {Phase.FORMING: slowest(1)}


# -- no room on a node -----------------------------------------------------


NO_ROOM = load.NoRoom(0, 21, "n21", "/dev/shm: full")


def test_an_object_without_room_goes_by_the_shared_file_system():
    yod = Yod(2).to(Phase.FORMING)
    assert yod.receive(load.Vote(JOB_ID, 2, (0,), (NO_ROOM,), slowest())) == [
        Tell("no room for /bin/a.out on n21 (/dev/shm: full): using the shared file system"),
        CopyToShared(JOB_ID, 0),
    ]
    assert yod.handle(Shared(0, b"/enfs/x")) == [to_root(load.UseShared(JOB_ID, 0, b"/enfs/x"))]
    assert yod.phase is Phase.LOADING


def test_a_launch_without_room_anywhere_fails():
    yod = Yod(2).to(Phase.FORMING)
    yod.receive(load.Vote(JOB_ID, 2, (0,), (NO_ROOM,), slowest()))
    assert yod.handle(NotShared(0, "nor there")) == [Tell("nor there"), ALL_DONE]
    assert leave(yod) == 125


def test_a_copy_that_is_ready_too_late_is_not_used():
    yod = Yod(2).to(Phase.ENDING)
    assert yod.handle(Shared(0, b"/enfs/x")) == []


# -- no nodes --------------------------------------------------------------


def test_a_launch_that_waits_for_nodes_says_its_place_and_what_it_waits_for():
    yod = Yod(2, wait_s=inf)
    assert yod.first == [to_bebopd(alloc.NodeRequest((alloc.NodeSpec(2),), "a.out", "", True))]
    text = "waits for nodes, place 3 in the line: 0 of 2 slots free now; Ctrl-C leaves"
    queued = alloc.Queued(3, "0 of 2 slots free now")
    assert yod.from_bebopd(queued) == [Tell(text, is_error=False)]
    assert yod.machine.deadline() is None
    yod.from_bebopd(grant(2))
    assert yod.phase is Phase.FORMING


def test_a_launch_that_waits_gives_up_after_its_time():
    yod = Yod(2, wait_s=100.0)
    yod.from_bebopd(alloc.Queued(3, "1 of 2 slots free now"))
    yod.now += 50
    yod.from_bebopd(alloc.Queued(1, "0 of 2 slots free now"))
    assert yod.machine.deadline() == yod.now + 50
    yod.now += 50
    text = "no nodes in 100 s (--wait): 0 of 2 slots free now"
    assert yod.handle(DeadlineReached()) == [Tell(text), Finish()]
    assert (yod.phase, yod.status) == (Phase.DONE, 125)


def test_an_interrupt_while_it_waits_ends_the_launch():
    yod = Yod(2, wait_s=100.0)
    yod.from_bebopd(alloc.Queued(1, "0 of 2 slots free now"))
    yod.handle(Interrupted(signal.SIGINT))
    assert (yod.phase, yod.status) == (Phase.DONE, 130)


def test_a_refused_request_ends_with_bebopds_words():
    yod = Yod(2)
    text = "2 ranks requested, 1 of 8 slots free now"
    assert yod.from_bebopd(alloc.Refused(Refusal.BUSY, text)) == [Tell(text), Finish()]
    assert (yod.phase, yod.status, yod.report.reason) == (Phase.DONE, 125, text)


def test_a_refusal_of_a_load_files_line_names_file_and_line():
    lines = msgspec.structs.replace(
        plan(1), specs=(alloc.NodeSpec(1),) * 2, origins=("f.load:1", "f.load:4"), names=("a", "b")
    )
    yod = Yod(1)
    yod.machine = Launch(lines, LIMITS, BEBOPD, "host:1")
    yod.machine.begin(0.0)
    actions = yod.from_bebopd(alloc.Refused(Refusal.UNKNOWN_NODE, "no node 9 here", 1))
    assert told(actions) == ["f.load:4: no node 9 here"]


def test_a_bebopd_that_is_not_there_is_named_with_what_to_try():
    yod = Yod(2)
    advice = "is the partition up (yodctl status)? --partition or YOD_PARTITION chooses one"
    assert yod.lose(BEBOPD, "connection refused") == [
        Tell(f"bebopd at host:1 connection refused; {advice}"),
        Finish(),
    ]
    assert yod.status == 125


def test_a_bebopd_that_says_nothing_is_given_up():
    yod = Yod(2)
    assert yod.wait(LIMITS.allocate_s) == [
        Tell(f"bebopd at host:1 did not answer in 30 s; {ADVICE}"),
        Finish(),
    ]
    assert yod.status == 125


def test_a_lost_bebopd_ends_nothing_that_runs():
    yod = Yod(2).to(Phase.RUNNING)
    assert yod.lose(BEBOPD) == []
    yod.receive(completions(0, 1))
    yod.receive(released(0, 1))
    assert yod.lose(BEBOPD) == [Finish()]
    assert yod.status == 0
    assert yod.report.notes == ["bebopd was lost before it confirmed that the nodes are free"]


def test_a_bebopd_that_does_not_confirm_is_not_waited_for_for_ever():
    yod = Yod(2).to(Phase.RELEASING)
    assert yod.wait(LIMITS.end_s + LIMITS.allocate_s) == [Finish()]
    assert yod.status == 0
    assert yod.report.notes == ["bebopd did not confirm that the nodes are free"]


def test_nodes_that_bebopd_could_not_ask_are_reported():
    yod = Yod(2).to(Phase.RELEASING)
    yod.from_bebopd(alloc.Released.of(JOB_ID, (21,)))
    assert yod.report.lost == {21}


def test_with_a_bebopd_of_its_own_a_launch_is_over_with_its_nodes():
    yod = Yod(2)
    yod.machine.end_with_nodes()
    yod.to(Phase.ENDING)
    assert yod.receive(released(0, 1)) == [RELEASE, Finish()]
    assert (yod.phase, yod.status) == (Phase.DONE, 0)
    assert yod.from_bebopd(alloc.Released(JOB_ID)) == []


def test_with_a_bebopd_of_its_own_a_node_that_has_not_confirmed_is_waited_for():
    yod = Yod(2)
    yod.machine.end_with_nodes()
    yod.to(Phase.RESETTING)
    assert yod.wait(LIMITS.end_s) == [RELEASE]
    assert yod.phase is Phase.RELEASING


def test_a_refused_release_is_the_end_all_the_same():
    yod = Yod(2).to(Phase.RELEASING)
    assert yod.from_bebopd(alloc.Refused(Refusal.NOT_PERMITTED, "not yours")) == [Finish()]


# -- the end ---------------------------------------------------------------


def test_an_end_that_is_not_confirmed_resets_who_has_not():
    yod = Yod(3).to(Phase.ENDING)
    assert yod.wait(LIMITS.end_s) == [
        Tell("no end confirmed by n20, n21, n22: resetting"),
        *resets(0, 1, 2),
    ]
    yod.receive(released(0), pct(0))
    yod.receive(released(2), pct(2))
    assert yod.wait(LIMITS.end_s) == [RELEASE]


def test_an_end_waits_for_output_however_slow_its_reader():
    yod = Yod(1).to(Phase.RUNNING)
    yod.receive(io.Output(JOB_ID, 0, 1, 0, b"x" * 1000))
    yod.receive(completions(0))
    assert yod.phase is Phase.ENDING
    assert yod.wait(10 * LIMITS.end_s) == []
    assert yod.handle(OutputWritten(1, 1000)) == []
    assert yod.wait(LIMITS.end_s - 1.0) == []
    assert yod.wait(1.0)[0] == Tell("no end confirmed by n20: resetting")


def test_nodes_that_the_root_has_not_heard_of_are_reset():
    yod = Yod(3).to(Phase.ENDING)
    assert yod.receive(released(0, 1)) == resets(2)
    assert yod.receive(released(2), pct(2)) == [RELEASE]


def test_a_node_that_is_gone_need_not_be_reset():
    yod = Yod(2).to(Phase.RESETTING)
    yod.receive(released(0))
    assert yod.lose(pct(1)) == [RELEASE]


def test_completions_that_come_during_the_end_are_still_counted():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(failure(FailureKind.KEEPER_LOST, phase="running"))
    yod.receive(completions(0, wait_status=KILL, was_signalled=True))
    assert sorted(yod.report.completions) == [0]


# -- the machine itself ----------------------------------------------------


def test_an_event_that_no_launch_knows_is_a_bug():
    with pytest.raises(IllegalTransition, match="please report this bug"):
        Yod(2).handle(Event())


def test_a_launch_that_is_done_takes_nothing_more():
    yod = Yod(2).to(Phase.DONE)
    for event in (PeerGone(ROOT, "gone"), OutputWritten(1, 1 << 30)):
        assert yod.handle(event) == []


def test_an_interrupt_of_a_launch_that_is_done_leaves_without_its_reader():
    """Where the reader of yod's output did not read, no interrupt ended yod."""
    yod = Yod(2).to(Phase.DONE)
    assert yod.handle(Interrupted(INT)) == [Leave()]
    yod.machine.report.close()
    assert yod.machine.report.exit_status == 128 + INT


@pytest.mark.parametrize("message", [failure(), completions(0), released(0), output(0, b"x")])
def test_what_only_pcts_say_is_nothing_before_a_grant(message):
    """An end without a grant had nobody to confirm it, and failed an assertion."""
    yod = Yod(2)
    assert sent(yod.receive(message)) == []
    assert yod.phase is Phase.ALLOCATING


@pytest.mark.parametrize("is_lacking", [True, False], ids=["lacking", "no room"])
def test_a_vote_about_an_object_that_the_job_has_not_is_refused(is_lacking):
    yod = Yod(2).to(Phase.FORMING)
    room = load.NoRoom(1, 20, "n20", "full")
    vote = load.Vote(JOB_ID, 2, (1,) * is_lacking, () if is_lacking else (room,), slowest())
    with pytest.raises(PeerProtocolError, match="a vote about object 1"):
        yod.receive(vote)
    assert yod.receive(load.Vote(JOB_ID, 2, (0,), (), slowest())) == [SendObject(JOB_ID, 0, ROOT)]
