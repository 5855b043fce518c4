"""Messages to a worker for calls of functions, and its answers: MessagePack behind a length.

A worker has one call at a time.
"""

from __future__ import annotations

from msgspec import MsgspecError, Struct, msgpack

from native.errors import PeerProtocolError
from native.frames import framed


class Call(Struct, tag="call", array_like=True, frozen=True):
    """To a worker: call this.

    Attributes:
        number: the caller's name for it.
        payload: the packed call.
        directory: where it runs, made if need be; empty: where the worker is.
        variables: of the environment, for this call only.
        output, error: files in ``directory`` that get what it prints; empty: the worker's own.
        ranks: those of the worker that have this call at the same time, in order; empty: it alone.
        carries: ``directory`` is of the worker's node alone: what the call leaves is in the answer.
        keeps: it is not removed there then, since others share it.
        files: a parcel that is put into it first.
    """

    number: int
    payload: bytes
    directory: str = ""
    variables: dict[str, str] = {}
    output: str = ""
    error: str = ""
    ranks: tuple[int, ...] = ()
    carries: bool = False
    keeps: bool = False
    files: bytes = b""


class Begin(Struct, tag="begin", array_like=True, frozen=True):
    """To a worker, before any call: call this; what it returns are arguments of later calls.

    Attributes:
        payload: the packed call.
    """

    payload: bytes


class Drop(Struct, tag="drop", array_like=True, frozen=True):
    """To a worker of a raptor: this call is not wanted any more; begin anew."""

    number: int


class Here(Struct, tag="here", array_like=True, frozen=True):
    """From a worker: its first word.

    Attributes:
        number: as its words have it; rank: of several that make one worker.
        raptor: whose calls it takes; empty: none's. task: that it is a rank of.
        is_apart: it does not see the pilot's sandbox.
    """

    number: int
    rank: int
    unix_pid: int
    raptor: str = ""
    task: str = ""
    is_apart: bool = False


class Lead(Struct, tag="lead", array_like=True, frozen=True):
    """From the program of a task: what follows is of :mod:`yod.pilot.wire.masters`."""

    task: str


class Answer(Struct, tag="answer", array_like=True, frozen=True):
    """From a worker: a call is over.

    Attributes:
        value: what it has returned, or raised, packed; empty: it could not be packed.
        exception, detail: what it has raised, and the traceback.
        stdout, stderr: the ends of what it has printed.
        began, ended: seconds of day.
        exit_code: of a program that it was; 1 for what else it has raised.
        files: a parcel of what it has left, where its directory is carried.
        left: why that does not come; what the call has left stays there.
    """

    number: int
    value: bytes = b""
    exception: str = ""
    detail: str = ""
    stdout: str = ""
    stderr: str = ""
    began: float = 0.0
    ended: float = 0.0
    exit_code: int = 0
    files: bytes = b""
    left: str = ""


ToWorker = Call | Drop | Begin
FromWorker = Here | Lead | Answer

_encoder = msgpack.Encoder()
_calls: msgpack.Decoder[ToWorker] = msgpack.Decoder(ToWorker)
_answers: msgpack.Decoder[FromWorker] = msgpack.Decoder(FromWorker)


def frame(message: ToWorker | FromWorker) -> bytes:
    """A message behind its length."""
    return framed(_encoder.encode(message))


def decode_call(body: bytes) -> ToWorker:
    """What a worker is to do.

    Raises:
        PeerProtocolError: it is no call.
    """
    try:
        return _calls.decode(body)
    except MsgspecError as error:
        raise PeerProtocolError(f"a call: {error}") from None


def decode_answer(body: bytes) -> FromWorker:
    """What a worker says.

    Raises:
        PeerProtocolError: it is no such message.
    """
    try:
        return _answers.decode(body)
    except MsgspecError as error:
        raise PeerProtocolError(f"a worker's message: {error}") from None
