"""Output and input of a launch: credit, gaps, and what cannot be written."""

import signal

import pytest

from native.wire import io
from tests.unit.yod.launch_of import (
    ALL_DONE,
    GO,
    JOB_ID,
    KILL,
    LIMITS,
    Yod,
    completions,
    held,
    leave,
    output,
    to_root,
)
from yod.launch.events import (
    Finish,
    FollowAsked,
    Followed,
    InputRead,
    NotShared,
    ObjectUndelivered,
    OutputClosed,
    OutputFailed,
    OutputWritten,
    ReadInput,
    Tell,
    Write,
)
from yod.launch.phases import Phase
from yod.plan.plan import Style


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


def test_an_object_that_is_not_delivered_while_the_job_is_ending_changes_nothing():
    yod = Yod(2).to(Phase.ENDING)
    late = (ObjectUndelivered(0, "no"), NotShared(0, "no"))
    assert [yod.handle(event) for event in late] == [[]] * 2
    assert leave(yod) == 0


@pytest.mark.parametrize(
    ("event", "told", "status"),
    [(OutputFailed("no"), [Tell("no")], 125), (OutputClosed(), [], 128 + signal.SIGPIPE)],
)
@pytest.mark.parametrize("phase", [Phase.ENDING, Phase.RELEASING, Phase.DONE])
def test_output_that_is_lost_after_the_ranks_have_ended_fails_the_launch(
    phase, event, told, status
):
    """What writes it may be another process, which says so later."""
    yod = Yod(2).to(phase)
    assert yod.handle(event) == told
    if phase is not Phase.DONE:
        leave(yod)
    assert yod.report.exit_status == status


def test_a_reader_that_has_enough_ends_the_job_without_a_word():
    yod = Yod(2).to(Phase.RUNNING)
    assert yod.handle(OutputClosed()) == [ALL_DONE]
    assert leave(yod) == 128 + signal.SIGPIPE


def test_output_that_fails_before_there_is_a_job_ends_yod():
    assert Yod(2).handle(OutputFailed("no")) == [Finish()]
    assert Yod(2).handle(OutputClosed()) == [Finish()]


def test_input_is_read_by_credit_while_the_application_runs():
    yod = Yod(2, input_ranks=((0, 0),)).to(Phase.RUNNING)
    assert yod.receive(io.InputCredit(JOB_ID, 4096)) == [ReadInput(4096)]
    assert yod.handle(InputRead(b"yes\n")) == [to_root(io.Input(JOB_ID, b"yes\n"))]
    assert yod.handle(InputRead(b"")) == [to_root(io.Input(JOB_ID, b""))]


def test_commands_are_shown_what_the_ranks_write_that_they_follow():
    yod = Yod(4).to(Phase.RUNNING)
    assert yod.handle(FollowAsked(((1, 2),))) == []
    shown = [
        action
        for rank in range(4)
        for action in yod.receive(output(rank, b"x", stream=2))
        if isinstance(action, Followed)
    ]
    assert shown == [Followed(1, 2, b"x"), Followed(2, 2, b"x")]
    yod.handle(FollowAsked(()))
    assert not any(isinstance(each, Followed) for each in yod.receive(output(1, b"y", 1, 2)))
