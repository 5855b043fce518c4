"""Messages on the wire: what PROTOCOL.md says is what the codec does."""

from __future__ import annotations

from enum import Enum

import pytest
from msgspec import inspect, msgpack

from native.errors import Refusal
from native.wire import alloc, codec, load, pmi, status
from native.wire.base import State
from tests.wire import protocol
from tests.wire.examples import EXAMPLES, MESSAGES, PARTS, QUESTIONS, SECTIONS, VECTORS, decode

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
    "enumeration",
    [Refusal, State, status.NodeState, load.FailureKind, load.Protocol, pmi.FenceKind],
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


def test_a_message_is_decoded_from_any_buffer():
    assert codec.decode(memoryview(VECTORS["load.go"])) == load.Go(4711)


def test_fields_with_a_default_may_be_missing_at_the_end_and_elements_beyond_are_ignored():
    short = msgpack.encode(["alloc.refused", 2, "no"])
    assert codec.decode(short) == alloc.Refused(Refusal.BUSY, "no", -1)
    long = msgpack.encode(["alloc.refused", 2, "no", 3, "of a later version", [1]])
    assert codec.decode(long) == alloc.Refused(Refusal.BUSY, "no", 3)
