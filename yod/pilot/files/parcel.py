"""Small directories as one message: files that travel with a call, or with its answer."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Collection
from io import BytesIO

from native.errors import YodError
from yod.pilot.files.archive import drop_note, note, noted, pack, unpack


class TooLarge(YodError):
    """A directory is larger than a message may be."""


class _Bounded(BytesIO):
    """Takes so many bytes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Add bytes.

        Raises:
            TooLarge: there is no room for them.
        """
        if self.tell() + len(data) > self._most:
            raise TooLarge(f"more than {self._most} bytes (YOD_CALL_BYTES)")
        return super().write(data)


def parcel_of(directory: str, bytes_max: int, without: Collection[str] = ()) -> bytes:
    """What is in a directory, but for what was brought there; empty: nothing.

    Args:
        without: names in it that stay.

    Raises:
        TooLarge: it does not fit.
        OSError: a file cannot be read.
    """
    try:
        names = set(os.listdir(directory)) - set(without)
    except FileNotFoundError:
        return b""
    if not names:
        return b""
    whole = _Bounded(bytes_max)
    pack(directory, whole, without, noted(directory))
    return whole.getvalue()


def open_parcel(parcel: bytes, directory: str, grows: Collection[str] = ()) -> str:
    """Put what a parcel has below a directory; why that cannot be done; empty: it is.

    Args:
        grows: files that are written on where they are there already.
    """
    try:
        os.makedirs(directory, exist_ok=True)
        if not parcel:
            return ""
        with tarfile.open(fileobj=BytesIO(parcel), mode="r:") as archive:
            for name in grows:
                _write_on(archive, name, directory)
            unpack(archive, directory, grows)
    except OSError as error:
        return f"{error.filename or directory}: {error.strerror}"
    except (YodError, tarfile.TarError) as error:
        return str(error)
    return ""


def take_parcel(parcel: bytes, directory: str) -> str:
    """Likewise, and write down what that was: it does not go back."""
    failure = open_parcel(parcel, directory)
    if not failure:
        try:
            note(directory)
        except OSError as error:
            failure = f"{error.filename or directory}: {error.strerror}"
    return failure


def _write_on(archive: tarfile.TarFile, name: str, directory: str) -> None:
    try:
        source = archive.extractfile(name)
    except KeyError:
        return
    if source is not None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(os.path.join(directory, name), flags, 0o666)
        with open(fd, "ab") as file:
            shutil.copyfileobj(source, file)


def remove(directory: str) -> None:
    """Remove a directory that was carried, as far as it is there."""
    shutil.rmtree(directory, ignore_errors=True)
    drop_note(directory)
