"""Reads the profiles of a session's directory."""

from __future__ import annotations

import os
from collections.abc import Iterator

from native.errors import YodError
from yod.pilot.analysis.records import Record, parse

SUFFIX = ".prof"


def paths_of(directory: str) -> list[str]:
    """The profiles of a session's components, relative to its directory."""
    return [*_profiles(directory, ""), *_of_pilots(directory)]


def _of_pilots(directory: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    for name in names:
        yield from _profiles(directory, name)


def _profiles(directory: str, below: str) -> list[str]:
    with os.scandir(os.path.join(directory, below)) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(SUFFIX)]
    return [os.path.join(below, name) for name in sorted(names)]


def records_of(directory: str, path: str, wanted: frozenset[str] | None = None) -> Iterator[Record]:
    """The records of one of them, or those of the events that are wanted.

    Raises:
        YodError: it cannot be read, or is no profile.
    """
    whole = os.path.join(directory, path)
    try:
        with open(whole, encoding="utf-8", errors="replace") as file:
            yield from parse(file, whole, wanted)
    except OSError as error:
        raise YodError(f"{whole}: {error.strerror}") from None


def read(directory: str) -> dict[str, list[Record]]:
    """All of them.

    Raises:
        YodError: one cannot be read, or there is no such directory.
    """
    try:
        paths = paths_of(directory)
    except OSError as error:
        raise YodError(f"{directory}: {error.strerror}") from None
    return {path: list(records_of(directory, path)) for path in paths}
