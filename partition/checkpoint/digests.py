"""Digests of a checkpoint's files, by as many threads as this process has processors.

A file's digest is the XXH3-128 of the XXH3-128s of its pieces, so that the pieces of a large one
can be read side by side. Hashing and reading leave the interpreter to other threads. What an
earlier yod has written has another hash, which is known by the version of its manifest.
"""

from __future__ import annotations

import os
import threading
from _blake2 import blake2b
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Protocol

from xxhash import xxh3_128

from native.host.files import sync

BLAKE2B_BYTES = 32
PIECE_BYTES = 16 << 20
_READ_BYTES = 256 << 10  # fits a processor's cache
_OF_A_THREAD_BYTES = 4 << 20  # less than this is not worth another thread
_THREADS_MOST = 32

Measured = tuple[int, str]  # size, digest in hex


class Hash(Protocol):
    """A hash of what it has been given so far."""

    def update(self, data: bytes | memoryview, /) -> object:
        """Give it more."""

    def hexdigest(self) -> str:
        """Of all of it."""


MakeHash = Callable[[], Hash]
OF_VERSION: dict[int, MakeHash] = {2: sha256, 3: xxh3_128}  # of manifests; the last is written


def of_record(data: bytes) -> str:
    """BLAKE2b-256, in hex."""
    return blake2b(data, digest_size=BLAKE2B_BYTES).hexdigest()


def of_files(
    paths: Sequence[str], *, is_synced: bool = False, make: MakeHash = xxh3_128
) -> list[Measured]:
    """Size and digest of each file.

    Args:
        is_synced: they outlive the host from now on.
        make: the hash.

    Raises:
        OSError: one cannot be read, or not be written to the disk.
    """
    sizes = [os.stat(path).st_size for path in paths]
    pieces = [
        (number, begin)
        for number, size in enumerate(sizes)
        for begin in range(0, size, PIECE_BYTES)
    ]
    found: list[dict[int, Measured]] = [{} for _ in paths]

    def measure(piece: tuple[int, int]) -> None:
        number, begin = piece
        found[number][begin] = _of_piece(paths[number], begin, make())

    with _side_by_side(measure, pieces, sum(sizes)):
        for path in paths if is_synced else ():
            sync(path)
    return [_whole([own[begin] for begin in sorted(own)], make()) for own in found]


def copied(source: str, target: str) -> Measured:
    """Copy a file, to the disk; size and digest of what has been read.

    Holes stay holes. One thread does it, and none waits for it.

    Raises:
        OSError: it cannot be read or written.
    """
    pieces: list[Measured] = []
    with open(source, "rb", buffering=0) as file, open(target, "wb", buffering=0) as other:
        at = 0
        while True:
            hashed, size = xxh3_128(), 0
            while size < PIECE_BYTES and (data := file.read(min(_READ_BYTES, PIECE_BYTES - size))):
                hashed.update(data)
                if data.count(0) < len(data):
                    _write_all(other.fileno(), data, at + size)
                size += len(data)
            if not size:
                break
            pieces.append((size, hashed.hexdigest()))
            at += size
        os.ftruncate(other.fileno(), at)
        os.fchmod(other.fileno(), os.fstat(file.fileno()).st_mode & 0o777)
        os.fsync(other.fileno())
    return _whole(pieces, xxh3_128())


def _write_all(fd: int, data: bytes, at: int) -> None:
    left = memoryview(data)
    while left:
        count = os.pwrite(fd, left, at)
        left, at = left[count:], at + count


def of_file_version_1(path: str) -> Measured:
    """Size and digest of a file, as manifests of version 1 have it: BLAKE2b-256.

    Raises:
        OSError: it cannot be read.
    """
    hashed, size = blake2b(digest_size=BLAKE2B_BYTES), 0
    with open(path, "rb") as file:
        while piece := file.read(_READ_BYTES):
            hashed.update(piece)
            size += len(piece)
    return size, hashed.hexdigest()


def _whole(pieces: Sequence[Measured], hashed: Hash) -> Measured:
    for _, digest in pieces:
        hashed.update(bytes.fromhex(digest))
    return sum(size for size, _ in pieces), hashed.hexdigest()


def _of_piece(path: str, begin: int, hashed: Hash) -> Measured:
    size = 0
    buffer = memoryview(bytearray(min(_READ_BYTES, PIECE_BYTES)))
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while size < PIECE_BYTES:
            count = os.preadv(fd, [buffer[: PIECE_BYTES - size]], begin + size)
            if not count:
                break
            hashed.update(buffer[:count])
            size += count
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(fd)
    return size, hashed.hexdigest()


@contextmanager
def _side_by_side(
    do: Callable[[tuple[int, int]], None], pieces: Sequence[tuple[int, int]], size: int
) -> Iterator[None]:
    """Do all of them behind what the caller does, which threads begin meanwhile.

    Raises:
        OSError: that of the first that has failed.
    """
    left = iter(pieces)
    turn = threading.Lock()
    troubles: list[OSError] = []

    def work() -> None:
        while not troubles:
            with turn:
                piece = next(left, None)
            if piece is None:
                return
            try:
                do(piece)
            except OSError as error:
                troubles.append(error)

    count = min(len(os.sched_getaffinity(0)), _THREADS_MOST, 1 + size // _OF_A_THREAD_BYTES)
    threads = [threading.Thread(target=work) for _ in range(count - 1)]
    for thread in threads:
        thread.start()
    try:
        yield
        work()
    except OSError as error:
        troubles.append(error)
    finally:
        for thread in threads:
            thread.join()
    if troubles:
        raise troubles[0]
