"""Data that PMIx servers exchange and the PCTs do not read.

A published value: u16 type, u32 rank, u8 length of the namespace, the namespace, the
data. Rank and namespace name the publisher, which a lookup returns.

A node's share in making a group: u64 number that it proposes, u16 length of the
group's name, the name. Numbers are little-endian.
"""

from __future__ import annotations

import struct

from pct.pmix_server.keys import Code, Info, Type
from pct.pmix_server.plain import TEXT_MAX, FenceDone, NamedProcess, NonsenseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pct.pmix_server.memory import Value

_HEAD = struct.Struct("<HIB")
_SHARE = struct.Struct("<QH")


def short_text(text: str) -> str:
    """The part of a text that fits a message, with other bytes than characters replaced."""
    return text.encode(errors="replace").decode()[:TEXT_MAX]


def by_whom(
    infos: list[tuple[bytes, Value]],
) -> tuple[dict[bytes, Value], list[tuple[bytes, Value]]]:
    """The directives to us, which have keys that PMIx reserves, and the client's own pairs."""
    directives = {key: value for key, value in infos if key.startswith(b"pmix.")}
    return directives, [(key, value) for key, value in infos if not key.startswith(b"pmix.")]


def published(process: NamedProcess, kind: int, data: bytes) -> bytes:
    """A published value as it is stored under its key."""
    nspace = process.nspace.encode()
    return _HEAD.pack(kind, process.rank, len(nspace)) + nspace + data


def read_published(value: bytes) -> tuple[NamedProcess, int, bytes]:
    """Publisher, type and data of a published value.

    Raises:
        NonsenseError: no PMIx server has published it.
    """
    try:
        kind, rank, length = _HEAD.unpack_from(value)
        nspace = value[_HEAD.size : _HEAD.size + length].decode()
        return NamedProcess(nspace, rank), kind, value[_HEAD.size + length :]
    except (struct.error, UnicodeDecodeError):
        raise NonsenseError("pmix: a published value is not one of ours") from None


def group_share(number: int, name: bytes) -> bytes:
    """One node's contribution to constructing a group."""
    return _SHARE.pack(number, len(name)) + name


def read_group_shares(shares: bytes) -> list[tuple[int, bytes]]:
    """Number and name in each share, in the order of the nodes; at least one.

    Raises:
        NonsenseError: they were not made by PMIx servers.
    """
    found: list[tuple[int, bytes]] = []
    at = 0
    try:
        while at < len(shares) or not found:
            number, length = _SHARE.unpack_from(shares, at)
            at += _SHARE.size + length
            found.append((number, shares[at - length : at]))
    except struct.error:
        raise NonsenseError("pmix: a share of a group is not one of ours") from None
    return found


def group_infos(
    name: bytes, members: tuple[NamedProcess, ...], message: FenceDone
) -> tuple[int, tuple[Info, ...]]:
    """Status of making a group, and what its members are told of it.

    Raises:
        NonsenseError: the shares were not made by PMIx servers.
    """
    if message.status != Code.SUCCESS:
        return message.status, ()
    shares = read_group_shares(message.data)
    if any(other != name for _, other in shares):
        # The same members make two groups, in another order on another node.
        return Code.BAD_PARAM, ()
    return Code.SUCCESS, (
        Info(b"pmix.grp.id", Type.STRING, name),
        Info(b"pmix.grp.ctxid", Type.SIZE, shares[0][0]),
        Info(b"pmix.grp.mbrs", Type.DATA_ARRAY, members),
    )
