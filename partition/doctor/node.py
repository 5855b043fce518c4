"""What a node says of itself to the doctor: a line of JSON, written by a rank there."""

from __future__ import annotations

import os
import platform
import sys
import time
from glob import glob

from msgspec import Struct, json

from native.host.release import own_release
from partition.doctor.host import launchers

LIBRARIES = ("/usr/lib*/libpmix.so.2", "/usr/lib/*/libpmix.so.2", "/usr/local/lib/libpmix.so.2")


class Said(Struct, frozen=True):
    """What one node is like.

    Attributes:
        build: of yod there; empty: it has none that can be read.
        unix_time: when it was asked, by its own clock.
        mpi: launchers of MPI in PATH.
        pmix: libraries of PMIx where a system has them.
    """

    node: int
    name: str
    build: str
    python: str
    unix_time: float
    mpi: tuple[str, ...]
    pmix: tuple[str, ...]


def said() -> Said:
    """What this host is like."""
    try:
        build = own_release().decode(errors="replace")
    except (OSError, ValueError):
        build = ""
    return Said(
        int(os.environ.get("YOD_NODE", "-1")),
        os.environ.get("YOD_NODE_NAME", platform.node()),
        build,
        platform.python_version(),
        time.time(),
        tuple(launchers(os.environ)),
        tuple(sorted(path for pattern in LIBRARIES for path in glob(pattern))),
    )


def main() -> None:
    """Write it."""
    sys.stdout.buffer.write(json.encode(said()) + b"\n")
