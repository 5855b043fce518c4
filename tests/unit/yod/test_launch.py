"""A launch from its request to its exit: every phase, failure rule and interrupt."""

import signal

import msgspec
import pytest

from native.errors import IllegalTransition, PeerProtocolError, Refusal
from native.limits import Limits
from native.machine import Event, PeerGone, Send
from native.wire import alloc, io, load
from native.wire.load import FailureKind, Mpi, Protocol
from tests.unit.yod.launch_of import (
    BEBOPD,
    JOB_ID,
    LIMITS,
    PROGRAM,
    ROOT,
    Yod,
    completions,
    failure,
    grant,
    held,
    node,
    outcome,
    output,
    pct,
    plan,
    released,
    sent,
    slowest,
    to_bebopd,
    to_root,
    told,
)
from yod.launch.allocation import ADVICE
from yod.launch.events import (
    Continued,
    CopyToShared,
    Finish,
    InputRead,
    Interrupted,
    Leave,
    NotShared,
    ObjectDelivered,
    ObjectUndelivered,
    OutputClosed,
    OutputFailed,
    OutputWritten,
    ReadInput,
    SendObject,
    Shared,
    SignalToPass,
    StopAsked,
    Suspend,
    Tell,
    UseGrant,
    Write,
)
from yod.launch.machine import Launch
from yod.launch.phases import BEFORE_GO, Phase
from yod.plan.plan import Style

GO = to_root(load.Go(JOB_ID))
LINES = [to_root(io.OutputCredit(JOB_ID, each, LIMITS.line_room_bytes)) for each in io.STREAMS]
ALL_DONE = to_root(load.AllDone(JOB_ID))
RELEASE = to_bebopd(alloc.Release(JOB_ID))
INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
AFTER_GO = (Phase.RUNNING, Phase.ENDING, Phase.RESETTING, Phase.RELEASING)


def signal_all(number):
    return to_root(load.Signal(JOB_ID, number))


def resets(*places):
    return [Send(pct(place), load.Reset(JOB_ID)) for place in places]


def leave(yod: Yod) -> int | None:
    """The tree confirms its end, then bebopd; the exit status."""
    if yod.phase is Phase.ENDING:
        yod.receive(released(*range(yod.size)))
    assert yod.phase is Phase.RELEASING
    assert yod.from_bebopd(alloc.Released(JOB_ID)) == [Finish()]
    assert yod.phase is Phase.DONE
    return yod.status


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
    yod = Yod(2, limits=limits, mpi=mpi, has_input=True)
    message = yod.from_bebopd(grant(2))[1].message
    assert message == load.Load(
        job_id=JOB_ID,
        credential=b"credential",
        credential_mac=b"mac",
        place=0,
        nodes=(node(0), node(1)),
        runs=(alloc.Run(0, 1), alloc.Run(1, 1)),
        arity=4,
        objects=(PROGRAM,),
        arguments=plan(2).arguments,
        umask=0o22,
        limits=(),
        mpi=mpi,
        has_input=True,
        chunk_bytes=8192,
        deadline_s=5.0,
        orphan_s=3.0,
        output_window_bytes=limits.output_window_bytes,
    )


def test_large_arguments_are_left_to_the_first_object():
    large = msgspec.structs.replace(plan(1), are_arguments_inline=False)
    machine = Launch(large, LIMITS, BEBOPD, "host:1")
    machine.begin(0.0)
    yod = Yod(1)
    yod.machine = machine
    assert yod.from_bebopd(grant(1))[1].message.arguments is None


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


def test_a_warning_of_the_plan_is_said_before_go():
    yod = Yod(1, warnings=("take care",)).to(Phase.STARTING)
    assert yod.receive(held(0)) == [Tell("take care"), GO, *LINES]


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
    yod.from_bebopd(alloc.Released(JOB_ID, (21,)))
    assert yod.report.lost == {21}


def test_a_refused_release_is_the_end_all_the_same():
    yod = Yod(2).to(Phase.RELEASING)
    assert yod.from_bebopd(alloc.Refused(Refusal.NOT_PERMITTED, "not yours")) == [Finish()]


# -- failures before go ----------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.FORMING, Phase.LOADING, Phase.STARTING])
def test_a_phase_that_does_not_end_in_time_fails_the_launch(phase):
    yod = Yod(2).to(phase)
    actions = yod.wait(200.0 if phase is Phase.STARTING else LIMITS.phase_s * 1.4 + 2)
    assert actions[:2] == [
        Tell(f"timed out in phase {phase.value}: no answer from the root"),
        ALL_DONE,
    ]


def test_yod_is_more_patient_than_any_pct():
    yod = Yod(2).to(Phase.FORMING)
    assert yod.wait(LIMITS.phase_s * 1.2) == []


def test_loading_may_take_as_long_as_its_bytes():
    yod = Yod(2).to(Phase.LOADING)  # two million bytes, a second for each million
    assert yod.machine.deadline() == yod.now + LIMITS.phase_s * 1.4 + 2.0


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (FailureKind.NODE_LOST, 125),
        (FailureKind.TIMED_OUT, 125),
        (FailureKind.NO_ROOM, 125),
        (FailureKind.OBJECT, 125),
        (FailureKind.NOT_FOUND, 127),
        (FailureKind.NOT_EXECUTABLE, 126),
        (FailureKind.EARLY_EXIT, 125),
        (FailureKind.KEEPER_LOST, 125),
        (FailureKind.REFUSED, 125),
    ],
)
def test_a_failure_before_go_ends_the_launch_with_its_status(kind, status):
    yod = Yod(2).to(Phase.STARTING)
    actions = yod.receive(failure(kind, place=1, rank=1, phase="starting"))
    assert len(told(actions)) == 1 and told(actions)[0].startswith("node 21 (n21), rank 1")
    assert actions[1:] == [ALL_DONE]
    assert leave(yod) == status


def test_the_first_failure_is_told_and_decides():
    yod = Yod(2).to(Phase.STARTING)
    yod.receive(failure(FailureKind.NOT_FOUND, place=0, rank=0))
    assert yod.receive(failure(FailureKind.OBJECT, place=1)) == []
    assert leave(yod) == 127


def test_a_root_that_refuses_hosts_nothing_and_is_not_asked_to_end_it():
    yod = Yod(2).to(Phase.FORMING)
    refused = failure(FailureKind.REFUSED, place=0, text="the reservation is 3 s old")
    actions = yod.receive(refused)
    assert actions[1:] == [RELEASE]
    assert leave(yod) == 125


def test_an_object_that_cannot_be_sent_fails_the_launch():
    yod = Yod(2).to(Phase.LOADING)
    assert yod.handle(ObjectUndelivered(0, "the file has shrunk")) == [
        Tell("/bin/a.out could not be sent: the file has shrunk"),
        ALL_DONE,
    ]
    assert leave(yod) == 125


def test_nodes_below_the_root_have_the_time_to_load_what_the_root_has():
    yod = Yod(2).to(Phase.STARTING)
    assert yod.machine.deadline() == yod.now + LIMITS.phase_s * 1.4 + 2.0


# -- abnormal ends ---------------------------------------------------------


def test_the_others_have_the_kill_delay_then_sigterm_then_the_end():
    yod = Yod(2).to(Phase.RUNNING)
    assert yod.receive(completions(1, wait_status=3 << 8)) == []
    assert yod.wait(1.9) == []
    first = "rank 1 on n21: ended with exit code 3"
    assert yod.wait(0.1) == [
        Tell(f"{first}; SIGTERM sent to the others (--keep-going lets them run)"),
        signal_all(TERM),
    ]
    assert yod.wait(2.0) == [Tell(f"{first}; the others are being killed"), ALL_DONE]
    yod.receive(completions(0, wait_status=KILL, was_signalled=True))
    assert leave(yod) == 3


def test_others_that_end_within_the_delay_are_not_signalled():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(completions(1, wait_status=11))
    yod.wait(1.0)
    assert yod.receive(completions(0)) == [ALL_DONE]
    assert leave(yod) == 128 + 11


def test_kill_means_no_delay_and_no_sigterm():
    yod = Yod(2, kills_at_once=True).to(Phase.RUNNING)
    yod.receive(completions(1, wait_status=3 << 8))
    assert yod.wait(0.0) == [
        Tell("rank 1 on n21: ended with exit code 3; the others are being killed"),
        ALL_DONE,
    ]
    yod.receive(completions(0, wait_status=KILL, was_signalled=True))
    assert leave(yod) == 3


def test_keep_going_lets_the_others_run_and_the_status_stays():
    yod = Yod(3, keeps_going=True).to(Phase.RUNNING)
    text = "rank 1 on n21: ended with exit code 3; the others go on"
    assert yod.receive(completions(1, wait_status=3 << 8)) == [Tell(text, is_error=False)]
    assert yod.wait(1000.0) == []
    assert yod.receive(completions(2, wait_status=4 << 8)) == []
    assert yod.receive(completions(0)) == [ALL_DONE]
    assert leave(yod) == 3


def test_the_last_rank_to_fail_leaves_nobody_to_kill():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(completions(0))
    assert yod.receive(completions(1, wait_status=3 << 8)) == [ALL_DONE]
    assert told(yod.wait(5.0)) == []
    assert leave(yod) == 3


def test_of_failures_that_come_together_the_lowest_rank_decides():
    yod = Yod(3).to(Phase.RUNNING)
    both = (outcome(2, wait_status=2 << 8), outcome(1, wait_status=1 << 8))
    yod.receive(load.Completions(JOB_ID, both))
    assert yod.receive(completions(0)) == [ALL_DONE]
    assert leave(yod) == 1


def test_an_abort_ends_the_job_with_the_applications_code():
    yod = Yod(2).to(Phase.RUNNING)
    text = "the application called abort with code 7"
    abort = failure(FailureKind.ABORTED, place=1, rank=1, text=text, exit_code=7)
    assert yod.receive(abort) == [Tell(f"node 21 (n21), rank 1: {text}"), ALL_DONE]
    yod.receive(completions(0, 1, wait_status=KILL, was_signalled=True))
    assert leave(yod) == 7


def test_a_node_lost_while_running_ends_the_job():
    yod = Yod(2).to(Phase.RUNNING)
    lost = failure(FailureKind.NODE_LOST, phase="running", text="broke off")
    assert yod.receive(lost) == [
        Tell("node 21 (n21) was lost (running): it broke off"),
        ALL_DONE,
    ]
    assert yod.receive(released(0)) == resets(1)
    assert yod.lose(pct(1)) == [RELEASE]
    assert leave(yod) == 125


def test_who_is_killed_because_a_node_was_lost_has_not_failed_by_itself():
    yod = Yod(3).to(Phase.RUNNING)
    yod.receive(failure(FailureKind.NODE_LOST, phase="running"))
    yod.receive(completions(0, 2, wait_status=9, was_signalled=True))
    assert yod.report.first_failure == ""
    assert yod.report.summary() == [
        "ranks 0,2 on nodes 20,22: killed by yod (SIGKILL)",
        "rank 1 on n21: lost with node n21",
    ]


def test_nodes_that_do_not_hear_a_reset_are_lost():
    yod = Yod(3).to(Phase.RUNNING)
    yod.lose(ROOT, "was killed")
    yod.lose(pct(2))
    assert yod.report.lost == {20, 22}


def test_a_rank_that_failed_before_its_node_was_lost_decides_the_status():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(completions(1, wait_status=3 << 8))
    yod.receive(failure(FailureKind.NODE_LOST, phase="running"))
    assert yod.report.reason.startswith("node 21 (n21) was lost")
    assert leave(yod) == 3


def test_a_lost_root_resets_the_others():
    yod = Yod(3).to(Phase.RUNNING)
    actions = yod.lose(ROOT, "was killed")
    assert actions == [Tell("node 20 (n20) was lost (run): it was killed"), *resets(1, 2)]
    assert yod.phase is Phase.RESETTING
    assert yod.receive(released(1), pct(1)) == []
    assert yod.receive(released(2), pct(2)) == [RELEASE]
    assert leave(yod) == 125


def test_a_root_that_is_lost_alone_leaves_only_bebopd_to_tell():
    yod = Yod(1).to(Phase.RUNNING)
    assert yod.lose(ROOT)[1:] == [RELEASE]


def test_a_root_lost_at_the_end_may_have_kept_output():
    yod = Yod(2).to(Phase.ENDING)
    text = "node 20 (n20) was lost at the end: its last output may be missing"
    assert yod.lose(ROOT) == [Tell(text), *resets(1)]
    assert yod.report.notes == [text]


def test_a_peer_that_is_nobody_is_nothing():
    assert Yod(2).to(Phase.RUNNING).lose(pct(1)) == []
    assert Yod(2).lose(pct(5)) == []


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


# -- interrupts ------------------------------------------------------------


def press(yod, number=INT):
    """One more press: a second after the last."""
    yod.now += LIMITS.press_s
    return yod.handle(Interrupted(number))


def leaves(*places):
    """Everybody is told, nobody is waited for."""
    told = Tell("the nodes are told to reset; leaving")
    return [told, *resets(*places), to_bebopd(alloc.Release(JOB_ID)), Finish(), Leave()]


def test_an_interrupt_before_the_grant_leaves_at_once():
    yod = Yod(2)
    assert press(yod) == [Tell("interrupted before nodes were granted"), Finish()]
    assert yod.status == 130


@pytest.mark.parametrize("phase", BEFORE_GO[1:])
def test_before_go_the_first_press_cancels_the_second_resets_the_third_leaves(phase):
    yod = Yod(2).to(phase)
    assert press(yod) == [
        Tell("the load is being cancelled; interrupt again after 1 s to reset the nodes"),
        ALL_DONE,
    ]
    assert press(yod) == [
        Tell("nodes are being reset; interrupt again after 1 s to leave"),
        *resets(0, 1),
    ]
    assert press(yod) == leaves(0, 1)
    assert yod.status == 130


def test_after_go_the_presses_are_sigterm_sigkill_and_leave():
    yod = Yod(2).to(Phase.RUNNING)
    assert press(yod) == [
        Tell("SIGTERM sent to all ranks; interrupt again after 1 s to send SIGKILL"),
        signal_all(TERM),
    ]
    assert press(yod) == [
        Tell("SIGKILL sent to all ranks; interrupt again after 1 s to reset the nodes and leave"),
        signal_all(KILL),
    ]
    assert press(yod) == leaves(0, 1)
    assert yod.status == 130


@pytest.mark.parametrize("phase", [*BEFORE_GO[1:], *AFTER_GO])
def test_the_third_press_leaves_whatever_the_first_two_have_come_to(phase):
    yod = Yod(2).to(phase)
    press(yod)
    yod.wait(LIMITS.end_s / 2)
    press(yod)
    yod.wait(LIMITS.end_s / 2)
    assert press(yod)[-2:] == [Finish(), Leave()]
    assert (yod.phase, yod.status) == (Phase.DONE, 130)


def test_signals_that_come_together_are_one_press():
    """As of a terminal that closes, or of `timeout`."""
    yod = Yod(2).to(Phase.RUNNING)
    assert signal_all(TERM) in press(yod, TERM)
    yod.now += LIMITS.press_s * 0.99
    assert yod.handle(Interrupted(TERM)) == yod.handle(Interrupted(INT)) == []
    assert signal_all(KILL) in press(yod, INT)


def test_a_signal_of_the_press_that_ended_the_job_does_not_drop_its_output():
    yod = Yod(1).to(Phase.RUNNING)
    press(yod)
    yod.receive(completions(0, wait_status=TERM, was_signalled=True))
    leave(yod)
    assert yod.phase is Phase.DONE
    assert yod.handle(Interrupted(INT)) == []
    assert press(yod) == [Leave()]


def test_output_that_fails_after_a_press_leaves_the_ranks_their_time():
    """A terminal that closes says so both ways."""
    yod = Yod(2).to(Phase.RUNNING)
    press(yod, signal.SIGHUP)
    assert yod.handle(OutputFailed("Input/output error")) == yod.handle(OutputClosed()) == []
    assert yod.phase is Phase.RUNNING


def test_ranks_that_end_by_our_signals_leave_the_status_of_the_interrupt():
    yod = Yod(2).to(Phase.RUNNING)
    press(yod, TERM)
    yod.receive(completions(0, wait_status=TERM, was_signalled=True))
    assert yod.receive(completions(1, wait_status=TERM, was_signalled=True)) == [ALL_DONE]
    assert leave(yod) == 128 + TERM


def test_what_ranks_answer_to_sigterm_is_no_verdict():
    yod = Yod(2).to(Phase.RUNNING)
    press(yod)
    yod.receive(completions(0, wait_status=TERM, was_signalled=True))
    yod.receive(completions(1, wait_status=5 << 8))
    assert leave(yod) == 130
    assert yod.report.summary()[-1] == "rank 1 on n21: ended with exit code 5"


@pytest.mark.parametrize("keeps_going", [False, True])
def test_a_failure_before_the_interrupt_decides_unless_the_job_was_to_go_on(keeps_going):
    yod = Yod(2, keeps_going=keeps_going).to(Phase.RUNNING)
    yod.receive(completions(1, wait_status=3 << 8))
    press(yod)
    yod.receive(completions(0, wait_status=TERM, was_signalled=True))
    assert leave(yod) == (130 if keeps_going else 3)


def test_an_interrupt_takes_over_from_the_kill_delay():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(completions(1, wait_status=3 << 8))
    press(yod)
    assert yod.wait(100.0) == []
    assert yod.phase is Phase.RUNNING


def test_an_interrupt_of_a_job_that_is_ending_says_what_is_done():
    yod = Yod(2).to(Phase.ENDING)
    assert press(yod) == [Tell("the job is ending; interrupt again after 1 s to reset the nodes")]
    assert press(yod) == [
        Tell("nodes are being reset; interrupt again after 1 s to leave"),
        *resets(0, 1),
    ]
    assert press(yod) == leaves(0, 1)
    assert yod.status == 130


def test_an_interrupt_while_nodes_are_given_back_says_how_to_leave():
    yod = Yod(2).to(Phase.RELEASING)
    assert press(yod) == [Tell("the nodes are being given back; interrupt twice more to leave now")]
    assert press(yod) == [
        Tell("the nodes are being given back; interrupt again after 1 s to leave now")
    ]
    assert press(yod) == leaves()


# -- signals, output, input ------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_usr1_and_usr2_are_passed_on_while_the_application_runs(number):
    assert Yod(2).to(Phase.RUNNING).handle(SignalToPass(number)) == [signal_all(number)]
    for phase in (*BEFORE_GO, Phase.ENDING):
        text = f"{number.name} ignored: the application is not running"
        assert Yod(2).to(phase).handle(SignalToPass(number)) == [Tell(text)]


def test_ctrl_z_stops_the_ranks_and_yod_and_they_are_continued_once():
    yod = Yod(2).to(Phase.RUNNING)
    assert yod.handle(StopAsked()) == [signal_all(signal.SIGSTOP), Suspend()]
    assert yod.handle(Continued()) == [signal_all(signal.SIGCONT)]
    assert yod.handle(Continued()) == []


@pytest.mark.parametrize("phase", [*BEFORE_GO, *AFTER_GO[1:], Phase.DONE])
def test_ctrl_z_stops_yod_alone_where_no_application_runs(phase):
    yod = Yod(2).to(phase)
    assert yod.handle(StopAsked()) == [Suspend()]
    assert yod.handle(Continued()) == []


def test_a_rank_killed_by_a_passed_signal_has_failed():
    yod = Yod(1).to(Phase.RUNNING)
    yod.handle(SignalToPass(signal.SIGUSR1))
    yod.receive(completions(0, wait_status=signal.SIGUSR1))
    assert leave(yod) == 128 + signal.SIGUSR1


def test_output_is_written_as_it_comes_and_a_gap_is_told():
    yod = Yod(2).to(Phase.RUNNING)
    assert yod.receive(output(1, b"one")) == [Write(1, 1, b"one")]
    assert yod.receive(output(1, b"x", stream=2)) == [Write(2, 1, b"x")]
    assert yod.receive(output(1, b"three", offset=10)) == [
        Tell("7 bytes of rank 1's output are lost"),
        Write(1, 1, b"three"),
    ]
    assert yod.report.notes == ["7 bytes of output lost"]


def test_credit_goes_down_as_output_leaves_yod_in_quarters_of_a_window():
    yod = Yod(2).to(Phase.RUNNING)
    quarter = LIMITS.output_window_bytes // 4
    for stream in io.STREAMS:
        assert yod.handle(OutputWritten(stream, quarter - 1)) == []
    for stream in io.STREAMS:
        credit = to_root(io.OutputCredit(JOB_ID, stream, quarter))
        assert yod.handle(OutputWritten(stream, 1)) == [credit]


def test_credit_for_messages_does_not_wait_until_their_lines_are_shown():
    yod = Yod(2).to(Phase.RUNNING)
    count = LIMITS.output_window_bytes // 4 // io.MESSAGE_COST_BYTES
    for offset in range(count - 1):
        assert yod.receive(output(1, b"x", offset)) == [Write(1, 1, b"x")]
    due = to_root(io.OutputCredit(JOB_ID, 1, count * io.MESSAGE_COST_BYTES))
    assert yod.receive(output(1, b"x", count - 1)) == [due, Write(1, 1, b"x")]


def test_bytes_as_they_come_need_no_room_for_lines():
    yod = Yod(2, style=Style.RAW).to(Phase.STARTING)
    assert yod.receive(held(0, 1)) == [GO]


def test_output_that_cannot_be_written_ends_the_job():
    yod = Yod(2).to(Phase.RUNNING)
    text = "the application's output cannot be written: No space left on device"
    assert yod.handle(OutputFailed(text)) == [Tell(text), ALL_DONE]
    yod.receive(completions(0, 1, wait_status=KILL, was_signalled=True))
    assert leave(yod) == 125


def test_what_fails_while_the_job_is_ending_changes_nothing():
    yod = Yod(2).to(Phase.ENDING)
    late = (OutputFailed("no"), OutputClosed(), ObjectUndelivered(0, "no"), NotShared(0, "no"))
    assert [yod.handle(event) for event in late] == [[]] * 4
    assert leave(yod) == 0


def test_a_reader_that_has_enough_ends_the_job_without_a_word():
    yod = Yod(2).to(Phase.RUNNING)
    assert yod.handle(OutputClosed()) == [ALL_DONE]
    assert leave(yod) == 128 + signal.SIGPIPE


def test_output_that_fails_before_there_is_a_job_ends_yod():
    assert Yod(2).handle(OutputFailed("no")) == [Finish()]
    assert Yod(2).handle(OutputClosed()) == [Finish()]


def test_input_is_read_by_credit_while_the_application_runs():
    yod = Yod(2, has_input=True).to(Phase.RUNNING)
    assert yod.receive(io.InputCredit(JOB_ID, 4096)) == [ReadInput(4096)]
    assert yod.handle(InputRead(b"yes\n")) == [to_root(io.Input(JOB_ID, b"yes\n"))]
    assert yod.handle(InputRead(b"")) == [to_root(io.Input(JOB_ID, b""))]


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
