"""bebopd is told how a job has ended, when its nodes are given back."""

from __future__ import annotations

import signal

from native.wire import load
from native.wire.base import JobEnd, State
from tests.unit.yod import launch_of
from tests.unit.yod.launch_of import Yod, completions, failure, leave
from yod.launch.events import Interrupted
from yod.launch.phases import Phase


def test_a_job_whose_ranks_ended_well_is_completed():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(completions(0, 1))
    assert leave(yod) == 0
    assert yod.ends == [JobEnd(State.COMPLETED, 0, 0, "")]


def test_a_job_with_a_rank_that_failed_has_yods_exit_status():
    yod = Yod(2).to(Phase.RUNNING)
    yod.receive(completions(0, 1, wait_status=3 << 8))
    assert leave(yod) == 3
    (end,) = yod.ends
    assert (end.state, end.exit_status, end.signal) == (State.FAILED, 3, 0)
    assert end.reason == "rank 0 on n20: ended with exit code 3"


def test_a_job_that_an_interrupt_ends_is_cancelled():
    yod = Yod(2).to(Phase.RUNNING)
    yod.handle(Interrupted(signal.SIGTERM))
    yod.receive(completions(0, 1, wait_status=signal.SIGTERM, was_signalled=True))
    assert leave(yod) == 143
    (end,) = yod.ends
    assert (end.state, end.exit_status, end.signal) == (State.CANCELLED, 143, 15)


def test_a_launch_that_fails_before_go_has_its_status_and_reason():
    yod = Yod(2).to(Phase.FORMING)
    yod.receive(failure(load.FailureKind.NOT_FOUND, text="a.out: no such file"))
    assert leave(yod) == 127
    (end,) = yod.ends
    assert (end.state, end.exit_status) == (State.FAILED, 127)
    assert "a.out: no such file" in end.reason


def test_a_grant_that_comes_too_late_was_never_used():
    yod = Yod(2).to(Phase.RUNNING)
    yod.from_bebopd(launch_of.grant(2))
    (end,) = yod.ends
    assert end.state is State.CANCELLED
    assert yod.phase is Phase.RUNNING
