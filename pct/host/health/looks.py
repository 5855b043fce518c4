"""What a host shows of itself: memory, RAM disk, processes that nobody reaps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from native.limits import Limits
from native.memory import memory_text

AT_ONCE_COUNT = 64  # processes, between two turns of the loop


def looks(stores: Sequence[str], limits: Limits, root: str = "/") -> Iterator[str]:
    """Look at the host in short pieces; each gives what is not well, or an empty text.

    Args:
        stores: directories of the store.
        root: of the file system with /proc.
    """
    yield _memory(os.path.join(root, "proc/meminfo"), limits.health_memory_bytes)
    for directory in stores:
        yield _store(directory, limits.health_store_bytes)
    yield from _zombies(os.path.join(root, "proc"), limits.health_zombies_count)


def _memory(path: str, least_bytes: int) -> str:
    try:
        with open(path, encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        free_bytes = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return ""  # a kernel that does not say
    if free_bytes >= least_bytes:
        return ""
    return (
        f"{memory_text(free_bytes)} of memory left,"
        f" at least {memory_text(least_bytes)} are wanted (YOD_HEALTH_MEMORY_BYTES)"
    )


def _store(directory: str, least_bytes: int) -> str:
    try:
        found = os.statvfs(directory)
    except OSError as error:
        return f"{directory}: {error.strerror}"
    if found.f_flag & os.ST_RDONLY:
        return f"{directory} cannot be written"
    free_bytes = found.f_bavail * found.f_frsize
    if free_bytes >= least_bytes:
        return ""
    return (
        f"{directory}: {memory_text(free_bytes)} left,"
        f" at least {memory_text(least_bytes)} are wanted (YOD_HEALTH_STORE_BYTES)"
    )


def _zombies(proc: str, most: int) -> Iterator[str]:
    count = 0
    for number, name in enumerate(os.listdir(proc)):
        if name.isdecimal():
            count += _is_zombie(os.path.join(proc, name, "stat"))
        if number % AT_ONCE_COUNT == AT_ONCE_COUNT - 1:
            yield ""
    if count > most:
        yield f"{count} zombies, at most {most} are well (YOD_HEALTH_ZOMBIES_COUNT)"


def _is_zombie(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:  # it is gone
        return False
