"""The output of a detached job, kept in files of its owner.

A spool is a directory. Each of its files is named after the offset of its first byte and holds
records: a stream, a length, and so many bytes. Offsets count the bytes of both streams. When
there are too many files, one behind the first is removed: the beginning and the end stay.
"""

from __future__ import annotations

import os
import shutil
from bisect import bisect_right
from contextlib import suppress
from struct import Struct as Layout
from typing import NamedTuple

from native.host.rlimits import write_whole
from native.wire.base import DATA_MAX

FILES_MAX = 8
REACH = "reach"  # a file: where terminals attach while the job runs
ENDED = "ended"  # a file: how its yod has ended
SPOOLS_MAX = 64  # of one user on a host
_RECORD = Layout("<BI")


class Piece(NamedTuple):
    """A piece of the output.

    Attributes:
        offset: of its first byte. More than was asked for: what lies between was dropped.
    """

    offset: int
    stream: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset behind its last byte."""
        return self.offset + len(self.data)


class Spool:
    """A spool that is read, and written by at most one process.

    Args:
        path: its directory.
        limit_bytes: of all its files.

    Raises:
        OSError: there is no such directory.
    """

    def __init__(self, path: str, limit_bytes: int) -> None:
        self._path = path
        self._file_bytes = max(DATA_MAX + _RECORD.size, limit_bytes // FILES_MAX)
        self._starts = sorted(int(name) for name in os.listdir(path) if name.isdecimal())
        self._fd = -1
        self._written = 0  # bytes of the last file
        self.size = 0  # the offset behind the last byte that this process has written
        self._reading: dict[int, int] = {}  # descriptors, by the offsets of their files

    def write(self, stream: int, data: bytes) -> None:
        """Add to the output. What cannot be written is dropped, and is a gap.

        A file ends behind a line, unless the line has no room in any.
        """
        while data:
            room = self._room()
            size = _whole_lines(data, room)
            try:
                if size == 0:
                    self._next_file()
                    room = self._room()
                    size = _whole_lines(data, room) or room
                piece = data[:size]
                self._append(stream, piece)
            except OSError:
                self._end_file()
                piece = data
            self.size += len(piece)
            data = data[len(piece) :]

    def _room(self) -> int:
        """How many bytes of output the file takes, in records that a message can carry."""
        left = self._file_bytes - self._written if self._fd >= 0 else 0
        records = -(-left // (DATA_MAX + _RECORD.size))  # rounded up
        return max(0, left - records * _RECORD.size)

    def _append(self, stream: int, data: bytes) -> None:
        pieces = [data[start : start + DATA_MAX] for start in range(0, len(data), DATA_MAX)]
        whole = b"".join(_RECORD.pack(stream, len(piece)) + piece for piece in pieces)
        write_whole(self._fd, whole)
        self._written += len(whole)

    def note(self, name: str, data: bytes) -> None:
        """Leave something beside the output, for those who look for it. It may fail."""
        path = os.path.join(self._path, name)
        with suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(data)

    def noted(self, name: str) -> bytes:
        """What was left there; empty: nothing."""
        try:
            with open(os.path.join(self._path, name), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def _end_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _next_file(self) -> None:
        self._end_file()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(os.path.join(self._path, str(self.size)), flags, 0o600)
        self._written = 0
        self._starts.append(self.size)
        if len(self._starts) > FILES_MAX:
            dropped = self._starts.pop(1)
            os.unlink(os.path.join(self._path, str(dropped)))
            if (reading := self._reading.pop(dropped, None)) is not None:
                os.close(reading)

    def cursor(self) -> Cursor:
        """Reads from the beginning."""
        return Cursor(self)

    def first_behind(self, start: int) -> int | None:
        """The offset of the first file behind another one's; None: there is none."""
        place = bisect_right(self._starts, start)
        return self._starts[place] if place < len(self._starts) else None

    def descriptor(self, start: int) -> int:
        """To read the file with this offset; -1: there is none, or not any more."""
        place = bisect_right(self._starts, start) - 1
        if place < 0 or self._starts[place] != start:
            return -1
        if start not in self._reading:
            path = os.path.join(self._path, str(start))
            self._reading[start] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._reading[start]

    def close(self) -> None:
        """Close its files."""
        for fd in [*self._reading.values(), *([self._fd] if self._fd >= 0 else [])]:
            os.close(fd)
        self._reading.clear()
        self._fd = -1


class Cursor:
    """Where one reader of a spool is.

    Attributes:
        offset: of the next byte.
    """

    def __init__(self, spool: Spool) -> None:
        self.offset = 0
        self._spool = spool
        self._start = -1  # of the file that it is in
        self._place = 0  # in that file

    def read(self) -> Piece | None:
        """The next piece; None: there is none now."""
        while (piece := self._here()) is None:
            behind = self._spool.first_behind(self._start)
            if behind is None:
                return None
            self._start, self._place, self.offset = behind, 0, behind
        self._place += _RECORD.size + len(piece.data)
        self.offset += len(piece.data)
        return piece

    def _here(self) -> Piece | None:
        """The piece in this file; None: it has no more, or was removed."""
        fd = self._spool.descriptor(self._start)
        head = os.pread(fd, _RECORD.size, self._place) if fd >= 0 else b""
        if len(head) < _RECORD.size:
            return None
        stream, size = _RECORD.unpack(head)
        data = os.pread(fd, size, self._place + _RECORD.size)
        return Piece(self.offset, stream, data) if len(data) == size else None


def name_of(job_id: str) -> str:
    """The name of a job's spool on this host: hosts may share a home."""
    return f"{job_id}@{os.uname().nodename}"


def directory(state: str, name: str) -> str:
    """The path of a spool in the user's directory for state."""
    return os.path.join(state, "spool", name)


def make(state: str, name: str, limit_bytes: int) -> Spool:
    """A new spool; of the user's others the oldest are removed where there are many.

    Raises:
        OSError: it cannot be made.
    """
    path = directory(state, name)
    above = os.path.dirname(path)
    os.makedirs(above, 0o700, exist_ok=True)
    _sweep(above)
    if os.path.isdir(path):
        shutil.rmtree(path)
    os.mkdir(path, 0o700)
    return Spool(path, limit_bytes)


def _sweep(above: str) -> None:
    paths = [os.path.join(above, name) for name in os.listdir(above)]
    aged = []
    for path in paths:
        with suppress(OSError):
            aged.append((os.stat(path).st_mtime, path))
    for _, path in sorted(aged)[: max(0, len(aged) - SPOOLS_MAX + 1)]:
        shutil.rmtree(path, ignore_errors=True)


def _whole_lines(data: bytes, room: int) -> int:
    """How many bytes of the data are written: all, or whole lines; 0: not one has room."""
    return len(data) if len(data) <= room else data.rfind(b"\n", 0, max(room, 0)) + 1
