"""``yod -attach``: ranks that are held at their entry until the user lets them go."""

from __future__ import annotations

import signal

import pytest
from msgspec.structs import replace

from native.wire import job, load
from native.wire.base import State
from tests.unit.yod.launch_of import (
    ALL_DONE,
    GO,
    JOB_ID,
    LINES,
    ROOT,
    Yod,
    failure,
    grant,
    held,
    sent,
    slowest,
    told,
)
from yod.host.status import Status
from yod.launch.events import (
    Continued,
    InputRead,
    Interrupted,
    ReadInput,
    SignalToPass,
    SuspensionAsked,
)
from yod.launch.loading import PIECES_NAMED, PLACES_NAMED, RANKS_NAMED, debuggers, places
from yod.launch.phases import Phase
from yod.launch.report import Report

RESUME = SuspensionAsked(is_on=False)


def waiting(size: int = 2, **options) -> Yod:
    return Yod(size, awaits_user=True, **options).to(Phase.HELD)


def begun(**options) -> tuple[Yod, list]:
    """A launch, and what it does when the last rank is at its entry."""
    yod = Yod(2, awaits_user=True, **options).to(Phase.STARTING)
    return yod, yod.receive(held(0, 1))


def test_the_nodes_are_told_that_go_waits_for_the_user():
    yod = Yod(2, awaits_user=True)
    (message,) = sent(yod.from_bebopd(grant(2)))
    assert isinstance(message, load.Load)
    assert message.awaits_user


def test_each_rank_is_shown_with_the_command_that_attaches_a_debugger_and_none_goes():
    yod, actions = begun()
    assert yod.phase is Phase.HELD
    assert sent(actions) == []
    assert told(actions) == [
        "all ranks are held at their entry; debuggers attach on the nodes of the ranks:",
        "  rank 0 on n20: gdb -p 3000",
        "  rank 1 on n21: gdb -p 3001",
        "they go by `yodjob resume ID`, from another terminal (`yodjob list` shows the id)",
    ]


def test_ranks_that_sleep_go_after_their_time_or_when_the_user_says_so():
    yod, actions = begun(goes_after_s=60.0, goes_by_enter=True)
    assert told(actions)[-1].startswith("they go in 60 s; before that Enter lets them go, or `yodj")
    assert yod.wait(59.0) == []
    assert [type(each) for each in sent(yod.wait(1.0))[:1]] == [load.Go]
    assert yod.phase is Phase.RUNNING
    early, _ = begun(goes_after_s=60.0)
    assert isinstance(sent(early.handle(RESUME))[0], load.Go)
    assert sent(early.wait(61.0)) == []


def test_ranks_that_sleep_before_exec_are_held_there_as_was_asked():
    yod = Yod(2, awaits_user=True, goes_after_s=60.0, holds_before_exec=True)
    (message,) = sent(yod.from_bebopd(grant(2)))
    assert message.holds_before_exec
    yod.receive(load.Vote(JOB_ID, 2, (), (), slowest()))
    lines = told(yod.receive(replace(held(0, 1), before_exec=(0, 1))))
    first = "all ranks are held before exec; debuggers attach on the nodes of the ranks:"
    assert lines[0] == first


def test_no_limit_of_the_load_ends_the_job_while_it_is_held():
    yod = waiting()
    assert yod.machine.deadline() is None
    assert yod.wait(1e6) == []
    assert (yod.phase, yod.machine.progress(yod.now)) == (Phase.HELD, "")


@pytest.mark.parametrize("event", [RESUME, SignalToPass(signal.SIGCONT)])
def test_a_command_from_elsewhere_lets_the_ranks_go(event):
    yod = waiting()
    assert yod.handle(event) == [GO, *LINES]
    assert yod.phase is Phase.RUNNING


def test_enter_lets_the_ranks_go_and_what_is_behind_it_is_for_them():
    yod, actions = begun(goes_by_enter=True)
    assert actions[-1] == ReadInput(1)
    assert told(actions)[-1].startswith("Enter lets them go, or `yodjob resume ID`")
    assert yod.handle(InputRead(b"y")) == [ReadInput(1)]
    assert yod.handle(InputRead(b"\n")) == [GO, *LINES]
    assert yod.phase is Phase.RUNNING


def test_the_end_of_the_input_lets_the_ranks_go_and_reaches_them():
    yod, _ = begun(goes_by_enter=True)
    go, *credit, end = sent(yod.handle(InputRead(b"")))
    assert (go, end.data) == (load.Go(JOB_ID), b"")
    assert len(credit) == len(LINES)


def test_nothing_is_read_where_the_input_is_not_a_terminal():
    _, actions = begun()
    assert not any(isinstance(action, ReadInput) for action in actions)


def test_what_stops_and_continues_yod_or_asks_for_less_lets_no_rank_go():
    yod = waiting()
    assert yod.handle(Continued()) == []
    assert yod.handle(SuspensionAsked(is_on=True)) == []
    (text,) = told(yod.handle(SignalToPass(signal.SIGUSR1)))
    assert text == "SIGUSR1 ignored: the application is not running"
    assert yod.phase is Phase.HELD


def test_an_interrupt_ends_a_job_that_is_held():
    yod = waiting()
    assert ALL_DONE in yod.handle(Interrupted(signal.SIGINT))
    assert (yod.phase, yod.status) == (Phase.ENDING, None)
    yod.receive(load.Completions(JOB_ID, ()))
    assert yod.report.reason == "interrupted before the application began"


def test_a_rank_that_is_killed_in_its_debugger_ends_the_job_with_the_cause():
    yod = waiting()
    early = load.FailureKind.EARLY_EXIT
    yod.receive(failure(early, place=1, rank=1, text="killed by SIGKILL before its entry"))
    assert yod.phase is Phase.ENDING
    assert "killed by SIGKILL before its entry" in yod.report.reason


def test_a_root_that_is_lost_ends_a_job_that_is_held():
    yod = waiting()
    yod.lose(ROOT)
    assert yod.phase is Phase.RESETTING


def asking(**options) -> tuple[Yod, list]:
    """A launch with -alloc, and what it does when the last rank is at its entry."""
    return begun(asks_user=True, **options)


def test_the_nodes_are_shown_when_the_user_is_asked():
    yod, actions = asking(goes_by_enter=True)
    assert yod.phase is Phase.HELD
    assert told(actions) == [
        "all ranks are held at their entry, on 2 nodes:",
        "  n20 (node 20): rank 0",
        "  n21 (node 21): rank 1",
        "y lets them go, anything else ends the job; or `yodjob resume ID`, from another terminal"
        " (`yodjob list` shows the id)",
    ]


@pytest.mark.parametrize("answer", [b"y\n", b" Y \n", b"yes\n"])
def test_yes_lets_the_ranks_go(answer):
    yod, _ = asking(goes_by_enter=True)
    for byte in answer[:-1]:
        assert yod.handle(InputRead(bytes([byte]))) == [ReadInput(1)]
    assert yod.handle(InputRead(answer[-1:])) == [GO, *LINES]


@pytest.mark.parametrize("answer", [b"\n", b"n\n", b"yell\n", b"ny\n", b""])
def test_any_other_answer_ends_the_job_before_a_rank_runs(answer):
    yod, _ = asking(goes_by_enter=True)
    for byte in answer[:-1]:
        yod.handle(InputRead(bytes([byte])))
    assert ALL_DONE in yod.handle(InputRead(answer[-1:]))
    yod.receive(load.Completions(JOB_ID, ()))
    assert yod.report.reason == "ended by your answer, before the ranks ran"


def test_ranks_of_a_user_who_cannot_be_asked_go_by_a_command():
    yod, actions = asking()
    assert told(actions)[-1].startswith("they go by `yodjob resume ID`")
    assert not any(isinstance(action, ReadInput) for action in actions)
    assert yod.handle(RESUME) == [GO, *LINES]


def test_the_ranks_of_very_many_nodes_share_a_line():
    assert places(report_of(4, 2, lambda rank: 9)) == [
        "  n20 (node 20): ranks 0..1",
        "  n21 (node 21): ranks 2..3",
    ]
    report = report_of(PLACES_NAMED + 1, 1, lambda rank: 9)
    assert places(report) == ["  nodes 20..84, 65 ranks"]


def status(yod: Yod) -> Status:
    return Status(yod.machine, "a.out", "here", 1000, 1)


@pytest.mark.parametrize("request_", [job.Resume(), job.Signal(signal.SIGCONT)])
def test_commands_may_resume_a_job_that_is_held_and_nothing_else(request_):
    yod = waiting()
    reply, event = status(yod).answer(request_, "1", 0.0, 0.0)
    assert (reply, sent(yod.handle(event))[0]) == (job.Accepted(), load.Go(JOB_ID))
    yod = waiting()
    shown, _ = status(yod).answer(job.Show(), "1", 0.0, 0.0)
    assert shown.state is State.SUSPENDED
    for other in (job.Suspend(), job.Signal(signal.SIGUSR1)):
        reply, event = status(yod).answer(other, "1", 0.0, 0.0)
        assert (type(reply), event) == (job.Refused, None)
    early = Yod(2, awaits_user=True).to(Phase.STARTING)
    assert isinstance(status(early).answer(request_, "1", 0.0, 0.0)[0], job.Refused)


def report_of(size: int, per_node: int, pid_of) -> Report:
    report = Report(("a.out",), (size,))
    nodes = -(-size // per_node)
    report.place(grant(nodes))
    report._node_of = [20 + rank // per_node for rank in range(size)]
    unix_pids = tuple(map(pid_of, range(size)))
    report.map(load.Held(JOB_ID, tuple(range(size)), unix_pids, (), slowest(), True))
    return report


def test_many_ranks_share_a_line_for_each_node():
    report = report_of(1024, 512, lambda rank: 5000 + rank)
    assert debuggers(report) == [
        "  on n20: ranks 0-511 are processes 5000-5511",
        "  on n21: ranks 512-1023 are processes 5512-6023",
    ]
    assert len(debuggers(report_of(RANKS_NAMED, 4, lambda rank: 9))) == RANKS_NAMED


def test_a_line_of_processes_without_order_has_an_end():
    (line,) = debuggers(report_of(500, 500, lambda rank: 9000 - 2 * rank))
    assert line.startswith("  on n20: rank 0 is process 9000, rank 1 is process 8998, ")
    assert (line.count("process"), line[-5:]) == (PIECES_NAMED, ", ...")
