"""Input and output of a launch in somebody else's program."""

from __future__ import annotations

import pytest

from native.loop.reactor import Reactor
from native.wire.base import DATA_MAX
from yod.guest.collected import LEFT_OUT, MESSAGES_MAX, Collected, CollectedOutput
from yod.guest.front import Given, Source


@pytest.fixture
def reactor():
    reactor = Reactor()
    yield reactor
    reactor.close()


def test_given_input_goes_as_far_as_there_is_room_and_then_ends(reactor):
    seen: list[bytes] = []
    given = Given(reactor, b"x" * (2 * DATA_MAX + 5))
    given.open(seen.append)
    given.allow(DATA_MAX + 1)
    assert seen == []  # not within what the launch is doing
    reactor.run_once(0)
    assert [len(data) for data in seen] == [DATA_MAX, 1]
    given.allow(2 * DATA_MAX)
    reactor.run_once(0)
    assert sum(map(len, seen)) == 2 * DATA_MAX + 5
    assert seen[-1] == b"" and given.is_over


def test_a_source_gives_what_there_is_room_for(reactor):
    seen: list[bytes] = []
    wanted: list[bool] = []
    source = Source(reactor, lambda: wanted.append(True))
    assert source.give(memoryview(b"early")) == 0  # nobody takes it yet
    source.open(seen.append)
    assert source.give(memoryview(b"abc")) == 0 and not source.end()
    source.allow(2)
    reactor.run_once(0)
    assert wanted == [True]
    assert source.give(memoryview(b"abc")) == 2
    source.allow(10)
    assert source.end() and source.is_over
    assert source.give(memoryview(b"more")) == 0
    assert seen == [b"ab", b""]


def test_a_source_that_is_closed_tells_its_writer(reactor):
    wanted: list[bool] = []
    source = Source(reactor, lambda: wanted.append(True))
    source.open(lambda data: None)
    source.close()
    assert source.is_over and wanted == [True]


def test_collected_output_stops_at_its_limit_and_says_so_once():
    collected = Collected(10)
    written: list[tuple[int, int]] = []
    errors: list[OSError] = []
    output = CollectedOutput(collected, 1, lambda *told: written.append(told), errors.append)
    output.write([(b"0: abc\n", 1, 4)])
    output.write([(memoryview(b"defgh"), 1, 5), (b"ijk", 1, 3)])
    output.write([(b"more", 1, 4)])
    assert collected.data(1) == b"0: abc\ndef" and collected.data(2) == b""
    assert written == [(1, 4), (1, 8), (1, 4)]  # the ranks do not wait for a full collection
    (error,) = errors
    assert error.strerror == "more than 10 bytes to collect (collected_bytes)"
    assert output.is_empty and output.drop() == 0


def test_collected_messages_have_an_end():
    collected = Collected(10)
    for number in range(MESSAGES_MAX + 10):
        collected.say(f"yod: {number}")
    assert collected.messages[0] == "0"
    assert collected.messages[-1] == LEFT_OUT
    assert len(collected.messages) == MESSAGES_MAX + 1
