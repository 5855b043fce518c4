"""The conversation of a PCT and a PMIx server: PMIX.md says what the code does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect, msgpack

from native.errors import PeerProtocolError
from native.wire import pmi, pmix
from native.wire.pmi import FenceKind, KeyValue, SpawnCommand
from native.wire.pmix import NamedProcess
from tests.wire import protocol

TEXT = protocol.PATH.with_name("PMIX.md").read_text()
SECTIONS = protocol.sections(TEXT)
WHO = NamedProcess("yod_7_ab", 3)
PAIRS = (KeyValue(b"k", b"v"),)
FROM_PCT = [
    pmix.Begin((b"/opt/libpmix.so.2",), False, "yod_7_ab_at0", "n5", 1000, 100, b"/run/x"),
    pmix.AddWorld(1, "yod_7_ab", "7", ("n5",), (0, 0), (0, 1), (0, 1), 8, 4, WHO),
    pmix.FenceDone(2, 0, b"data"),
    pmix.Answer(3, 0, PAIRS, "yod_7_ab_1"),
    pmix.GetModex(4, WHO),
    pmix.Table(9, (pmix.TableRow(WHO, 4711, b"/opt/bin/solve"),)),
    pmix.Ended(WHO, 256, True, False),
    pmix.End(),
]
FROM_SERVER = [
    pmix.Ready(b"/opt/lib/libpmix.so.2", "5.0.11"),
    pmix.Unavailable("no libpmix.so.2"),
    pmix.Added(1, 0, ((b"PMIX_RANK=0",), (b"PMIX_RANK=1",)), "none"),
    pmix.Joined(WHO),
    pmix.Left(WHO),
    pmix.Enter(2, FenceKind.CONNECT, (WHO,), b"data"),
    pmix.GetRemote(3, WHO),
    pmix.ModexData(4, 0, b"data"),
    pmix.PublishNames(5, WHO, PAIRS, True),
    pmix.LookupNames(6, (b"k",), True),
    pmix.UnpublishNames(7, (b"k",)),
    pmix.SpawnPrograms(8, WHO, (SpawnCommand(b"w", (b"-x",), 2, b"/tmp", (b"A=1",), (b"n5",)),)),
    pmix.GetTable(9, ("yod_7_ab", "yod_7_ab_1")),
    pmix.AbortJob(10, WHO, 7, "no convergence"),
]
DECODERS = {
    **{type(each): pmix.decode_from_pct for each in FROM_PCT},
    **{type(each): pmix.decode_from_server for each in FROM_SERVER},
}
PARTS = {cls.__name__: cls for cls in (NamedProcess, pmix.TableRow)}
CLASSES = {cls.__struct_config__.tag: cls for cls in pmix.PmixMessage.__subclasses__()}
EXAMPLES = pytest.mark.parametrize(
    "message", FROM_PCT + FROM_SERVER, ids=lambda each: type(each).__name__
)


def body(message: pmix.PmixMessage) -> bytes:
    """A message as it is, without its length."""
    return pmix.encode(message)[4:]


# -- the text --------------------------------------------------------------


def test_the_text_has_a_section_for_every_message_and_for_nothing_else():
    assert set(SECTIONS) == {*CLASSES, *PARTS}
    assert set(DECODERS) == set(CLASSES.values())


@pytest.mark.parametrize("name", [*CLASSES, *PARTS])
def test_a_section_has_the_fields_of_its_class_with_type_and_range(name):
    cls = CLASSES.get(name) or PARTS[name]
    assert SECTIONS[name].class_name == cls.__name__
    assert SECTIONS[name].fields == protocol.fields_of(cls)


@pytest.mark.parametrize("kind", CLASSES)
def test_a_message_says_what_answers_it(kind):
    assert "\n* **Answer** " in SECTIONS[kind].body


@EXAMPLES
def test_a_message_is_where_its_sender_is(message):
    heading = "## 4 From the PCT" if message in FROM_PCT else "## 5 From the server"
    _, _, part = TEXT.partition(heading)
    kind = type(message).__struct_config__.tag
    assert f"#### `{kind}` · " in part.partition("\n## ")[0]


def test_kinds_of_fences_are_those_of_the_tree():
    assert {kind.name for kind in FenceKind} - {"PMI"} == {"PMIX", "CONNECT", "DISCONNECT"}


# -- the bytes -------------------------------------------------------------


@EXAMPLES
def test_a_message_arrives_as_it_was_sent(message):
    buffer = bytearray(pmix.encode(message))
    data = pmix.take(buffer)
    assert data is not None and not buffer
    assert DECODERS[type(message)](data) == message


def test_messages_are_taken_whole_from_a_stream_in_pieces_of_any_size():
    stream = b"".join(map(pmix.encode, FROM_SERVER))
    for size in (1, 3, 1000):
        buffer = bytearray()
        taken = []
        for start in range(0, len(stream), size):
            buffer += stream[start : start + size]
            while (data := pmix.take(buffer)) is not None:
                taken.append(pmix.decode_from_server(data))
        assert taken == FROM_SERVER and not buffer


def test_a_message_that_is_too_long_is_refused_before_it_has_come():
    assert pmix.take(bytearray((64 << 20).to_bytes(4, "little"))) is None
    with pytest.raises(PeerProtocolError, match="a message of 67108865 bytes, at most 67108864"):
        pmix.take(bytearray(((64 << 20) + 1).to_bytes(4, "little")))


@EXAMPLES
def test_neither_side_takes_what_is_its_own_to_say(message):
    other = (
        pmix.decode_from_pct
        if DECODERS[type(message)] is pmix.decode_from_server
        else pmix.decode_from_server
    )
    with pytest.raises(PeerProtocolError, match=r"^pmix: not a message: "):
        other(body(message))


@EXAMPLES
def test_every_truncation_of_a_message_is_refused(message):
    data = body(message)
    for length in range(len(data)):
        with pytest.raises(PeerProtocolError):
            DECODERS[type(message)](data[:length])


@given(
    message=st.sampled_from(FROM_PCT + FROM_SERVER),
    changes=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damaged_messages_do_no_worse_than_be_refused(message, changes):
    data = bytearray(body(message))
    for position, value in changes:
        data[position % len(data)] = value
    try:
        decoded = DECODERS[type(message)](bytes(data))
    except PeerProtocolError:
        return
    assert DECODERS[type(decoded)](body(decoded)) == decoded


@pytest.mark.parametrize("rank", [-2, 1 << 20])
def test_a_rank_out_of_range_is_refused(rank):
    with pytest.raises(PeerProtocolError):
        pmix.decode_from_server(msgpack.encode(["joined", ["space", rank]]))


def test_a_namespace_has_at_most_255_characters():
    assert pmix.decode_from_server(msgpack.encode(["joined", ["x" * 255, 0]]))
    with pytest.raises(PeerProtocolError):
        pmix.decode_from_server(msgpack.encode(["joined", ["x" * 256, 0]]))


def test_arrays_nested_without_end_are_refused():
    nested: Any = b"\x93\xa6joined\x92\xa1x\x00" + b"\x91" * 100_000
    with pytest.raises(PeerProtocolError):
        pmix.decode_from_server(nested)


def test_questions_about_names_are_those_of_the_tree():
    """A server's questions become questions of the tree with the same fields."""
    for ours, tree in ((pmix.LookupNames, pmi.Lookup), (pmix.UnpublishNames, pmi.Unpublish)):
        names = [field.name for field in inspect.type_info(ours).fields]
        assert names[1:] == [field.name for field in msgspec.structs.fields(tree)]
