"""Well-formed hostile messages: of the right types, with random values.

They are made from the message types, so that a new message or field is tried without being
named here. A message is either random, or an honest one with some random fields. Ids that the
test knows are frequent in both, so that many messages reach a machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from msgspec import inspect, msgpack

from native.errors import PeerProtocolError
from native.wire import codec
from native.wire.base import Message
from tests.wire.protocol import bounds

STRINGS = (
    b"",
    b"\0",
    b"a\0b",
    b"/",
    b"..",
    b"/bin/true",
    b"/nonexistent/name",  # also where somebody would make a file
    b"A=1",
    b"=",
    b"\xff\xfe",
)
TEXTS = ("", "\0", "n\0", "node0", "\x1b[2J", "\u20ac" * 40, "a\nb")
FLOATS = (0.0, 1e-300, 0.001, 30.0, float(1 << 40), -1.0, float("inf"), float("nan"))
KINDS = {cls.__struct_config__.tag: inspect.type_info(cls) for cls in codec.every_message()}


class Maker:
    """Makes messages; the same seed makes the same ones.

    Attributes:
        numbers: ids, places and ranks that exist at present.
    """

    def __init__(self, seed: int, numbers: Sequence[int] = (0, 1, 2)) -> None:
        self.rng = random.Random(seed)
        self.numbers = list(numbers)

    def made_up(self, job_id: int) -> bytes:
        """A random message about a job, as on the wire."""
        kind = self.rng.choice(list(KINDS))
        fields = [
            job_id
            if field.name == "job_id" and self.rng.random() < 0.95
            else self.value(field.type)
            for field in KINDS[kind].fields
        ]
        return msgpack.encode([kind, *fields])

    def twisted(self, message: Message) -> bytes:
        """An honest message with one or two random fields, at any depth."""
        raw = msgpack.decode(codec.encode(message))
        info = KINDS[raw[0]]
        for _ in range(self.rng.randint(1, 2)):
            index = self.rng.randrange(len(info.fields))
            raw[index + 1] = self._twist(info.fields[index].type, raw[index + 1])
        return msgpack.encode(raw)

    def _twist(self, kind: inspect.Type, raw: Any) -> Any:
        if isinstance(kind, inspect.UnionType) and raw is not None:
            structs = [each for each in kind.types if isinstance(each, inspect.StructType)]
            if len(structs) == 1:
                kind = structs[0]
        if self.rng.random() < 0.25:
            return self.value(kind)
        match kind:
            case inspect.StructType(fields=fields) if isinstance(raw, list) and not kind.tag:
                index = self.rng.randrange(len(raw))
                return [
                    *raw[:index],
                    self._twist(fields[index].type, raw[index]),
                    *raw[index + 1 :],
                ]
            case inspect.VarTupleType(item_type=item) if raw:
                change = self.rng.randrange(4)
                if change == 0:
                    return raw * 2
                if change == 1:
                    return raw[:-1]
                if change == 2:
                    return [*raw, self.value(item)]
                index = self.rng.randrange(len(raw))
                return [*raw[:index], self._twist(item, raw[index]), *raw[index + 1 :]]
        return self.value(kind)

    def value(self, kind: inspect.Type, depth: int = 0) -> Any:
        """A value of a type, mostly in its range."""
        rng = self.rng
        match kind:
            case inspect.IntType():
                low, high = bounds(kind)
                known = [number for number in self.numbers if low <= number <= high]
                return rng.choice([*known, *known, low, high, rng.randint(low, min(high, low + 9))])
            case inspect.FloatType():
                return rng.choice(FLOATS)
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.StrType(max_length=longest):
                return rng.choice([*TEXTS, "x" * min(longest or 9, 5000)])
            case inspect.BytesType(max_length=longest):
                return rng.choice([*STRINGS, bytes(32), b"d" * 32, b"x" * min(longest or 9, 5000)])
            case inspect.EnumType(cls=cls):
                return rng.choice([each.value for each in cls])
            case inspect.VarTupleType(item_type=item):
                count = rng.choice((0, 1, 1, 2, 3, 40 if depth < 2 else 1))
                made = [self.value(item, depth + 1) for _ in range(count)]
                return made * 2 if rng.random() < 0.1 else made
            case inspect.TupleType(item_types=items):
                return [self.value(item, depth + 1) for item in items]
            case inspect.StructType(fields=fields):
                tag = [kind.tag] if kind.tag else []
                return tag + [self.value(field.type, depth + 1) for field in fields]
            case inspect.UnionType(types=types):
                return self.value(rng.choice(types), depth)
        return None


def decoded(data: bytes) -> Message | None:
    """The message as its receiver decodes it; None: the codec refuses it."""
    try:
        return codec.decode(data)
    except PeerProtocolError:
        return None
