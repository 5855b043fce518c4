"""Conversation `io`: output up, input down, each with credit."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from native.wire.base import U63, Data, JobMessage, Rank
from native.wire.group import Window

MESSAGE_COST_BYTES = 64  # of credit beside a message's data, so that tiny writes count too

Credit = Annotated[int, Meta(ge=1, lt=1 << 40)]


STREAMS = (1, 2)  # standard output, standard error
Stream = Annotated[int, Meta(ge=1, le=2)]


class Output(JobMessage, frozen=True, tag="io.output"):
    """Up: bytes that a rank has written.

    Attributes:
        offset: of the first byte in the rank's stream; a gap means loss.
    """

    rank: Rank
    stream: Stream
    offset: U63
    data: Data


class OutputCredit(JobMessage, frozen=True, tag="io.output_credit"):
    """Down one hop: so many more bytes of a stream may be sent."""

    stream: Stream
    count_bytes: Credit


class Input(JobMessage, frozen=True, tag="io.input"):
    """Down: for the standard input of ranks. Empty: end of file."""

    data: Data


class Resize(JobMessage, frozen=True, tag="io.resize"):
    """Down: the terminal of the rank that has one has another size."""

    window: Window


class InputCredit(JobMessage, frozen=True, tag="io.input_credit"):
    """Up: so many more bytes of input may be sent."""

    count_bytes: Credit
