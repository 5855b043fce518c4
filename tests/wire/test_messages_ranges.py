"""Numbers, lengths and counts at the edge of their range, and values that no machine can use."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import inspect, msgpack

from native.errors import PeerProtocolError
from native.wire import codec, load, pmi
from native.wire.base import ARGUMENTS_MAX, ENVIRONMENT_MAX, MESSAGE_MAX_BYTES
from tests.wire import protocol
from tests.wire.examples import EXAMPLES, MESSAGES, VECTORS, decode

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
            return [b"x" * (shortest or 0), b"/" + b"x" * (longest - 1)], [bytes(longest + 1), *bad]
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
            return [value[:needed]], [*([value[: needed - 1]] if needed else []), *bad]
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


# -- counts and lengths over all fields -------------------------------------


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


def rule(**fields: Any) -> list[Any]:
    """Nodes 5 and 6."""
    usual = {"node": 5, "count": 2, "name": "n5", "digits": 1, "nid": 1, "pid": 1, "counts": True}
    return list((usual | fields).values())


RULE, SPAN = rule(), (5, 2, 1)
LONG = (1, (), False, 0, 0, 1, 0, ((0, 1 << 20),))  # a spec of all nodes
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
        ("load.load", {"nodes": [[RULE], [SPAN, SPAN]]}, "node numbers contradict"),
        ("load.load", {"nodes": [[RULE, RULE], [SPAN, SPAN]]}, "rules contradict"),
        ("load.load", {"nodes": [[RULE], [(6, 1, 1), (7, 1, 1)]]}, "no rule contradicts node 7"),
        ("load.load", {"nodes": [[RULE], [(4, 1, 1)]]}, "no rule contradicts node 4"),
        ("load.load", {"nodes": [[RULE], [(4, 2, 1)]]}, "no rule contradicts node 4"),
        ("load.load", {"nodes": [[rule(name="n")], [SPAN]]}, "no digits contradict"),
        ("load.load", {"nodes": [[rule(name="9" * 255, digits=0)], [SPAN]]}, "255 characters"),
        ("load.load", {"nodes": [[rule(nid=(1 << 32) - 1)], [SPAN]]}, "2 addresses contradict"),
        ("load.load", {"nodes": [[rule(node=(1 << 20) - 1)], [SPAN]]}, "limit of 1048575"),
        ("load.load", {"nodes": [[rule(name="n\0")], [SPAN]]}, "matching regex"),
        ("load.load", {"runs": [[(7, 1)]]}, "place 7 contradicts 2 nodes"),
        ("load.load", {"runs": [[(0, 1, 3)]]}, "place 2 contradicts 2 nodes"),
        ("load.load", {"runs": [[(0, 1 << 20), (1, 1)]]}, "1048577 ranks contradict"),
        ("load.load", {"runs": [[(0, 1 << 20, 1 << 20)]]}, "ranks contradict"),
        ("load.load", {"place": 2}, "place 2 contradicts 2 nodes"),
        ("alloc.grant", {"runs": [[(2, 1)]]}, "place 2 contradicts 2 nodes"),
        ("alloc.grant", {"nodes": [[RULE], [SPAN, SPAN]]}, "contradict"),
        ("alloc.request", {"specs": [LONG, (1, (1,))]}, "1048577 nodes"),
        ("alloc.freed", {"ranges": ((3, 2), (4, 1))}, "nodes contradict"),
        ("alloc.released", {"unreachable_ranges": ((3, 1), (3, 1))}, "nodes contradict"),
        ("load.released", {"ranges": ((3, 1), (2, 1))}, "nodes contradict"),
        ("load.released", {"ranges": ((1, 1 << 20),)}, "limit of 1048575"),
        ("node.drain", {"nodes": (3, 3)}, "nodes contradict"),
        ("node.drain", {"reason": "a\0"}, "matching regex"),
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
