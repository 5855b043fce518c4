"""Messages on the wire: what PROTOCOL.md says is what the codec does."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect, msgpack

from native.errors import PeerProtocolError, Refusal
from native.wire import alloc, codec, load, pmi, status
from native.wire.base import (
    ARGUMENTS_MAX,
    ENVIRONMENT_MAX,
    MESSAGE_MAX_BYTES,
    Message,
)
from tests.wire import protocol

MESSAGES = {cls.__struct_config__.tag: cls for cls in codec.MESSAGES}
QUESTIONS = {f"pmi.ask.{cls.__struct_config__.tag}": cls for cls in pmi.Question.__subclasses__()}
APART = {"Credential": codec.decode_credential, "Arguments": codec.decode_arguments}
VECTORS = {name: protocol.read_vector(name) for name in protocol.VECTORS}
SECTIONS = protocol.sections()


def decode(name: str, data: bytes) -> msgspec.Struct:
    return APART.get(name, codec.decode)(data)


def _parts(cls: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """The parts that a message is made of, at any depth."""
    pending: list[inspect.Type] = [inspect.type_info(cls)]
    while pending:
        match pending.pop():
            case inspect.StructType() as kind:
                pending += [field.type for field in kind.fields]
                yield kind.cls
            case inspect.VarTupleType(item_type=item):
                pending.append(item)
            case inspect.UnionType(types=types):
                pending += types


PARTS = {
    part.__name__: part
    for cls in (*codec.MESSAGES, alloc.Credential)
    for part in _parts(cls)
    if not issubclass(part, (Message, pmi.Question))
}
# What each example is an example of. A question's is the whole message that asks it.
EXAMPLES = (
    {kind: cls for kind, cls in MESSAGES.items() if cls is not pmi.Ask}
    | dict.fromkeys(QUESTIONS, pmi.Ask)
    | {name: PARTS[name] for name in APART}
)


# -- the text --------------------------------------------------------------


def test_the_text_has_a_section_for_every_message_question_and_part_and_for_nothing_else():
    assert set(SECTIONS) == set(MESSAGES) | set(QUESTIONS) | set(PARTS)


@pytest.mark.parametrize("name", [*MESSAGES, *QUESTIONS, *PARTS])
def test_a_section_has_the_fields_of_its_class_with_type_and_range(name):
    cls = (MESSAGES | QUESTIONS | PARTS)[name]
    assert SECTIONS[name].class_name == cls.__name__
    assert SECTIONS[name].fields == protocol.fields_of(cls)


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_says_who_sends_it_when_and_what_answers(kind):
    body = SECTIONS[kind].body
    assert " → " in body
    assert "\n* **Sent** " in body
    assert "\n* **Answer** " in body


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_question_says_what_answers_it(kind):
    assert "\n* **Answered** " in SECTIONS[kind].body


def test_every_question_can_be_asked():
    (asked,) = (field for field in inspect.type_info(pmi.Ask).fields if field.name == "question")
    assert {kind.cls for kind in asked.type.types} == set(QUESTIONS.values())


@pytest.mark.parametrize(
    "enumeration", [Refusal, status.NodeState, load.FailureKind, load.Protocol, pmi.FenceKind]
)
def test_every_value_of_an_enumeration_is_listed(enumeration: type[Enum]):
    title = f"| {enumeration.__name__} | value | means |\n|---|---|---|\n"
    _, found, rest = protocol.TEXT.partition(title)
    assert found
    rows = [line.split(" | ")[:2] for line in rest.partition("\n\n")[0].splitlines()]
    quote = "" if issubclass(enumeration, int) else "`"
    assert rows == [[f"| {each.name}", f"{quote}{each.value}{quote}"] for each in enumeration]


# -- the examples ----------------------------------------------------------


def test_every_message_has_an_example():
    assert set(VECTORS) == set(EXAMPLES)


@pytest.mark.parametrize("name", VECTORS)
def test_an_example_is_the_same_in_the_text_and_in_its_file(name):
    assert SECTIONS[name].hex == protocol.hex_lines(VECTORS[name])
    assert SECTIONS[name].notation == protocol.notation(VECTORS[name])


@pytest.mark.parametrize("name", VECTORS)
def test_an_example_decodes_and_encodes_to_the_same_bytes(name):
    decoded = decode(name, VECTORS[name])
    assert type(decoded) is EXAMPLES[name]
    assert name not in QUESTIONS or type(decoded.question) is QUESTIONS[name]
    assert codec.encode_part(decoded) == VECTORS[name]


def test_the_credential_in_the_examples_is_the_example_of_a_credential():
    grant = codec.decode(VECTORS["alloc.grant"])
    job = codec.decode(VECTORS["load.load"])
    assert isinstance(grant, alloc.Grant) and isinstance(job, load.Load)
    assert grant.credential == job.credential == VECTORS["Credential"]


# -- nonsense --------------------------------------------------------------


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
        ("Credential", b"\x9a" + VECTORS["Credential"][1:] + NESTED),
    ],
    ids=["after its fields", "after arguments", "after a credential"],
)
def test_arrays_nested_without_end_are_refused(name, data):
    # Python 3.14 measures the stack that is left, and so may come to the end of the data.
    with pytest.raises(PeerProtocolError, match=r"recursion depth|truncated"):
        decode(name, data)


def member_of(words: int) -> list[Any]:
    return [1, 1, [b""] * words, b"/"]


@pytest.mark.parametrize("each", [15, 16, 1 << 16])
def test_arguments_are_counted_over_all_members_before_they_are_decoded(each):
    count = min(1023, ARGUMENTS_MAX // each)
    rest = ARGUMENTS_MAX - count * each
    at_most = [[member_of(each)] * count, []]
    if rest:
        at_most[0].append(member_of(rest))
    decoded = codec.decode_arguments(msgpack.encode(at_most))
    assert sum(len(member.arguments) for member in decoded.members) == ARGUMENTS_MAX
    at_most[0][0] = member_of(each + 1)
    with pytest.raises(PeerProtocolError, match="arguments of 262145 words, at most 262144"):
        codec.decode_arguments(msgpack.encode(at_most))


def test_more_variables_than_an_environment_has_are_refused():
    most = [[member_of(1)], [b"A=1"] * ENVIRONMENT_MAX]
    assert len(codec.decode_arguments(msgpack.encode(most)).environment) == ENVIRONMENT_MAX
    most[1].append(b"A=1")
    with pytest.raises(PeerProtocolError, match="length <= 8192"):
        codec.decode_arguments(msgpack.encode(most))


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


def test_a_message_may_be_as_long_as_the_limit_and_no_longer():
    def fence_in(value_bytes: int) -> pmi.FenceIn:
        fence = pmi.Fence(pmi.FenceKind.PMI, (pmi.Participants(0, ()),), 0)
        return pmi.FenceIn(1, fence, (pmi.KeyValue(b"k", bytes(value_bytes)),), True)

    rest = len(codec.encode(fence_in(1 << 17)))  # of this length lengths take 5 bytes
    room = MESSAGE_MAX_BYTES - rest + (1 << 17)
    longest = fence_in(room)
    data = codec.encode(longest)
    assert len(data) == MESSAGE_MAX_BYTES
    assert codec.decode(data) == longest
    too_long = fence_in(room + 1)
    with pytest.raises(ValueError, match="FenceIn of 262145 bytes exceeds 262144"):
        codec.encode(too_long)
    with pytest.raises(PeerProtocolError, match="message of 262145 bytes, at most 262144"):
        codec.decode(codec.encode_part(too_long))


def test_a_message_is_decoded_from_any_buffer():
    assert codec.decode(memoryview(VECTORS["load.go"])) == load.Go(4711)


def test_fields_with_a_default_may_be_missing_at_the_end_and_elements_beyond_are_ignored():
    short = msgpack.encode(["alloc.refused", 2, "no"])
    assert codec.decode(short) == alloc.Refused(Refusal.BUSY, "no", -1)
    long = msgpack.encode(["alloc.refused", 2, "no", 3, "of a later version", [1]])
    assert codec.decode(long) == alloc.Refused(Refusal.BUSY, "no", 3)


# -- ranges ----------------------------------------------------------------

Path = tuple[int, ...]


def _leaves(kind: inspect.Type, value: Any, path: Path) -> Iterator[tuple[inspect.Type, Any, Path]]:
    """Every place of an encoded example, with its type."""
    yield kind, value, path
    match kind:
        case inspect.StructType():
            skipped = 1 if kind.tag else 0
            for index, field in enumerate(kind.fields, start=skipped):
                yield from _leaves(field.type, value[index], (*path, index))
        case inspect.VarTupleType():
            for index, item in enumerate(value):
                yield from _leaves(kind.item_type, item, (*path, index))
        case inspect.TupleType():
            for index, (item_type, item) in enumerate(zip(kind.item_types, value, strict=True)):
                yield from _leaves(item_type, item, (*path, index))
        case inspect.UnionType() if value is not None:
            some = _chosen(kind, value)
            is_question = isinstance(some, inspect.StructType) and some.tag is not None
            leaves = _leaves(some, value, path)
            yield from (leaf for leaf in leaves if is_question or leaf[2] != path)


def _chosen(kind: inspect.UnionType, value: Any) -> inspect.Type:
    """The alternative that a value is: of several structs the one with its tag."""
    some = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    if len(some) > 1:
        some = [each for each in some if each.tag == value[0]]
    (only,) = some
    return only


def _variants(kind: inspect.Type, value: Any) -> tuple[list[Any], list[Any]]:
    """Values that are good and values that are bad in the place of one."""
    match kind:
        case inspect.IntType():
            low, high = protocol.bounds(kind)
            return [low, high], [low - 1, high + 1, None, True, 1.5, "1", b"1", []]
        case inspect.FloatType():
            assert kind.le is not None
            below = [-1.0] if kind.ge is not None else [-1.0, 0.0]
            bad = [*below, kind.le * 2, math.nan, math.inf, -math.inf, None, "1", True]
            return [kind.le, 1, 0.5], bad
        case inspect.BoolType():
            return [True, False], [0, 1, None, "true"]
        case inspect.StrType(max_length=longest):
            assert longest is not None
            bad = ["x" * (longest + 1), b"x", None, 1, *(["a\0b"] if kind.pattern else [])]
            return ["", "x" * longest, "€" * longest], bad
        case inspect.BytesType(min_length=shortest, max_length=longest):
            bad = ["x", None, 1, *([b""] if shortest else [])]
            if longest is None:
                return [b""], bad
            return [b"x"[: shortest or 0], b"/" + b"x" * (longest - 1)], [bytes(longest + 1), *bad]
        case inspect.EnumType(cls=cls):
            return [each.value for each in cls], [0, 99, "no such", None]
        case inspect.VarTupleType(min_length=fewest, max_length=most):
            is_empty_good = not fewest
            lists: tuple[list[Any], list[Any]] = ([[]], []) if is_empty_good else ([], [[]])
            if most is not None and most <= 2048 and value:
                lists[0].append(value[:1] * most)
                lists[1].append(value[:1] * (most + 1))
            return lists[0], [*lists[1], None, 1, "x", {}]
        case inspect.TupleType():
            return [], [[], value[:-1], None, 1]
        case inspect.StructType():
            needed = sum(field.required for field in kind.fields)
            bad = [None, 1, {}]
            if kind.tag:
                needed += 1
                bad += [["no such", *value[1:]], [0, *value[1:]]]
            return [value[:needed]], [value[: needed - 1], *bad]
    return [], []


def _replaced(value: Any, path: Path, by: Any) -> Any:
    if not path:
        return by
    copy = list(value)
    copy[path[0]] = _replaced(value[path[0]], path[1:], by)
    return copy


@pytest.mark.parametrize("name", VECTORS)
def test_a_value_at_the_edge_of_its_range_is_taken_and_one_beyond_is_refused(name):
    whole = msgpack.decode(VECTORS[name])
    info = inspect.type_info(EXAMPLES[name])
    for kind, value, path in _leaves(info, whole, ()):
        good, bad = _variants(kind, value)
        for each in good:
            if len(data := _encoded(_replaced(whole, path, each))) <= MESSAGE_MAX_BYTES:
                _taken_alone(name, data)
        for each in bad:
            with pytest.raises(PeerProtocolError):
                decode(name, _encoded(_replaced(whole, path, each)))
                pytest.fail(f"{path} of {name} took {each!r}")


def _taken_alone(name: str, data: bytes) -> None:
    """Decode; what another field contradicts may be refused."""
    try:
        decode(name, data)
    except PeerProtocolError as error:
        assert "contradict" in str(error)


def _encoded(value: Any) -> bytes:
    """Also numbers that no MessagePack integer holds: those become something else."""
    try:
        return msgpack.encode(value)
    except OverflowError:
        return b"\xc1"


# -- what no machine can use -------------------------------------------------


def changed(name: str, **fields: Any) -> bytes:
    """The example of a message with other fields, as anybody can send it."""
    example = decode(name, VECTORS[name])
    values = [fields.get(key, getattr(example, key)) for key in example.__struct_fields__]
    return msgpack.encode([name, *values] if name in MESSAGES else values)


def shipped(path: bytes = b"/a", size: int = 1, digest: bytes = b"d" * 32) -> list[Any]:
    return [path, size, digest, 0o755]


def member(directory: bytes = b"/", *arguments: bytes) -> list[Any]:
    return [1, 0, arguments or (b"a",), directory]


NODE = (5, "n5", 1, 1)
COLUMN = (0, 0)


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("load.load", {"objects": [shipped(b"/a\0b")]}, "a NUL in b'/a"),
        ("load.load", {"objects": [shipped(b"/a/../b")]}, "not the absolute and normal path"),
        ("load.load", {"objects": [shipped(b"/a//b")]}, "not the absolute and normal path"),
        ("load.load", {"objects": [shipped(b"/a/")]}, "not the absolute and normal path"),
        ("load.load", {"objects": [shipped(b"a")]}, "not the absolute and normal path"),
        ("load.load", {"objects": [shipped(size=0)]}, "0 bytes contradict a digest of 32"),
        ("load.load", {"objects": [shipped(digest=b"short")]}, "contradict a digest of 5"),
        ("load.load", {"arguments": [[member(b"/a\0")], []]}, "a NUL"),
        ("load.load", {"arguments": [[member(b"/", b"a", b"b\0")], []]}, "a NUL"),
        ("load.load", {"arguments": [[member()], [b"A=\0"]]}, "a NUL"),
        ("load.load", {"mpi": [[], False, b"\0"]}, "a NUL"),
        ("load.load", {"mpi": [[], False, b"", [], [b"\0"]]}, "a NUL"),
        ("load.load", {"nodes": [NODE, NODE]}, "node numbers contradict"),
        ("load.load", {"nodes": [NODE, (6, "n6", 1, 1)]}, "addresses of nodes contradict"),
        ("load.load", {"nodes": [(5, "n\0", 1, 1)]}, "matching regex"),
        ("load.load", {"runs": [(7, 1)]}, "place 7 contradicts 2 nodes"),
        ("load.load", {"runs": [(0, 1 << 20), (1, 1)]}, "1048577 ranks contradict"),
        ("load.load", {"place": 2}, "place 2 contradicts 2 nodes"),
        ("alloc.grant", {"runs": [(2, 1)]}, "place 2 contradicts 2 nodes"),
        ("alloc.grant", {"nodes": [NODE, NODE]}, "contradict"),
        ("Credential", {"nodes": (5, 5)}, "nodes contradict"),
        ("Credential", {"slots": (2,)}, "2 nodes, 1 slots"),
        ("status.announce", {"jobs": [(7, 0, 1, (), 0.0)] * 2}, "jobs contradict"),
        ("load.use_shared", {"path": b"/a\0"}, "a NUL"),
        ("load.use_shared", {"object_index": 1024}, "<= 1023"),
        ("load.vote", {"lacking": (1024,)}, "<= 1023"),
        ("load.held", {"unix_pids": (1,)}, "columns contradict"),
        ("load.held", {"ports": (1,)}, "columns contradict"),
        ("load.completions", {"outcomes": [(0, True, (0, 1), *[COLUMN] * 5, (1,))]}, "1 max_rss"),
        ("load.spawn", {"paths": (b"\0",)}, "a NUL"),
        ("load.spawn", {"environments": ((b"A=\0",),)}, "a NUL"),
        ("load.spawn", {"members": (member(b"\0"),)}, "a NUL"),
        ("pmi.fence_in", {"fence": ("pmi", ((0, ()), (0, ())), 0)}, "worlds contradict"),
        ("pmi.fence_in", {"fence": ("pmi", ((0, (1,) * 16385),), 0)}, "at most 16384 ranks"),
        ("pmi.ask", {"question": ["spawn", (0, 0), [(b"a\0", (), 1)], ()]}, "a NUL"),
        ("pmi.ask", {"question": ["spawn", (0, 0), [(b"a", (b"\0",), 1)], ()]}, "a NUL"),
    ],
)
def test_what_no_machine_can_use_is_refused(name, fields, text):
    if name == "pmi.ask":
        data = msgpack.encode([name, 7, 1, 0, 1, fields["question"]])
    else:
        data = changed(name, **fields)
    with pytest.raises(PeerProtocolError, match=re.escape(text)):
        decode(name, data)


def test_a_message_that_no_peer_would_take_is_known_before_it_is_sent():
    assert codec.why_refused(load.Go(1)) == ""
    assert "2^" not in codec.why_refused(load.Go(0)) and codec.why_refused(load.Go(0))
    pairs = (pmi.KeyValue(b"k", bytes(MESSAGE_MAX_BYTES)),)
    fence = pmi.Fence(pmi.FenceKind.PMI, (pmi.Participants(0, ()),), 0)
    assert "exceeds 262144" in codec.why_refused(pmi.FenceIn(1, fence, pairs, True))
