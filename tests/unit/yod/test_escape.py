r"""The line ~d at a terminal, however its bytes come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yod.host.escape import Asked, Escape


def typed(*pieces: bytes) -> tuple[bytes, bool]:
    """What the job gets, to the end of the input, and whether the user has asked to leave."""
    escape = Escape()
    results = [escape.take(piece) for piece in (*pieces, b"")]
    return b"".join(data for data, _ in results), any(asked for _, asked in results)


@pytest.mark.parametrize(
    ("data", "passed", "asked"),
    [
        (b"~d\n", b"", 1),
        (b"~d\r", b"", 1),
        (b"one\n~d\ntwo\n", b"one\ntwo\n", 1),
        (b"~~d\n", b"~d\n", 0),
        (b"a ~d\n", b"a ~d\n", 0),
        (b"~d more\n", b"~d more\n", 0),
        (b"~\n~~\n~~~d\n", b"~\n~~\n~~~d\n", 0),
        (b"~d", b"~d", 0),
        (b"x", b"x", 0),
    ],
)
def test_the_line_leaves_and_nothing_else_does(data, passed, asked):
    assert typed(data) == (passed, asked)
    assert typed(*(data[at : at + 1] for at in range(len(data)))) == (passed, asked)


@given(st.lists(st.sampled_from([b"~", b"d", b"\n", b"\r", b"x", b"~d\n", b"~~d\n"]), max_size=12))
def test_it_is_the_same_in_whatever_pieces_the_bytes_come(pieces):
    assert typed(*pieces) == typed(*filter(None, [b"".join(pieces)]))


@given(st.binary(max_size=40).filter(lambda data: b"~" not in data))
def test_input_without_a_tilde_is_passed_as_it_is(data):
    assert typed(*([data] if data else [])) == (data, 0)


@pytest.mark.parametrize(
    ("data", "passed", "asked"),
    [
        (b"~.", b"", Asked.END),
        (b"ls\r~\x1a", b"ls\r", Asked.STOP),
        (b"~d\r", b"", Asked.LEAVE),
        (b"~~.", b"~.", None),
        (b"a~.", b"a~.", None),
        (b"~/bin\r", b"~/bin\r", None),
        (b"\x03\x04\x1a", b"\x03\x04\x1a", None),
    ],
)
def test_where_each_key_comes_by_itself_some_are_yods_behind_a_tilde(data, passed, asked):
    escape = Escape(is_raw=True)
    results = [escape.take(data[at : at + 1]) for at in range(len(data))]
    assert b"".join(data for data, _ in results) == passed
    assert [each for _, each in results if each] == ([asked] if asked else [])
