"""Conversation `io`: output up, input down, each with credit; requests for remote files."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from native.wire.base import DATA_MAX, NODE_MAX, U32, U63, Data, JobMessage, Rank
from native.wire.group import RemoteDirectory, Window

REMOTE_MAX_BYTES = 132 * 1024  # of a request or a reply: 128 KiB of data, and what is around it
MESSAGE_COST_BYTES = 64  # of credit beside a message's data, so that tiny writes count too

RUN_COST_BYTES = 16  # and for each run of ranks
RUNS_MAX = 4096  # of ranks in one message
OUTPUT_MAX_BYTES = 240 * 1024  # of output in one message; what is beside it fits with RUNS_FEW runs
RUNS_FEW = 512  # with more there is room for DATA_MAX

LinesRun = tuple[Rank, Rank, U63]
Credit = Annotated[int, Meta(ge=1, lt=1 << 40)]
OutputData = Annotated[bytes, Meta(max_length=OUTPUT_MAX_BYTES)]
Frame = Annotated[bytes, Meta(max_length=REMOTE_MAX_BYTES)]
Place = Annotated[int, Meta(ge=0, le=NODE_MAX)]


STREAMS = (1, 2)  # standard output, standard error
Stream = Annotated[int, Meta(ge=1, le=2)]


class Output(JobMessage, frozen=True, tag="io.output"):
    """Up: bytes that a rank has written.

    Attributes:
        offset: of the first byte in the rank's stream; a gap means loss.
    """

    comes_cut: ClassVar[bool] = True
    rank: Rank
    stream: Stream
    offset: U63
    data: OutputData


class Lines(JobMessage, frozen=True, tag="io.lines"):
    """Up: whole lines that each of some ranks has written (``yod --merge``).

    Attributes:
        runs: (first rank, last rank, offset of the lines in the stream of each), ascending.
    """

    stream: Stream
    runs: Annotated[tuple[LinesRun, ...], Meta(min_length=1, max_length=RUNS_MAX)]
    data: OutputData


def room_bytes(run_count: int) -> int:
    """How much data fits into a message about so many runs of ranks."""
    return OUTPUT_MAX_BYTES if run_count <= RUNS_FEW else DATA_MAX


def cost(message: Output | Lines) -> int:
    """How much of a window an output message uses, in bytes."""
    if type(message) is Output:
        return len(message.data) + MESSAGE_COST_BYTES
    assert isinstance(message, Lines)
    return len(message.data) + MESSAGE_COST_BYTES + RUN_COST_BYTES * len(message.runs)


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


class LineAsked(JobMessage, frozen=True, tag="io.line_asked"):
    """Up, to yod: a rank has read all that it was given of the input that all ranks share.

    Attributes:
        place: of its node, an index into the load's nodes.
        unread: what it was given, of which it has read nothing; with ``is_closed`` only.
        is_closed: it asks for nothing: it reads no more.
    """

    place: Place
    rank: Rank
    unread: Data = b""
    is_closed: bool = False


class Line(JobMessage, frozen=True, tag="io.line"):
    """Down, to one node: a line, or a piece of one, for the rank that has asked.

    Attributes:
        data: empty: end of file.
    """

    place: Place
    rank: Rank
    data: Data


class RemoteRequest(JobMessage, frozen=True, tag="io.remote_request"):
    """Up, to yod: a node's kernel asks for something below a directory whose files yod has.

    Attributes:
        place: of the node, an index into the load's nodes.
        mount: on that node; each has names of its own for files.
        directory: an index into the load's directories.
        frame: as the kernel gives it (FUSE); empty: the mount is gone.
    """

    place: Place
    mount: U32
    directory: RemoteDirectory
    frame: Frame


class RemoteReply(JobMessage, frozen=True, tag="io.remote_reply"):
    """Down, to one node: what its kernel is answered.

    Attributes:
        frame: as the kernel takes it.
    """

    place: Place
    mount: U32
    frame: Frame
