"""TCP connections of processes that are written down together: none may lead elsewhere."""

from __future__ import annotations

import ipaddress
import os

_LISTENING = "0A"
_CLOSED = "07"


def stranger(first: int) -> str:
    """The other end, as ADDRESS:PORT, of a connection that leads out of a tree; empty: none does.

    Args:
        first: the Unix process id of the tree's root.

    Raises:
        FileNotFoundError, ProcessLookupError: it has ended.
    """
    own = _sockets(first)
    ends: dict[tuple[str, str], str] = {}
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{first}/net/{name}", encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except FileNotFoundError:
            continue  # a kernel without IPv6
        for row in rows:
            here, there, state, inode = row[1], row[2], row[3], row[9]
            if inode in own and state not in (_LISTENING, _CLOSED):
                ends[here, there] = state
    for here, there in ends:
        if (there, here) not in ends:
            return _shown(there)
    return ""


def _sockets(first: int) -> set[str]:
    """The inodes of all sockets of a process and those below it."""
    found: set[str] = set()
    left = [first]
    while left:
        unix_pid = left.pop()
        try:
            for task in os.listdir(f"/proc/{unix_pid}/task"):
                with open(f"/proc/{unix_pid}/task/{task}/children", encoding="ascii") as file:
                    left += map(int, file.read().split())
            for fd in os.listdir(f"/proc/{unix_pid}/fd"):
                name = os.readlink(f"/proc/{unix_pid}/fd/{fd}")
                if name.startswith("socket:["):
                    found.add(name[len("socket:[") : -1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ends now
    return found


def _shown(end: str) -> str:
    """An end as the kernel's table has it: words of the host's order, in hex."""
    digits, _, port = end.partition(":")
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return f"{mapped or address}:{int(port, 16)}"
