"""Launches of the user log, which yod adds a line to for each: what and where, when, why it failed.

It has every launch, also those of no partition, of which no bebopd has a history.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from native.host.userdirs import OLDER
from native.text import shown
from partition.jobs.show import Cells, elapsed, in_columns, short

READ_BYTES = 4 << 20  # of one file; of more the end

_STAMP = r"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)"
_LINE = re.compile(
    rf"{_STAMP} {_STAMP} \d+:\d\d:\d\d (\d{{4,}}) (\S+) (.*?),(?: PBS #(.*?),)?"
    r" Cplant #(\d+), (\S+)(?:, (.*))?"
)
_COLUMNS = ("JOBID", "NAME", "USER", "NODES", "BEGAN", "TIME", "REASON")


class Launch(Struct, frozen=True):
    """One line of the log.

    Attributes:
        job_id: 0: the launch got no nodes.
        name: path of its first program.
        nodes: their numbers, as ``0..3,7``; empty: it had none.
        batch: the batch system's id of the job that it was in; empty: none.
        began, ended: unix time.
        reason: why it failed; empty: every rank ended with 0.
    """

    job_id: int
    name: str
    user: str
    node_count: int
    nodes: str
    batch: str
    began: float
    ended: float
    reason: str


def parse(line: str) -> Launch | None:
    """A line without its end; None: it is none of yod's."""
    if (found := _LINE.fullmatch(line)) is None:
        return None
    began, ended, count, user, name, batch, job_id, nodes, reason = found.groups("")
    try:
        times = _unix_s(began), _unix_s(ended)
    except (ValueError, OverflowError):
        return None
    numbers = "" if nodes == "-" else nodes
    return Launch(int(job_id), name, user, int(count), numbers, batch, *times, reason)


def last(path: str, count: int) -> list[Launch]:
    """The last launches of the log, and of the one that was full before it, the oldest first.

    Raises:
        OSError: it cannot be read; a log that is not there has none.
    """
    found: list[Launch] = []
    for each in (path, path + OLDER):
        if len(found) < count:
            found = [*filter(None, map(parse, _lines(each))), *found]
    return found[-count:]


def table(launches: Sequence[Launch]) -> list[str]:
    """A line for each, in columns."""
    return in_columns([_COLUMNS, *map(_cells, launches)])


def record(launch: Launch) -> dict[str, Any]:
    """One launch for programs; what is not known is null."""
    return {
        "id": str(launch.job_id) if launch.job_id else None,
        "name": launch.name,
        "user": launch.user,
        "node_count": launch.node_count,
        "nodes": launch.nodes or None,
        "batch": launch.batch or None,
        "began": launch.began,
        "ended": launch.ended,
        "elapsed_s": launch.ended - launch.began,
        "reason": launch.reason or None,
    }


def _cells(launch: Launch) -> Cells:
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(launch.began))
    ran = elapsed(max(0.0, launch.ended - launch.began))
    what = str(launch.job_id or "-"), short(os.path.basename(launch.name)), shown(launch.user)
    return (*what, str(launch.node_count), began, ran, shown(launch.reason))


def _lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - READ_BYTES)
            file.seek(start)
            data = file.read(READ_BYTES)
    except FileNotFoundError:
        return []
    lines = data.decode(errors="surrogateescape").split("\n")
    return lines[bool(start) :]


def _unix_s(stamp: str) -> float:
    return time.mktime(time.strptime(stamp, "%m/%d/%Y %H:%M:%S"))
