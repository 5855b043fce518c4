"""The root's saver makes a checkpoint whole: manifest, then one rename. Old ones are removed."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Collection

from native.host.files import sync
from partition.checkpoint import files
from partition.checkpoint.files import BrokenError, Manifest, NodeRecord, Recipe

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # rename: the name is another checkpoint's


def commit(
    recipe: Recipe,
    attempt: int,
    keep: int,
    directory: str,
    collecting: str,
    ended: Collection[int] | None = None,
) -> tuple[int, str]:
    """Make what the nodes have collected the newest checkpoint.

    Args:
        attempt: what nodes have left in another one of the job is removed.
        keep: how many whole checkpoints stay; 0: all.
        ended: ranks that may lack, since they had ended well; None: all nodes have voted, and
            those that lack had.

    Returns:
        The bytes of its ranks, and its path.

    Raises:
        BrokenError: the records of the nodes are not those of all ranks.
        OSError: it cannot be written.
    """
    here = os.path.join(directory, collecting)
    for name in os.listdir(here):  # its node has drained the same
        if name.startswith(files.RESCUED):
            shutil.rmtree(os.path.join(here, name), ignore_errors=True)
    names = sorted(name for name in os.listdir(here) if name.startswith(files.NODE))
    nodes: dict[str, str] = {}
    ranks: list[int] = []
    size = 0
    for name in names:
        record, digest = files.read(os.path.join(here, name), NodeRecord)
        if record.attempt != attempt:
            _forget(here, name, record)
            continue
        nodes[name] = digest
        for rank in record.ranks:
            ranks.append(rank.rank)
            size += sum(file.size for file in rank.files)
    if len(ranks) != len(set(ranks)):
        raise BrokenError("two nodes have saved the same rank")
    if ended is not None and (lacking := set(range(files.size_of(recipe))) - {*ranks, *ended}):
        raise BrokenError(_lost(min(lacking), len(lacking)))
    number = max(numbers(directory), default=0) + 1
    whole = files.size_of(recipe)
    while True:
        manifest = Manifest(files.VERSION, number, time.time(), whole, size, nodes, recipe)
        files.write(os.path.join(here, files.MANIFEST), manifest)
        sync(here)
        path = os.path.join(directory, f"{files.PREFIX}{number}")
        try:
            os.rename(here, path)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            number += 1
            continue
        sync(directory)
        if keep:
            _prune(directory, keep)
        return size, path


def _lost(rank: int, count: int) -> str:
    others = f" and {count - 1} others" if count > 1 else ""
    return f"rank {rank}{others} lost with a node before another one had all that it kept"


def _forget(here: str, name: str, record: NodeRecord) -> None:
    """Remove what a node has saved in another attempt; its ranks have ended well since."""
    for rank in record.ranks:
        shutil.rmtree(os.path.join(here, files.rank_directory(rank.rank)), ignore_errors=True)
    os.unlink(os.path.join(here, name))


def numbers(directory: str) -> list[int]:
    """The numbers of the checkpoints of a directory, the newest first."""
    found = []
    for name in os.listdir(directory):
        digits = name.removeprefix(files.PREFIX)
        if name.startswith(files.PREFIX) and digits.isascii() and digits.isdigit():
            found.append(int(digits))
    return sorted(found, reverse=True)


def _prune(directory: str, keep: int) -> None:
    """Remove old ones. Without its manifest one is no checkpoint, so that goes first."""
    for number in numbers(directory)[keep:]:
        path = os.path.join(directory, f"{files.PREFIX}{number}")
        try:
            os.unlink(os.path.join(path, files.MANIFEST))
        except FileNotFoundError:
            pass
        shutil.rmtree(path, ignore_errors=True)
