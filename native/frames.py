"""Frames on a pipe between a PCT and the broker of a batch job: a length, then so many bytes.

The length has four bytes, little-endian. Pure.
"""

from __future__ import annotations

from native.errors import PeerProtocolError

_HEAD_BYTES = 4


def framed(data: bytes) -> bytes:
    """With its length before it."""
    return len(data).to_bytes(_HEAD_BYTES, "little") + data


class Frames:
    """Bytes in, whole frames out.

    Args:
        most_bytes: of one frame.

    Attributes:
        is_broken: a frame was too long; what comes behind it is no frame.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._data = b""
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
        while len(self._data) >= _HEAD_BYTES:
            size = int.from_bytes(self._data[:_HEAD_BYTES], "little")
            if size > self._most_bytes:
                self.is_broken = True
                raise PeerProtocolError(f"a frame of {size} bytes, at most {self._most_bytes}")
            if len(self._data) < _HEAD_BYTES + size:
                break
            frames.append(self._data[_HEAD_BYTES : _HEAD_BYTES + size])
            self._data = self._data[_HEAD_BYTES + size :]
        return frames
