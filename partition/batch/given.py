"""What a broker hears on its standard input: what it is given, then messages. Pure.

Each is a length, four bytes, little-endian, and so many bytes. The PCT of the node writes
them (:mod:`pct.host.brokers`).
"""

from __future__ import annotations

from msgspec import Struct, msgpack

from native.errors import PeerProtocolError
from native.wire import codec
from native.wire.alloc import Grant
from native.wire.base import MESSAGE_MAX_BYTES, Message
from native.wire.batch import Given, Task

_HEAD_BYTES = 4
_MOST_BYTES = 2 * MESSAGE_MAX_BYTES  # a grant and a task


class Work(Struct, frozen=True):
    """A batch job for its broker."""

    given: Given
    grant: Grant
    task: Task


class Frames:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> list[bytes]:
        """Take bytes; the frames that they complete.

        Raises:
            PeerProtocolError: a frame that is too long.
        """
        self._data += data
        frames = []
        while len(self._data) >= _HEAD_BYTES:
            size = int.from_bytes(self._data[:_HEAD_BYTES], "little")
            if size > _MOST_BYTES:
                raise PeerProtocolError(f"a frame of {size} bytes")
            if len(self._data) < _HEAD_BYTES + size:
                break
            frames.append(self._data[_HEAD_BYTES : _HEAD_BYTES + size])
            self._data = self._data[_HEAD_BYTES + size :]
        return frames


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
