"""Input that ranks share, at a node: what a rank is given, and when it asks."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from native.loop.reactor import Reactor
from native.machine import Send
from native.wire import io
from pct.host.streams import SharedPipe
from pct.job.rules.sharing import SharedFlow
from pct.rare_events import GiveLine, LineWanted
from pct.tree.group import Group
from tests.unit.pct import job_of

ID = job_of.JOB_ID


class Rank:
    """The reader of a pipe.

    Attributes:
        wanted: what the pipe has told since the last look.
    """

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self.reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.wanted: list[tuple[bytes, bool]] = []
        self.pipe = SharedPipe(reactor, writing, lambda *wanted: self.wanted.append(wanted))

    def turn(self) -> list[tuple[bytes, bool]]:
        for _ in range(8):
            self._reactor.run_once(0)
        told, self.wanted = self.wanted, []
        return told


@pytest.fixture
def rank() -> Iterator[Rank]:
    reactor = Reactor()
    rank = Rank(reactor)
    yield rank
    rank.pipe.close()
    reactor.close()


def test_a_rank_asks_when_it_has_read_the_whole_of_its_line(rank):
    rank.pipe.give(b"line\n")
    assert rank.turn() == []
    assert os.read(rank.reading, 2) == b"li"
    assert rank.turn() == []
    assert os.read(rank.reading, 100) == b"ne\n"
    assert rank.turn() == [(b"", False)]


def test_a_piece_that_is_larger_than_the_pipe_is_asked_for_once(rank):
    data = os.urandom(16_384)
    rank.pipe.give(data)
    got = b""
    while len(got) < len(data):
        assert rank.turn() == []
        got += os.read(rank.reading, 1 << 16)
    assert (got, rank.turn()) == (data, [(b"", False)])


def test_the_end_closes_the_pipe(rank):
    rank.pipe.give(b"")
    assert os.read(rank.reading, 1) == b""
    assert rank.turn() == []


def test_what_a_rank_has_not_begun_comes_back_when_it_reads_no_more(rank):
    rank.pipe.give(b"line\n")
    os.close(rank.reading)
    assert rank.turn() == [(b"line\n", True)]
    rank.pipe.give(b"more\n")
    assert rank.turn() == [(b"more\n", True)]


def test_what_it_has_begun_is_lost(rank):
    rank.pipe.give(b"line\n")
    os.read(rank.reading, 1)
    os.close(rank.reading)
    assert rank.turn() == [(b"", True)]


def test_a_rank_that_has_closed_its_end_before_gives_its_first_line_back(rank):
    os.close(rank.reading)
    rank.pipe.give(b"line\n")
    assert rank.turn() == [(b"line\n", True)]


def flow(size: int, place: int) -> SharedFlow:
    message = job_of.load_message(size, place, shares_input=True)
    parent = job_of.YOD if place == 0 else job_of.pct((place - 1) // 2)
    return SharedFlow(message, Group(message, parent))


def test_each_rank_of_a_node_asks_when_it_runs_and_again_when_it_has_read():
    node = flow(3, 2)
    first = Send(job_of.pct(0), io.LineAsked(ID, 2, 2))
    assert node.begin() == [first]
    assert node.happened(LineWanted(ID, 2, b"", False)) == [first]
    closed = io.LineAsked(ID, 2, 2, b"x\n", True)
    assert node.happened(LineWanted(ID, 2, b"x\n", True)) == [Send(job_of.pct(0), closed)]


def test_a_line_goes_to_its_rank_or_towards_its_node():
    root = flow(7, 0)
    assert root.given(io.Line(ID, 0, 0, b"x\n")) == [GiveLine(ID, 0, b"x\n")]
    line = io.Line(ID, 5, 5, b"x\n")
    assert root.given(line) == [Send(job_of.pct(2), line)]
