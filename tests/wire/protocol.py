"""PROTOCOL.md and texts of its form, as the tests read them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import inspect, msgpack

PATH = Path(__file__).parents[2] / "native" / "wire" / "PROTOCOL.md"
TEXT = PATH.read_text()
VECTORS = {path.stem: path for path in sorted((Path(__file__).parent / "vectors").glob("*.hex"))}
BYTES_PER_LINE = 32

_HEADING = re.compile(r"^#### `([\w.]+)`(?: · `(\w+)`)?$", re.M)
_ROW = re.compile(r"^\| `(\w+)`(\??) \| (.+?) \| .+ \|$", re.M)
_BLOCK = re.compile(r"^```\n(.*?)\n\n(.*?)\n```$", re.M | re.S)


class Field(NamedTuple):
    """A row of a table of fields.

    Attributes:
        type: as :func:`type_text` writes it.
        is_optional: it may be missing at the end.
    """

    name: str
    type: str
    is_optional: bool


class Section(NamedTuple):
    """What the text says of one message or part."""

    class_name: str
    fields: list[Field]
    notation: str
    hex: str
    body: str


def sections(text: str = TEXT) -> dict[str, Section]:
    """By kind for messages, by name for parts."""
    found = {}
    heads = list(_HEADING.finditer(text))
    for head in heads:
        rest = text[head.end() :]
        stop = re.search(r"^#{2,4} ", rest, re.M)
        body = rest[: stop.start()] if stop else rest
        rows = [Field(name, kind, mark == "?") for name, mark, kind in _ROW.findall(body)]
        block = _BLOCK.search(body)
        notation, hexes = block.groups() if block else ("", "")
        found[head[1]] = Section(head[2] or head[1], rows, notation, hexes, body)
    return found


def read_vector(name: str) -> bytes:
    return bytes.fromhex(VECTORS[name].read_text())


def hex_lines(data: bytes) -> str:
    """As in the files and in the text."""
    starts = range(0, len(data), BYTES_PER_LINE)
    return "\n".join(data[start : start + BYTES_PER_LINE].hex(" ") for start in starts)


def notation(data: bytes) -> str:
    """Encoded bytes as people read them, wrapped after commas of the outermost array."""
    parts = [_written(part) for part in msgpack.decode(data)]
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > 92:
            lines.append("")
        lines[-1] += part + ", "
    return "[" + "\n ".join(line.rstrip() for line in lines).rstrip(",") + "]"


def _written(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, bytes):
        if value and all(32 <= byte < 127 for byte in value):
            return f"b{json.dumps(value.decode())}"
        return f'h"{value.hex()}"'
    return "nil" if value is None else json.dumps(value)


def fields_of(cls: type[msgspec.Struct]) -> list[Field]:
    """The fields that a class has, in their order on the wire."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return [Field(each.name, type_text(each.type), not each.required) for each in info.fields]


def type_text(kind: inspect.Type) -> str:
    """A type as the text's tables write it."""
    match kind:
        case inspect.IntType():
            low, high = bounds(kind)
            return f"int {_number(low)}..{_number(high)}"
        case inspect.FloatType():
            least = f"{kind.ge:g}" if kind.gt is None else f"above {kind.gt:g}"
            return f"float {least}..{_number(int(kind.le or 0))}"
        case inspect.BoolType():
            return "bool"
        case inspect.StrType():
            return "text" + (f" ..{_number(kind.max_length)}" if kind.max_length else "")
        case inspect.BytesType(min_length=fewest, max_length=most):
            return "bytes" + (f" {fewest or ''}..{_number(most)}" if most else "")
        case inspect.VarTupleType():
            fewest = kind.min_length or 0
            most = "" if kind.max_length is None else _number(kind.max_length)
            length = f" {fewest}..{most}" if fewest or most else ""
            return f"[{type_text(kind.item_type)}]{length}"
        case inspect.TupleType():
            return f"({', '.join(map(type_text, kind.item_types))})"
        case inspect.EnumType() | inspect.StructType():
            return kind.cls.__name__
        case inspect.UnionType():
            return " or ".join(type_text(each) for each in kind.types)
        case inspect.NoneType():
            return "nil"
    raise AssertionError(f"no text for {kind}")


def bounds(kind: inspect.IntType) -> tuple[int, int]:
    """The smallest and the largest value."""
    low = kind.ge if kind.ge is not None else kind.gt
    high = kind.le if kind.le is not None else kind.lt
    assert low is not None and high is not None, "a number without bounds"
    return low + (kind.gt is not None), high - (kind.lt is not None)


def _number(value: int) -> str:
    for text, base in (("", abs(value)), ("-1", abs(value) + 1)):
        if abs(value) >= 1 << 16 and base & (base - 1) == 0 and (value > 0 or not text):
            return f"{'-' if value < 0 else ''}2^{base.bit_length() - 1}{text}"
    return str(value)
