"""Copies what a node keeps of a checkpoint to the directory of checkpoints, behind the ranks."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from native.host.files import sync
from native.text import shown
from partition.checkpoint import digests, files
from partition.checkpoint.collecting import NotSavedError
from partition.savers import keeping


def drain(place: int, local: str, kept: str, directory: str, collecting: str) -> int:
    """Copy a node's ranks, compare them with their digests, and keep them here no longer.

    The node's record is written last: where it is, all files of its ranks are.

    Args:
        local, kept: the owner's directory on this node, and that of the job in it.

    Returns:
        The bytes in their files.

    Raises:
        BrokenError: nothing is kept here.
        NotSavedError: it is not as it was saved, or another process works on it.
        OSError: it cannot be written.
    """
    source, target = os.path.join(local, kept), os.path.join(directory, collecting)
    try:
        lock = keeping.locked(source)
    except BlockingIOError:
        raise NotSavedError(f"{shown(source)}: another process works on it") from None
    try:
        record, _ = files.read(os.path.join(source, files.node_file(place)), files.NodeRecord)
        os.makedirs(target, exist_ok=True)
        with suppress(FileNotFoundError):  # of an attempt before
            os.unlink(os.path.join(target, files.node_file(place)))
        size = sum(_copy(rank, source, target) for rank in record.ranks)
        files.write(os.path.join(target, files.node_file(place)), record)
        sync(target)
        shutil.rmtree(source, ignore_errors=True)
        return size
    finally:
        os.close(lock)


def _copy(rank: files.RankRecord, source: str, target: str) -> int:
    """Copy the directory of a rank; its bytes."""
    name = files.rank_directory(rank.rank)
    own, other = os.path.join(source, name), os.path.join(target, name)
    shutil.rmtree(other, ignore_errors=True)
    directories = [os.path.relpath(below, own) for below, _, _ in os.walk(own)]
    for each in directories:
        os.mkdir(os.path.normpath(os.path.join(other, each)))
    for file in rank.files:
        path = os.path.join(own, file.path)
        found = digests.copied(path, os.path.join(other, file.path))
        if found != (file.size, file.digest):
            raise NotSavedError(f"{shown(path)}: changed since it was saved")
    for each in directories:
        sync(os.path.normpath(os.path.join(other, each)))
    return sum(file.size for file in rank.files)
