"""The part of the table that pingd --watch shows."""

import pytest

from native.wire.status import NodeJob, NodeRow, NodeState
from partition.status import show
from partition.status.window import Key, Window, keys


@pytest.fixture
def window():
    """Ten nodes; the last has a job."""
    window = Window(lambda rows: show.select(rows), lambda count: 20.0)
    job = NodeJob(7, "alice", (0,), 5.0, False)
    rows = [NodeRow(n, f"n{n}", NodeState.FREE, 1, 0, 0.0) for n in range(9)]
    window.changed([*rows, NodeRow(9, "n9", NodeState.BUSY, 1, 1, 0.0, (job,))], True, 100.0)
    return window


def seen(window, height=4, now=100.0):
    return [row.node for row in window.seen(height, now)[0]]


def test_keys_move_and_stop_at_the_ends(window):
    steps = [(Key.UP, 0), (Key.DOWN, 1), (Key.PAGE_DOWN, 4), (Key.LAST, 6), (Key.DOWN, 6),
             (Key.PAGE_UP, 3), (Key.FIRST, 0)]  # fmt: skip
    for key, first in steps:
        window.press(key, 4)
        assert seen(window) == list(range(first, first + 4)), key


def test_a_screen_that_grows_shows_more(window):
    window.press(Key.LAST, 4)
    assert seen(window, 4) == [6, 7, 8, 9]
    assert seen(window, 20) == list(range(10))


def test_nodes_that_are_not_free_can_be_shown_alone(window):
    window.press(Key.ONLY, 4)
    assert seen(window) == [9]
    window.press(Key.ONLY, 4)
    assert seen(window) == [0, 1, 2, 3]


def test_time_goes_on_between_changes(window):
    (row,) = window.seen(20, 160.0)[0][-1:]
    assert window.cells(row, 160.0)[6] == "0000:01:05"


def test_a_change_keeps_the_place(window):
    window.press(Key.DOWN, 4)
    window.changed([NodeRow(2, "n2", NodeState.DOWN, 1, 0, 9.0, why="it left")], False, 101.0)
    rows, first, count = window.seen(4, 101.0)
    assert (first, count, rows[1].state) == (1, 10, NodeState.DOWN)
    assert window.cells(rows[1], 101.0)[-1].endswith(": it left")


def test_keys_are_found_in_what_a_terminal_sends():
    assert keys(b"\x1b[Bx\x1b[5~q") == [Key.DOWN, Key.PAGE_UP, Key.QUIT]
    assert keys(b"\x1b[<0;3;4M\xff\x00") == []
