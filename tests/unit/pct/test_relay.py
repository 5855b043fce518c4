"""Output on its way up: nothing lost, order kept, one window at most on the way."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from native.wire.io import MESSAGE_COST_BYTES, Output, cost
from native.wire.io import OUTPUT_MAX_BYTES as MOST
from pct.job.rules.relay import OutputRelay
from pct.tree.collective import SELF

WINDOW = 64 * 1024
JOB_ID = 7


def relay(window=WINDOW):
    relay = OutputRelay(JOB_ID, 1, window)
    relay.begin()
    return relay


def of_child(rank, offset, data):
    return Output(JOB_ID, rank, 1, offset, data)


def test_what_a_rank_writes_carries_its_offset():
    node = relay()
    node.read(SELF, 0, b"one", 0.0)
    node.read(SELF, 0, b"two", 0.0)
    node.read(SELF, 5, b"other", 0.0)
    assert node.take() == (
        [
            Output(JOB_ID, 0, 1, 0, b"one"),
            Output(JOB_ID, 0, 1, 3, b"two"),
            Output(JOB_ID, 5, 1, 0, b"other"),
        ],
        [],
    )
    assert node.is_empty


def test_more_than_a_message_holds_is_cut():
    node = relay(1 << 20)
    node.read(SELF, 0, bytes(MOST + 5), 0.0)
    messages, _ = node.take()
    assert [(each.offset, len(each.data)) for each in messages] == [(0, MOST), (MOST, 5)]


def test_at_most_a_window_and_one_message_are_on_their_way():
    node = relay()
    for _ in range(20):
        node.read(SELF, 0, bytes(8192), 0.0)
    messages, _ = node.take()
    assert WINDOW <= sum(map(cost, messages)) < WINDOW + cost(messages[-1])
    assert node.is_paused
    node.credit(8192 + MESSAGE_COST_BYTES)
    again, _ = node.take()
    assert len(again) == 1


def test_tiny_writes_count_with_their_messages():
    node = relay()
    for _ in range(WINDOW // (MESSAGE_COST_BYTES + 1) + 2):
        node.read(SELF, 0, b"x", 0.0)
    node.take()
    assert node.is_paused


def test_ranks_are_read_again_when_all_has_gone():
    node = relay()
    node.read(SELF, 0, bytes(WINDOW), 0.0)
    node.take()
    node.read(SELF, 0, b"x", 0.0)
    node.take()
    assert node.is_paused
    node.credit(WINDOW)
    node.take()
    assert not node.is_paused and node.is_empty


def test_children_get_credit_for_what_has_been_passed_on_in_quarters_of_a_window():
    node = relay()
    node.pass_on(1, of_child(3, 0, bytes(10_000)))
    assert node.take()[1] == []
    node.pass_on(1, of_child(3, 10_000, bytes(10_000)))
    assert node.take()[1] == [(1, 20_000 + 2 * MESSAGE_COST_BYTES)]
    assert node.take()[1] == []


def test_children_get_no_credit_for_what_waits_here():
    node = relay()
    node.read(SELF, 0, bytes(WINDOW), 0.0)
    node.pass_on(1, of_child(3, 0, bytes(40_000)))
    messages, credits = node.take()
    assert [message.rank for message in messages] == [0] and credits == []


def test_own_ranks_and_children_go_up_in_the_order_in_which_they_came():
    node = relay()
    node.pass_on(1, of_child(3, 0, b"a"))
    node.read(SELF, 0, b"b", 0.0)
    node.pass_on(2, of_child(5, 0, b"c"))
    node.read(SELF, 0, b"d", 0.0)
    assert [message.data for message in node.take()[0]] == [b"a", b"b", b"c", b"d"]


def test_a_new_parent_takes_a_fresh_window():
    node = relay()
    node.read(SELF, 0, bytes(WINDOW), 0.0)
    node.take()
    node.read(SELF, 0, b"x", 0.0)
    node.new_parent()
    assert [message.data for message in node.take()[0]] == [b"x"]


def test_a_relay_that_is_abandoned_waits_for_nobody():
    node = relay()
    for _ in range(100):
        node.read(SELF, 0, bytes(MOST), 0.0)
    node.take()
    node.abandon()
    node.take()
    assert node.is_empty and not node.is_paused


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("own"), st.integers(0, 3), st.integers(1, 3 * MOST)),
            st.tuples(st.just("child"), st.integers(1, 2), st.integers(1, MOST)),
            st.tuples(st.just("write"), st.integers(1, 20), st.just(0)),
            st.tuples(st.just("take"), st.just(0), st.just(0)),
        ),
        max_size=60,
    )
)
def test_whatever_the_interleaving_nothing_is_lost_order_is_kept_and_bounds_hold(steps):
    """A parent that passes on in its own time; children that keep to their windows."""
    node = relay()
    given_in: dict[tuple[int, int], int] = {}
    came_out: dict[tuple[int, int], int] = {}
    on_the_way: deque[Output] = deque()
    child_credit = {1: WINDOW, 2: WINDOW}
    owed = 0

    def take():
        messages, credits = node.take()
        on_the_way.extend(messages)
        for message in messages:
            key = (message.rank, message.stream)
            assert message.offset == came_out.get(key, 0)  # in order, without a gap
            came_out[key] = message.offset + len(message.data)
        for place, count in credits:
            child_credit[place] += count
            assert child_credit[place] <= WINDOW  # never more than was used
        assert sum(map(cost, on_the_way)) < WINDOW + MOST + MESSAGE_COST_BYTES + WINDOW // 4

    for step, number, size in steps:
        match step:
            case "own" if not node.is_paused:
                node.read(SELF, number, bytes(size), 0.0)
                given_in[number, 1] = given_in.get((number, 1), 0) + size
            case "child" if child_credit[number] > 0:
                rank = 10 + number
                offset = given_in.get((rank, 1), 0)
                message = of_child(rank, offset, bytes(size))
                child_credit[number] -= cost(message)
                given_in[rank, 1] = offset + size
                node.pass_on(number, message)
            case "write":
                for _ in range(min(number, len(on_the_way))):
                    owed += cost(on_the_way.popleft())
                if owed >= WINDOW // 4:
                    node.credit(owed)
                    owed = 0
        take()
    while not node.is_empty:
        owed += sum(map(cost, on_the_way))
        on_the_way.clear()
        node.credit(owed)
        owed = 0
        take()
    assert came_out == given_in


def test_what_comes_before_the_job_has_begun_waits_with_its_pipe():
    node = OutputRelay(JOB_ID, 1, WINDOW)
    node.read(SELF, 0, b"early", 0.0)
    assert node.take() == ([], [])
    assert node.is_paused
    node.new_parent()
    assert node.take() == ([], [])
    node.begin()
    node.begin()
    messages, _ = node.take()
    assert [each.data for each in messages] == [b"early"]
    assert not node.is_paused
