"""Whole lines: no line of a rank is torn by another's, and nothing waits for ever."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.limits import Limits
from yod.launch.lines import Lines
from yod.plan.plan import Style

LIMITS = Limits()
QUIET, HOLD = LIMITS.line_quiet_s, LIMITS.line_hold_s
MAX, ROOM = LIMITS.line_max_bytes, LIMITS.line_room_bytes


class Screen:
    """Somewhere to show lines, on a clock of its own; checks the invariants at each step."""

    def __init__(
        self, size: int = 4, style: Style = Style.WHOLE, limits: Limits = LIMITS, stamp=None
    ) -> None:
        self.lines = Lines(style, size, limits, stamp)
        self.now = 100.0
        self.text = b""
        self.paid: dict[int, int] = defaultdict(int)  # of the ranks' bytes, by stream

    def write(self, rank: int, data: bytes, stream: int = 1) -> Screen:
        self._take(self.lines.add(rank, stream, data, self.now))
        return self

    def say(self, text: bytes) -> Screen:
        self._take(self.lines.say(text, self.now))
        return self

    def wait(self, seconds: float) -> Screen:
        until = self.now + seconds
        while (due := self.lines.deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self._take(self.lines.due(self.now))
        self.now = until
        return self

    def finish(self) -> bytes:
        self._take(self.lines.finish(self.now))
        assert self.lines.held_bytes == 0 and self.lines.deadline() is None
        return self.text

    def shows(self, text: bytes) -> Screen:
        """What has been shown since it was asked last."""
        assert self.text == text
        self.text = b""
        return self

    def _take(self, pieces) -> None:
        for buffer, stream, count in pieces:
            self.text += bytes(buffer)
            if count:
                self.paid[stream] += count
        self.lines.check()


# -- lines -----------------------------------------------------------------


def test_complete_lines_are_shown_as_they_come():
    screen = Screen().write(0, b"one\n").shows(b"one\n")
    screen.write(1, b"two\nthree\n").shows(b"two\nthree\n")
    assert not screen.lines.is_line_open and screen.lines.deadline() is None


def test_a_line_in_several_writes_is_shown_whole():
    """`print(1234)` of an unbuffered Python writes twice: 123412341234 and empty lines came."""
    screen = Screen()
    for rank in range(4):
        screen.write(rank, b"1234")
    for rank in (2, 0, 3, 1):
        screen.write(rank, b"\n")
    assert screen.finish() == b"1234\n" * 4


def test_what_follows_a_complete_line_waits_for_its_own_end():
    screen = Screen().write(0, b"a\nb").shows(b"a\n")
    screen.write(1, b"c\n").shows(b"c\n")
    screen.write(0, b"b\n").shows(b"bb\n")


def test_a_prompt_is_shown_at_once_where_nothing_else_is():
    Screen().write(2, b"name? ").shows(b"name? ")


def test_a_line_that_stays_open_is_shown_when_nothing_else_has_been_for_a_moment():
    screen = Screen().write(0, b"a\nname? ").shows(b"a\n")
    screen.wait(0.9 * QUIET).shows(b"").write(1, b"b\n").shows(b"b\n")
    screen.wait(0.9 * QUIET).shows(b"").wait(0.2 * QUIET).shows(b"name? ")
    assert screen.lines.is_line_open


def test_a_line_that_stays_open_is_shown_in_the_end_though_others_never_stop():
    screen = Screen().write(1, b"-\n").write(0, b"name? ")
    for _ in range(20):
        screen.wait(HOLD / 20).write(1, b"-\n")
    assert b"name? " in screen.text


def test_the_owner_of_the_open_line_goes_on_in_it_at_once():
    screen = Screen().write(0, b".").shows(b".").write(0, b".").shows(b".")
    screen.write(0, b"done\n").shows(b"done\n")


def test_others_wait_for_the_end_of_the_open_line_and_are_shown_in_the_order_they_came():
    screen = Screen().write(0, b"name? ").shows(b"name? ")
    screen.write(1, b"a\n").write(2, b"b").write(2, b"\nc\n").write(1, b"d\n").shows(b"")
    screen.write(0, b"Bob\n").shows(b"Bob\na\nb\nc\nd\n")


def test_others_wait_no_longer_than_the_hold_and_the_rest_has_its_owner_in_front():
    screen = Screen().write(3, b"name? ").shows(b"name? ").wait(60.0)
    screen.write(1, b"a\n").wait(0.9 * HOLD).shows(b"").wait(0.2 * HOLD).shows(b"\na\n")
    screen.write(1, b"b\n").shows(b"b\n")
    screen.write(3, b"Bob\nand\n").shows(b"3: Bob\nand\n")


def test_a_cut_lines_own_newline_is_the_one_that_cut_it():
    screen = Screen().write(3, b"1234").write(1, b"a\n").wait(HOLD).shows(b"1234\na\n")
    screen.write(3, b"\nnext\n").shows(b"next\n")
    assert screen.paid[1] == len(b"1234a\n\nnext\n")


def test_prompts_of_several_ranks_are_shown_one_below_the_other():
    screen = Screen()
    for rank in range(4):
        screen.write(rank, b"%d? " % rank)
    screen.shows(b"0? ").wait(HOLD).shows(b"\n1? \n2? \n3? ")
    screen.write(3, b"yes\n").shows(b"yes\n").write(0, b"no\n").shows(b"0: no\n")


def test_labels_have_the_width_of_the_highest_rank():
    screen = Screen(size=101, style=Style.LABELLED)
    screen.write(7, b"a\n\nb\n").shows(b"  7: a\n  7: \n  7: b\n")
    screen.write(100, b"c\n").shows(b"100: c\n").write(1234, b"spawned\n").shows(b"1234: spawned\n")


def test_a_label_is_written_once_for_a_line_in_several_pieces():
    screen = Screen(style=Style.LABELLED)
    screen.write(2, b"a").write(2, b"b").write(2, b"c\nd\n").shows(b"2: abc\n2: d\n")


def test_a_single_rank_writes_bytes_as_they_come():
    screen = Screen(size=1).write(0, b"a").shows(b"a").write(0, b"E", stream=2).shows(b"E")
    screen.write(0, b"b\nc").shows(b"b\nc").wait(60.0)
    assert screen.finish() == b""


def test_a_single_rank_is_labelled_when_asked():
    Screen(size=1, style=Style.LABELLED).write(0, b"a\nb\n").shows(b"0: a\n0: b\n")


def test_a_rank_that_the_only_one_has_spawned_tears_none_of_its_lines():
    screen = Screen(size=1).write(0, b"wai").shows(b"wai").write(1, b"child\n").shows(b"")
    screen.write(0, b"ting\n").shows(b"ting\nchild\n")


def test_raw_output_is_bytes_as_they_come():
    screen = Screen(style=Style.RAW)
    screen.write(0, b"12").write(1, b"34").write(0, b"\n").write(1, b"\n").shows(b"1234\n\n")


@pytest.mark.parametrize("style", Style)
def test_yods_own_words_begin_on_a_fresh_line(style):
    screen = Screen(style=style).write(0, b"abc")
    before, screen.text = screen.text, b""
    screen.say(b"yod: rank 3 has ended").shows(b"\nyod: rank 3 has ended\n")
    label = b"[0] " if style is Style.MERGED else b"0: "
    screen.write(0, b"d\n").shows(b"d\n" if style is Style.RAW else label + b"d\n")
    screen.say(b"yod: more").shows(b"yod: more\n")
    assert before == (label + b"abc" if style in (Style.LABELLED, Style.MERGED) else b"abc")


def test_lines_of_several_ranks_have_their_numbers_in_front_and_wait_for_an_open_line():
    screen = Screen(style=Style.MERGED)
    first = screen.lines.add_lines(((0, 2), (7, 7)), 1, b"a\nb\n", screen.now)
    assert b"".join(data for data, _, _ in first) == b"[0-2,7] a\n[0-2,7] b\n"
    assert sum(count for _, _, count in first) == 4  # what the ranks wrote is credited once
    screen.now += QUIET
    screen.write(3, b"name? ")
    assert screen.lines.add_lines(((0, 2),), 1, b"c\n", screen.now) == []
    screen.write(3, b"Ada\n").shows(b"[3] name? Ada\n[0-2] c\n")


def test_the_two_streams_of_a_rank_do_not_tear_each_other_on_one_screen():
    screen = Screen().write(0, b"out").write(0, b"err", stream=2).write(0, b"put\n")
    screen.shows(b"output\n").write(0, b"or\n", stream=2).shows(b"error\n")


# -- the end ---------------------------------------------------------------


def test_only_the_last_line_of_all_stays_without_its_end():
    screen = Screen()
    for rank in range(3):
        screen.write(rank, b"hello")
    assert screen.finish() == b"hello\nhello\nhello"
    assert screen.lines.is_line_open


def test_an_open_line_of_a_rank_that_has_ended_is_ended_for_the_next():
    screen = Screen().write(0, b"abc").wait(60.0).write(1, b"d\n").shows(b"abc")
    assert screen.finish() == b"\nd\n"
    assert not screen.lines.is_line_open


# -- bounds ----------------------------------------------------------------


def test_a_line_that_is_longer_than_the_bound_is_whole_while_nobody_else_writes():
    screen = Screen().write(1, b"-\n").shows(b"-\n")
    for _ in range(10):
        screen.write(0, b"x" * MAX)
        assert screen.lines.held_bytes == 0
    assert screen.write(0, b"\n").finish() == b"x" * 10 * MAX + b"\n"


def test_a_line_that_is_longer_than_the_bound_makes_way_at_once():
    screen = Screen().write(1, b"-\n").write(0, b"x" * MAX).write(1, b"-\n").write(0, b"yy\n")
    screen.shows(b"-\n" + b"x" * MAX + b"\n-\n0: yy\n")


def test_a_line_just_below_the_bound_is_not_torn():
    screen = Screen().write(1, b"-\n").write(0, b"x" * (MAX - 1)).write(1, b"-\n")
    screen.write(0, b"\n").shows(b"-\n-\n" + b"x" * (MAX - 1) + b"\n")


def test_many_open_lines_stay_within_the_room_and_the_oldest_make_way():
    limits = Limits(line_room_bytes=4096)
    screen = Screen(size=1000, limits=limits).write(999, b"-\n")
    for rank in range(900):
        screen.write(rank, b"0123456789")
        assert screen.lines.held_bytes <= 4096
    text = screen.finish()
    assert text == b"-\n" + b"\n".join([b"0123456789"] * 900)


def test_lines_behind_an_open_one_stay_within_the_room():
    limits = Limits(line_room_bytes=4096)
    screen = Screen(limits=limits).write(0, b"name? ")
    for _ in range(100):
        screen.write(1, b"x" * 99 + b"\n")
    screen.write(0, b"Bob\n")
    assert screen.finish() == b"name? \n" + (b"x" * 99 + b"\n") * 100 + b"0: Bob\n"


# -- whatever comes --------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.integers(0, 3),
            st.integers(1, 2),
            st.text("ab\n", min_size=1, max_size=6),
        ),
        st.tuples(st.just("wait"), st.sampled_from([0.001, QUIET, HOLD / 2, HOLD, 10.0])),
        st.tuples(st.just("say")),
    ),
    max_size=40,
)
STYLES = st.sampled_from([Style.WHOLE, Style.LABELLED])
TIGHT = Limits(line_max_bytes=8, line_room_bytes=24)


def letters(rank: int, stream: int, text: str) -> bytes:
    """Text in letters that only this source uses; newlines stay."""
    first = ord("A") + 2 * (2 * rank + stream - 1)
    return text.translate({ord("a"): first, ord("b"): first + 1}).encode()


def owner(letter: int) -> int:
    return (letter - ord("A")) // 2


@given(steps=STEPS, style=STYLES, limits=st.sampled_from([LIMITS, TIGHT]))
def test_every_byte_comes_in_its_order_and_no_line_has_two_owners(steps, style, limits):
    screen = Screen(style=style, limits=limits)
    wrote: dict[int, bytes] = defaultdict(bytes)
    paid: dict[int, int] = defaultdict(int)
    for step in steps:
        match step:
            case "write", rank, stream, text:
                data = letters(rank, stream, text)
                wrote[2 * rank + stream - 1] += data
                paid[stream] += len(data)
                screen.write(rank, data, stream)
            case "wait", seconds:
                screen.wait(seconds)
            case _:
                screen.say(b"yod: word")
    shown: dict[int, list[bytes]] = defaultdict(list)
    for line in screen.finish().split(b"\n"):
        if line == b"yod: word":
            continue
        label, separator, rest = line.rpartition(b": ")
        owners = {owner(letter) for letter in rest}
        assert len(owners) <= 1
        if owners:
            (source,) = owners
            shown[source].append(rest)
            assert not separator or int(label) == source // 2
            assert separator or style is Style.WHOLE
    for source, text in wrote.items():
        assert b"".join(shown[source]) == text.replace(b"\n", b"")
    assert screen.paid == paid  # every byte once, newlines too


@given(steps=STEPS)
def test_where_every_line_ends_in_time_what_is_shown_is_the_ranks_own_lines(steps):
    """Nothing added, nothing cut: the lines of all, in some order, each rank's in its own."""
    screen = Screen()
    wrote: dict[int, bytes] = defaultdict(bytes)
    for step in steps:
        if step[0] == "write":
            _, rank, stream, text = step
            data = letters(rank, stream, text)
            wrote[2 * rank + stream - 1] += data
            screen.write(rank, data, stream)
    for source in sorted(wrote):
        if not wrote[source].endswith(b"\n"):
            end = letters(source // 2, source % 2 + 1, "a\n")
            wrote[source] += end
            screen.write(source // 2, end, source % 2 + 1)
    text = screen.finish()
    assert sorted(text.split(b"\n")) == sorted(b"".join(wrote.values()).split(b"\n"))
    for source, own in wrote.items():
        mine = [line for line in text.split(b"\n") if line and owner(line[0]) == source]
        assert mine == [line for line in own.split(b"\n") if line]


@given(steps=STEPS, style=STYLES)
def test_nothing_waits_longer_than_the_hold(steps, style):
    screen = Screen(style=style)
    for step in steps:
        match step:
            case "write", rank, stream, text:
                screen.write(rank, letters(rank, stream, text), stream)
            case "wait", seconds:
                screen.wait(seconds)
        before = screen.lines.held_bytes
        assert (screen.lines.deadline() is not None) == bool(before)
        assert not before or screen.lines.deadline() <= screen.now + HOLD
    screen.wait(HOLD)
    assert screen.lines.held_bytes == 0


# -- times -----------------------------------------------------------------


def test_each_line_has_the_time_at_which_it_is_shown():
    times = iter((b"1 ", b"2 ", b"3 "))
    screen = Screen(stamp=lambda: next(times))
    screen.write(0, b"a\nb\n").shows(b"1 a\n1 b\n")
    screen.write(1, b"c\n").shows(b"2 c\n")


def test_a_job_of_one_rank_has_times_too():
    screen = Screen(size=1, stamp=lambda: b"1 ")
    screen.write(0, b"a\nb").shows(b"1 a\n")
    assert screen.finish() == b"1 b"


def test_the_time_is_before_the_rank():
    screen = Screen(size=20, style=Style.LABELLED, stamp=lambda: b"1 ")
    screen.write(3, b"a\n").shows(b"1  3: a\n")


def test_the_rest_of_a_cut_line_names_its_rank_behind_the_time():
    screen = Screen(stamp=lambda: b"1 ")
    screen.write(0, b"a").wait(QUIET).shows(b"1 a")
    screen.write(1, b"b\n").wait(HOLD).shows(b"\n1 b\n")
    screen.write(0, b"c\n").shows(b"1 0: c\n")
