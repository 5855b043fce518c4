"""Bytes that are no message, or one that is damaged: they are refused, and do no worse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack

from native.errors import PeerProtocolError
from native.wire import codec
from tests.wire.examples import APART, MESSAGES, VECTORS, decode


@pytest.mark.parametrize("name", VECTORS)
def test_every_truncation_of_an_example_is_refused(name):
    data = VECTORS[name]
    for length in range(len(data)):
        with pytest.raises(PeerProtocolError):
            decode(name, data[:length])


@pytest.mark.parametrize("name", VECTORS)
def test_bytes_after_a_message_are_refused(name):
    with pytest.raises(PeerProtocolError):
        decode(name, VECTORS[name] + b"\x00")


@given(data=st.binary(max_size=300))
def test_random_bytes_do_no_worse_than_be_refused(data):
    for name in ("load.go", *APART):
        refused_or_decoded(name, data)


@given(
    name=st.sampled_from(sorted(VECTORS)),
    changes=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damaged_examples_do_no_worse_than_be_refused(name, changes):
    data = bytearray(VECTORS[name])
    for position, value in changes:
        data[position % len(data)] = value
    refused_or_decoded(name, bytes(data))


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(kind=st.sampled_from(sorted(MESSAGES)), fields=st.lists(_values, max_size=19))
def test_random_fields_do_no_worse_than_be_refused(kind, fields):
    refused_or_decoded(kind, msgpack.encode([kind, *fields]))


def refused_or_decoded(name: str, data: bytes) -> None:
    try:
        decoded = decode(name, data)
    except PeerProtocolError:
        return
    assert decode(name, codec.encode_part(decoded)) == decoded


NESTED = b"\x91" * 100_000


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("load.go", b"\x93\xa7load.go\x01" + NESTED),
        ("Arguments", b"\x93\x91\x94\x01\x00\x91\xc4\x01a\xc4\x00\x90" + NESTED),
        ("Credential", b"\x9e" + VECTORS["Credential"][1:] + NESTED),
    ],
    ids=["after its fields", "after arguments", "after a credential"],
)
def test_arrays_nested_without_end_are_refused(name, data):
    # Python 3.14 measures the stack that is left, and so may come to the end of the data.
    with pytest.raises(PeerProtocolError, match=r"recursion depth|truncated"):
        decode(name, data)


@pytest.mark.parametrize(
    "value",
    [
        ["load.nope", 1],
        ["", 1],
        [b"load.go", 1],
        [7, 1],
        [None],
        [],
        7,
        "load.go",
        {"message": "load.go", "job_id": 1},
        [["load.go", 1]],
    ],
)
def test_what_is_of_no_known_kind_is_refused(value):
    with pytest.raises(PeerProtocolError, match=r"^not a message: "):
        codec.decode(msgpack.encode(value))
