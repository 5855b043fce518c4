"""What a node keeps, as a stream of bytes for the node that holds a copy, and back.

Each file is a line with its size and its name, and then its bytes; a directory has size -1. The
node's record comes last: where it is, all files of its ranks are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from native.text import shown
from native.wire.base import DATA_MAX
from partition.checkpoint import files
from partition.checkpoint.files import BrokenError

_DIRECTORY = -1
_LINE_BYTES = 1 << 16  # of a size and a name


class Credit:
    """How many bytes the other node has room for; of two threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._bytes = 0
        self._is_closed = False

    def give(self, count_bytes: int) -> None:
        """It has more room."""
        with self._changed:
            self._bytes += count_bytes
            self._changed.notify()

    def close(self) -> None:
        """It takes no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def take(self, most_bytes: int) -> int:
        """Wait for room; so many bytes may be sent, 0: none any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._bytes or self._is_closed)
            if self._is_closed:
                return 0
            taken = min(most_bytes, self._bytes)
            self._bytes -= taken
            return taken


def stream(source: str, place: int) -> Iterator[bytes]:
    """What a node keeps in a directory, in pieces of at most DATA_MAX bytes.

    Raises:
        BrokenError: it has no record there.
        OSError: a file cannot be read.
    """
    own = files.node_file(place)
    record, _ = files.read(os.path.join(source, own), files.NodeRecord)
    for rank in record.ranks:
        top = files.rank_directory(rank.rank)
        for below, _, _ in os.walk(os.path.join(source, top)):
            yield _line(_DIRECTORY, os.path.relpath(below, source))
        for file in rank.files:
            yield from _file(source, f"{top}/{file.path}")
    yield from _file(source, own)


def _file(source: str, name: str) -> Iterator[bytes]:
    with open(os.path.join(source, name), "rb") as file:
        left = os.fstat(file.fileno()).st_size
        yield _line(left, name)
        while left:
            data = file.read(min(left, DATA_MAX))
            if not data:
                raise BrokenError(f"{shown(name)}: it has become shorter")
            left -= len(data)
            yield data


def _line(size: int, name: str) -> bytes:
    return b"%d %s\0\n" % (size, os.fsencode(name))


class Taken:
    """The other end: puts files into a directory, as their bytes come.

    Attributes:
        size: bytes of the files that have begun.
        is_whole: all of it has come.
    """

    def __init__(self, target: str, place: int) -> None:
        self._target = target
        self._own = files.node_file(place)
        self._line = b""
        self._fd = -1
        self._left = 0
        self._name = ""
        self.size = 0
        self.is_whole = False

    def feed(self, data: bytes) -> None:
        """More bytes.

        Raises:
            BrokenError: they are no such stream.
            OSError: a file cannot be written.
        """
        while data:
            if self._fd >= 0:
                count = os.write(self._fd, data[: self._left])
                self._left -= count
                data = data[count:]
                self._look()
                continue
            line, end, data = (self._line + data).partition(b"\0\n")
            if not end:
                self._line = line
                if len(line) > _LINE_BYTES:
                    raise BrokenError("a share with a name that is too long")
                return
            self._line = b""
            self._begin(line)

    def close(self) -> None:
        """No more comes."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _begin(self, line: bytes) -> None:
        number, _, raw = line.partition(b" ")
        self._name = os.fsdecode(raw)
        parts = self._name.split("/")
        if not parts[0] or ".." in parts or self.is_whole:
            raise BrokenError("a share with another file than a checkpoint has")
        path = os.path.join(self._target, self._name)
        size = int(number)
        if size == _DIRECTORY:
            os.mkdir(path, 0o700)
            return
        self.size += size
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._left = size
        self._look()

    def _look(self) -> None:
        """The file may be at its end."""
        if not self._left:
            self.close()
            self.is_whole |= self._name == self._own
