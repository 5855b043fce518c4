"""Key files: the partition's, which daemons hold, and a user's own.

A partition's key is 32 bytes as they are; while it is changed the file has several keys, the
first of which is used, and all are accepted. A user's is a line ``user UID HEX``: the
key that follows from the partition's for that uid, made by ``yodctl key``. Either
must be readable by its owner only. Where nobody names a file it is ``/etc/yod/key`` for
root, and for others ``yod/key`` in ``$XDG_CONFIG_HOME`` or ``~/.config``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from native import auth
from native.errors import YodError
from native.text import shown

KEY_BYTES = auth.KEY_BYTES
KEYS_MAX = 4  # PTLX_KEYS_MAX of portals4_ext.h
FILE_MAX_BYTES = 256
VARIABLE = "YOD_PCT_KEY"  # an allocation's key, hex: only its user can read the environment


SITE = "/etc/yod/key"


class KeyFileError(YodError):
    """The key file cannot be used; the text says why and what to do."""


def read_partition_keys(path: str) -> tuple[bytes, ...]:
    """The keys that the daemons of a partition share; mostly it is one.

    Raises:
        FileNotFoundError: there is no such file.
        KeyFileError: others can read it, or it is no partition's key.
    """
    keys = _split(data := _read(path))
    if not keys:
        many = f", a file has at most {KEYS_MAX}" if len(data) > KEY_BYTES else ""
        text = f"{len(data)} bytes, a key has {KEY_BYTES}{many}"
        raise KeyFileError(f"key file {shown(path)}: {text}")
    return keys


def read_partition_key(path: str) -> bytes:
    """The first of them."""
    return read_partition_keys(path)[0]


def _split(data: bytes) -> tuple[bytes, ...]:
    """The keys of a partition's file; none: it is no such file."""
    count, rest = divmod(len(data), KEY_BYTES)
    if rest or not 1 <= count <= KEYS_MAX:
        return ()
    return tuple(data[at : at + KEY_BYTES] for at in range(0, len(data), KEY_BYTES))


def read_any_key(path: str) -> tuple[int | None, bytes]:
    """A partition's or a user's key.

    Returns:
        The user's id, None for a partition's key; and the key.

    Raises:
        KeyFileError: missing, readable by others, or neither.
    """
    try:
        data = _read(path)
    except FileNotFoundError as error:
        raise KeyFileError(f"key file {shown(path)}: {error.strerror}") from None
    if keys := _split(data):
        return None, keys[0]
    words = data.split()
    try:
        if len(words) == 3 and words[0] == b"user":
            uid, key = int(words[1]), bytes.fromhex(words[2].decode())
            if len(key) == KEY_BYTES:
                return uid, key
    except ValueError:
        pass
    raise KeyFileError(f"key file {shown(path)}: neither a partition's key nor a user's")


def place(environment: Mapping[str, str]) -> str:
    """Where this user's key is if nobody names a file. It need not be there."""
    if os.geteuid() == 0:
        return SITE
    chosen = environment.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(chosen):  # the XDG specification: another is to be ignored
        from native.host.userdirs import home

        chosen = os.path.join(home(environment), ".config")
    return os.path.join(chosen, "yod", "key")


def default(environment: Mapping[str, str]) -> str:
    """The same; empty: there is no such file."""
    path = place(environment)
    return path if os.path.exists(path) else ""


def take_key(environment: Mapping[str, str]) -> bytes:
    """The key that an allocation's PCTs find in their environment, and nobody else's.

    Raises:
        KeyFileError: there is none.
    """
    text = environment.get(VARIABLE, "")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise KeyFileError(f"{VARIABLE}: no key; only an allocation's launch sets it")
    return key


def user_key_line(partition_key: bytes, uid: int) -> str:
    """What a user's key file holds."""
    return f"user {uid} {auth.derive_user_key(partition_key, uid).hex()}\n"


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeyFileError(f"key file {shown(path)}: {error.strerror}") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"key file {shown(path)}: not a file")
        if status.st_uid not in (os.geteuid(), 0):
            raise KeyFileError(f"key file {shown(path)}: belongs to uid {status.st_uid}")
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            name = shown(path)
            raise KeyFileError(
                f"key file {name}: mode {mode:04o} lets others use it: chmod 600 {name}"
            )
        return os.read(fd, FILE_MAX_BYTES)
    finally:
        os.close(fd)
