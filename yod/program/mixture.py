"""A warning for a job whose members have different MPI libraries.

Members form one world only with the same build of one library. MPICH with Open MPI, MPICH
with Intel MPI, and MPICH 4 with 5 wait in MPI_Init for ever; Open MPI 4.1 with 5 fails
after it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from native import mpi
from yod.program import linked, speech


class Part(Struct, frozen=True):
    """One member.

    Attributes:
        name: its program, and where it comes from.
        size: ranks.
        library: path of its MPI library, see :class:`yod.program.speech.Speech`.
    """

    name: str
    size: int
    library: str


class _Build(Struct, frozen=True):
    """What distinguishes one MPI library from another.

    Attributes:
        directory: links are resolved; empty: the library was not found.
    """

    family: str
    directory: str
    size_bytes: int

    def is_like(self, other: _Build) -> bool:
        """Whether both may be one build: in one directory, or copies, with the same size."""
        if self.family != other.family:
            return False
        is_seen = bool(self.directory and other.directory)
        return not is_seen or (
            self.directory == other.directory or self.size_bytes == other.size_bytes
        )


class _Group(Struct):
    """Members whose libraries may be one build.

    Attributes:
        first: the text for the first of them.
        more: how many others there are.
    """

    build: _Build
    first: str
    more: int = 0

    def __str__(self) -> str:
        if not self.more:
            return self.first
        return f"{self.first} and {self.more} more member{'s' if self.more > 1 else ''}"


def warning(parts: Sequence[Part]) -> str:
    """One line that names members which cannot form one world; empty: no such are known.

    Args:
        parts: in rank order.
    """
    groups: list[_Group] = []
    first = 0
    for part in parts:
        last = first + part.size - 1
        ranks = f"rank {first} " if first == last else f"ranks {first}..{last} "
        first = last + 1
        build = _build(part.library)
        if build is None:
            continue
        group = next((each for each in groups if each.build.is_like(build)), None)
        if group is not None:
            group.more += 1
        else:
            text = f"{ranks}({part.name}) {part.library} ({build.family})"
            groups.append(_Group(build, text))
    if len(groups) < 2:
        return ""
    listed = "; ".join(map(str, groups))
    return (
        "warning: different MPI libraries form no common world, MPI_Init may wait for ever:"
        f" {listed}; build all members with one library, or run a job for each"
    )


def _build(library: str) -> _Build | None:
    """The build of a library; None: it is no MPI library, or of no known family."""
    file = linked.read(library) if "/" in library else None
    name = (file.name if file is not None else "") or os.path.basename(library)
    if not speech.is_mpi(name):
        return None
    path = os.path.join(os.path.dirname(library), name)
    family = "Intel MPI" if file is not None and speech.is_intel(library) else mpi.family(path)
    if not family:
        return None
    if file is None:
        return _Build(family, "", 0)
    real = os.path.realpath(library)
    return _Build(family, os.path.dirname(real), os.stat(real).st_size)
