"""The saver of one node: it runs as the job's owner, and the node's PCT tells it what to do.

First it makes the directories of the ranks, looks whether each rank handles the signal that it
will get, and says ``ready``. Then a rank has saved itself when
its directory has a file ``saved``, or when the PCT says that the rank has ended well.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import closing

from native import nodelist
from native.host.files import sync
from partition.checkpoint import digests, files, marks
from partition.checkpoint.holding import Holding
from partition.checkpoint.inotify import Inotify

_NAMED_COUNT = 4  # ranks, where more have not saved themselves
_LINE_BYTES = 1 << 16


class NotSavedError(Exception):
    """The ranks of this node are not saved; the text says why."""


def collect(
    place: int,
    attempt: int,
    signal_number: int,
    ranks: Sequence[int],
    unix_pids: Sequence[int],
    directory: str,
    collecting: str,
    *,
    holds: bool = False,
) -> int:
    """Wait until the ranks have saved themselves, and record what they have saved.

    Args:
        unix_pids: of the ranks.
        holds: each waits, once it is saved, until the PCT knows what it has written.

    Returns:
        The bytes in their files.

    Raises:
        NotSavedError: they have not.
        OSError: a file cannot be written or read.
    """
    here = os.path.join(directory, collecting)
    os.makedirs(here, exist_ok=True)
    own = dict(zip(ranks, unix_pids, strict=True))
    outputs = marks.Outputs(own, marks.OPENED)
    with closing(outputs), closing(Holding()) as holding, Inotify() as inotify:
        awaited: dict[int, str] = {}
        of_watch: dict[int, int] = {}
        for rank in ranks:
            path = os.path.join(here, files.rank_directory(rank))
            shutil.rmtree(path, ignore_errors=True)
            os.mkdir(path)
            awaited[rank] = path
            of_watch[inotify.watch(path)] = rank
            if holds:
                holding.add(rank, path)
        directories = dict(awaited)
        given()
        for rank, unix_pid in own.items():
            demand_handled(rank, unix_pid, signal_number)
        say("ready")
        _await(awaited, inotify, of_watch, outputs, holding)
        outputs.put_down(directories)
    found, size = record(place, ranks, here, attempt)
    files.write(os.path.join(here, files.node_file(place)), found)
    sync(here)
    return size


def demand_handled(rank: int, unix_pid: int, number: int) -> None:
    """Refuse to send a rank a signal that would kill it, or do nothing.

    Raises:
        NotSavedError: it does not handle the signal.
    """
    try:
        with open(f"/proc/{unix_pid}/status", encoding="utf-8", errors="replace") as file:
            caught = next((line for line in file if line.startswith("SigCgt:")), "SigCgt: 0")
    except (FileNotFoundError, ProcessLookupError):
        return  # it has ended: the PCT will say how
    if not int(caught.split()[1], 16) >> (number - 1) & 1:
        name = signal.Signals(number).name
        raise NotSavedError(f"rank {rank} does not handle {name}, which would end it")


def _await(
    awaited: dict[int, str],
    inotify: Inotify,
    of_watch: dict[int, int],
    outputs: marks.Outputs,
    holding: Holding,
) -> None:
    """Return when no rank is awaited any more."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(inotify.fd, select.POLLIN)
    told = b""
    while awaited or holding.waiting:
        for fd, _ in poll.poll():
            if fd == inotify.fd:
                for number in inotify.read():
                    rank = of_watch[number]
                    said = f"{awaited.get(rank)}/{files.SAVED}"
                    if rank in awaited and os.path.lexists(said):
                        del awaited[rank]
                        outputs.saved(rank, said)
                        if holding.saved(rank):
                            say(f"saved {rank}")
                continue
            data = os.read(0, _LINE_BYTES)
            if not data:
                raise NotSavedError("the pct of its node has gone")
            *lines, told = (told + data).split(b"\n")
            for line in lines:
                if line == b"over":
                    raise NotSavedError(_late(awaited))
                if holding.hear(line):
                    continue
                holding.release(int(line))
                if awaited.pop(int(line), None):
                    outputs.at_least(int(line))


def _late(awaited: dict[int, str]) -> str:
    if not awaited:
        return "the pct of its node has not read in time what ranks have written"
    some = sorted(awaited)[:_NAMED_COUNT]
    who = f"rank {some[0]} has" if len(awaited) == 1 else f"ranks {nodelist.format_nodes(some)}"
    if len(awaited) > 1:
        who += f" and {len(awaited) - len(some)} more have" if len(awaited) > len(some) else " have"
    return f"{who} not saved in time (no file {awaited[some[0]]}/{files.SAVED})"


def record(
    place: int, ranks: Sequence[int], here: str, attempt: int
) -> tuple[files.NodeRecord, int]:
    """What is in the directories of a node's ranks, and its bytes; it outlives the host."""
    names: list[tuple[int, str]] = []
    for rank in ranks:
        below = os.path.join(here, files.rank_directory(rank))
        names += [(rank, name) for name in files.files_below(below)]
    paths = [os.path.join(here, files.rank_directory(rank), name) for rank, name in names]
    found: dict[int, list[files.File]] = {rank: [] for rank in ranks}
    total = 0
    measured = digests.of_files(paths, is_synced=True)
    for (rank, name), (size, digest) in zip(names, measured, strict=True):
        found[rank].append(files.File.at(name, size, digest))
        total += size
    for rank in ranks:
        sync(os.path.join(here, files.rank_directory(rank)))
    records = tuple(files.RankRecord(rank, tuple(own)) for rank, own in found.items())
    return files.NodeRecord(place, records, attempt), total


def given() -> bytes:
    """What the PCT gives before it tells anything."""
    found = b""
    while (byte := os.read(0, 1)) != b"\0":
        if not byte:
            raise NotSavedError("the pct of its node has gone")
        found += byte
    return found


def say(line: str) -> None:
    """Tell the PCT."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
