"""Files and directories of cgroup v2, and small ones of the kernel's."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import suppress

DEPTH_MAX = 32  # of groups that are removed; a job's may be nested 16 deep


def own_cgroup(root: str = "/") -> str:
    """The path of our control group (cgroup v2); empty: it is the root group, or there is none."""
    try:
        with open(f"{root}proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            paths = [line.rstrip("\n")[3:] for line in file if line.startswith("0::")]
    except OSError:
        return ""
    return paths[0].rstrip("/") if paths else ""


def own_path() -> str | None:
    """The directory of this process's cgroup v2; None: there is no such file system."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            points = [line.split()[4] for line in mounts if " - cgroup2 " in line]
    except OSError:
        return None
    return os.path.normpath(points[0] + own_cgroup()) if points else None


def write(path: str, text: str) -> None:
    """Write to a file of a group.

    Raises:
        OSError: it is not there, may not be written, or does not take the text.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read(path: str) -> str:
    """The content of a file of a group, as far as 4096 bytes; empty: it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 4096).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def listed(path: str) -> list[str]:
    """The names in a directory; none where it cannot be read."""
    try:
        return os.listdir(path)
    except OSError:
        return []


def text_of(path: str) -> str:
    """A small file of the kernel's; empty where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def remove(path: str, depth: int = 0) -> Generator[None, None, None]:
    """Remove a group and those in it, one a step. One with a process in it stays."""
    with suppress(OSError):
        if depth < DEPTH_MAX:
            for entry in os.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    yield from remove(entry.path, depth + 1)
        os.rmdir(path)
    yield


def enable(path: str, wanted: Iterable[str]) -> frozenset[str]:
    """Let groups below this one have controllers, as many of these as the kernel allows.

    Returns:
        Those that they have.
    """
    there = read(os.path.join(path, "cgroup.controllers")).split()
    for name in wanted:
        if name in there:
            with suppress(OSError):  # a process is in the group, or it is another user's
                write(os.path.join(path, "cgroup.subtree_control"), f"+{name}")
    return frozenset(read(os.path.join(path, "cgroup.subtree_control")).split())


def disable(path: str, controllers: Iterable[str]) -> None:
    """Take controllers from the groups below this one, where none of them uses it."""
    for name in controllers:
        with suppress(OSError):
            write(os.path.join(path, "cgroup.subtree_control"), f"-{name}")
