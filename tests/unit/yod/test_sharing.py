"""Input that all ranks share: each line goes to the rank that asks next."""

from __future__ import annotations

import random

import pytest

from native.errors import PeerProtocolError
from native.wire import io
from tests.unit.yod.launch_of import JOB_ID, Yod, sent
from yod.launch.events import InputRead, ReadInput, Tell
from yod.launch.phases import Phase
from yod.launch.running import PIECE_BYTES, ROOM_BYTES


@pytest.fixture
def yod() -> Yod:
    return Yod(3, shares_input=True).to(Phase.RUNNING)


def ask(yod: Yod, rank: int, unread: bytes = b"", *, is_closed: bool = False):
    return yod.receive(io.LineAsked(JOB_ID, rank, rank, unread, is_closed))


def read(yod: Yod, data: bytes):
    return yod.handle(InputRead(data))


def given(actions) -> list[tuple[int, bytes]]:
    return [(each.rank, each.data) for each in sent(actions) if isinstance(each, io.Line)]


def test_nothing_is_read_before_a_rank_asks_and_no_more_than_there_is_room_for(yod):
    assert ask(yod, 1) == [ReadInput(ROOM_BYTES)]
    assert ask(yod, 2) == []
    assert ReadInput(ROOM_BYTES) not in read(yod, b"x" * 100)


def test_lines_go_to_ranks_in_the_order_in_which_they_ask(yod):
    for rank in (2, 0, 1):
        ask(yod, rank)
    assert given(read(yod, b"a\nb\0\nc")) == [(2, b"a\n"), (0, b"b\0\n")]
    assert given(ask(yod, 2)) == []
    assert given(read(yod, b"c\n\nd\n")) == [(1, b"cc\n"), (2, b"\n")]
    assert given(ask(yod, 0)) == [(0, b"d\n")]


def test_the_end_of_the_input_comes_to_all_that_ask_behind_the_last_line(yod):
    ask(yod, 0), ask(yod, 1)
    assert given(read(yod, b"a\nb")) == [(0, b"a\n")]
    assert given(read(yod, b"")) == [(1, b"b")]
    assert given(ask(yod, 1)) == [(1, b"")]
    assert given(ask(yod, 2)) == [(2, b"")]
    assert given(ask(yod, 0)) == [(0, b"")]


def test_a_line_of_many_pieces_goes_to_one_rank(yod):
    ask(yod, 0), ask(yod, 1)
    line = b"x" * (2 * PIECE_BYTES) + b"y\n"
    assert given(read(yod, line + b"next\n")) == [(0, line[:PIECE_BYTES])]
    assert given(ask(yod, 0)) == [(0, line[PIECE_BYTES : 2 * PIECE_BYTES])]
    assert given(ask(yod, 0)) == [(0, b"y\n"), (1, b"next\n")]


def test_what_a_rank_has_not_read_is_anothers(yod):
    ask(yod, 0)
    read(yod, b"a\nb\n")
    assert given(ask(yod, 0, b"a\n", is_closed=True)) == []
    assert given(ask(yod, 1)) == [(1, b"a\n")]
    assert given(ask(yod, 2)) == [(2, b"b\n")]


def test_the_rest_of_a_line_is_nobodys_when_its_reader_has_gone(yod):
    ask(yod, 0), ask(yod, 1)
    read(yod, b"x" * PIECE_BYTES + b"x")
    ask(yod, 0, is_closed=True)
    assert given(read(yod, b"x" * 100)) == []
    assert given(read(yod, b"x\nnext\n")) == [(1, b"next\n")]


def test_a_long_line_of_which_nothing_was_read_is_anothers_as_a_whole(yod):
    ask(yod, 0), ask(yod, 1)
    begin = b"x" * PIECE_BYTES
    read(yod, begin + b"y\n")
    assert given(ask(yod, 0, begin, is_closed=True)) == [(1, begin)]
    assert given(ask(yod, 1)) == [(1, b"y\n")]


def test_a_line_that_comes_back_while_a_long_one_is_given_waits_for_its_end(yod):
    ask(yod, 0), ask(yod, 1)
    begin = b"x" * PIECE_BYTES
    assert given(read(yod, b"a\n" + begin + b"y\n")) == [(0, b"a\n"), (1, begin)]
    ask(yod, 0, b"a\n", is_closed=True)
    assert given(ask(yod, 2)) == []
    assert given(ask(yod, 1)) == [(1, b"y\n"), (2, b"a\n")]


def test_the_end_of_a_line_is_nobodys_when_its_reader_has_gone(yod):
    ask(yod, 0)
    read(yod, b"x" * PIECE_BYTES + b"y\nnext\n")
    assert given(ask(yod, 0)) == [(0, b"y\n")]
    ask(yod, 0, b"y\n", is_closed=True)
    assert given(ask(yod, 1)) == [(1, b"next\n")]


def test_a_line_that_comes_back_behind_the_end_is_told(yod):
    ask(yod, 0), ask(yod, 1)
    read(yod, b"a\n"), read(yod, b"")
    text = "2 bytes of the input are left, which no rank has read"
    assert Tell(text) in ask(yod, 0, b"a\n", is_closed=True)


def test_a_line_that_comes_back_behind_the_end_is_for_who_still_reads(yod):
    ask(yod, 0), ask(yod, 1), ask(yod, 2)
    read(yod, b"a\nb\n"), read(yod, b"")
    assert ask(yod, 0, b"a\n", is_closed=True) == []
    assert given(ask(yod, 1)) == [(1, b"a\n")]


def test_a_job_that_shares_nothing_and_a_node_that_it_has_not_get_no_line(yod):
    with pytest.raises(PeerProtocolError):
        ask(Yod(2).to(Phase.RUNNING), 0)
    with pytest.raises(PeerProtocolError):
        ask(yod, 3)


@pytest.mark.parametrize("seed", range(50))
def test_however_input_and_questions_come_each_line_is_given_once_and_whole(yod, seed):
    rng = random.Random(seed)
    sizes = [rng.choice([0, 5, 300, rng.randrange(3 * PIECE_BYTES)]) for _ in range(30)]
    text = b"".join(b"%d:" % number + bytes(size) + b"\n" for number, size in enumerate(sizes))
    left, room, waiting = text, 0, {}
    got: dict[int, bytes] = dict.fromkeys(range(3), b"")
    ended: set[int] = set()
    actions = [each for rank in range(3) for each in ask(yod, rank)]
    while len(ended) < 3:
        for each in actions:
            room += each.count_bytes if isinstance(each, ReadInput) else 0
        for rank, data in given(actions):
            assert rank not in waiting
            waiting[rank] = data
        if waiting and rng.random() < 0.5:
            rank = rng.choice(list(waiting))
            data = waiting.pop(rank)
            got[rank] += data
            actions = ask(yod, rank) if data else []
            if not data:
                ended.add(rank)
        else:
            count = min(room, rng.randrange(1, 70_000))
            room -= min(count, len(left))
            actions = read(yod, left[:count]) if room >= 0 and (count or not left) else []
            left = left[count:]
    lines = [line for data in got.values() for line in data.splitlines(keepends=True)]
    assert sorted(lines) == sorted(text.splitlines(keepends=True))
