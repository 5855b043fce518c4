"""Marks: how much of the files that ranks write (``-o``, ``-e``) belongs to a checkpoint.

The mark of a file is its size at the moment at which the rank was saved. It is put down in the
rank's directory, a line for each file, which the keeper of a later job reads before it starts the
rank (``native/keeper/output/mark.c``):

    open|name BYTES TAIL PATH

TAIL is what the file has before the mark, in hex, by which it is known again; ``-``: it could not
be read, or the file was empty. A file ``open`` is cut back if the later job opens it, one by
``name`` in any case: its rank goes on writing to it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

MARKS = ".yod-output"
OPENED, BY_NAME = "open", "name"
TAIL_BYTES = 128
_STREAMS = (1, 2)
_FLAGS_MASK = os.O_ACCMODE | os.O_APPEND
_SAID_BYTES = 256  # of a file ``saved``

Key = tuple[int, int]  # device, inode


class Outputs:
    """The files that the ranks of a node write; ranks may share one.

    Only what a rank has been given at its start counts, and what it has opened in the same way:
    a regular file, to append to.

    Args:
        how: OPENED or BY_NAME.
    """

    def __init__(self, unix_pids: Mapping[int, int], how: str) -> None:
        self._how = how
        self._fds: dict[Key, int] = {}
        self._paths: dict[Key, str] = {}
        self._of_rank: dict[int, dict[int, Key]] = {}
        self._marks: dict[Key, int] = {}
        for rank, unix_pid in unix_pids.items():
            own = self._of_rank[rank] = {}
            for stream in _STREAMS:
                with suppress(FileNotFoundError, ProcessLookupError):
                    if (key := self._opened(unix_pid, stream)) is not None:
                        own[stream] = key

    def _opened(self, unix_pid: int, stream: int) -> Key | None:
        path = f"/proc/{unix_pid}/fd/{stream}"
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode) or not about.st_nlink:
            return None
        with open(f"/proc/{unix_pid}/fdinfo/{stream}", encoding="ascii") as file:
            flags = next(line for line in file if line.startswith("flags:"))
        if int(flags.split()[1], 8) & _FLAGS_MASK != os.O_WRONLY | os.O_APPEND:
            return None
        key = about.st_dev, about.st_ino
        if key not in self._fds:
            self._fds[key] = os.open(path, os.O_PATH | os.O_CLOEXEC)
            self._paths[key] = os.readlink(path)
        return key

    def close(self) -> None:
        """Forget the files."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def saved(self, rank: int, path: str) -> None:
        """A rank has saved itself now; it may say in a file how much it had written then."""
        said: dict[int, int] = {}
        with suppress(OSError, ValueError), open(path, "rb") as file:
            for line in file.read(_SAID_BYTES).splitlines():
                stream, size = map(int, line.split())
                said[stream] = size
        for stream, key in self._of_rank[rank].items():
            size = self._size(key)
            self._raise(key, said[stream] if 0 <= said.get(stream, -1) <= size else size)

    def at_least(self, rank: int) -> None:
        """A rank will be saved: what it has written by now belongs to the checkpoint."""
        for key in self._of_rank[rank].values():
            self._raise(key, self._size(key))

    def written(self, directories: Iterable[str]) -> None:
        """CRIU has saved the ranks: its images say where their writes had ended."""
        found = [positions(directory) for directory in directories]
        for key, path in self._paths.items():
            end = max(ends.get(path, 0) for ends in found)
            if key in self._marks and end <= self._size(key):
                self._raise(key, end)

    def put_down(self, directories: Mapping[int, str]) -> None:
        """Write the marks of each rank into its directory.

        Raises:
            OSError: one cannot be written.
        """
        for rank, own in self._of_rank.items():
            keys = dict.fromkeys(own.values())
            lines = b"".join(self._line(key) for key in keys if key in self._marks)
            if lines:
                with open(os.path.join(directories[rank], MARKS), "wb") as file:
                    file.write(lines)

    def _line(self, key: Key) -> bytes:
        path, mark = os.fsencode(self._paths[key]), self._marks[key]
        if b"\n" in path:
            return b""
        tail = b""
        with suppress(OSError):
            fd = os.open(f"/proc/self/fd/{self._fds[key]}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                count = min(mark, TAIL_BYTES)
                tail = os.pread(fd, count, mark - count)
            finally:
                os.close(fd)
        return f"{self._how} {mark} {tail.hex() or '-'} ".encode() + path + b"\n"

    def _raise(self, key: Key, size: int) -> None:
        self._marks[key] = max(size, self._marks.get(key, 0))

    def _size(self, key: Key) -> int:
        return os.stat(self._fds[key]).st_size


_HEAD_BYTES = 8  # two magic numbers
_REG = 3  # of a file's entry: a regular file
_POSITION, _NAME = 3, 6  # of a regular file


def positions(directory: str) -> dict[str, int]:
    """Where writes to regular files had ended, in CRIU's images; empty: they cannot be read.

    Where a file was open several times it is the furthest. The images are messages of protocol
    buffers, each behind its size (criu.org/Images).
    """
    found: dict[str, int] = {}
    try:
        with open(os.path.join(directory, "files.img"), "rb") as file:
            data = memoryview(file.read())
        at = _HEAD_BYTES
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "little")
            for number, value in _fields(_piece(data, at + 4, size)):
                if number == _REG and isinstance(value, memoryview):
                    own = dict(_fields(value))
                    name, position = own.get(_NAME), own.get(_POSITION)
                    if isinstance(name, memoryview) and isinstance(position, int):
                        path = os.fsdecode(bytes(name))
                        found[path] = max(position, found.get(path, 0))
            at += 4 + size
    except (OSError, IndexError, ValueError):
        return {}
    return found


def _piece(data: memoryview, at: int, size: int) -> memoryview:
    if at + size > len(data):
        raise ValueError("cut off")
    return data[at : at + size]


def _fields(data: memoryview) -> Sequence[tuple[int, int | memoryview]]:
    """The fields of a message: their numbers and values."""
    found: list[tuple[int, int | memoryview]] = []
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        kind = key & 7
        if kind == 0:
            found.append((key >> 3, number()))
            continue
        size = {1: 8, 5: 4}.get(kind) or number()
        found.append((key >> 3, _piece(data, at, size)))
        at += size
    return found
