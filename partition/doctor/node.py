"""What a node says of itself to the doctor: a line of JSON, written by a rank there.

The rank is given the addresses of all nodes that are looked at. It connects to the PCTs of its
parent and of its children in the tree that a job over them would have: what a job needs of the
network, both ways, since the node at the other end of an edge does the same.
"""

from __future__ import annotations

import os
import platform
import resource
import selectors
import socket
import sys
import time
from _blake2 import blake2b
from collections.abc import Sequence
from glob import glob
from typing import NamedTuple

from msgspec import Struct, json

from native.host.release import own_release
from native.ids import PortalId
from partition.doctor import namespaces
from partition.doctor.host import launchers
from pct.tree.tree import children, parent

LIBRARIES = ("/usr/lib*/libpmix.so.2", "/usr/lib/*/libpmix.so.2", "/usr/local/lib/libpmix.so.2")
# What ranks and daemons load of the host: another one on one node is a surprise in jobs.
COMPARED = ("libc.so.6", "libpmix.so.2", "libmunge.so.2", "libmpi.so.40", "libmpich.so.12")
DIRECTORIES = ("/lib64", "/lib/*-linux-gnu", "/usr/lib64", "/usr/local/lib")
PIECE_BYTES = 1 << 20


class Place(NamedTuple):
    """A node and where its PCT listens."""

    node: int
    nid: int
    pid: int


class CutOff(Struct, frozen=True):
    """A node that this one cannot reach, and why."""

    node: int
    why: str


class Said(Struct, frozen=True):
    """What one node is like.

    Attributes:
        build: of yod there; empty: it has none that can be read.
        unix_time: when it was asked, by its own clock.
        mpi: launchers of MPI in PATH.
        pmix: libraries of PMIx where a system has them.
        digests: of libraries, by name.
        open_files: that a process of a job may have.
        name_trouble: with its own name; empty: none.
        cut_off: nodes of the tree that it cannot reach.
        host, namespaces, users: as :class:`partition.doctor.namespaces.There`.
    """

    node: int
    name: str
    build: str
    python: str
    unix_time: float
    mpi: tuple[str, ...]
    pmix: tuple[str, ...]
    digests: dict[str, str] = {}
    open_files: int = 0
    name_trouble: str = ""
    cut_off: tuple[CutOff, ...] = ()
    host: str = ""
    namespaces: dict[str, str] = {}
    users: int = 0


def said(places: Sequence[Place] = (), arity: int = 2, limit_s: float = 5.0) -> Said:
    """What this host is like.

    Args:
        places: all nodes that are looked at, in the order of the tree.
        arity: of the tree.
        limit_s: how long a connection may take.
    """
    try:
        build = own_release().decode(errors="replace")
    except (OSError, ValueError):
        build = ""
    node = int(os.environ.get("YOD_NODE", "-1"))
    unix_time = time.time()  # before what takes long
    return Said(
        node,
        os.environ.get("YOD_NODE_NAME", platform.node()),
        build,
        platform.python_version(),
        unix_time,
        tuple(launchers(os.environ)),
        tuple(sorted(path for pattern in LIBRARIES for path in glob(pattern))),
        digests(),
        resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        name_trouble(platform.node()) if places else "",
        tuple(unreachable(neighbours(node, places, arity), limit_s)),
        namespaces.host(),
        namespaces.own(),
        namespaces.users(),
    )


def digests(directories: Sequence[str] = DIRECTORIES) -> dict[str, str]:
    """Digests of the libraries that are there, by name; of each the first."""
    found: dict[str, str] = {}
    for name in COMPARED:
        paths = (path for each in directories for path in sorted(glob(f"{each}/{name}")))
        if (path := next(paths, "")) and (digest := _digest(path)):
            found[name] = digest
    return found


def _digest(path: str) -> str:
    sum = blake2b(digest_size=8)
    try:
        with open(path, "rb") as file:
            while piece := file.read(PIECE_BYTES):
                sum.update(piece)
    except OSError:
        return ""
    return sum.hexdigest()


def name_trouble(name: str) -> str:
    """What is wrong with a host's own name; empty: nothing."""
    began = time.monotonic()
    try:
        socket.getaddrinfo(name, None, socket.AF_INET)
    except OSError as error:
        return f"its own name {name} is not known there: {error.strerror}"
    took_s = time.monotonic() - began
    return f"it takes {took_s:.0f} s to look up its own name {name}" if took_s >= 1 else ""


def neighbours(node: int, places: Sequence[Place], arity: int) -> list[Place]:
    """The parent and the children of a node in the tree over these."""
    numbers = [place.node for place in places]
    if node not in numbers:
        return []
    here = numbers.index(node)
    above = [parent(here, arity)] if here else []
    return [places[each] for each in (*above, *children(here, len(places), arity))]


def unreachable(places: Sequence[Place], limit_s: float) -> list[CutOff]:
    """The nodes whose PCTs take no connection from here in time."""
    found: list[CutOff] = []
    selector = selectors.DefaultSelector()
    for place in places:
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        one.setblocking(False)
        one.connect_ex(_address(place))
        selector.register(one, selectors.EVENT_WRITE, place)
    until = time.monotonic() + limit_s
    while selector.get_map() and (left_s := until - time.monotonic()) > 0:
        for key, _ in selector.select(left_s):
            assert isinstance(key.fileobj, socket.socket)
            if error := key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                found.append(CutOff(key.data.node, os.strerror(error)))
            selector.unregister(key.fileobj)
            key.fileobj.close()
    for key in list((selector.get_map() or {}).values()):
        found.append(CutOff(key.data.node, f"no answer for {limit_s:g} s"))
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    selector.close()
    return sorted(found, key=lambda each: each.node)


def _address(place: Place) -> tuple[str, int]:
    host, _, port = str(PortalId(place.nid, place.pid)).rpartition(":")
    return host, int(port)


def packed(places: Sequence[Place]) -> str:
    """Places as an argument of a command."""
    return ",".join(":".join(map(str, place)) for place in places)


def unpacked(text: str) -> list[Place]:
    """What :func:`packed` was given."""
    return [Place(*map(int, each.split(":"))) for each in text.split(",") if each]


def main() -> None:
    """Write it."""
    places, arity, limit_s = unpacked(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    sys.stdout.buffer.write(json.encode(said(places, arity, limit_s)) + b"\n")
