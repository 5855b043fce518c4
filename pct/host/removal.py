"""Removes files of jobs in slices: the kernel takes long to free the memory of a large file.

Also removes the directories of PCTs that were killed: those whose lock is free.
"""

from __future__ import annotations

import os
import stat
from fcntl import F_SETLEASE, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, fcntl, flock

from native.host import files
from native.loop.slices import Work

PREFIX = "yod-store-"
SLICE_BYTES = 16 << 20  # freed in one slice
ENTRIES = 256  # of a directory, in one slice
DEPTH_MAX = 16  # directories below one another
DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_file(name: str | bytes, directory: int | None = None) -> Work[None]:
    """Remove a file. It is no error if it is not there.

    Args:
        directory: a descriptor of the directory that it is in; None: the name is a path.
    """
    fd = -1
    try:
        if os.lstat(name, dir_fd=directory).st_size > SLICE_BYTES:
            if os.geteuid() != 0:  # as root, the directory may be a user's: no chmod there
                os.chmod(name, 0o600, dir_fd=directory)  # a program cannot be written
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(name, flags, dir_fd=directory)
    except OSError:  # it still runs: the kernel frees it with the last process
        pass
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        pass
    if fd >= 0:
        yield from give_back(fd, _is_ours_alone(fd))


def give_back(fd: int, is_ours_alone: bool = True) -> Work[None]:
    """Close a file whose name has been removed, and free its memory in slices.

    Args:
        is_ours_alone: no other process has it open; else the kernel frees it later.

    The file keeps its size, because our transport may still have it mapped.
    """
    try:
        size = os.fstat(fd).st_size
        while is_ours_alone and size > SLICE_BYTES:
            size -= SLICE_BYTES
            _punch(fd, size)
            yield
    finally:
        os.close(fd)


def _is_ours_alone(fd: int) -> bool:
    """Has a file no name, and does no other process have it open or mapped?"""
    try:
        if os.fstat(fd).st_nlink:
            return False
        fcntl(fd, F_SETLEASE, F_WRLCK)
        fcntl(fd, F_SETLEASE, F_UNLCK)  # it has no name, so no process can open it any more
        return True
    except OSError:
        return False


def _punch(fd: int, offset: int) -> None:
    try:
        files.punch(fd, offset, SLICE_BYTES)
    except OSError:  # not every file system can; the kernel frees it at close
        pass


def remove_tree(path: str) -> Work[None]:
    """Remove a directory of ours with what is in it.

    Users may own directories in it and change them meanwhile, so no symbolic link is
    followed. Directories that are nested deeper than ours ever are stay.
    """
    yield from _remove_directory(path, None, DEPTH_MAX)


def _remove_directory(name: str, parent: int | None, depth: int) -> Work[None]:
    try:
        os.rmdir(name, dir_fd=parent)
        return
    except OSError:  # not empty, most likely
        pass
    if not depth:
        return
    try:
        directory = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    except OSError:
        return
    try:
        for number, entry in enumerate(os.listdir(directory), 1):
            try:
                mode = os.lstat(entry, dir_fd=directory).st_mode
            except OSError:
                continue
            if stat.S_ISDIR(mode):
                yield from _remove_directory(entry, directory, depth - 1)
            else:
                yield from remove_file(entry, directory)
            if number % ENTRIES == 0:
                yield
        os.rmdir(name, dir_fd=parent)
    except OSError:  # a file of another user is in it
        pass
    finally:
        os.close(directory)


def sweep(parent: str) -> Work[None]:
    """Remove the directories of PCTs that are gone, and shared memory that their ranks left."""
    try:
        names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
    except OSError:
        return
    for name in names:
        directory = os.path.join(parent, name)
        try:
            fd = os.open(directory, DIRECTORY_FLAGS)
        except OSError:
            continue
        try:
            status = os.fstat(fd)
            if status.st_uid == os.geteuid():
                flock(fd, LOCK_EX | LOCK_NB)
                yield from remove_tree(directory)
                yield from _remove_leftovers(status)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(fd)


def _remove_leftovers(directory: os.stat_result) -> Work[None]:
    """Remove shared memory of a killed PCT's ranks, made since its directory last changed."""
    from pct.host import leftovers  # which imports this module

    yield from leftovers.remove(directory.st_uid, directory.st_mtime)
