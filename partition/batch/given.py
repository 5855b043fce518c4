"""What a broker hears on its standard input: what it is given, then messages. Pure.

The PCT of the node writes them (:mod:`pct.host.kept.brokers`).
"""

from __future__ import annotations

from msgspec import Struct, msgpack

from native.errors import PeerProtocolError
from native.wire import codec
from native.wire.alloc import Grant
from native.wire.base import MESSAGE_MAX_BYTES, Message
from native.wire.batch import Given, Task

MOST_BYTES = 2 * MESSAGE_MAX_BYTES  # of a frame: a grant and a task


class Work(Struct, frozen=True):
    """A batch job for its broker."""

    given: Given
    grant: Grant
    task: Task


def work_of(frame: bytes) -> Work:
    """The first frame.

    Raises:
        PeerProtocolError: it is something else.
    """
    try:
        given = msgpack.decode(frame, type=Given)
        task = msgpack.decode(given.task, type=Task)
    except codec.NONSENSE as error:
        raise PeerProtocolError(f"not a batch job: {error}") from None
    grant = codec.decode(given.grant)
    if not isinstance(grant, Grant):
        raise PeerProtocolError("a batch job without a grant")
    return Work(given, grant, task)


def message_of(frame: bytes) -> Message:
    """A later frame.

    Raises:
        PeerProtocolError: no message.
    """
    return codec.decode(frame)
