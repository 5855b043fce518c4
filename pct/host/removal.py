"""Removing files of jobs, a slice at a time: the kernel clears what a RAM disk gives back.

Also what PCTs that were killed have left: a directory of theirs whose lock can be had.
"""

from __future__ import annotations

import os
import stat
from fcntl import F_SETLEASE, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, fcntl, flock

from native.loop.slices import Work

PREFIX = "yod-store-"
SLICE_BYTES = 16 << 20  # given back between two looks at the loop
ENTRIES = 256  # of a directory, between two looks
DEPTH_MAX = 16  # directories below one another
DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_file(name: str | bytes, directory: int | None = None) -> Work[None]:
    """Remove a file; one that is not there is no fault.

    Args:
        directory: where it is, open; None: the name is a path.
    """
    fd = -1
    try:
        if os.lstat(name, dir_fd=directory).st_size > SLICE_BYTES:
            if os.geteuid() != 0:  # all is our own; root's directories may be users'
                os.chmod(name, 0o600, dir_fd=directory)  # it has the mode of a program
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(name, flags, dir_fd=directory)
    except OSError:  # it still runs; then its last process gives its room back
        pass
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        pass
    if fd >= 0:
        yield from give_back(fd, _is_ours_alone(fd))


def give_back(fd: int, is_ours_alone: bool = True) -> Work[None]:
    """Close a file whose name has been removed; what is in it is lost, if it is ours alone.

    Its size stays: our transport may still have it mapped.
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
    """A file has no name, and nobody else has it open or mapped: then a lease is given."""
    try:
        if os.fstat(fd).st_nlink:
            return False
        fcntl(fd, F_SETLEASE, F_WRLCK)
        fcntl(fd, F_SETLEASE, F_UNLCK)  # nobody can open what has no name
        return True
    except OSError:
        return False


def _punch(fd: int, offset: int) -> None:
    from native.host import files

    try:
        files.punch(fd, offset, SLICE_BYTES)
    except OSError:  # a disk's file system that cannot; then the kernel does it at the end
        pass


def remove_tree(path: str) -> Work[None]:
    """Remove a directory of ours with what is in it.

    Users may own directories in it and change them meanwhile: no symbolic link is
    followed. What is nested deeper than ours ever is, stays.
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
    except OSError:  # somebody else's file is in it
        pass
    finally:
        os.close(directory)


def sweep(parent: str) -> Work[None]:
    """Remove directories of PCTs that are gone, and what their ranks have left besides."""
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
    """Shared memory of a killed PCT's ranks, made since the directory has got its last file."""
    from pct.host import leftovers  # nearly always there is none

    yield from leftovers.remove(directory.st_uid, directory.st_mtime)
