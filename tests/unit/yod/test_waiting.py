"""While something is awaited the user reads what and from whom, ever more rarely."""

from __future__ import annotations

import pytest

from native.limits import Limits
from native.machine import Send
from native.wire import alloc, load, status
from tests.unit.yod.launch_of import JOB_ID, ROOT, Yod, completions, held, output, slowest, told
from yod.launch.events import OutputWritten, Tell
from yod.launch.phases import Phase

SECONDS = Limits(notice_s=2.0, end_s=1e6, allocate_s=1e6, phase_s=1e6, progress_told_s=1e6)


def late(*nodes: load.LateNode, more: int = 0) -> load.Late:
    return load.Late(JOB_ID, nodes, more)


@pytest.mark.parametrize(
    ("phase", "what"),
    [
        (Phase.ALLOCATING, "a grant from bebopd at "),
        (Phase.FORMING, "votes from n21"),
        (Phase.LOADING, "/bin/a.out (2.0 MB) to be sent to n21"),
        (Phase.STARTING, "ranks to be at their entry on n21"),
        (Phase.ENDING, "the end of the job on n21"),
        (Phase.RELEASING, "bebopd at "),
    ],
)
def test_a_line_says_what_is_awaited_and_from_whom(phase, what):
    yod = Yod(2, limits=SECONDS).to(phase)
    if phase not in (Phase.ALLOCATING, Phase.RELEASING):
        yod.receive(late(load.LateNode(21, "n21")))
    assert yod.wait(1.9) == []
    (line,) = yod.wait(0.2)
    assert isinstance(line, Tell) and not line.is_error  # -quiet keeps it back
    assert line.text.startswith(f"waiting for {what}")
    assert line.text.endswith("(2 s)")


def test_who_is_late_and_why_is_said_shortly():
    yod = Yod(2, limits=SECONDS).to(Phase.STARTING)
    yod.receive(
        late(
            load.LateNode(23, "n23", "ranks not at their entry: 5, 6"),
            load.LateNode(20, "n20"),
            load.LateNode(27, "n27"),
            more=90,
        )
    )
    (line,) = told(yod.wait(2.1))
    assert line == (
        "waiting for ranks to be at their entry on"
        " n23 (ranks not at their entry: 5, 6); n20, n27 and 90 more (2 s)"
    )


def test_a_reset_names_who_has_not_confirmed_it():
    limits = Limits(notice_s=2.0, end_s=8.0)
    yod = Yod(2, limits=limits).to(Phase.ENDING)
    yod.wait(8.0)
    assert yod.phase is Phase.RESETTING
    assert told(yod.wait(2.0)) == ["waiting for the reset of n20, n21 (2 s)"]


def test_lines_come_at_double_times():
    yod = Yod(2, limits=SECONDS).to(Phase.FORMING)
    lines = told(yod.wait(100.0))
    assert [line.rpartition("(")[2] for line in lines] == [
        "2 s)",
        "4 s)",
        "8 s)",
        "16 s)",
        "32 s)",
        "64 s)",
    ]


def test_phases_that_go_on_are_not_waited_for():
    yod = Yod(2, limits=SECONDS).to(Phase.FORMING)
    assert yod.wait(1.5) == []
    yod.receive(load.Vote(JOB_ID, 2, (0,), (), slowest()))
    assert yod.wait(1.5) == []
    yod.receive(load.Loaded(JOB_ID, slowest()))
    assert yod.wait(1.5) == []
    yod.receive(held(0, 1))
    assert yod.wait(1e5) == []  # the program runs
    yod.receive(completions(0, 1))
    assert yod.wait(1.5) == []
    yod.receive(load.Released.of(JOB_ID, (20, 21)), ROOT)
    assert yod.wait(1.5) == []
    yod.from_bebopd(alloc.Released(JOB_ID))
    assert yod.phase is Phase.DONE


def test_the_reader_of_the_output_is_nobody_that_yod_speaks_of():
    yod = Yod(2, limits=SECONDS).to(Phase.RUNNING)
    yod.receive(output(0, b"x" * 1000))
    yod.receive(completions(0, 1))
    assert yod.wait(1000.0) == []


def test_an_end_is_not_put_off_by_what_yod_itself_says():
    yod = Yod(2, limits=Limits(notice_s=2.0, end_s=9.0)).to(Phase.ENDING)
    for _ in range(4):
        for _ in told(yod.wait(2.25)):
            yod.handle(OutputWritten(2, 0))
    assert yod.phase is Phase.RESETTING


@pytest.mark.parametrize(
    ("phase", "line"),
    [
        (Phase.ALLOCATING, "allocate (1 of 4), 3 s: a grant from bebopd at "),
        (Phase.FORMING, "form (2 of 4), 3 s: votes from n20"),
        (Phase.LOADING, "load (3 of 4), 3 s: /bin/a.out (2.0 MB) to be sent to n20"),
        (Phase.STARTING, "start (4 of 4), 3 s: ranks to be at their entry on n20"),
    ],
)
def test_a_line_of_progress_says_how_far_the_launch_is(phase, line):
    yod = Yod(2, limits=SECONDS).to(phase)
    began = yod.machine.began[Phase.ALLOCATING]
    assert yod.machine.progress(began + 3).startswith(line)


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.ENDING, Phase.DONE])
def test_there_is_none_once_ranks_run(phase):
    assert Yod(2, limits=SECONDS).to(phase).machine.progress(1e4) == ""


TOLD = Limits(notice_s=2.0, end_s=1e6, allocate_s=1e6, phase_s=1e6, progress_told_s=0.5)


def shown(actions):
    """What bebopd is told of the launch."""
    sent = [action.message for action in actions if isinstance(action, Send)]
    return [message for message in sent if isinstance(message, status.Progress)]


def test_bebopd_is_told_how_far_a_launch_is_that_takes_long():
    yod = Yod(4, limits=TOLD).to(Phase.FORMING)
    assert shown(yod.wait(0.4)) == []
    assert shown(yod.wait(0.2)) == [status.Progress(JOB_ID, "form")]
    assert shown(yod.wait(0.5)) == []  # nothing has changed
    assert shown(yod.receive(late(load.LateNode(22, "n22"), more=1))) == []
    assert shown(yod.wait(0.6)) == [status.Progress(JOB_ID, "form", 2, 4)]
    yod.receive(late(load.LateNode(22, "n22")))
    yod.receive(late(load.LateNode(22, "n22", "disk")))  # as many
    assert shown(yod.wait(0.6)) == [status.Progress(JOB_ID, "form", 3, 4, 3)]


def test_bebopd_is_told_once_that_nobody_waits_any_more():
    yod = Yod(2, limits=TOLD).to(Phase.STARTING)
    assert shown(yod.wait(0.6)) == [status.Progress(JOB_ID, "start")]
    assert shown(yod.receive(held(0, 1))) == [status.Progress(JOB_ID, "")]
    assert yod.phase is Phase.RUNNING
    assert shown(yod.receive(output(0, b"x"))) == []


def test_bebopd_is_told_nothing_of_a_launch_that_is_short():
    yod = Yod(2, limits=TOLD).to(Phase.STARTING)
    assert shown(yod.receive(held(0, 1))) == []
    assert shown(yod.wait(100.0)) == []
