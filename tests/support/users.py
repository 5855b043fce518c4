"""Users who exist on hosts made of namespaces alone, for the time of a test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.support.hosts import Host

# Beside those of the system: name, uid and gid, and the other groups that they are in.
ALICE = ("alice", 41001, ())
BOB = ("bob", 41002, ())
OLIVE = ("olive", 41003, ("bebop",))
USERS = (ALICE, BOB, OLIVE)
GROUPS = {"bebop": 41100}
UIDS = {name: uid for name, uid, _ in USERS}


def add_users(hosts: Iterable[Host], directory: Path) -> None:
    """Let these hosts, and no others, know the users and the groups."""
    members = {group: [name for name, _, groups in USERS if group in groups] for group in GROUPS}
    texts = {
        "passwd": [f"{name}:x:{uid}:{uid}::{directory / name}:/bin/sh" for name, uid, _ in USERS],
        "group": [f"{name}:x:{uid}:" for name, uid, _ in USERS]
        + [f"{name}:x:{gid}:{','.join(members[name])}" for name, gid in GROUPS.items()],
    }
    for name, lines in texts.items():
        path = directory / name
        path.write_text(Path("/etc", name).read_text() + "\n".join(lines) + "\n")
        for host in hosts:
            host.run(["mount", "--bind", path, f"/etc/{name}"], check=True)
    for name, uid, _ in USERS:
        home = directory / name
        home.mkdir()
        home.chmod(0o700)
        os.chown(home, uid, uid)


def show_python(hosts: Iterable[Host]) -> None:
    """Let all users of these hosts execute the tests' Python, whatever lies above it.

    What is started there for a user has no rights of root's to get at it.
    """
    above = [each for each in Path(sys.base_prefix).parents if not each.stat().st_mode & 0o001]
    if not above:
        return
    top, shown = above[-1], Path(sys.base_prefix)
    commands = (
        "made=$(mktemp -d); mount -t tmpfs -o mode=755 tmpfs $made; trap 'rmdir $made' EXIT;"
        f" below=$made/{shown.relative_to(top)}; mkdir -p $below; mount --bind {shown} $below;"
        f" mount --move $made {top}"
    )
    for host in hosts:
        host.run(["sh", "-ec", commands], check=True)


def words_as(name: str) -> list[str]:
    """What a command of a user's begins with."""
    groups = next(groups for each, _, groups in USERS if each == name)
    uid = str(UIDS[name])
    gids = ",".join(str(GROUPS[group]) for group in groups)
    return [
        *("setpriv", "--reuid", uid, "--regid", uid),
        *(("--groups", gids) if gids else ("--clear-groups",)),
        # The project may lie below a directory that others cannot search.
        *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),
    ]
