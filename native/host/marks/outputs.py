"""Marks of files that yod itself writes: the output of its batch job, and those of ``--tee``.

A checkpoint has them in a file of its own, which yod adds when all that ranks had written before
has come, and nothing from behind (``checkpoint.go_on``). A restart cuts the files back.

The output file of a batch job is also written by its script, and by other steps. It has a mark
only where yod was the one that wrote to it since it began, and is cut only by the step that made
the last mark. The file beside it (:func:`beside`) says which that was; ``native/script/script.c``
overwrites no output that has one.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable, Mapping

from msgspec import DecodeError, Struct, ValidationError, json

from native.allocated import ALLOCATION_VARIABLE
from native.host.files import sync
from native.wire.batch import SCRIPT_STEP

NAME = "output.json"
_BESIDE = ".yod-mark"
_TAIL_BYTES = 128


class Mark(Struct, frozen=True):
    """How much of a file belongs to a checkpoint.

    Attributes:
        tail: what is before the mark, in hex; by it the file is known again.
        is_of_job: it is the output of the batch job.
    """

    path: str
    size: int
    tail: str
    is_of_job: bool


class Marks(Struct, frozen=True):
    """Those of a checkpoint; ``batch_job``: whose step the job was."""

    batch_job: str
    files: tuple[Mark, ...]


def batch_job(environment: Mapping[str, str]) -> str:
    """The batch job whose script has started this process; empty: none has."""
    job_id = environment.get(ALLOCATION_VARIABLE, "")
    return job_id if environment.get("YOD_JOB_ID") == f"{job_id}.{SCRIPT_STEP}" else ""


def appended(number: int) -> bool:
    """Whether a standard stream is a file that is appended to."""
    try:
        is_file = stat.S_ISREG(os.fstat(number).st_mode)
        return is_file and bool(fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND)
    except OSError:  # it is closed
        return False


def size_of(number: int) -> int:
    """Bytes in the file that a standard stream is."""
    return os.fstat(number).st_size


def path_of(number: int) -> str:
    """The file that a standard stream is."""
    return os.readlink(f"/proc/self/fd/{number}")


def mark(path: str, *, is_of_job: bool) -> Mark:
    """The mark of a file as it is now.

    Raises:
        OSError: it cannot be looked at.
    """
    size = os.stat(path).st_size
    return Mark(path, size, _tail(path, size).hex(), is_of_job)


def put_down(checkpoint: str, found: Marks, shared: Iterable[str]) -> None:
    """Add marks to a checkpoint that has just been made.

    Args:
        shared: output files of the job that have no mark, as others write to them too.

    Raises:
        OSError: they cannot be written.
    """
    for each in found.files:
        if each.is_of_job:
            _say_beside(each.path, checkpoint)
    for name in shared:
        _say_beside(name, "")
    path = os.path.join(checkpoint, NAME)
    with open(f"{path}.new", "wb") as file:
        file.write(json.encode(found))
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)
    sync(checkpoint)


def read(checkpoint: str) -> Marks:
    """The marks of a checkpoint; without any if they cannot be read."""
    try:
        with open(os.path.join(checkpoint, NAME), "rb") as file:
            return json.decode(file.read(), type=Marks)
    except (OSError, DecodeError, ValidationError):
        return Marks("", ())


def cut_job_output(checkpoint: str, job_id: str) -> bool:
    """Cut what our standard streams write to back to a checkpoint that a step goes on from.

    Args:
        job_id: our batch job.

    Returns:
        Whether all that goes to such files stands at its mark.
    """
    found = read(checkpoint)
    if not job_id or found.batch_job != job_id:
        return False
    ours = {path_of(number): number for number in (1, 2) if appended(number)}
    own = {each.path: each for each in found.files if each.is_of_job and each.path in ours}
    if own.keys() != ours.keys() or not own:
        return False
    return all(_is_last(path, checkpoint) and cut(each) for path, each in own.items())


def cut(found: Mark) -> bool:
    """Cut a file back to its mark; False: it is another file, or cannot be cut."""
    try:
        size = os.stat(found.path).st_size
        if size < found.size or _tail(found.path, found.size).hex() != found.tail:
            return False
        os.truncate(found.path, found.size)
    except OSError:
        return False
    return True


def beside(path: str) -> str:
    """The file that says which checkpoint has the last mark of a batch job's output."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}{_BESIDE}")


def _say_beside(path: str, checkpoint: str) -> None:
    with open(beside(path), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(checkpoint)


def _is_last(path: str, checkpoint: str) -> bool:
    try:
        with open(beside(path), encoding="utf-8", errors="surrogateescape") as file:
            return file.read() == checkpoint
    except OSError:
        return False


def _tail(path: str, size: int) -> bytes:
    count = min(size, _TAIL_BYTES)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, count, size - count)
    finally:
        os.close(fd)
