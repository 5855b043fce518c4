"""Room for objects: how much of each file system each user holds, within a share.

Room is claimed before the first byte arrives. While a claim is being allocated in slices,
its rest is promised: it no longer counts as free for other claims.
"""

from __future__ import annotations

import errno
import os
from collections import Counter

from native.loop.slices import Work

SLICE_BYTES = 4 << 20  # allocated in one slice; a RAM disk fills them with zeros
MEMORY = "memory"  # in place of a directory: files without a name
ALL_PERCENT = 100


class Claim:
    """The room of one object.

    Attributes:
        size: bytes.
        promised: how many of them are not allocated yet.
    """

    __slots__ = ("device", "promised", "size", "uid")

    def __init__(self, device: int, uid: int, size: int) -> None:
        self.device = device
        self.uid = uid
        self.size = size
        self.promised = size


class Room:
    """The claims on one node.

    Args:
        user_percent: how much of a file system the objects of one user may take, in all
            their jobs (``store_user_percent``); 100: all that is free.
    """

    def __init__(self, user_percent: int = ALL_PERCENT) -> None:
        self._user_percent = user_percent
        self._held: Counter[tuple[int, int]] = Counter()  # (device, uid) -> bytes
        self._promised: Counter[int] = Counter()  # device -> bytes

    def claim(self, where: str, uid: int, size: int) -> Claim:
        """Claim room for a user.

        Args:
            where: a directory, or ``MEMORY``.

        Raises:
            OSError: there is not enough room (ENOSPC), or the user's share would be
                exceeded (EDQUOT); the text has the numbers.
        """
        device, capacity, free = _file_system(where)
        free -= self._promised[device]
        if size > free:
            raise OSError(errno.ENOSPC, f"{size} bytes needed, {max(0, free)} free")
        if (left := _cgroup_room()) is not None:
            left -= self._promised.total()
            if size > left:
                text = f"{size} bytes needed, the memory cgroup has {max(0, left)} left"
                raise OSError(errno.ENOSPC, text)
        held = self._held[device, uid]
        share = capacity * self._user_percent // ALL_PERCENT
        if self._user_percent < ALL_PERCENT and held + size > share:
            text = (
                f"{size} bytes needed, user {uid} holds {held} of the {share} that a user may: "
                f"store_user_percent is {self._user_percent}"
            )
            raise OSError(errno.EDQUOT, text)
        self._held[device, uid] += size
        self._promised[device] += size
        return Claim(device, uid, size)

    def allocate(self, fd: int, claim: Claim) -> Work[None]:
        """Allocate the room of a claim for a file.

        A write to a mapped file on a full tmpfs would raise SIGBUS.

        Raises:
            OSError: there is less room than was claimed.
        """
        while claim.promised:
            length = min(claim.promised, SLICE_BYTES)
            os.posix_fallocate(fd, claim.size - claim.promised, length)
            self._keep(claim, length)
            if claim.promised:
                yield

    def release(self, claim: Claim) -> None:
        """Give back a claim."""
        self._keep(claim, claim.promised)
        self._held[claim.device, claim.uid] -= claim.size
        if not self._held[claim.device, claim.uid]:
            del self._held[claim.device, claim.uid]

    def held(self, uid: int) -> int:
        """Bytes that a user holds, on all file systems."""
        return sum(size for (_, holder), size in self._held.items() if holder == uid)

    def _keep(self, claim: Claim, length: int) -> None:
        claim.promised -= length
        self._promised[claim.device] -= length


def _file_system(where: str) -> tuple[int, int, int]:
    """Device, size in bytes and free bytes of a directory's file system."""
    if where == MEMORY:
        page = os.sysconf("SC_PAGE_SIZE")
        memory = os.sysconf("SC_PHYS_PAGES") * page
        return -1, memory, memory
    status = os.statvfs(where)
    unit = status.f_frsize
    return os.stat(where).st_dev, status.f_blocks * unit, status.f_bavail * unit


def _cgroup_room() -> int | None:
    """Bytes that the memory cgroup (v2) still allows; None: no limit is known."""
    from pct.host.cgroups.files import own_path  # needed only where objects are shipped

    path = own_path()
    if path is None:
        return None
    try:
        with open(path + "/memory.max", encoding="ascii") as limit:
            text = limit.read().strip()
        if text == "max":
            return None
        with open(path + "/memory.current", encoding="ascii") as current:
            return max(0, int(text) - int(current.read()))
    except (OSError, ValueError):
        return None
