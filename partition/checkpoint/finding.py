"""Looks for checkpoints, and checks that one is as it was written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from native.errors import UsageError
from native.text import shown
from partition.checkpoint import digests, files
from partition.checkpoint.committing import numbers
from partition.checkpoint.files import BrokenError, Manifest, NodeRecord


class Found(NamedTuple):
    """A checkpoint whose manifest could be read, or why it could not.

    Attributes:
        trouble: why it is not whole; empty: its manifest is there.
    """

    path: str
    manifest: Manifest | None
    trouble: str


def all_in(directory: str) -> list[Found]:
    """The checkpoints of a directory, the newest first.

    Raises:
        UsageError: there is no such directory.
    """
    try:
        found = numbers(directory)
    except OSError as error:
        raise UsageError(f"{shown(directory)}: {error.strerror}") from None
    return [look(os.path.join(directory, f"{files.PREFIX}{number}")) for number in found]


class Unfinished(NamedTuple):
    """What nodes have written of a checkpoint that is being made, or was left behind."""

    path: str
    nodes: int
    size: int


def unfinished(directory: str) -> list[Unfinished]:
    """Those of a directory; nodes count whose files are all there."""
    found: list[Unfinished] = []
    with os.scandir(directory) as entries:
        paths = sorted(each.path for each in entries if each.name.startswith(files.COLLECTING))
    for path in paths:
        sizes: list[int] = []
        with suppress(OSError, BrokenError):
            for name in os.listdir(path):
                if name.startswith(files.NODE):
                    record, _ = files.read(os.path.join(path, name), NodeRecord)
                    sizes.append(sum(file.size for rank in record.ranks for file in rank.files))
        found.append(Unfinished(path, len(sizes), sum(sizes)))
    return found


def look(path: str) -> Found:
    """The manifest of a checkpoint."""
    try:
        manifest, _ = files.read(os.path.join(path, files.MANIFEST), Manifest)
    except BrokenError as error:
        return Found(path, None, str(error))
    if manifest.version not in files.VERSIONS:
        return Found(path, None, f"{shown(path)}: of version {manifest.version}")
    return Found(path, manifest, "")


def has_any(path: str) -> bool:
    """Whether a path names a checkpoint, or a directory with a whole one."""
    if os.path.exists(os.path.join(path, files.MANIFEST)):
        return True
    if not os.path.isdir(path):
        return False
    return any(found.manifest is not None for found in all_in(path))


def newest(path: str, *, is_checked: bool = True) -> tuple[str, Manifest]:
    """The checkpoint that a path names: itself, or the newest whole one in it.

    Args:
        is_checked: all files are compared with what was written.

    Raises:
        UsageError: there is none.
        BrokenError: it is not as it was written; the text names what differs.
    """
    path = os.path.abspath(path)
    name = os.path.basename(path)
    if name.startswith(files.PREFIX) or os.path.exists(os.path.join(path, files.MANIFEST)):
        candidates = [look(path)]
    else:
        candidates = all_in(path)
        if not candidates:
            raise UsageError(f"{shown(path)}: no checkpoint is there")
    for found in candidates:
        if found.manifest is not None:
            if is_checked:
                check(found.path, found.manifest)
            return found.path, found.manifest
    raise UsageError(f"no whole checkpoint: {candidates[0].trouble}")


def check(path: str, manifest: Manifest) -> None:
    """Compare all files with what was written.

    Raises:
        BrokenError: the text names the first that differs.
    """
    ranks = set()
    written: dict[str, files.File] = {}
    for name, digest in manifest.nodes.items():
        record, is_digest = files.read(os.path.join(path, name), NodeRecord)
        if is_digest != digest:
            raise BrokenError(_changed(os.path.join(path, name)))
        for rank in record.ranks:
            ranks.add(rank.rank)
            below = os.path.join(path, files.rank_directory(rank.rank))
            written.update((os.path.join(below, file.path), file) for file in rank.files)
    if not ranks <= set(range(manifest.ranks)):  # one that had ended before has no record
        raise BrokenError(f"{shown(path)}: a rank that the job did not have")
    try:
        _compare(written, manifest.version)
    except OSError as error:
        raise BrokenError(f"{shown(error.filename or path)}: {error.strerror}") from None


def _compare(written: dict[str, files.File], version: int) -> None:
    """Compare files with what was written of them, the sizes first.

    Raises:
        BrokenError: one differs.
        OSError: one cannot be read.
    """
    for path, file in written.items():
        if os.stat(path).st_size != file.size:
            raise BrokenError(_changed(path))
    measured: Iterable[digests.Measured]
    if version == 1:
        measured = map(digests.of_file_version_1, written)
    else:
        measured = digests.of_files(list(written), make=digests.OF_VERSION[version])
    for (path, file), found in zip(written.items(), measured, strict=True):
        if found != (file.size, file.digest):
            raise BrokenError(_changed(path))


def _changed(path: str) -> str:
    return f"{shown(path)}: changed since it was written"
