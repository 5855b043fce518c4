"""An agent whose host's clock is another one than its client's, in what it writes down."""

from __future__ import annotations

import socket
import threading

import pytest

from yod.pilot.analysis.records import in_time_of_day
from yod.pilot.link.clock import seconds_ahead
from yod.pilot.profile import reader
from yod.pilot.profile.writer import Writer
from yod.pilot.wire import messages


def ask(answer: bytes | None, *times: float) -> float:
    """What an agent finds whose clock shows these times, when the client answers so."""
    ours, theirs = socket.socketpair()

    def client() -> None:
        with theirs:
            assert theirs.recv(4096) == messages.frame(messages.AskTime())
            if answer is not None:
                theirs.sendall(answer)

    thread = threading.Thread(target=client)
    thread.start()
    with ours:
        found = seconds_ahead(ours, now=iter(times).__next__)
        assert ours.gettimeout() is None
    thread.join()
    return found


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_an_agent_knows_how_far_its_clock_is_ahead(ahead_s):
    answer = messages.frame(messages.Time(1000.0))
    assert ask(answer, 999.9 + ahead_s, 1000.1 + ahead_s) == pytest.approx(ahead_s)


def test_clocks_that_may_be_the_same_are():
    assert ask(messages.frame(messages.Time(1000.0)), 999.9, 1000.0) == 0.0


@pytest.mark.parametrize(
    "answer", [None, b"\x05\0\0\0nonsense", messages.frame(messages.End())], ids=str
)
def test_a_client_that_does_not_say_the_time_is_left_in_peace(answer):
    assert ask(answer, 5.0, 6.0, 7.0) == 0.0


def test_what_a_profile_says_of_its_clock_is_taken_off_its_times(tmp_path):
    times = iter([4600.0, 4601.0, 4602.0])
    writer = Writer(str(tmp_path), "agent_0", ahead_s=3600.0, now=times.__next__)
    writer.prof("cmd", "pilot.0000")
    writer.close()
    (records,) = reader.read(str(tmp_path)).values()
    assert records[0].msg.endswith(":4600.0:1000.0:ntp")
    assert [one.time for one in in_time_of_day(records)] == [1000.0, 1001.0, 1002.0]
