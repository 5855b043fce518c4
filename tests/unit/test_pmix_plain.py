"""The server's own form of the conversation `pmix` is that of native.wire.pmix."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native.wire import pmi
from native.wire import pmix as wire
from pct.pmix_server import plain as plain

PARTS = {
    wire.NamedProcess: plain.NamedProcess,
    wire.TableRow: plain.TableRow,
    pmi.KeyValue: plain.KeyValue,
    pmi.SpawnCommand: plain.SpawnCommand,
}
TO_SERVER = wire.FromPct.__args__
TO_PCT = wire.FromServer.__args__
BOTH = {message: getattr(plain, message.__name__) for message in (*TO_SERVER, *TO_PCT)} | PARTS

TEXT = st.text(max_size=40)
DATA = st.binary(max_size=70) | st.binary(min_size=255, max_size=300)
WORD = DATA.map(lambda data: data.replace(b"\0", b"0"))  # of a command or an environment
WORDS = st.lists(WORD, max_size=20).map(tuple)
STATUS = st.integers(-(1 << 31), (1 << 31) - 1)
SERIAL = st.integers(0, (1 << 32) - 1)
RANK = st.integers(0, (1 << 20) - 1)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "is_only": st.booleans(),
    "is_failure": st.booleans(),
    "is_local": st.booleans(),
    "is_read_once": st.booleans(),
    "is_waiting": st.booleans(),
    "server": TEXT,
    "host": TEXT,
    "nspace": TEXT,
    "job_id": TEXT,
    "text": TEXT,
    "version": TEXT,
    "libraries": st.lists(DATA, max_size=3).map(tuple),
    "nodes": st.lists(TEXT, max_size=20).map(tuple),
    "node_of": st.lists(RANK, max_size=20).map(tuple),
    "application_of": st.lists(RANK, max_size=3).map(tuple),
    "local_ranks": st.lists(RANK, max_size=3).map(tuple),
    "first_rank": RANK,
    "status": STATUS,
    "library": DATA,
    "data": DATA,
    "environments": st.lists(st.lists(WORD, max_size=3).map(tuple), max_size=3).map(tuple),
    "keys": st.lists(DATA, max_size=20).map(tuple),
    "kind": st.sampled_from([kind for kind in pmi.FenceKind if kind is not pmi.FenceKind.PMI]),
}
PROCESS = st.builds(wire.NamedProcess, TEXT, st.integers(-1, (1 << 20) - 1))
PAIRS = st.lists(st.builds(pmi.KeyValue, DATA, DATA), max_size=3).map(tuple)
COMMAND = st.builds(
    pmi.SpawnCommand,
    WORD.filter(bool),
    WORDS,
    st.integers(1, 1 << 20),
    WORD,
    WORDS,
    WORDS,
)
FIELDS |= {
    "process": PROCESS,
    "processes": st.lists(PROCESS, min_size=1, max_size=3).map(tuple),
    "parent": st.none() | PROCESS,
    "nspaces": st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    "rows": st.lists(
        st.builds(wire.TableRow, PROCESS, st.integers(0, (1 << 31) - 1), DATA), max_size=20
    ).map(tuple),
    "pairs": PAIRS,
    "commands": st.lists(COMMAND, min_size=1, max_size=3).map(tuple),
}


def messages(kinds: tuple[type, ...]) -> st.SearchStrategy[Any]:
    """Messages of these kinds as native.wire has them."""
    return st.one_of(
        st.builds(kind, *[FIELDS.get(name, SERIAL) for name in kind.__struct_fields__])
        for kind in kinds
    )


def as_plain(value: Any) -> Any:
    """A message, or what is in one, in the server's form."""
    if type(value) in BOTH:
        return BOTH[type(value)](*[as_plain(field) for field in msgspec.structs.astuple(value)])
    if isinstance(value, tuple):
        return tuple(as_plain(item) for item in value)
    return value.value if isinstance(value, pmi.FenceKind) else value


@pytest.mark.parametrize("kind", BOTH)
def test_the_servers_messages_have_the_fields_of_the_conversation(kind: type):
    assert BOTH[kind].__match_args__ == kind.__struct_fields__
    assert kind.__struct_config__.tag == (BOTH[kind].tag or None)


def test_the_server_reads_what_it_is_sent():
    assert {kind.__name__ for kind in TO_SERVER} == {kind.__name__ for kind in plain.FROM_PCT}
    assert plain.MESSAGE_MAX_BYTES == wire.MESSAGE_MAX_BYTES


@given(messages(TO_SERVER))
def test_the_server_reads_what_the_pct_writes(message: Any):
    buffer = bytearray(wire.encode(message) + b"more")
    assert plain.take(buffer) == as_plain(message)
    assert buffer == b"more"


@given(messages(TO_PCT))
def test_the_pct_reads_what_the_server_writes(message: Any):
    data = plain.encode(as_plain(message))
    taken = wire.take(bytearray(data))
    assert taken is not None
    assert wire.decode_from_server(taken) == message


@pytest.mark.parametrize("size", [65_535, 65_536, 1 << 20])
def test_large_data_comes_through(size: int):
    sent = wire.FenceDone(1, 0, b"x" * size)
    assert plain.take(bytearray(wire.encode(sent))) == as_plain(sent)
    said = plain.encode(plain.ModexData(1, 0, b"y" * size))
    assert wire.decode_from_server(said[4:]) == wire.ModexData(1, 0, b"y" * size)


def test_a_part_of_a_message_is_none_yet():
    data = wire.encode(wire.FenceDone(1, 0, b"data"))
    for length in range(len(data)):
        buffer = bytearray(data[:length])
        assert plain.take(buffer) is None
        assert buffer == data[:length]


@given(st.binary(max_size=60))
def test_nonsense_is_told_by_its_name(data: bytes):
    buffer = bytearray(len(data).to_bytes(4, "little") + data)
    try:
        assert isinstance(plain.take(buffer), plain.FROM_PCT)
    except plain.NonsenseError:
        pass


def test_a_message_that_is_too_long_is_refused_before_it_has_come():
    with pytest.raises(plain.NonsenseError, match="at most"):
        plain.take(bytearray((1 << 30).to_bytes(4, "little")))
