"""Users of the partition's hosts, from the system's databases."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable

from allocator.jobs.grants import Owner
from native.host.userdirs import user_name

REMEMBERED_S = 60.0  # a lookup may ask a directory server
GROUPS_MAX = 65536  # NGROUPS_MAX


class Owners:
    """Looks users up, and remembers them for a while."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[int, tuple[float, Owner | None]] = {}
        self._groups: dict[str, tuple[float, int | None]] = {}

    def find(self, uid: int) -> Owner | None:
        """A user by uid; None: no such user."""
        now = self._monotonic()
        until, owner = self._known.get(uid, (0.0, None))
        if now >= until:
            owner = _look_up(uid)
            self._known[uid] = (now + REMEMBERED_S, owner)
        return owner

    def is_in(self, uid: int, group: str) -> bool:
        """Whether a user is in a group, by its name; in one that does not exist is nobody."""
        now = self._monotonic()
        until, gid = self._groups.get(group, (0.0, None))
        if now >= until:
            gid = _gid(group)
            self._groups[group] = (now + REMEMBERED_S, gid)
        owner = self.find(uid) if gid is not None else None
        return owner is not None and gid in (owner.gid, *owner.groups)


def _gid(group: str) -> int | None:
    import grp  # few partitions are operated

    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def _look_up(uid: int) -> Owner | None:
    if uid == os.geteuid() and uid != 0:
        # The PCTs run as the same user as bebopd: no database needs to list it.
        return Owner(uid, user_name(uid), os.getegid(), tuple(os.getgroups()))
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Owner(0, "root", 0) if uid == 0 else None
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    return Owner(uid, entry.pw_name, entry.pw_gid, tuple(groups[:GROUPS_MAX]))
