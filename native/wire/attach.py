"""Conversation `attach`: a user's terminal and a job that runs without one.

The job's broker listens. yodjob connects with the job owner's key, gets the output from its
beginning and follows it; the first that attaches has the job's input.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from native.wire.base import U63, Data, JobMessage, SignalNumber
from native.wire.io import Credit, Stream

WINDOW_BYTES = 256 * 1024  # of output that is on its way to one terminal
INPUT_WINDOW_BYTES = 64 * 1024


class Attach(JobMessage, frozen=True, tag="attach.begin"):
    """yodjob: send me the output, and follow it."""


class Attached(JobMessage, frozen=True, tag="attach.begun"):
    """The broker: so be it.

    Attributes:
        has_input: what you send is the job's input.
    """

    has_input: bool


class SpooledOutput(JobMessage, frozen=True, tag="attach.output"):
    """A piece of the job's output.

    Attributes:
        offset: of its first byte, counted over both streams; a gap is output that was
            dropped, since the spool was full.
    """

    offset: U63
    stream: Stream
    data: Data


class SpooledCredit(JobMessage, frozen=True, tag="attach.credit"):
    """yodjob has shown so many bytes."""

    count_bytes: Credit


class TypedInput(JobMessage, frozen=True, tag="attach.input"):
    """yodjob: for the job's input. Empty: end of file."""

    data: Data


class TypedCredit(JobMessage, frozen=True, tag="attach.input_credit"):
    """The broker: so many more bytes of input may be sent."""

    count_bytes: Credit


class Interrupt(JobMessage, frozen=True, tag="attach.signal"):
    """yodjob has got a signal, which is the job's yod's."""

    number: SignalNumber


class OutputEnded(JobMessage, frozen=True, tag="attach.ended"):
    """The broker: this was all.

    Attributes:
        wait_status: of the job's yod, as waitpid gives it.
    """

    wait_status: Annotated[int, Meta(ge=0, lt=1 << 16)]
