"""Orders for nodes and requests to end jobs, of yodctl and pingd: given to bebopd, and told of."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from native import duration, limits
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
    with _wrong_usage():
        changed = reached.give(where, limits.load(os.environ), given)
    return order.told(given, changed)


def end(asked: wire.EndJobs, partition: str) -> tuple[list[str], bool]:
    """Have jobs ended; lines that say which, and whether there are any.

    Raises:
        UsageError: there is no such node or job.
        PartitionError: bebopd is not there, or refuses.
    """
    where = discover.find(partition, os.environ)
    with _wrong_usage():
        ending = reached.end_jobs(where, limits.load(os.environ), asked)
    return order.ending(asked, ending), ending.job_count > 0


@contextmanager
def _wrong_usage() -> Iterator[None]:
    """A refusal that the user's words are the reason of is wrong usage."""
    try:
        yield
    except query.OrderRefused as refused:
        if refused.code in (Refusal.UNKNOWN_NODE, Refusal.UNKNOWN_JOB, Refusal.BAD_REQUEST):
            raise UsageError(str(refused)) from None
        raise


def reserve(
    nodes: tuple[int, ...],
    users: str,
    reason: str,
    partition: str,
    start: str = "",
    lasts: str = "",
) -> list[str]:
    """Reserve nodes for users, by name or uid, with commas between them.

    Args:
        start: when, as for `yodjob submit -begin`; empty: at once.
        lasts: how long; empty: until they are given back.

    Raises:
        UsageError, PartitionError: as for :func:`give`; or there is no such user here.
    """
    text = order.readable(reason) if reason else ""
    first, *others = dict.fromkeys(_uid_of(user) for user in users.split(","))
    if len(others) > wire.USERS_MAX:
        raise UsageError(f"-user: {len(others) + 1} users, at most {wire.USERS_MAX + 1}")
    begins_s = _moment(start) if start else 0.0
    lasts_s = float(duration.parse(lasts, "-duration")) if lasts else 0.0
    return give(wire.Reserve(nodes, first, text, begins_s, lasts_s, tuple(others)), partition)


def _moment(start: str) -> float:
    from partition.submit import moment  # few reservations begin later

    return moment.parse(start, "-start", datetime.now())


def _uid_of(user: str) -> int:
    if user.isdecimal() and user.isascii() and len(user) <= 10 and int(user) < UID_END:
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise UsageError(f"no user {shown(user)} here; a uid goes as well") from None
