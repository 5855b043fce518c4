"""Node lists: what is read, what is refused, and that the two directions agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.errors import UsageError
from native.nodelist import format_nodes, parse
from native.wire.base import NODE_MAX


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("0", (0,)),
        ("5,1..3", (5, 1, 2, 3)),
        ("100..98", (100, 99, 98)),
        ("1.3", (1, 2, 3)),
        ("1.....3", (1, 2, 3)),
        ("7..7", (7,)),
        ("2,1..3,3,2", (2, 1, 3)),
        ("007", (7,)),
        (f"{NODE_MAX}", (NODE_MAX,)),
    ],
)
def test_a_list_keeps_its_order_and_counts_a_node_once(text, nodes):
    assert parse(text) == nodes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "an item is empty"),
        ("1,,2", "an item is empty"),
        ("1,", "an item is empty"),
        ("..3", "`..3` is neither a number nor a range a..b"),
        ("1..", "`1..` is neither a number nor a range a..b"),
        ("1..2..3", "`1..2..3` is neither a number nor a range a..b"),
        ("1-3", "'-' is not allowed"),
        ("1, 2", "' ' is not allowed"),
        ("n1", "'n' is not allowed"),
        ("٣", "is not allowed"),
        (f"{NODE_MAX + 1}", f"numbered from 0 to {NODE_MAX}"),
        ("9" * 5000, f"numbered from 0 to {NODE_MAX}"),
    ],
)
def test_what_is_no_list_is_refused_with_the_reason(text, why):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([], ""),
        ([4], "4"),
        ([1, 2, 3], "1..3"),
        ([3, 2, 1], "3..1"),
        ([5, 1, 2, 3], "5,1..3"),
        ([1, 2, 1, 0], "1..2,1..0"),
        ([0, 2, 4], "0,2,4"),
    ],
)
def test_runs_in_both_directions_are_collapsed(nodes, text):
    assert format_nodes(nodes) == text


@given(st.lists(st.integers(0, 40), unique=True, min_size=1))
def test_a_formatted_list_reads_back_the_same(nodes):
    assert parse(format_nodes(nodes)) == tuple(nodes)
