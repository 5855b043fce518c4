"""Events that a program has not read: few, in order, and output within its window."""

from __future__ import annotations

import pytest

from yod.guest.collected import LEFT_OUT, MESSAGES_MAX
from yod.guest.feed import Feed, Message, Output, RankEnded, Started
from yod.guest.results import RankResult

RANK = RankResult(0, "n", 0, 1, 0, None, "run")


class Reader:
    """A feed, and what the launch hears of it."""

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []
        self.woken = -1  # by its release
        self.feed = Feed(self._more)
        self.feed.release()
        self.screens = self.feed.open(lambda stream, count: self.read.append((stream, count)))

    def _more(self) -> None:
        self.woken += 1

    def take_all(self) -> list[object]:
        events = []
        while (event := self.feed.take()) is not None:
            events.append(event)
        return events


@pytest.fixture
def reader() -> Reader:
    return Reader()


def test_events_come_in_order_and_output_counts_when_it_is_read(reader):
    reader.screens[1].show(0, 1, b"a")
    reader.feed.put(RankEnded(RANK))
    reader.screens[2].show(0, 2, b"error")
    assert reader.read == [] and reader.woken == 3
    assert not reader.screens[1].is_empty and not reader.screens[2].is_empty
    assert reader.take_all() == [Output(0, 1, b"a"), RankEnded(RANK), Output(0, 2, b"error")]
    assert reader.read == [(1, 1), (2, 5)]
    assert reader.screens[1].is_empty and reader.screens[2].is_empty
    assert reader.feed.take() is None


def test_output_waits_until_it_is_known_that_the_ranks_run():
    feed = Feed(lambda: None)
    screens = feed.open(lambda stream, count: None)
    feed.put(Message("take care"))
    screens[1].show(0, 1, b"early")
    assert (feed.take(), feed.take()) == (Message("take care"), None)
    feed.put(Started("local.1", {0: 7}))
    assert feed.take() is None
    feed.release()
    assert feed.take() == Started("local.1", {0: 7})
    assert (feed.take(), feed.take()) == (Output(0, 1, b"early"), None)


def test_what_a_rank_has_written_in_many_pieces_is_one_event(reader):
    """A million tiny writes would be a million events within one window."""
    for number in range(1000):
        reader.screens[1].show(number % 2, 1, b"x")
    assert reader.take_all() == [Output(0, 1, b"x" * 500), Output(1, 1, b"x" * 500)]
    assert reader.read == [(1, 500), (1, 500)]
    reader.screens[1].show(0, 1, b"y")
    assert reader.take_all() == [Output(0, 1, b"y")]


def test_output_that_is_dropped_counts_as_read_and_so_does_what_follows(reader):
    reader.screens[1].show(0, 1, b"abc")
    reader.screens[1].say("yod: word")
    assert reader.screens[1].drop() == 3
    reader.screens[1].show(0, 1, b"de")
    assert reader.read == [(1, 3), (1, 2)]
    assert reader.take_all() == [Message("word")]


def test_a_launch_that_is_over_hears_nothing_and_what_is_left_can_be_read(reader):
    reader.screens[1].show(0, 1, b"a")
    reader.screens[1].close()
    assert reader.take_all() == [Output(0, 1, b"a")]
    assert reader.read == []


def test_messages_have_an_end(reader):
    for number in range(MESSAGES_MAX + 10):
        reader.screens[2].say(f"yod: {number}")
    events = reader.take_all()
    assert len(events) == MESSAGES_MAX + 1
    assert events[-1] == Message(LEFT_OUT)


def test_nothing_waits_for_a_line_to_end(reader):
    reader.screens[1].show(0, 1, b"name? ")
    reader.screens[1].finish()
    reader.screens[1].show(0, 1, b"")
    assert reader.take_all() == [Output(0, 1, b"name? ")]
