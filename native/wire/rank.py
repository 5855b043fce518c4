"""What a rank that uses Portals is given: the job's key and map, in a file.

RANK.md in this folder is the specification; libportals reads it (``ptl_job.c``).
Integers are little-endian. The file::

    u32 magic "YODR"   u32 version 1   u32 size   u32 kind of the key (3, a job's)
    u32 uid   u32 zero   u64 job_id   u64 expires   u8 secret[32]
    u32 nid   u32 pid                               for each rank

A rank knows it by ``YOD_PORTALS=FILE,LISTENER,RANK``: two inherited descriptors and
its own place in the map.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct as Layout

from msgspec import Struct

from native.auth import KEY_BYTES, NEVER
from native.errors import PeerProtocolError
from native.ids import PortalId

MAGIC = 0x52444F59
VERSION = 1
HEAD = Layout("<6IQQ32s")
ENTRY = Layout("<II")
_KEY_OF_JOB = 3  # PTLX_KEY_JOB


class RankFile(Struct, frozen=True):
    """The key and the map of a job.

    Attributes:
        secret: 32 bytes; ranks that have the same may connect to one another.
        expires: seconds since 1970.
        ids: where rank 0, 1, ... listens.
    """

    job_id: int
    uid: int
    secret: bytes
    ids: tuple[PortalId, ...]
    expires: int = NEVER


def encode_map(nids: Iterable[int], ports: Sequence[int]) -> bytes:
    """The map's part of the file, from two columns of the same length."""
    return b"".join(ENTRY.pack(nid, port) for nid, port in zip(nids, ports, strict=True))


def encode(job_id: int, uid: int, secret: bytes, ids: bytes, expires: int = NEVER) -> bytes:
    """The file.

    Args:
        ids: of :func:`encode_map`.
    """
    assert len(secret) == KEY_BYTES, "a key has 32 bytes"
    size = len(ids) // ENTRY.size
    head = HEAD.pack(MAGIC, VERSION, size, _KEY_OF_JOB, uid, 0, job_id, expires, secret)
    return head + ids


def decode(data: bytes) -> RankFile:
    """What a file says.

    Raises:
        PeerProtocolError: it is none of this version.
    """
    if len(data) < HEAD.size:
        raise PeerProtocolError(f"a rank's file of {len(data)} bytes")
    magic, version, size, kind, uid, zero, job_id, expires, secret = HEAD.unpack_from(data)
    if (magic, version, kind, zero) != (MAGIC, VERSION, _KEY_OF_JOB, 0):
        raise PeerProtocolError("a rank's file of another version")
    if not size or len(data) != HEAD.size + size * ENTRY.size:
        raise PeerProtocolError(f"a rank's file of {len(data)} bytes for {size} ranks")
    ids = tuple(PortalId(*entry) for entry in ENTRY.iter_unpack(data[HEAD.size :]))
    return RankFile(job_id, uid, secret, ids, expires)
