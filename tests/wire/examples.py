"""Every message, question and part of the protocol, with its section and its example."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import inspect

from native.wire import alloc, codec, pmi
from native.wire.base import Message
from tests.wire import protocol

MESSAGES = {cls.__struct_config__.tag: cls for cls in codec.every_message()}
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
    for cls in (*codec.every_message(), alloc.Credential)
    for part in _parts(cls)
    if not issubclass(part, (Message, pmi.Question))
}
# What each example is an example of. A question's is the whole message that asks it.
EXAMPLES = (
    {kind: cls for kind, cls in MESSAGES.items() if cls is not pmi.Ask}
    | dict.fromkeys(QUESTIONS, pmi.Ask)
    | {name: PARTS[name] for name in APART}
)
