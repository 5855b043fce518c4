"""The elements of an array, as users write them."""

import pytest

from native.errors import UsageError
from native.wire.base import Array
from partition.submit.array import parse


@pytest.mark.parametrize(
    ("text", "indices", "at_once"),
    [
        ("3", [3], 0),
        ("0-4", [0, 1, 2, 3, 4], 0),
        ("0-9:4", [0, 4, 8], 0),
        ("7,1-2", [1, 2, 7], 0),
        ("0-2%2", [0, 1, 2], 2),
    ],
)
def test_ranges_are_indices_in_ascending_order(text, indices, at_once):
    array = parse(text)
    assert (array.count, array.at_once) == (len(indices), at_once)
    taken = []
    while array.count:
        index = next(array.indices())
        assert index in array and indices[0] - 1 not in array
        array = array.without_one(index)
        taken.append(index)
    assert taken == indices


@pytest.mark.parametrize(
    "text",
    ["", "a", "-1", "3-1", "0-4:0", "1,1", "0-4,4", "0-9%", "0-9%0", "0-9%a", "1;2", "2147483648"],
)
def test_what_is_no_array_is_refused(text):
    with pytest.raises(UsageError, match="-array"):
        parse(text)


def test_an_array_is_written_as_it_is_read():
    for text in ("0-99:3%10", "1,4,7-8", "5"):
        assert parse(text).text == text
    assert Array(()).text == ""
