"""A launch that fails before go, or whose ranks and nodes end abnormally."""

import signal

import pytest
from msgspec.structs import replace

from native.wire import load
from native.wire.load import FailureKind
from tests.unit.yod.launch_of import (
    ALL_DONE,
    INT,
    JOB_ID,
    KILL,
    LIMITS,
    RELEASE,
    ROOT,
    TERM,
    Yod,
    completions,
    failure,
    leave,
    outcome,
    pct,
    released,
    resets,
    signal_all,
    told,
)
from yod.launch.events import Interrupted, ObjectUndelivered, OutputClosed, OutputFailed, Tell
from yod.launch.phases import Phase
from yod.plan.plan import TimeLimit

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
    first = "rank 1 on n21: ended with exit code 3; the others have 2 s to end"
    assert yod.receive(completions(1, wait_status=3 << 8)) == [Tell(first)]
    assert yod.wait(1.9) == []
    assert yod.wait(0.1) == [
        Tell("SIGTERM sent to the others (--keep-going lets them run)"),
        signal_all(TERM),
    ]
    assert yod.wait(2.0) == [Tell("the others are being killed"), ALL_DONE]
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


def test_without_a_kill_delay_the_others_are_killed_at_once():
    yod = Yod(2, limits=replace(LIMITS, kill_delay_s=0.0)).to(Phase.RUNNING)
    yod.receive(completions(1, wait_status=3 << 8))
    assert yod.wait(0.0) == [
        Tell("rank 1 on n21: ended with exit code 3; the others are being killed"),
        ALL_DONE,
    ]


def test_keep_going_lets_the_others_run_and_the_status_stays():
    yod = Yod(3, keeps_going=True).to(Phase.RUNNING)
    text = "rank 1 on n21: ended with exit code 3; the others go on"
    assert yod.receive(completions(1, wait_status=3 << 8)) == [Tell(text)]
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
        "ranks 0,2 on nodes 20,22: killed by yod (SIGKILL) because node 21 (n21) was lost",
        "rank 1 on n21: lost with node n21",
    ]


def ended_by_a_rank(yod):
    yod.receive(completions(1, wait_status=3 << 8))
    yod.wait(2.0)
    return TERM


def ended_by_an_abort(yod):
    yod.receive(failure(FailureKind.ABORTED, place=1, rank=1, text="abort", exit_code=7))
    return KILL


def ended_by_an_abort_for_a_peer(yod):
    number = ended_by_an_abort(yod)
    yod.receive(completions(2, wait_status=11))
    return number


def ended_by_a_keeper(yod):
    yod.receive(failure(FailureKind.KEEPER_LOST, place=1, text="its keeper was lost"))
    return KILL


def ended_by_the_root(yod):
    yod.lose(ROOT, "was killed")
    return KILL


def ended_by_an_interrupt(yod):
    yod.handle(Interrupted(TERM))
    return TERM


def ended_by_a_command(yod):
    yod.handle(Interrupted(TERM, by="yodjob"))
    return TERM


def ended_by_a_full_disk(yod):
    yod.handle(OutputFailed("standard output: No space left on device"))
    return KILL


def ended_by_a_reader(yod):
    yod.handle(OutputClosed())
    return KILL


def ended_by_its_time(yod):
    yod.wait(3600.0)
    return TERM


@pytest.mark.parametrize(
    ("ended_by", "because"),
    [
        (ended_by_a_rank, "rank 1 failed"),
        (ended_by_an_abort, "rank 1 called abort"),
        (ended_by_an_abort_for_a_peer, "rank 2 failed"),
        (ended_by_a_keeper, "node 21 (n21) failed"),
        (ended_by_the_root, "node 20 (n20) was lost"),
        (ended_by_an_interrupt, "the job was interrupted"),
        (ended_by_a_command, "the job was cancelled by yodjob"),
        (ended_by_a_full_disk, "output could not be written"),
        (ended_by_a_reader, "nobody reads their output"),
        (ended_by_its_time, "its time was over"),
    ],
)
def test_each_rank_that_yod_kills_is_told_with_the_cause(ended_by, because):
    yod = Yod(3, time_limit=TimeLimit(3600.0)).to(Phase.RUNNING)
    number = ended_by(yod)
    yod.handle(Interrupted(INT))  # a cause that comes later is none
    yod.receive(completions(0, wait_status=number, was_signalled=True))
    end = f"killed by yod ({signal.Signals(number).name}) because {because}"
    assert f"rank 0 on n20: {end}" in yod.report.summary()
    assert yod.report.table()[1].endswith(f"  {end}")


def test_a_failure_with_which_the_others_go_on_is_no_cause():
    yod = Yod(3, keeps_going=True).to(Phase.RUNNING)
    ended_by_a_rank(yod)
    ended_by_an_interrupt(yod)
    yod.receive(completions(0, wait_status=TERM, was_signalled=True))
    line = "rank 0 on n20: killed by yod (SIGTERM) because the job was interrupted"
    assert line in yod.report.summary()


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


@pytest.mark.parametrize(
    ("outlives_nodes", "exit_status"), [(False, 125), (True, 0)], ids=["ends", "outlives"]
)
def test_a_launch_that_loses_a_node_at_the_end_has_failed_unless_it_outlives_nodes(
    outlives_nodes, exit_status
):
    yod = Yod(2, outlives_nodes=outlives_nodes).to(Phase.RUNNING)
    yod.receive(completions(0, 1))
    assert yod.phase is Phase.ENDING
    yod.receive(failure(FailureKind.NODE_LOST))
    assert leave(yod) == exit_status


def test_a_node_that_fails_in_the_same_way_again_at_the_end_is_told_of_once():
    yod = Yod(2).to(Phase.ENDING)
    text = "node 21 (n21): no memory at the end: its last output and completions may be missing"
    fault = failure(FailureKind.FAULT, text="no memory")
    assert yod.receive(fault) == [Tell(text)]
    assert yod.receive(fault) == []
    assert yod.report.notes == [text]


def test_a_node_that_fails_at_the_end_may_have_lost_output_so_the_launch_has_failed():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(completions(0, 1))
    assert yod.phase is Phase.ENDING
    yod.receive(failure(FailureKind.FAULT, text="no memory"))
    assert leave(yod) == 125


def test_a_peer_that_is_nobody_is_nothing():
    assert Yod(2).to(Phase.RUNNING).lose(pct(1)) == []
    assert Yod(2).lose(pct(5)) == []


# -- nodes that are outlived -----------------------------------------------


def lost_node(place):
    return failure(FailureKind.NODE_LOST, place=place, text="has died")


def test_a_launch_that_outlives_nodes_goes_on_without_them_until_its_last_rank():
    yod = Yod(3, outlives_nodes=True, keeps_going=True).to(Phase.RUNNING)
    assert yod.receive(lost_node(1)) == [Tell("node 21 (n21) was lost: it has died")]
    assert (yod.phase, yod.report.lost) == (Phase.RUNNING, {21})
    assert ALL_DONE not in yod.receive(completions(0))
    assert ALL_DONE in yod.receive(completions(2))
    assert yod.receive(released(0, 2)) == [RELEASE]


def test_one_that_outlives_nodes_ends_with_its_root():
    yod = Yod(3, outlives_nodes=True).to(Phase.RUNNING)
    assert yod.lose(ROOT)[1:] == resets(1, 2)


def test_before_go_no_node_is_outlived():
    yod = Yod(3, outlives_nodes=True).to(Phase.STARTING)
    assert yod.receive(lost_node(1))[1:] == [ALL_DONE]
