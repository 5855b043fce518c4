"""What interrupts and signals to yod do at each phase of a launch."""

import signal

import pytest

from native.wire import alloc
from tests.unit.yod.launch_of import (
    AFTER_GO,
    ALL_DONE,
    INT,
    JOB_ID,
    KILL,
    LIMITS,
    TERM,
    Yod,
    completions,
    leave,
    resets,
    signal_all,
    to_bebopd,
)
from yod.launch.events import (
    Continued,
    Finish,
    Interrupted,
    Leave,
    OutputClosed,
    OutputFailed,
    SignalToPass,
    StopAsked,
    Suspend,
    SuspensionAsked,
    Tell,
)
from yod.launch.phases import BEFORE_GO, Phase

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


# -- signals to pass on ----------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_usr1_and_usr2_are_passed_on_while_the_application_runs(number):
    assert Yod(2).to(Phase.RUNNING).handle(SignalToPass(number)) == [signal_all(number)]
    for phase in (*BEFORE_GO, Phase.ENDING):
        text = f"{number.name} ignored: the application is not running"
        assert Yod(2).to(phase).handle(SignalToPass(number)) == [Tell(text)]


def test_ctrl_z_stops_yod_alone():
    yod = Yod(2).to(Phase.RUNNING)
    assert (yod.handle(StopAsked()), yod.machine.is_suspended) == ([Suspend()], False)
    assert yod.handle(Continued()) == []


def test_ctrl_z_stops_the_ranks_too_where_it_is_asked_for_and_they_are_continued_once():
    yod = Yod(2, stops_ranks=True).to(Phase.RUNNING)
    assert yod.handle(StopAsked()) == [signal_all(signal.SIGSTOP), Suspend()]
    assert yod.handle(Continued()) == [signal_all(signal.SIGCONT)]
    assert yod.handle(Continued()) == []


def test_a_suspended_job_is_stopped_once_and_continued_once():
    yod = Yod(2).to(Phase.RUNNING)
    stop, go = SuspensionAsked(True), SuspensionAsked(False)
    assert yod.handle(go) == []
    assert yod.handle(stop) == [signal_all(signal.SIGSTOP)]
    assert (yod.handle(stop), yod.machine.is_suspended) == ([], True)
    assert yod.handle(go) == [signal_all(signal.SIGCONT)]
    assert not yod.machine.is_suspended


def test_fg_does_not_continue_what_a_command_has_suspended():
    yod = Yod(2, stops_ranks=True).to(Phase.RUNNING)
    yod.handle(SuspensionAsked(True))
    yod.handle(StopAsked())
    assert yod.handle(Continued()) == []
    assert yod.handle(SuspensionAsked(False)) == [signal_all(signal.SIGCONT)]


def test_what_is_to_end_is_suspended_no_more():
    yod = Yod(2).to(Phase.RUNNING)
    yod.handle(SuspensionAsked(True))
    yod.handle(Interrupted(signal.SIGTERM))
    assert not yod.machine.is_suspended


@pytest.mark.parametrize("phase", [*BEFORE_GO, *AFTER_GO[1:], Phase.DONE])
def test_ctrl_z_stops_yod_alone_where_no_application_runs(phase):
    yod = Yod(2, stops_ranks=True).to(phase)
    assert yod.handle(StopAsked()) == [Suspend()]
    assert yod.handle(Continued()) == []


def test_a_rank_killed_by_a_passed_signal_has_failed():
    yod = Yod(1).to(Phase.RUNNING)
    yod.handle(SignalToPass(signal.SIGUSR1))
    yod.receive(completions(0, wait_status=signal.SIGUSR1))
    assert leave(yod) == 128 + signal.SIGUSR1
