"""What yod says of the ranks at the end: status, table, summary, log line."""

import pytest

from native.wire.alloc import Grant
from native.wire.load import FailureKind
from native.wire.placed import GrantedNode, JobNodes
from native.wire.runs import JobRuns, Run
from tests.unit.yod.launch_of import failure, grant, held, outcome
from yod.launch.closing import log_line
from yod.launch.report import Report, hms


def report(size=3, *, names=("a.out",), sizes=None):
    one = Report(names, sizes or (size,))
    one.place(grant(size))
    return one


def status(*outcomes, size=3, sent=(), interrupted_by=0, keeps_going=False):
    """The exit status; the interrupt comes behind the first outcome."""
    one = report(size)
    for number, each in enumerate(outcomes):
        if number == 1 and interrupted_by:
            one.interrupt(interrupted_by, keeps_going)
        one.complete(each, sent)
    one.close()
    return one.exit_status


# -- exit status -----------------------------------------------------------


def test_all_ranks_that_end_normally_are_a_success():
    assert status(outcome(0, 2), outcome(1)) == 0


def test_a_rank_that_is_never_heard_of_is_no_success():
    assert status(outcome(0, 2)) == 125


def test_the_earliest_failure_decides():
    assert status(outcome(0), outcome(2, wait_status=7 << 8), outcome(1, wait_status=9 << 8)) == 7


def test_a_signal_is_128_and_its_number():
    assert status(outcome(0, 1), outcome(2, wait_status=11)) == 139
    assert status(outcome(0, 1), outcome(2, wait_status=6 | 0x80)) == 134  # with a core file


def test_ranks_ended_by_a_signal_of_ours_do_not_count():
    ours = outcome(0, 1, wait_status=15, was_signalled=True)
    assert status(ours, outcome(2, wait_status=3 << 8), sent={15}) == 3
    assert status(ours, outcome(2), sent={15}, interrupted_by=2) == 130
    assert status(ours, outcome(2), sent={9}) == 143


def test_a_signal_that_yod_sends_too_is_a_ranks_own_where_it_had_come_before():
    one = report()
    one.complete(outcome(1, wait_status=9), {9})
    one.complete(outcome(0, 2, wait_status=9, was_signalled=True), {9})
    one.close()
    assert (one.exit_status, one.first_failure) == (137, "rank 1 on n21: killed by SIGKILL")
    assert one.summary() == [
        "rank 1 on n21: killed by SIGKILL",
        "ranks 0,2 on nodes 20,22: killed by yod (SIGKILL)",
    ]


def aborted(*outcomes):
    """The status after rank 0 has called abort with code 14, and what is heard then."""
    one = report()
    one.blame(failure(FailureKind.ABORTED, 0, 0, "called abort with code 14", exit_code=14), True)
    for each in outcomes:
        one.complete(each, {9})
    one.close()
    return one.exit_status


def test_an_abort_gives_its_code_whatever_it_leads_to():
    assert aborted(outcome(0, 1, 2, wait_status=9, was_signalled=True)) == 14
    assert aborted(outcome(0, wait_status=6), outcome(1, wait_status=1 << 8)) == 14
    assert aborted(outcome(1, wait_status=13)) == 14


def test_a_rank_that_died_by_itself_decides_over_the_abort_that_came_of_it():
    ours = outcome(2, wait_status=9, was_signalled=True)
    assert aborted(ours, outcome(0, wait_status=14 << 8), outcome(1, wait_status=9)) == 137
    assert aborted(outcome(1, wait_status=11), ours, outcome(0, wait_status=9)) == 139


def test_an_interrupt_counts_where_no_rank_had_failed():
    failed = outcome(1, wait_status=5 << 8)
    assert status(outcome(0), outcome(1, 2), interrupted_by=15) == 143
    assert status(outcome(0), failed, interrupted_by=15) == 143
    assert status(failed, outcome(0), interrupted_by=15) == 5
    assert status(failed, outcome(0), interrupted_by=15, keeps_going=True) == 143


def test_a_failure_of_the_launch_decides_over_what_ranks_do_afterwards():
    one = report()
    one.fail(127, "not found")
    one.fail(125, "something later")
    one.complete(outcome(0, 1, 2, wait_status=9), ())
    one.close()
    assert (one.exit_status, one.reason) == (127, "not found")


def test_a_rank_counts_once_however_often_it_is_reported():
    one = report()
    one.complete(outcome(0), ())
    one.complete(outcome(0, wait_status=256), ())
    assert len(one.completions) == 1 and one.completions[0].wait_status == 0
    assert one.has_succeeded_so_far


def test_a_rank_that_the_job_does_not_have_is_nothing():
    one = report()
    one.complete(outcome(3, 1000, wait_status=256), ())
    assert one.completions == {} and one.has_succeeded_so_far


# -- blame -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "has_gone", "text", "status_"),
    [
        (
            failure(
                FailureKind.NOT_FOUND, 1, 1, "cannot execute /x: no such file", phase="starting"
            ),
            False,
            "node 21 (n21), rank 1: cannot execute /x: no such file (starting)",
            127,
        ),
        (
            failure(FailureKind.NOT_EXECUTABLE, 1, 1, "cannot execute /x", phase="starting"),
            False,
            "node 21 (n21), rank 1: cannot execute /x (starting)",
            126,
        ),
        (
            failure(FailureKind.TIMED_OUT, 0, text="no answer in 30 s from n22"),
            False,
            "node 20 (n20): no answer in 30 s from n22 (loading)",
            125,
        ),
        (
            failure(FailureKind.NODE_LOST, 2, text="broke off", phase="running"),
            True,
            "node 22 (n22) was lost (running): it broke off",
            125,
        ),
        (
            failure(FailureKind.KEEPER_LOST, 2, text="killed by SIGKILL", phase="running"),
            True,
            "node 22 (n22): killed by SIGKILL",
            125,
        ),
        (
            failure(FailureKind.ABORTED, 0, 0, "called abort with code 7", exit_code=7),
            True,
            "node 20 (n20), rank 0: called abort with code 7",
            7,
        ),
    ],
)
def test_a_failure_is_told_with_node_rank_phase_and_cause(told, has_gone, text, status_):
    one = report()
    assert one.blame(told, has_gone) == text
    one.close()
    assert (one.exit_status, one.reason) == (status_, text)


@pytest.mark.parametrize(("code", "status_"), [(0, 1), (256, 1), (-1, 255), (300, 44)])
def test_an_abort_is_never_a_success(code, status_):
    one = report()
    one.blame(failure(FailureKind.ABORTED, 0, 0, "abort", exit_code=code), True)
    one.close()
    assert one.exit_status == status_


# -- table -----------------------------------------------------------------

HEAD = "Name                   Rank  Node      PID   Elapsed     CPU s     MB  End"


def test_the_table_has_a_line_for_every_rank():
    one = report(4)
    one.map(held(0, 1, 2))
    one.complete(outcome(0), ())
    one.complete(outcome(1, wait_status=3 << 8), ())
    one.complete(outcome(2, wait_status=15, was_signalled=True), {15})
    one.note("7 bytes of output lost")
    used = "00:00:01      0.00      0"
    assert one.table() == [
        HEAD,
        f"n20                       0    20     3000  {used}  ended normally",
        f"n21                       1    21     3001  {used}  ended with exit code 3",
        f"n22                       2    22     3002  {used}  killed by yod (SIGTERM)",
        "n23                       3    23        -         -         -      -  never started",
        "7 bytes of output lost",
    ]


def test_the_table_tells_who_was_held_and_never_heard_of_again():
    one = report(1)
    one.map(held(0))
    assert one.table()[1].endswith("  no completion received")


def test_ranks_of_a_lost_node_are_lost_with_it_in_table_and_summary():
    one = report(3)
    one.map(held(0, 1, 2))
    one.blame(failure(FailureKind.NODE_LOST, phase="running"), has_gone=True)
    one.complete(outcome(0, 2, wait_status=9, was_signalled=True), {9})
    assert [line.split("  ")[-1] for line in one.table()[1:]] == [
        "killed by yod (SIGKILL)",
        "lost with node n21",
        "killed by yod (SIGKILL)",
    ]
    assert one.summary() == [
        "ranks 0,2 on nodes 20,22: killed by yod (SIGKILL)",
        "rank 1 on n21: lost with node n21",
    ]


def test_a_rank_that_had_ended_before_its_node_was_lost_is_told_as_it_ended():
    one = report(2)
    one.map(held(0, 1))
    one.complete(outcome(1, wait_status=3 << 8), ())
    one.lose(21)
    assert one.table()[2].endswith("ended with exit code 3")


def test_the_table_tells_who_ended_before_its_entry():
    one = report(1)
    one.complete(outcome(0, wait_status=11, was_released=False), ())
    assert one.table()[1].endswith("  killed by SIGSEGV before its entry")


def test_several_programs_head_their_ranks():
    one = report(3, names=("master", "worker -v"), sizes=(1, 2))
    lines = [line.split()[:2] for line in one.table()[1:]]
    assert lines == [
        ["(master)"],
        ["n20", "0"],
        ["(worker", "-v)"],
        ["n21", "1"],
        ["n22", "2"],
    ]


def test_a_table_without_a_grant_has_nobody():
    one = Report(("a.out",), (1,))
    assert one.table()[1].split() == ["?", "0", *5 * "-", "never", "started"]


# -- summary ---------------------------------------------------------------


def test_a_success_needs_no_words():
    one = report()
    one.complete(outcome(0, 1, 2), ())
    assert one.summary() == []


def test_ranks_that_ended_alike_share_a_line_in_the_order_of_their_ends():
    one = report(6)
    one.map(held(*range(6)))
    one.complete(outcome(4, wait_status=11), ())
    one.complete(outcome(1, 2, 3, wait_status=15, was_signalled=True), {15})
    one.complete(outcome(0), ())
    one.note("n25 is gone")
    assert one.summary() == [
        "rank 4 on n24: killed by SIGSEGV",
        "ranks 1..3 on nodes 21..23: killed by yod (SIGTERM)",
        "rank 5 on n25: no completion received",
        "n25 is gone",
    ]


def test_a_failure_that_was_told_is_not_told_again():
    one = report(3)
    one.map(held(0, 1, 2))
    one.complete(outcome(1, wait_status=3 << 8), ())
    assert one.tell_first_failure() == "rank 1 on n21: ended with exit code 3"
    one.complete(outcome(0, 2, wait_status=15, was_signalled=True), {15})
    assert one.summary() == ["ranks 0,2 on nodes 20,22: killed by yod (SIGTERM)"]


def test_ranks_that_fail_like_the_first_are_told_with_it():
    one = report(2)
    one.map(held(0, 1))
    one.complete(outcome(1, wait_status=3 << 8), ())
    one.tell_first_failure()
    one.complete(outcome(0, wait_status=3 << 8), ())
    assert one.summary() == ["ranks 0..1 on nodes 20..21: ended with exit code 3"]


def test_the_last_words_of_the_rank_that_failed_first_come_again_behind_the_output_of_others():
    one = report(2)
    one.last_words.add(((1, 1),), 2, b"".join(b"line %d\n" % number for number in range(20)))
    one.last_words.add(((1, 1),), 2, b"ValueError: \x1b[31mno\n")
    one.complete(outcome(1, wait_status=1 << 8), ())
    assert one.evidence() == []  # the user has just seen them
    one.last_words.add(((0, 0),), 1, b"a step\n")
    head, *words = one.evidence()
    assert head == "rank 1 has last written on standard error:"
    assert words[0] == "line 9" and words[-1] == "ValueError: ?[31mno" and len(words) == 12


def test_of_very_many_ranks_those_that_have_written_last_are_known():
    one = report(1)
    for rank in range(3000):
        one.last_words.add(((rank, rank),), 2, b"x" * 5000 + b"\n")
    assert one.last_words.of(0) == []
    assert one.last_words.of(2999) == ["x" * 2047]


# -- log line --------------------------------------------------------------


def logged(one, batch=""):
    times = ("11/21/2026 18:00:00", "11/21/2026 18:01:05")
    return log_line(one, *times, 65.2, "alice", "/bin/a.out", batch)


def test_the_log_line_is_cplants():
    one = report(3)
    line = "11/21/2026 18:00:00 11/21/2026 18:01:05 00:01:05 0003 alice /bin/a.out,"
    assert logged(one) == f"{line} Cplant #7, 20..22"
    assert logged(one, "12.pbs") == f"{line} PBS #12.pbs, Cplant #7, 20..22"


def test_the_log_line_ends_with_what_went_wrong_on_one_line():
    one = report(3)
    one.complete(outcome(1, wait_status=3 << 8), ())
    one.fail(125, "node 22 was\nlost")
    assert logged(one).endswith(", 20..22, node 22 was lost, rank 1 on n21: ended with exit code 3")


def test_the_log_line_of_a_job_without_nodes():
    one = Report(("a.out",), (1,))
    one.fail(125, "2 ranks requested, 1 of 8 slots free now")
    assert logged(one).endswith(
        "0000 alice /bin/a.out, Cplant #0, -, 2 ranks requested, 1 of 8 slots free now"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00:00"), (59.9, "00:00:59"), (3661, "01:01:01"), (1e6, "277:46:40")],
)
def test_times_are_hours_minutes_seconds(seconds, text):
    assert hms(seconds) == text


def test_several_ranks_on_one_node_are_placed_by_the_runs():
    one = Report(("a.out",), (3,))
    nodes = (GrantedNode(5, "n5", 1, 1), GrantedNode(6, "n6", 1, 2))
    runs = JobRuns.of((Run(0, 1), Run(1, 1), Run(0, 1)))
    one.place(Grant(9, 0, JobNodes.of(nodes), runs, b"", 0, b"", b"", 60.0))
    assert [line.split()[0] for line in one.table()[1:]] == ["n5", "n6", "n5"]
    one.complete(outcome(0, 2, wait_status=256), ())
    assert one.summary() == ["ranks 0,2 on n5: ended with exit code 1"]
