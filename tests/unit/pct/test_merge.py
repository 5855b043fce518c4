"""Lines that are folded on their way up: each rank's stream stays what it wrote."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from native.errors import PeerProtocolError
from native.nodelist import format_cpus
from native.wire.base import DATA_MAX
from native.wire.io import OUTPUT_MAX_BYTES, RUNS_MAX, Lines, Output, cost
from pct.job.rules import merge
from pct.job.rules.merge import MergingRelay
from pct.tree.collective import SELF

JOB_ID = 5
WINDOW = 1 << 16
WINDOW_S = 0.05


def node(ranks: int, *places: int) -> MergingRelay:
    relay = MergingRelay(JOB_ID, 1, WINDOW, WINDOW_S, places)
    relay.begin()
    for rank in range(ranks):
        relay.started(rank)
    return relay


def took(relay: MergingRelay) -> list[tuple[str, bytes]]:
    """What is sent now, as text: ranks, data."""
    relay.check()
    messages, _ = relay.take()
    found = []
    for message in messages:
        if isinstance(message, Lines):
            ranks = format_cpus(
                rank for first, last, _ in message.runs for rank in range(first, last + 1)
            )
            found.append((ranks, message.data))
        else:
            found.append((f"passed {message.rank}", message.data))
    return found


def test_a_line_that_all_ranks_have_written_leaves_at_once() -> None:
    relay = node(3)
    for rank in (2, 0):
        relay.read(SELF, rank, b"loaded\n", 0.0)
    assert took(relay) == []
    relay.read(SELF, 1, b"loaded\n", 0.01)
    assert took(relay) == [("0-2", b"loaded\n")]
    assert relay.is_empty
    assert relay.deadline() is None


def test_where_nobody_else_writes_lines_leave_at_once_and_together() -> None:
    relay = node(1)
    relay.read(SELF, 0, b"one\ntwo\nthree\n", 0.0)
    assert took(relay) == [("0", b"one\ntwo\nthree\n")]


def test_lines_that_a_child_sends_one_by_one_go_on_together() -> None:
    relay = node(1, 1)
    for offset in (0, 2, 4):
        relay.pass_lines(1, Lines(JOB_ID, 1, ((3, 4, offset),), b"%d\n" % offset), 0.0)
    relay.ended(0)
    assert took(relay) == [("3-4", b"0\n2\n4\n")]


def test_a_line_waits_for_the_window_and_no_longer() -> None:
    relay = node(3)
    relay.read(SELF, 0, b"loaded\n", 1.0)
    relay.read(SELF, 2, b"loaded\n", 1.04)
    assert relay.deadline() == pytest.approx(1.05)
    relay.due(1.03)
    assert took(relay) == []
    relay.due(1.05)
    assert took(relay) == [("0,2", b"loaded\n")]
    relay.read(SELF, 1, b"loaded\n", 1.06)
    relay.due(1.12)
    assert took(relay) == [("1", b"loaded\n")]


def test_lines_that_differ_do_not_keep_later_ones_apart() -> None:
    relay = node(3)
    for rank in range(3):
        relay.read(SELF, rank, b"rank %d\nmesh\nseed %d\nend\n" % (rank, rank), 0.0)
    relay.due(0.05)
    assert [each for each in took(relay) if each[0] == "0-2"] == [
        ("0-2", b"mesh\n"),
        ("0-2", b"end\n"),
    ]


def test_lines_in_another_order_are_not_both_folded() -> None:
    relay = node(2)
    relay.read(SELF, 0, b"x\ny\n", 0.0)
    relay.read(SELF, 1, b"y\nx\n", 0.0)
    relay.due(0.05)
    assert took(relay) == [("1", b"y\n"), ("0-1", b"x\n"), ("0", b"y\n")]


def test_lines_of_children_are_folded_with_those_of_other_children() -> None:
    relay = node(1, 1, 2)
    relay.pass_lines(1, Lines(JOB_ID, 1, ((1, 4, 0),), b"mesh\n"), 0.0)
    relay.pass_lines(2, Lines(JOB_ID, 1, ((5, 7, 0), (9, 9, 3)), b"mesh\nend\n"), 0.0)
    relay.read(SELF, 0, b"mesh\n", 0.0)
    messages, _ = relay.take()
    assert messages == [Lines(JOB_ID, 1, ((0, 7, 0), (9, 9, 3)), b"mesh\n")]
    relay.over(1)
    relay.over(2)
    relay.ended(0)
    messages, _ = relay.take()
    assert messages == [Lines(JOB_ID, 1, ((5, 7, 5), (9, 9, 8)), b"end\n")]


def test_lines_that_repeat_leave_in_few_messages_when_another_has_fewer_of_them() -> None:
    relay = node(2)
    relay.read(SELF, 0, b"again\n" * 1000, 0.0)
    relay.read(SELF, 1, b"other\n" + b"again\n" * 10, 0.0)
    relay.due(0.05)
    assert took(relay) == [
        ("1", b"other\n"),
        ("0-1", b"again\n" * 10),
        ("0", b"again\n" * 990),
    ]


def test_lines_of_one_rank_before_a_line_that_others_have_leave_together() -> None:
    relay = node(3)
    relay.read(SELF, 0, b"mesh\n", 0.0)
    relay.read(SELF, 1, b"one\ntwo\nthree\nmesh\n", 0.0)
    relay.read(SELF, 2, b"mesh\n", 0.0)
    relay.due(0.05)
    assert took(relay) == [("1", b"one\ntwo\nthree\n"), ("0-2", b"mesh\n")]


def test_lines_that_two_ranks_share_leave_before_the_line_that_a_third_has_too() -> None:
    relay = node(3)
    relay.read(SELF, 0, b"mesh\n", 0.0)
    for rank in (1, 2):
        relay.read(SELF, rank, b"seed\nmesh\n", 0.0)
    relay.due(0.05)
    assert took(relay) == [("1-2", b"seed\n"), ("0-2", b"mesh\n")]


def test_many_short_lines_in_different_orders_do_not_hold_up_the_loop_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merge, "STEPS_MAX", 500)
    relay, every = node(4), range(4)
    lines = [b"%d" % number for number in range(1500)]
    written = [b"\n".join(lines[7 * rank :] + lines[: 7 * rank]) + b"\n" for rank in every]
    mixed = [b"\n".join(lines[rank::4] + lines[:rank]) + b"\n" for rank in every]
    for rank in every:
        relay.read(SELF, rank, written[rank] + mixed[rank], 0.0)
    before = relay.steps
    relay.due(0.05)
    assert relay.steps - before <= 500 + 16 * len(every)
    relay.abandon()
    shown = [b"", b"", b"", b""]
    for message in relay.take()[0]:
        assert isinstance(message, Lines)
        for first, last, _ in message.runs:
            for rank in range(first, last + 1):
                shown[rank] += message.data
    assert shown == [one + other for one, other in zip(written, mixed, strict=True)]


def test_what_waits_for_credit_is_one_message_as_far_as_that_may_be() -> None:
    relay = node(1)
    relay.hold()
    for _ in range(3):
        relay.read(SELF, 0, b"x" * (OUTPUT_MAX_BYTES // 2 - 1) + b"\n", 0.0)
    assert took(relay) == []
    relay.credit(WINDOW)
    messages, _ = relay.take()
    assert [len(message.data) for message in messages] == [OUTPUT_MAX_BYTES]


def test_what_a_lost_child_sent_comes_before_what_its_heirs_send() -> None:
    relay = node(1, 1)
    relay.pass_lines(1, Lines(JOB_ID, 1, ((3, 3, 0),), b"first\n"), 0.0)
    relay.gone(1)
    assert took(relay) == [("3", b"first\n")]


def test_the_last_rank_to_end_lets_all_lines_go() -> None:
    relay = node(2)
    relay.read(SELF, 0, b"one\ntail", 0.0)
    relay.ended(0)
    assert took(relay) == [("0", b"one\n"), ("passed 0", b"tail")]
    relay.read(SELF, 1, b"two\n", 0.0)
    relay.ended(1)
    assert took(relay) == [("1", b"two\n")]


def test_a_prompt_is_passed_after_the_window_and_its_rest_at_once() -> None:
    relay = node(2)
    relay.read(SELF, 0, b"before\nname? ", 0.0)
    relay.due(0.05)
    assert took(relay) == [("0", b"before\n"), ("passed 0", b"name? ")]
    relay.read(SELF, 0, b"Ada\nafter\n", 0.06)
    assert took(relay) == [("passed 0", b"Ada\n")]
    relay.due(0.11)
    assert took(relay) == [("0", b"after\n")]


def test_binary_output_is_passed_at_once_behind_the_lines_before_it() -> None:
    relay = node(2)
    relay.read(SELF, 0, b"text\n", 0.0)
    relay.read(SELF, 0, b"\0\1\n\2", 0.0)
    assert took(relay) == [("0", b"text\n"), ("passed 0", b"\0\1\n\2")]


def test_what_a_child_passes_waits_only_for_its_own_rank() -> None:
    relay = node(1, 1)
    relay.pass_lines(1, Lines(JOB_ID, 1, ((3, 3, 0),), b"three\n"), 0.0)
    relay.pass_lines(1, Lines(JOB_ID, 1, ((4, 4, 0),), b"four\n"), 0.0)
    relay.pass_on(1, Output(JOB_ID, 5, 1, 0, b"..."))
    assert took(relay) == [("passed 5", b"...")]
    relay.pass_on(1, Output(JOB_ID, 3, 1, 6, b"..."))
    assert took(relay) == [("3", b"three\n"), ("passed 3", b"...")]


LINE = b"x" * 1023 + b"\n"


def in_step() -> MergingRelay:
    """Rank 0 here and rank 1 at a child, which both have written the same."""
    relay = node(1, 1)
    relay.read(SELF, 0, b"same\n", 0.0)
    relay.pass_lines(1, Lines(JOB_ID, 1, ((1, 1, 0),), b"same\n"), 0.0)
    assert took(relay) == [("0-1", b"same\n")]
    return relay


def child_writes(relay: MergingRelay, data: bytes, offset: int, now: float) -> None:
    relay.pass_lines(1, Lines(JOB_ID, 1, ((1, 1, offset),), data), now)


def test_a_rank_that_is_ahead_is_not_read_until_those_in_step_with_it_are_there() -> None:
    relay = in_step()
    relay.read(SELF, 0, LINE * 20, 0.01)
    assert took(relay) == []
    assert relay.is_paused and not relay.is_held_back
    child_writes(relay, LINE * 20, 5, 0.04)
    assert took(relay) == [("0-1", LINE * 20)]
    assert not relay.is_paused


def test_a_child_that_is_ahead_waits_for_credit_while_others_in_step_with_it_catch_up() -> None:
    relay = in_step()
    child_writes(relay, LINE * 50, 5, 0.01)
    assert took(relay) == []  # more than half a window
    assert not relay.is_paused
    relay.read(SELF, 0, LINE * 50, 0.04)
    assert took(relay) == [("0-1", LINE * 50)]


def test_many_ranks_of_one_node_that_are_in_step_meet_though_they_write_much_at_once() -> None:
    relay, data = node(8), LINE * 60
    for rank in range(8):
        relay.read(SELF, rank, data, 0.0)
        assert took(relay) == ([("0-7", data)] if rank == 7 else [])
        assert not relay.is_paused


def test_what_one_rank_of_a_node_alone_writes_goes_on_at_once_in_bounded_memory() -> None:
    relay, sent = node(4), 0
    for _ in range(40):
        relay.read(SELF, 0, LINE * 60, 0.01)
        relay.credit(WINDOW)
        sent += sum(len(data) for _, data in took(relay))
        assert not relay.is_paused
    assert sent > 40 * 60 * len(LINE) - WINDOW - 2 * DATA_MAX


def test_who_is_ahead_waits_for_the_window_and_no_longer() -> None:
    relay = in_step()
    relay.read(SELF, 0, LINE * 20, 0.01)
    assert took(relay) == [] and relay.is_paused
    relay.due(0.06)
    assert took(relay) == [("0", LINE * 20)]
    assert not relay.is_paused


def test_nobody_waits_for_who_has_not_been_in_step_for_some_windows() -> None:
    relay = in_step()
    late = WINDOW_S * merge.IN_STEP_WINDOWS + 0.01
    relay.read(SELF, 0, LINE * 50, late)
    assert took(relay) == [("0", LINE * 50)]
    assert not relay.is_paused


def test_nobody_waits_for_who_has_something_else_to_say() -> None:
    relay = in_step()
    child_writes(relay, b"other\n", 5, 0.01)
    relay.read(SELF, 0, LINE * 50, 0.01)
    assert ("0", LINE * 50) in took(relay)
    assert not relay.is_paused


def test_an_endless_line_is_passed_in_bounded_memory() -> None:
    relay = node(2)
    sent = 0
    for _ in range(100):
        relay.read(SELF, 0, b"x" * 1000, 0.0)
        relay.credit(WINDOW)
        sent += sum(len(data) for _, data in took(relay))
    assert sent > 100_000 - DATA_MAX


def test_a_child_that_sends_the_beginning_of_a_line_as_lines_is_refused() -> None:
    relay = node(1, 1)
    with pytest.raises(PeerProtocolError, match="without the end of a line"):
        relay.pass_lines(1, Lines(JOB_ID, 1, ((3, 3, 0),), b"three"), 0.0)


def test_a_message_names_no_more_runs_than_it_may() -> None:
    relay = node(0, 1, 2)
    runs = tuple((2 * number, 2 * number, number) for number in range(RUNS_MAX))
    odd = tuple((2 * number + 1, 2 * number + 1, number + 1) for number in range(RUNS_MAX))
    relay.pass_lines(1, Lines(JOB_ID, 1, runs, b"x\n"), 0.0)
    relay.pass_lines(2, Lines(JOB_ID, 1, odd, b"x\n"), 0.0)
    relay.due(0.05)
    relay.abandon()
    messages, _ = relay.take()
    assert [message.runs for message in messages if isinstance(message, Lines)] == [runs, odd]


# -- a tree of three nodes, with any writes in any order --------------------

PIECES = st.sampled_from(
    [b"a\n", b"b\n", b"a\nb\n", b"c", b"\n", b"c\n", b"\0", b"x" * 40_000, b"a\n" * 9000, b"q\na\n"]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 5), PIECES),
        st.sampled_from(["wait", "soon", "read", "end 1", "end 4"]),
    ),
    max_size=60,
)


class Tree:
    """Ranks 0 and 1 at the root, 2 and 3 at one child, 4 and 5 at the other; yod reads slowly."""

    def __init__(self) -> None:
        self.now = 0.0
        self.root = MergingRelay(JOB_ID, 1, WINDOW, WINDOW_S, [1, 2])
        self.leaves = {place: MergingRelay(JOB_ID, 1, WINDOW, WINDOW_S, []) for place in (1, 2)}
        self.ended: set[int] = set()
        self.written = dict.fromkeys(range(6), b"")
        self.shown = dict.fromkeys(range(6), b"")
        self.owed = 0
        for relay in (self.root, *self.leaves.values()):
            relay.begin()
        for rank in range(6):
            self.relay(rank).started(rank)

    def relay(self, rank: int) -> MergingRelay:
        return self.leaves.get(rank // 2, self.root)

    def write(self, rank: int, data: bytes) -> None:
        relay = self.relay(rank)
        if rank in self.ended or relay.is_paused:
            return
        self.written[rank] += data
        relay.read(SELF, rank, data, self.now)
        self.flow()

    def end(self, rank: int) -> None:
        if rank not in self.ended:
            self.ended.add(rank)
            self.relay(rank).ended(rank)
            self.flow()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for relay in (*self.leaves.values(), self.root):
            relay.due(self.now)
        self.flow()

    def read(self) -> None:
        """yod has written what it has."""
        if self.owed:
            owed, self.owed = self.owed, 0
            self.root.credit(owed)
            self.flow()

    def flow(self) -> None:
        is_moving = True
        while is_moving:
            is_moving = False
            for place, leaf in self.leaves.items():
                messages, _ = leaf.take()
                for message in messages:
                    is_moving = True
                    if isinstance(message, Lines):
                        self.root.pass_lines(place, message, self.now)
                    else:
                        self.root.pass_on(place, message)
            messages, credits = self.root.take()
            for message in messages:
                self.show(message)
            for place, count in credits:
                is_moving = True
                self.leaves[place].credit(count)
        for relay in (self.root, *self.leaves.values()):
            relay.check()

    def show(self, message: Output | Lines) -> None:
        self.owed += cost(message)
        is_lines = isinstance(message, Lines)
        runs = message.runs if is_lines else ((message.rank, message.rank, message.offset),)
        for first, last, offset in runs:
            for rank in range(first, last + 1):
                assert offset == len(self.shown[rank])
                self.shown[rank] += message.data


@given(STEPS)
@example(
    # What a child passes on takes the line away that had all in step, and leaves too much here.
    [(0, b"a\n"), (0, b"a\n"), (3, b"a\n"), (2, b"x" * 40_000), (2, b"a\n"), (3, b"c"), "end 3"]
)
def test_each_rank_has_written_what_is_shown_of_it_in_this_order(
    steps: list[tuple[int, bytes] | str],
) -> None:
    tree = Tree()
    for step in steps:
        if isinstance(step, tuple):
            tree.write(*step)
        elif step.startswith("end"):
            tree.end(int(step.split()[1]))
        elif step == "read":
            tree.read()
        else:
            tree.wait(WINDOW_S if step == "wait" else WINDOW_S / 10)
        assert all(tree.written[rank].startswith(tree.shown[rank]) for rank in range(6))
    for rank in range(6):
        tree.end(rank)
    for _ in range(200):
        tree.wait(WINDOW_S)
        tree.read()
    assert tree.shown == tree.written
    assert tree.root.is_empty
    assert all(leaf.is_empty for leaf in tree.leaves.values())
