"""The root's saver makes a checkpoint whole: manifest, then one rename. Old ones are removed."""

from __future__ import annotations

import errno
import os
import shutil
import time

from partition.checkpoint import digests, files
from partition.checkpoint.files import BrokenError, Manifest, NodeRecord, Recipe

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # rename: the name is another checkpoint's


def commit(recipe: Recipe, keep: int, directory: str, collecting: str) -> tuple[int, str]:
    """Make what the nodes have collected the newest checkpoint.

    Args:
        keep: how many whole checkpoints stay; 0: all.

    Returns:
        The bytes of its ranks, and its path.

    Raises:
        BrokenError: the records of the nodes are not those of all ranks.
        OSError: it cannot be written.
    """
    here = os.path.join(directory, collecting)
    names = sorted(name for name in os.listdir(here) if name.startswith("node."))
    nodes: dict[str, str] = {}
    ranks: list[int] = []
    size = 0
    for name in names:
        record, nodes[name] = files.read(os.path.join(here, name), NodeRecord)
        for rank in record.ranks:
            ranks.append(rank.rank)
            size += sum(file.size for file in rank.files)
    if len(ranks) != len(set(ranks)):
        raise BrokenError("two nodes have saved the same rank")
    number = max(numbers(directory), default=0) + 1
    whole = files.size_of(recipe)
    while True:
        manifest = Manifest(files.VERSION, number, time.time(), whole, size, nodes, recipe)
        files.write(os.path.join(here, files.MANIFEST), manifest)
        digests.sync(here)
        path = os.path.join(directory, f"{files.PREFIX}{number}")
        try:
            os.rename(here, path)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
            number += 1
            continue
        digests.sync(directory)
        if keep:
            _prune(directory, keep)
        return size, path


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
