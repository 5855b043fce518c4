"""Namespaces of the kernel: which can be made here, and in which others nodes are."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from native.nodelist import named_nodes
from native.waitstatus import exit_status
from partition.doctor.finding import Finding, ok, warning
from pct.host.cgroups.files import read

NEW_MOUNT, NEW_IPC, NEW_USER, NEW_PID = 0x20000, 0x8000000, 0x10000000, 0x20000000
OUTSIDE = "start its pct outside the container in which it is, or yod in the same one"


class _Need(NamedTuple):
    """What needs some namespaces."""

    flags: int
    limits: tuple[str, ...]  # below /proc/sys/user
    text: str  # what there is not without them


_OF_ROOT = (
    _Need(NEW_MOUNT, ("max_mnt_namespaces",), "mount namespaces: no --remote-io"),
    _Need(
        NEW_PID | NEW_IPC,
        ("max_pid_namespaces", "max_ipc_namespaces"),
        "PID and IPC namespaces: no checkpoints by criu",
    ),
)
_OF_USERS = (
    _Need(
        NEW_USER | NEW_MOUNT,
        ("max_user_namespaces", "max_mnt_namespaces"),
        "user namespaces: no --remote-io, but to PCTs of root",
    ),
)
_FORBIDDING = (  # of users, and by which value
    ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
)
# What differs where a node is on this host and in another one.
_KINDS = {
    "user": "users have other uids there",
    "pid": "processes have other numbers there than here, and end with their container",
    "mnt": "a path there may be another file than here",
    "net": "an address there may be another host than here",
}


def trial(flags: int) -> int:
    """Make these namespaces, in a process that ends at once; gives errno, or 0."""
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        os._exit(ctypes.get_errno() if libc.unshare(flags) else 0)
    return exit_status(os.waitpid(child, 0)[1])


def findings(root: str = "/", attempt: Callable[[int], int] = trial) -> Iterator[Finding]:
    """Which can be made on this host.

    Args:
        root: where proc is.
        attempt: as :func:`trial`.
    """
    is_root = os.geteuid() == 0
    lacking = False
    for need in _OF_ROOT if is_root else _OF_USERS:
        if error := attempt(need.flags):
            lacking = True
            text = f"no {need.text} ({os.strerror(error)})"
            yield warning("namespaces", text, _remedy(root, need, is_root))
    if not lacking:
        yield ok("namespaces", "all that jobs may need can be made")


def _remedy(root: str, need: _Need, is_root: bool) -> str:
    settings = f"{root}proc/sys"
    for name in need.limits:
        if read(f"{settings}/user/{name}").strip() == "0":
            return f"sysctl user.{name}=15000"
    for name, value in () if is_root else _FORBIDDING:
        if read(f"{settings}/{name}").strip() == value:
            return f"sysctl {name.replace('/', '.')}={1 - int(value)}"
    return "let the container or the unit in which this is make namespaces (unshare)"


def remedy_of_users(root: str = "/") -> str:
    """What lets users make the namespaces that root can make."""
    return _remedy(root, _OF_USERS[0], is_root=False)


def own(root: str = "/") -> dict[str, str]:
    """The namespaces that this process is in, by kind, as the kernel names them."""
    found = {}
    for kind in _KINDS:
        try:
            found[kind] = os.readlink(Path(root, "proc/self/ns", kind))
        except OSError:
            continue  # a kernel without them
    return found


def users(root: str = "/") -> int:
    """How many uids there are; 0: not known."""
    lines = read(f"{root}proc/self/uid_map").splitlines()
    return sum(int(line.split()[2]) for line in lines)


def host(root: str = "/") -> str:
    """What is the same for all processes of a kernel since its start; empty: not known."""
    return read(f"{root}proc/sys/kernel/random/boot_id").strip()


class There(NamedTuple):
    """What a node says of its own."""

    node: int
    host: str
    namespaces: Mapping[str, str]
    users: int


def compared(nodes: Sequence[There], here: There) -> Iterator[Finding]:
    """Nodes of this host that are in other namespaces, and nodes with few users."""
    is_odd = False
    ours = [each for each in nodes if each.host and each.host == here.host]
    for kind, text in _KINDS.items():
        mine = here.namespaces.get(kind)
        others = [each.node for each in ours if each.namespaces.get(kind, mine) != mine]
        if others:
            is_odd = True
            where = f"{named_nodes(others)}: on this host, in another {kind} namespace: {text}"
            yield warning("namespaces of nodes", where, OUTSIDE)
    if few := [each.node for each in nodes if 0 < each.users < here.users]:
        is_odd = True
        text = f"{named_nodes(few)}: fewer uids there than here: jobs of other users fail"
        yield warning("namespaces of nodes", text, "map all uids into the container of its pct")
    if nodes and not is_odd:
        yield ok("namespaces of nodes", "none hides users or processes of this host")
