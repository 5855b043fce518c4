"""Directories as archives that travel: packed, checked, and unpacked where they cannot leave.

``python -m yod.pilot.files.archive put DIRECTORY DIGEST`` unpacks its standard input, and ``get
DIRECTORY`` packs to its standard output, on a node whose files are its own. What ``put`` has
brought does not go back where it has not been changed: a list beside the directory says what that
was.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
from collections.abc import Collection
from contextlib import suppress
from typing import IO

from msgspec import json

from native.errors import YodError

MODULE = "yod.pilot.files.archive"
_BLOCK_BYTES = 1 << 16
_LIST = ".carried"  # behind the name of the directory

Brought = dict[str, list[int]]  # path -> size, and time of the last change in ns


class Digested:
    """A stream of bytes, and the digest of what has passed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()

    def read(self, count: int = -1) -> bytes:
        """Read from it."""
        data = self._stream.read(count)
        self._digest.update(data)
        return data

    def write(self, data: bytes) -> int:
        """Write to it."""
        self._digest.update(data)
        return self._stream.write(data)

    def drain(self) -> str:
        """Read what is left; the digest of all."""
        while self.read(_BLOCK_BYTES):
            pass
        return self.digest

    @property
    def digest(self) -> str:
        """SHA-256 of what has passed."""
        return self._digest.hexdigest()


def unpack(archive: tarfile.TarFile, directory: str, without: Collection[str] = ()) -> None:
    """Unpack an archive below a directory, which it cannot leave.

    Args:
        without: names in it that are left out.

    Raises:
        YodError: it would.
        OSError: a file cannot be written.
        tarfile.TarError: it is no archive.
    """
    for member in archive:
        if member.name in without:
            continue
        try:
            if hasattr(tarfile, "data_filter"):
                archive.extract(member, directory, filter="data")
            else:  # Python before 3.11.4
                _demand_inside(member, directory)
                archive.extract(member, directory)
        except OSError as error:
            raise OSError(error.errno, error.strerror, member.name) from None


def _demand_inside(member: tarfile.TarInfo, directory: str) -> None:
    inside = os.path.realpath(directory)
    ends = [os.path.join(inside, member.name)]
    if member.issym():
        ends.append(os.path.join(os.path.dirname(ends[0]), member.linkname))
    elif member.islnk():
        ends.append(os.path.join(inside, member.linkname))
    elif not (member.isfile() or member.isdir()):
        raise YodError(f"{member.name}: it is neither a file nor a directory")
    for end in ends:
        if os.path.commonpath((inside, os.path.realpath(end))) != inside:
            raise YodError(f"{member.name}: it leaves the directory")


def pack(
    directory: str, stream: IO[bytes], without: Collection[str] = (), brought: Brought | None = None
) -> str:
    """Pack the files and directories in a directory, links as what they lead to; the digest.

    Args:
        without: names in it that stay.
        brought: files that stay, too, if they are as this says.

    Raises:
        OSError: a file cannot be read or written.
    """

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if brought and member.name in brought:
            found = os.stat(os.path.join(directory, member.name))
            if brought[member.name] == [found.st_size, found.st_mtime_ns]:
                return None
        # Pipes and devices are of their host.
        return member if member.isfile() or member.isdir() or member.islnk() else None

    out = Digested(stream)
    with tarfile.open(fileobj=out, mode="w|", dereference=True) as archive:  # type: ignore[call-overload]
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            if name not in without:
                archive.add(os.path.join(directory, name), name, filter=keep)
    return out.digest


def unpack_stream(stream: IO[bytes], directory: str) -> str:
    """Unpack what comes below a directory, which is made; the digest of what came.

    Raises:
        YodError, OSError, tarfile.TarError: as :func:`unpack`.
    """
    os.makedirs(directory, exist_ok=True)
    source = Digested(stream)
    with tarfile.open(fileobj=source, mode="r|") as archive:  # type: ignore[call-overload]
        unpack(archive, directory)
    return source.drain()


def note(directory: str) -> None:
    """Write down what is in a directory."""
    brought: Brought = {}
    for where, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(where, name)
            found = os.stat(path)
            brought[os.path.relpath(path, directory)] = [found.st_size, found.st_mtime_ns]
    with open(directory + _LIST, "wb") as file:
        file.write(json.encode(brought))


def noted(directory: str) -> Brought:
    """What was brought to a directory."""
    try:
        with open(directory + _LIST, "rb") as file:
            return json.decode(file.read(), type=Brought)
    except FileNotFoundError:
        return {}


def drop_note(directory: str) -> None:
    """Forget what was brought to a directory."""
    with suppress(FileNotFoundError):
        os.unlink(directory + _LIST)


def pack_file(directory: str, path: str, without: Collection[str] = ()) -> tuple[str, str]:
    """Pack a directory into a file: the digest, and why it could not be done; empty: it is."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            return pack(directory, file, without), ""
    except OSError as error:
        return "", f"{error.filename or path}: {error.strerror}"


def unpack_file(path: str, directory: str, digest: str) -> str:
    """Unpack a file below a directory; why it could not be done; empty: it is."""
    try:
        with open(path, "rb") as file:
            came = unpack_stream(file, directory)
    except OSError as error:
        return f"{error.filename or directory}: {error.strerror}"
    except (YodError, tarfile.TarError) as error:
        return str(error)
    finally:
        os.unlink(path)
    return "" if came == digest else "what came is not what was sent: the digests differ"


def main() -> int:
    """Unpack or pack on a node."""
    what, directory = sys.argv[1:3]
    is_new = what == "put" and not os.path.exists(directory)
    try:
        if what == "put":
            came = unpack_stream(sys.stdin.buffer, directory)
            if came != sys.argv[3]:
                raise YodError("what came is not what was sent: the digests differ")
            note(directory)
            return 0
        print(pack(directory, sys.stdout.buffer, (), noted(directory)), file=sys.stderr)
        sys.stdout.flush()
        if sys.argv[3:] == ["remove"]:
            shutil.rmtree(directory, ignore_errors=True)
            drop_note(directory)
    except OSError as error:
        print(f"{error.filename or directory}: {error.strerror}", file=sys.stderr)
    except (YodError, tarfile.TarError) as error:
        print(f"{directory}: {error}", file=sys.stderr)
    else:
        return 0
    if is_new:
        shutil.rmtree(directory, ignore_errors=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
