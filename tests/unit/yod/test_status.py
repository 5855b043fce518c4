"""What a launch tells a command, phase by phase, and what a request means to it."""

from __future__ import annotations

import pytest

from native.wire import job, load
from native.wire.base import State
from tests.unit.yod.launch_of import TERM, Yod, completions, failure, leave, signal_all, told
from yod.host.status import Status
from yod.launch.events import Interrupted, SignalToPass, TimeLimitAsked
from yod.launch.phases import Phase

STATES = {
    Phase.ALLOCATING: State.PENDING,
    Phase.FORMING: State.CONFIGURING,
    Phase.LOADING: State.CONFIGURING,
    Phase.STARTING: State.CONFIGURING,
    Phase.HELD: State.SUSPENDED,
    Phase.RUNNING: State.RUNNING,
    Phase.ENDING: State.COMPLETING,
    Phase.RESETTING: State.COMPLETING,
    Phase.RELEASING: State.COMPLETING,
    Phase.DONE: State.COMPLETING,
}


def status_of(yod: Yod) -> Status:
    return Status(yod.machine, "a.out", "host:1", 1000, 4321)


def ask(yod: Yod, request: job.Request):
    return status_of(yod).answer(request, "17", 5000.0, yod.now)


def do(yod: Yod, request: job.Request):
    """What comes of a request that is carried out."""
    reply, event = ask(yod, request)
    assert reply == job.Accepted()
    return yod.handle(event)


@pytest.mark.parametrize("phase", Phase)
def test_each_phase_has_a_state(phase):
    reply, event = ask(Yod(2).to(phase), job.Show())
    assert (reply.state, event) == (STATES[phase], None)


def test_a_running_job_is_described():
    yod = Yod(2).to(Phase.RUNNING)
    yod.now += 67.5
    reply, _ = ask(yod, job.Show())
    assert reply == job.Shown(
        "17", "a.out", 1000, State.RUNNING, 2, 2, "nodes 20..21", "host:1", 5000.0, 67.5, 4321
    )


def test_the_time_of_an_allocation_is_shown_and_changed_and_that_of_a_launch_is_not():
    yod = Yod(2).to(Phase.RUNNING)
    reply, event = ask(yod, job.LimitTime(60.0))
    assert (reply, event) == (job.Refused("it has no time limit that can be changed here"), None)
    yod.machine.time_s = 30.0
    assert ask(yod, job.Show())[0].time_s == 30.0
    assert ask(yod, job.LimitTime(60.0)) == (job.Accepted(), TimeLimitAsked(60.0))


def test_a_job_on_one_node_is_where_that_is():
    reply, _ = ask(Yod(1).to(Phase.LOADING), job.Show())
    assert (reply.where, reply.nodes, reply.elapsed_s) == ("n20", 1, 0.0)


def test_a_job_that_waits_for_nodes_is_nowhere():
    reply, _ = ask(Yod(2), job.Show())
    assert (reply.where, reply.nodes, reply.ranks) == ("", 0, 2)


def test_any_signal_is_passed_to_the_ranks():
    yod = Yod(2).to(Phase.RUNNING)
    for number in (10, 9, 64):
        assert ask(yod, job.Signal(number)) == (job.Accepted(), SignalToPass(number))
        assert do(yod, job.Signal(number)) == [signal_all(number)]


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.RUNNING])
def test_a_signal_is_refused_while_the_application_does_not_run(phase):
    reply, event = ask(Yod(2).to(phase), job.Signal(10))
    text = f"the application is not running: {STATES[phase].value}"
    assert (reply, event) == (job.Refused(text), None)


def test_a_request_to_wait_has_no_answer_yet():
    assert ask(Yod(2).to(Phase.RUNNING), job.Wait()) == (None, None)


def test_to_cancel_is_the_first_press_of_an_interrupt():
    yod = Yod(2).to(Phase.RUNNING)
    assert ask(yod, job.Cancel())[1] == Interrupted(TERM, "yodjob")
    done = do(yod, job.Cancel())
    assert told(done) == [
        "cancelled by yodjob: SIGTERM sent to all ranks; interrupt again after 1 s to send SIGKILL"
    ]
    assert done[1:] == [signal_all(TERM)]
    yod.receive(completions(0, 1, wait_status=TERM, was_signalled=True))
    assert leave(yod) == 128 + TERM
    assert status_of(yod).ended() == job.Ended(State.CANCELLED, 128 + TERM)


def test_to_cancel_again_goes_a_step_further():
    yod = Yod(2).to(Phase.RUNNING)
    do(yod, job.Cancel())
    assert do(yod, job.Cancel()) == []  # the same press
    yod.wait(1.0)
    assert told(do(yod, job.Cancel()))[0].startswith("cancelled by yodjob: SIGKILL sent to all")


@pytest.mark.parametrize("phase", Phase)
def test_a_job_can_be_cancelled_in_every_phase(phase):
    yod = Yod(2).to(phase)
    do(yod, job.Cancel())
    assert yod.report.exit_status in (None, 128 + TERM)


def test_a_launch_that_is_cancelled_before_it_runs_says_by_whom():
    yod = Yod(2)
    assert told(do(yod, job.Cancel())) == ["cancelled by yodjob before nodes were granted"]
    assert yod.report.reason == "cancelled by yodjob"
    yod = Yod(2).to(Phase.LOADING)
    assert told(do(yod, job.Cancel()))[0].startswith("cancelled by yodjob: the load is being")
    assert yod.report.reason == "cancelled by yodjob before the application began"


def test_how_a_job_ended():
    yod = Yod(2).to(Phase.RUNNING)
    assert status_of(yod).ended() is None
    yod.receive(completions(0, 1))
    leave(yod)
    assert status_of(yod).ended() == job.Ended(State.COMPLETED, 0)
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(completions(0, 1, wait_status=3 << 8))
    leave(yod)
    assert status_of(yod).ended() == job.Ended(State.FAILED, 3)
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(failure(kind=load.FailureKind.NODE_LOST))
    leave(yod)
    assert status_of(yod).ended() == job.Ended(State.NODE_FAIL, 125)
