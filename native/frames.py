"""Frames on a pipe or a stream socket: a length, then so many bytes.

The length has four bytes, little-endian. Between a PCT and the broker of a batch job, and between
the processes of a pilot. Pure.
"""

from __future__ import annotations

from native.errors import PeerProtocolError

_HEAD_BYTES = 4


def framed(data: bytes) -> bytes:
    """With its length before it."""
    return len(data).to_bytes(_HEAD_BYTES, "little") + data


class Frames:
    """Bytes in, whole frames out.

    Attributes:
        most_bytes: of one frame; may be changed.
        is_broken: a frame was too long; what comes behind it is no frame.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._data = bytearray()
        self.is_broken = False

    def add(self, data: bytes) -> list[bytes]:
        """Take bytes; the frames that they complete.

        Raises:
            PeerProtocolError: a frame that is too long.
        """
        if self.is_broken:
            return []
        self._data += data
        frames = []
        at = 0
        while len(self._data) - at >= _HEAD_BYTES:
            size = int.from_bytes(self._data[at : at + _HEAD_BYTES], "little")
            if size > self.most_bytes:
                self.is_broken = True
                raise PeerProtocolError(f"a frame of {size} bytes, at most {self.most_bytes}")
            end = at + _HEAD_BYTES + size
            if len(self._data) < end:
                break
            frames.append(bytes(self._data[at + _HEAD_BYTES : end]))
            at = end
        del self._data[:at]
        return frames
