"""What a program learns of a launch that is over."""

from __future__ import annotations

import pytest

from native.wire.load import FailureKind
from tests.unit.yod.launch_of import failure, grant, held, outcome
from yod.guest.results import JobFailedError, JobTimeoutError, RankResult, Result, result_of
from yod.launch.report import Report

TIMING = (("run", 1.0, ""),)


def result(*outcomes, size=3, sent=(), interrupted_by=0, failed=None, has_started=True) -> Result:
    report = Report(("a.out",), (size,))
    report.place(grant(size))
    if has_started:
        report.map(held(*range(size)))
    for each in outcomes:
        report.complete(each, sent)
    if failed is not None:
        report.blame(failed, has_gone=True)
    if interrupted_by:
        report.interrupt(interrupted_by, keeps_going=False)
    report.close()
    return result_of(report, TIMING, "local.1")


def test_ranks_that_ended_well():
    done = result(outcome(0, 1, 2))
    assert (done.exit_status, done.signal, done.reason, done.summary) == (0, 0, "", ())
    assert done.ranks[1] == RankResult(1, "n21", 21, 3001, 0, None, "run", elapsed_s=1.0)
    assert (done.stdout, done.stderr, done.messages, done.job_id) == (None, None, (), "local.1")
    done.check()


def test_a_code_and_a_signal_exclude_each_other():
    done = result(outcome(0, wait_status=3 << 8), outcome(1, wait_status=11), outcome(2))
    ends = [(rank.exit_code, rank.signal) for rank in done.ranks]
    assert ends == [(3, None), (None, 11), (0, None)]
    assert (done.exit_status, done.signal) == (3, 0)


def test_the_signal_of_the_rank_that_failed_first_is_that_of_the_job():
    first = outcome(1, wait_status=11)
    ours = outcome(0, 2, wait_status=15, was_signalled=True)
    done = result(first, ours, sent=(15,))
    assert (done.exit_status, done.signal) == (139, 11)
    assert done.reason == "rank 1 on n21: killed by SIGSEGV"
    assert [rank.was_killed_by_yod for rank in done.ranks] == [True, False, True]


def test_an_exit_code_above_128_is_no_signal():
    done = result(outcome(0, 1, 2, wait_status=139 << 8))
    assert (done.exit_status, done.signal) == (139, 0)


def test_an_interrupt_is_the_signal_of_the_job():
    ours = outcome(0, 1, 2, wait_status=15, was_signalled=True)
    assert result(ours, sent=(15,), interrupted_by=2).signal == 2


def test_what_is_not_known_of_a_rank_is_not_made_up():
    lost = failure(FailureKind.NODE_LOST, text="was silent")
    done = result(outcome(0), failed=lost)
    assert (done.ranks[1].phase, done.ranks[1].unix_pid) == ("lost", 3001)
    assert (done.ranks[1].exit_code, done.ranks[1].signal) == (None, None)
    assert done.summary[0] == done.reason != ""
    early = result(outcome(0, was_released=False), has_started=False)
    assert [rank.phase for rank in early.ranks] == ["start", "never", "never"]


def test_an_error_says_how_the_ranks_ended():
    done = result(outcome(0, 1, wait_status=3 << 8), outcome(2))
    with pytest.raises(JobFailedError, match=r"^ranks 0..1 on nodes 20..21: .* code 3$") as caught:
        done.check()
    assert (caught.value.result, caught.value.exit_status) == (done, 3)
    late = JobTimeoutError(done, 2.5)
    assert isinstance(late, TimeoutError)
    assert str(late).startswith("the job did not end in 2.5 s; ranks 0..1")
