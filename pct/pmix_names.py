"""A published value on its way between PMIx servers, which alone read it.

u16 type, u32 rank, u8 length of the namespace, the namespace, the data; numbers are
little-endian. The rank and namespace are who published: a lookup tells them.
"""

from __future__ import annotations

import struct

from native.errors import PeerProtocolError
from native.wire.pmix import NamedProcess

_HEAD = struct.Struct("<HIB")


def published(process: NamedProcess, kind: int, data: bytes) -> bytes:
    """A value of a type of PMIx, as it is kept under its key."""
    nspace = process.nspace.encode()
    return _HEAD.pack(kind, process.rank, len(nspace)) + nspace + data


def read_published(value: bytes) -> tuple[NamedProcess, int, bytes]:
    """Who published it, its type and its data.

    Raises:
        PeerProtocolError: it was not published by a PMIx server.
    """
    try:
        kind, rank, length = _HEAD.unpack_from(value)
        nspace = value[_HEAD.size : _HEAD.size + length].decode()
        return NamedProcess(nspace, rank), kind, value[_HEAD.size + length :]
    except (struct.error, UnicodeDecodeError):
        raise PeerProtocolError("pmix: a published value is not one of ours") from None
