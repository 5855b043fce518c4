"""The partition's key: a file of 32 random bytes that only its owner can read.

Made at the first start, never changed after that; every daemon of the partition
holds the same.
"""

from __future__ import annotations

import os
import stat

from native.errors import YodError

KEY_BYTES = 32


class KeyFileError(YodError):
    """The key file cannot be used; the text says why and what to do."""


def read_or_make(path: str) -> bytes:
    """The key in a file; a new one when there is no file.

    Raises:
        KeyFileError: others can read it, it has another length, or the system
            refuses.
    """
    try:
        return read(path)
    except FileNotFoundError:
        pass
    # Complete before it has its name: two first starts agree on one key.
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, os.urandom(KEY_BYTES))
            os.fsync(fd)
        finally:
            os.close(fd)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(temporary)
    except OSError as error:
        raise KeyFileError(f"key file {path}: {error.strerror}") from None
    return read(path)


def read(path: str) -> bytes:
    """The key in a file.

    Raises:
        FileNotFoundError: there is none.
        KeyFileError: others can read it, or it is no key.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeyFileError(f"key file {path}: {error.strerror}") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"key file {path}: not a file")
        if status.st_uid not in (os.geteuid(), 0):
            raise KeyFileError(f"key file {path}: belongs to uid {status.st_uid}")
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise KeyFileError(
                f"key file {path}: mode {mode:04o} lets others use it: chmod 600 {path}"
            )
        key = os.read(fd, KEY_BYTES + 1)
    finally:
        os.close(fd)
    if len(key) != KEY_BYTES:
        raise KeyFileError(f"key file {path}: {len(key)} bytes, a key has {KEY_BYTES}")
    return key
