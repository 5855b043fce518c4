"""What a checkpoint consists of: docs/checkpoint.md.

A checkpoint is a directory ``checkpoint.N`` in the directory that the user has named. In it are a
directory ``rank.R`` for each rank, a record of each node, and the manifest. It is written under
another name: what is called a checkpoint is whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeVar

from msgspec import DecodeError, Struct, ValidationError, json

from native.errors import YodError
from native.text import shown
from native.wire.alloc import NodeSpec
from partition.checkpoint import digests

VERSION = 3
VERSIONS = (1, 2, VERSION)  # that can be read; they differ in the digests of files
PREFIX = "checkpoint."
COLLECTING = ".collecting-"  # and what tells the attempts of jobs apart
NODE = "node."  # and the place: its record
RESCUED = "rescued."  # and the place: what another node has drained for it, beside what it has
MANIFEST = "manifest.json"
SAVED = "saved"  # the file by which a rank says that it has saved itself

_S = TypeVar("_S", bound=Struct)


class File(Struct, frozen=True, omit_defaults=True):
    """One file of a rank.

    Attributes:
        name: its path in the rank's directory; one that is no UTF-8 as a shell shows it.
        digest: in hex, by :mod:`partition.checkpoint.digests`.
        raw: the bytes of such a path, in hex; empty: ``name`` is the path. JSON has only text.
    """

    name: str
    size: int
    digest: str
    raw: str = ""

    def __post_init__(self) -> None:
        """ValueError, also for one who reads it: the bytes are no hex."""
        bytes.fromhex(self.raw)

    @classmethod
    def at(cls, path: str, size: int, digest: str) -> File:
        """That of a path in the rank's directory, as the file system has given it."""
        data = os.fsencode(path)
        try:
            return cls(data.decode(), size, digest)
        except UnicodeDecodeError:
            return cls(shown(data), size, digest, data.hex())

    @property
    def path(self) -> str:
        """Its path in the rank's directory, for the file system."""
        return os.fsdecode(bytes.fromhex(self.raw) if self.raw else self.name.encode())


class RankRecord(Struct, frozen=True):
    """One rank; without files if it had ended before."""

    rank: int
    files: tuple[File, ...]


class NodeRecord(Struct, frozen=True):
    """What a node has saved; ``place`` is its number in the job's tree.

    Attributes:
        attempt: of the job, in which it was saved.
    """

    place: int
    ranks: tuple[RankRecord, ...]
    attempt: int = 0


class RecipeMember(Struct, frozen=True):
    """A member of the job: its words, and what it asks for on nodes."""

    words: tuple[str, ...]
    spec: NodeSpec


class Recipe(Struct, frozen=True):
    """What a restart has to know of the job.

    Attributes:
        environment: BLAKE2b-256 of the variables, in hex; they are not kept.
        mpi: what was offered, for people.
        backend: what has saved the ranks: ``signal``, ``criu``.
        tool: its version, where it has one.
        batch_job: the batch job or allocation whose step the job was; empty: of none.
        out, err: patterns of the files that the ranks write; empty: to yod.
    """

    job: str
    directory: str
    members: tuple[RecipeMember, ...]
    environment: str
    mpi: str
    yod: str
    backend: str = "signal"
    tool: str = ""
    batch_job: str = ""
    out: str = ""
    err: str = ""


class Manifest(Struct, frozen=True):
    """Makes a directory a checkpoint.

    Attributes:
        created: seconds since the epoch.
        nodes: the digest of each node's record, by its file name.
    """

    version: int
    number: int
    created: float
    ranks: int
    size: int
    nodes: dict[str, str]
    recipe: Recipe


class BrokenError(YodError):
    """A checkpoint is not whole, or not as it was written."""


def node_file(place: int) -> str:
    """The name of a node's record."""
    return f"{NODE}{place}.json"


def rescued_directory(place: int) -> str:
    """The name of what was drained for a node that is lost."""
    return f"{RESCUED}{place}"


def rank_directory(rank: int) -> str:
    """The name of a rank's directory."""
    return f"rank.{rank}"


def size_of(recipe: Recipe) -> int:
    """Ranks of the job."""
    return sum(member.spec.size for member in recipe.members)


def read(path: str, kind: type[_S]) -> tuple[_S, str]:
    """A record, and its digest in hex.

    Raises:
        BrokenError: it is not there, or no such record.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
        return json.decode(data, type=kind), digests.of_record(data)
    except OSError as error:
        raise BrokenError(f"{shown(path)}: {error.strerror}") from None
    except (DecodeError, ValidationError, UnicodeDecodeError, ValueError) as error:
        raise BrokenError(f"{shown(path)}: {error}") from None


def write(path: str, record: Struct) -> str:
    """Write a record so that it outlives the host; its digest in hex."""
    data = json.format(json.encode(record)) + b"\n"
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return digests.of_record(data)


def files_below(directory: str) -> Iterator[str]:
    """Regular files, by their paths in the directory; links and others are none.

    Raises:
        OSError: a directory cannot be read.
    """
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from (f"{entry.name}/{name}" for name in files_below(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield entry.name
