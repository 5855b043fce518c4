"""The address of this host that other hosts can reach."""

from __future__ import annotations

import ipaddress
import shlex
import socket
import subprocess
from collections.abc import Sequence
from time import monotonic

from native.errors import PartitionError, UsageError
from native.port.address import facing

ASKED_MAX = 4  # hosts whose way is looked at
SSH_G_S = 10.0
LOOKED_UP_S = 4.0  # after so long no further name is looked up: no name server answers


def towards(hosts: Sequence[str], ssh: str = "") -> str:
    """The address of the interface that leads to these hosts.

    Args:
        ssh: the command, whose configuration may have other names for them; empty: none.

    Raises:
        PartitionError: none of the first ones has an address.
    """
    found = ""
    until = monotonic() + LOOKED_UP_S
    for host in hosts[:ASKED_MAX]:
        if monotonic() > until:
            break
        if (target := _address_of(host) or _address_of(_ssh_name(host, ssh))) is None:
            continue
        try:
            found = facing(f"{target}:1")
        except UsageError:  # no way leads there
            continue
        if not ipaddress.ip_address(found).is_loopback:
            return found
    if not found:
        raise PartitionError(
            f"the address of {' and of '.join(hosts[:ASKED_MAX])} is not known here;"
            " say by --address at which address they reach this host"
        )
    return found


def check(address: str) -> str:
    """An address that the user has given, as a number.

    Raises:
        UsageError: it is neither a number nor a name that is known.
    """
    if (found := _address_of(address)) is None:
        raise UsageError(f"--address {address}: no IPv4 address, and no name of one")
    return found


def _address_of(name: str) -> str | None:
    try:
        return socket.gethostbyname(name) if name else None
    except (OSError, UnicodeError):
        return None


def _ssh_name(host: str, ssh: str) -> str:
    """What ssh's configuration has for a host's name; empty: ssh cannot say."""
    if not ssh:
        return ""
    try:
        done = subprocess.run(
            [*shlex.split(ssh), "-G", "--", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SSH_G_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    for line in done.stdout.decode(errors="replace").splitlines():
        key, _, value = line.partition(" ")
        if key == "hostname":
            return value.strip()
    return ""
