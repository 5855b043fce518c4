"""msgspec without half of its imports is the same msgspec, and so are typing and re."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.wait import LIMIT_S

ROOT = Path(__file__).parents[3]


def after_lean(text: str) -> str:
    """What a new interpreter prints that has imported msgspec so."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import native.start.lean\n{text}"
    command = [sys.executable, "-EP", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_what_no_message_has_is_not_imported():
    absent = "{'re', 'uuid', 'datetime', 'decimal', 'msgspec.json', 'msgspec.inspect'}"
    assert after_lean(f"print({absent} & set(sys.modules))") == "set()"


def test_what_was_left_out_can_be_imported_later():
    text = """
from msgspec import inspect, json
from uuid import UUID
import msgspec.yaml
print(json.decode(json.encode([1]), type=list[int]), inspect.type_info(int).gt, UUID(int=1).int)
"""
    assert after_lean(text) == "[1] None 1"


def test_json_brings_its_schemas_when_one_is_made():
    text = """
from msgspec import json
print("msgspec.inspect" in sys.modules, json.schema(int), json.schema_components([int]))
from msgspec.json import schema
print("msgspec.inspect" in sys.modules, schema(str))
"""
    assert after_lean(text).splitlines() == [
        "False {'type': 'integer'} (({'type': 'integer'},), {})",
        "True {'type': 'string'}",
    ]


def test_typing_names_the_types_of_re():
    text = "import re, typing; print(typing.Pattern.__origin__, typing.Match.__origin__)"
    assert after_lean(text) == "<class 're.Pattern'> <class 're.Match'>"


def test_annotations_and_patterns_work():
    text = """
import typing
from msgspec import Meta, Struct, msgpack
class Node(Struct):
    below: "list[Node]" = []
    name: "typing.Annotated[str, Meta(pattern='^n[0-9]$')]" = "n1"
data = msgpack.encode(Node([Node()]))
print(msgpack.decode(data, type=Node), typing.ForwardRef("int").__forward_arg__)
"""
    assert after_lean(text) == "Node(below=[Node(below=[], name='n1')], name='n1') int"
