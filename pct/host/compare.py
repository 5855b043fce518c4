"""Does this node have an object already, in a file at the path where yod found it?"""

from __future__ import annotations

import os
from _blake2 import blake2b
from functools import lru_cache

from native.host.files import Owner, identity, open_plain
from native.loop.slices import Work
from native.wire.load import ShippedObject

SLICE_BYTES = 4 << 20  # hashed between two looks at the loop
DIGEST_BYTES = 32
DIGESTS_REMEMBERED = 1024
NETWORK_TYPES = (
    "nfs", "nfs4", "lustre", "gpfs", "cifs", "smb3", "ceph", "beegfs", "afs", "9p", "pvfs2",
    "orangefs", "glusterfs", "wekafs", "virtiofs",
)  # fmt: skip


class Digests:
    """Digests of files of this node. Each is remembered until the file changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], bytes] = {}

    def has(self, shipped: ShippedObject, owner: Owner) -> Work[bool]:
        """Is the file at the object's path the object? It is read with the owner's rights."""
        try:
            fd = open_plain(shipped.path, owner)
        except OSError:
            return False
        try:
            status = os.fstat(fd)
            is_candidate = (
                status.st_size == shipped.size
                and status.st_mode & 0o111 == shipped.mode & 0o111
                and is_local(status.st_dev, os.path.dirname(os.fsdecode(shipped.path)))
            )
            if not is_candidate:
                return False
            key = identity(status)
            if key not in self._known:
                digest = yield from _digest(fd, shipped.size, key)
                if digest is None:
                    return False
                if len(self._known) >= DIGESTS_REMEMBERED:
                    self._known.clear()
                self._known[key] = digest
            return self._known[key] == shipped.digest
        except OSError:  # it could be opened, but not read
            return False
        finally:
            os.close(fd)


def _digest(fd: int, size: int, key: tuple[int, ...]) -> Work[bytes | None]:
    """Digest of the whole file; None: the file has changed meanwhile."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    left = size
    while left:
        data = os.read(fd, min(left, SLICE_BYTES))
        if not data:
            return None
        digest.update(data)
        left -= len(data)
        if left:
            yield
    return digest.digest() if identity(os.fstat(fd)) == key else None


@lru_cache(maxsize=256)
def is_local(device: int, directory: str) -> bool:
    """The file system lies on this node alone.

    A thousand nodes that each hash one shared file are the storm that shipping is
    to avoid.

    Args:
        device: st_dev of a file.
        directory: where it lies, for file systems whose st_dev is not their mount's.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    best, kind = -1, ""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            head, _, tail = line.partition(" - ")
            fields = head.split()
            fstype = tail.split(" ", 1)[0]
            if fields[2] == wanted:
                return not _is_network(fstype)
            point = fields[4].rstrip("/")
            if (directory + "/").startswith(point + "/") and len(point) > best:
                best, kind = len(point), fstype
    return not _is_network(kind)


def _is_network(fstype: str) -> bool:
    return fstype in NETWORK_TYPES or fstype.startswith("fuse")
