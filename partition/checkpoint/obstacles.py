"""What in running ranks CRIU cannot write down, by name: found in ``/proc`` before any dump."""

from __future__ import annotations

import os
import re
import socket
import stat
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from native.text import shown

_NAMED_COUNT = 4  # ranks that a line names, and obstacles of each
_MEMORY_DEVICES = 1  # major number of null, zero, random and the like, which can be brought back
_ESTABLISHED = "01"
_ANONYMOUS = {
    "[io_uring]": "io_uring",
    "[perf_event]": "performance counters (perf_event)",
    "[userfaultfd]": "userfaultfd",
    "kvm-vm": "a virtual machine (kvm)",
}
# The first that fits.
_DEVICES = (
    (re.compile(r"/dev/(nvidia|dri/|kfd|mali|accel/)"), "the state of GPUs cannot be saved"),
    (re.compile(r"/dev/infiniband/"), "connections by RDMA cannot be saved"),
    (re.compile(r"/dev/(pts/|tty|console)"), "a terminal cannot be saved"),
    (re.compile(r"/dev/"), "a device cannot be saved"),
)
_NETWORK = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6}
_GONE = (FileNotFoundError, ProcessLookupError)  # a process that has ended meanwhile
_WORD_BYTES = 4


def of_ranks(roots: Mapping[int, int], connected: Collection[int] = ()) -> str:
    """What stands in the way, for people; empty: nothing that is known of.

    Args:
        roots: for each rank its first process; all others of it are below.
        connected: ranks whose connections by TCP do not.
    """
    found: list[str] = []
    for rank, root in sorted(roots.items()):
        if why := of_tree(root, is_connected=rank in connected):
            found.append(f"rank {rank}: {why}")
    more = f"; {len(found) - _NAMED_COUNT} more ranks" if len(found) > _NAMED_COUNT else ""
    return "; ".join(found[:_NAMED_COUNT]) + more


def of_tree(root: int, *, is_connected: bool = False, without: Collection[int] = ()) -> str:
    """What of a process and all below it stands in the way; empty: nothing that is known of.

    Args:
        is_connected: connections by TCP do not.
        without: processes that do not count, with all below them.
    """
    own: dict[str, None] = {}
    for unix_pid in (root, *below(root, without)):
        with suppress(*_GONE):
            own.update(dict.fromkeys(_of_process(unix_pid, is_connected)))
    if not own:
        return ""
    some = list(own)[:_NAMED_COUNT]
    some += [f"{len(own) - len(some)} more"] if len(own) > len(some) else []
    return f"criu cannot write it down: {', '.join(some)}"


def below(unix_pid: int, without: Collection[int] = ()) -> Iterator[int]:
    """The processes below one, but for some and what is below them."""
    for child in children_of(unix_pid):
        if child not in without:
            yield child
            yield from below(child, without)


def children_of(unix_pid: int) -> list[int]:
    """The children of a process; none if it has ended."""
    children: list[int] = []
    with suppress(*_GONE):
        for thread in os.listdir(f"/proc/{unix_pid}/task"):
            with open(f"/proc/{unix_pid}/task/{thread}/children", encoding="ascii") as file:
                children += map(int, file.read().split())
    return children


def _of_process(unix_pid: int, is_connected: bool) -> Iterator[str]:
    here = f"/proc/{unix_pid}"
    with open(f"{here}/comm", encoding="utf-8", errors="replace") as file:
        who = f"process {unix_pid} ({shown(file.read().strip())})"
    with open(f"{here}/status", encoding="utf-8", errors="replace") as file:
        tracer = next((line.split()[1] for line in file if line.startswith("TracerPid:")), "0")
    if tracer != "0":
        yield f"{who} is traced by process {tracer}, as by a debugger"
    sockets: set[str] = set()
    for fd in os.listdir(f"{here}/fd"):
        with suppress(*_GONE):
            name = os.readlink(f"{here}/fd/{fd}")
            if name.startswith("socket:["):
                sockets.add(name[len("socket:[") : -1])
            elif name.startswith("anon_inode:"):
                what = _ANONYMOUS.get(name.removeprefix("anon_inode:"))
                if what is not None:
                    yield f"{who} uses {what}"
            elif name.startswith("/dev/"):
                about = os.stat(f"{here}/fd/{fd}")
                if _is_lasting(about):
                    yield f"{who} has {shown(name)} open: {why_device(name)}"
    yield from (f"{who} {text}" for text in _mapped(here))
    if sockets and not is_connected:
        yield from (f"{who} has a TCP connection to {peer}" for peer in _peers(here, sockets))


def _is_lasting(about: os.stat_result) -> bool:
    """A device that keeps something which is in no process."""
    if stat.S_ISCHR(about.st_mode):
        return os.major(about.st_rdev) != _MEMORY_DEVICES
    return stat.S_ISBLK(about.st_mode)


def why_device(name: str) -> str:
    """Why a device stands in the way, by its path."""
    return next(why for pattern, why in _DEVICES if pattern.match(name))


def _mapped(here: str) -> Iterator[str]:
    """Devices whose memory is mapped; their descriptors may be closed."""
    with open(f"{here}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            name = line[line.index("/dev/") :].strip() if " /dev/" in line else ""
            if name and not name.startswith(("/dev/shm/", "/dev/zero", "/dev/null")):
                with suppress(*_GONE):
                    if _is_lasting(os.stat(name)):
                        yield f"has {shown(name)} mapped: {why_device(name)}"


def _peers(here: str, sockets: set[str]) -> Iterator[str]:
    """Whom the sockets of a process are connected to by TCP."""
    for table, family in _NETWORK.items():
        with suppress(*_GONE), open(f"{here}/net/{table}", encoding="ascii") as file:
            next(file)  # its head
            for line in file:
                words = line.split()
                if words[3] == _ESTABLISHED and words[9] in sockets:
                    address, _, port = words[2].partition(":")
                    yield f"{_address(address, family)}:{int(port, 16)}"


def _address(text: str, family: socket.AddressFamily) -> str:
    """An address as the kernel shows it: words of 32 bits, each in the host's order."""
    step = 2 * _WORD_BYTES
    words = [int(text[at : at + step], 16) for at in range(0, len(text), step)]
    packed = b"".join(word.to_bytes(_WORD_BYTES, sys.byteorder) for word in words)
    found = socket.inet_ntop(family, packed)
    return found if family == socket.AF_INET else f"[{found}]"
