"""The partition's key: a file of 32 random bytes that only its owner can read.

bebopd makes it at its first start, and operators change it; every daemon of the partition
has the same key.
"""

from __future__ import annotations

import os

from native.host.keyfile import KEY_BYTES, KeyFileError, read_partition_keys
from native.text import shown


def read_or_make(path: str) -> tuple[bytes, ...]:
    """The keys in a file, of which the first is used; a new one when there is no file.

    Raises:
        KeyFileError: others can read it, it has another length, or the system
            refuses.
    """
    try:
        return read_partition_keys(path)
    except FileNotFoundError:
        pass
    # The file gets its name when it is complete, so that two first starts agree on one key.
    temporary = f"{path}.{os.getpid()}"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, os.urandom(KEY_BYTES))
            os.fsync(fd)
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            os.close(fd)
            os.unlink(temporary)
    except OSError as error:
        raise KeyFileError(f"key file {shown(path)}: {error.strerror}") from None
    return read_partition_keys(path)
