"""Orders for nodes, of yodctl and pingd: given to bebopd, and told of."""

from __future__ import annotations

import os
import pwd

from native import limits
from native.errors import Refusal, UsageError
from native.text import shown
from native.wire import nodes as wire
from partition.find import discover
from partition.status import order, query, reached

UID_END = (1 << 32) - 1


def give(given: wire.Order, partition: str) -> list[str]:
    """Give an order to the partition that pingd shows; lines that say what comes of it.

    Raises:
        UsageError: there is no such node, or the order contradicts what was ordered before.
        PartitionError: bebopd is not there, or refuses.
    """
    where = discover.find(partition, os.environ)
    try:
        changed = reached.give(where, limits.load(os.environ), given)
    except query.OrderRefused as refused:
        if refused.code in (Refusal.UNKNOWN_NODE, Refusal.BAD_REQUEST):
            raise UsageError(str(refused)) from None
        raise
    return order.told(given, changed)


def reserve(nodes: tuple[int, ...], user: str, reason: str, partition: str) -> list[str]:
    """Reserve nodes for a user, by name or uid.

    Raises:
        UsageError, PartitionError: as for :func:`give`; or there is no such user here.
    """
    text = order.readable(reason) if reason else ""
    return give(wire.Reserve(nodes, _uid_of(user), text), partition)


def _uid_of(user: str) -> int:
    if user.isdecimal() and user.isascii() and len(user) <= 10 and int(user) < UID_END:
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise UsageError(f"no user {shown(user)} here; a uid goes as well") from None
