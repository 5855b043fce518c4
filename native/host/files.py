"""Files that users name: opened with their owner's rights, and only plain ones.

A daemon run by root could read what the user cannot, and reveal it by what it does. On a
network file system root may be mapped to nobody, and could not read the user's own file.
Also what outlives the host, and what the kernel takes only by calls that Python lacks: holes, and
devices of control groups.
"""

from __future__ import annotations

import errno
import os

from msgspec import Struct


class Owner(Struct, frozen=True):
    """With whose rights a file is opened."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def open_plain(path: bytes, owner: Owner) -> int:
    """Open a plain file for reading; a descriptor, close-on-exec.

    A device, FIFO, socket or directory is refused without being opened.

    Raises:
        OSError: the owner cannot read it, it is not a plain file (EINVAL), or this
            process may not act for the owner (EPERM).
    """
    return _open(path, owner, path_only=False)


def exists(path: bytes, owner: Owner) -> bool:
    """Whether there is such a file, as far as its owner can see.

    Raises:
        OSError: that cannot be told.
    """
    try:
        if owner.uid == os.geteuid():
            os.stat(path)
        else:
            os.close(_open(path, owner, path_only=True))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def sync(path: str) -> None:
    """What a file has, or a directory names, outlives the host from now on.

    Raises:
        OSError: it cannot be written to the disk.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def identity(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file's bytes do."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def punch(fd: int, offset: int, length: int) -> None:
    """Free the blocks of a part of a file; its size stays.

    Raises:
        OSError: its file system cannot do it.
    """
    from native._native import lib

    _check(lib.yod_punch(fd, offset, length), b"")


def device_programs(group: str) -> int:
    """How many programs for devices a control group has, beside those of groups above it.

    Raises:
        OSError: there is no such group, or this process may not ask.
    """
    from native._native import ffi, lib

    count: int = lib.devices_programs(os.fsencode(group))
    return count if count >= 0 else _check(-ffi.errno, os.fsencode(group))


def deny_devices(group: str, denied: bytes) -> None:
    """Have a control group deny devices to all that is in it, beside what it denies already.

    Args:
        denied: their numbers, as ``195:1 226:129``.

    Raises:
        OSError: there is no such group, or this process may not.
    """
    from native._native import ffi, lib

    if lib.devices_deny(os.fsencode(group), denied) != 0:
        _check(-ffi.errno, os.fsencode(group))


def _open(path: bytes, owner: Owner, *, path_only: bool) -> int:
    from native._native import ffi, lib  # the embedded partition does without the extension

    if b"\0" in path:  # the kernel would take what is before it
        raise OSError(errno.EINVAL, "a path with a NUL")
    groups = ffi.new("uint32_t[]", list(owner.groups))
    fd: int = lib.yod_open_as(owner.uid, owner.gid, groups, len(groups), path, path_only)
    return _check(fd, path)


def _check(rc: int, path: bytes) -> int:
    if rc < 0:
        raise OSError(-rc, os.strerror(-rc), os.fsdecode(path) or None)
    return rc
