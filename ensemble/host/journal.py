"""The journal of a study: what has been submitted and is not known to be over.

A line is written before a job is submitted, so a launcher that is started again knows of each job
that there may be, by its name. Lines are JSON. Only the last one can be cut short, and
what it says has then not happened.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from msgspec import MsgspecError, Struct, json
from msgspec.structs import replace

from ensemble.machine.job import Job, JobState
from native.errors import UsageError

NAME = "journal"


class _Line(Struct, omit_defaults=True):
    """One of: a job is submitted; it has an id; it is over."""

    job: Job | None = None
    uid: int = 0
    job_id: str = ""
    over: str = ""


class Left(Struct):
    """What an earlier launcher has left.

    Attributes:
        jobs: whose ends are not known.
        uid, epoch: the last that were used.
    """

    jobs: tuple[Job, ...] = ()
    uid: int = 0
    epoch: int = 0


class Journal:
    """The journal of one directory, which one launcher at a time writes.

    Args:
        is_synced: each submission is on the disk before it is made: where jobs outlive this host.

    Attributes:
        left: by an earlier launcher.

    Raises:
        UsageError: another launcher has it, or a line of it is none.
        OSError: it cannot be opened.
    """

    def __init__(self, directory: Path, is_synced: bool) -> None:
        self._path = directory / NAME
        self._is_synced = is_synced
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise UsageError(f"{directory}: another launcher works there") from None
        self.left = self._read()
        self._size = os.fstat(self._fd).st_size

    def submit(self, job: Job) -> None:
        """A job is about to be submitted.

        Raises:
            OSError: the line cannot be written; the job must not be submitted.
        """
        self._write(_Line(job=job))
        if self._is_synced:
            os.fdatasync(self._fd)

    def has_id(self, uid: int, job_id: str) -> None:
        """The scheduler has taken it. A launcher that lacks this line asks for the name."""
        self._try(_Line(uid=uid, job_id=job_id))

    def over(self, uid: int, state: JobState) -> None:
        """It is over. A launcher that lacks this line finds that out."""
        self._try(_Line(uid=uid, over=state.name))

    def close(self) -> None:
        """Give it up."""
        os.close(self._fd)

    def _try(self, line: _Line) -> None:
        try:
            self._write(line)
        except OSError:  # a full disk ends no study
            pass

    def _write(self, line: _Line) -> None:
        data = json.encode(line) + b"\n"
        if os.write(self._fd, data) < len(data):
            os.ftruncate(self._fd, self._size)  # half a line, behind which none can be read
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(data)

    def _read(self) -> Left:
        data = self._path.read_bytes()
        whole, _, rest = data.rpartition(b"\n")
        if rest:  # cut short
            os.ftruncate(self._fd, len(data) - len(rest))
        jobs: dict[int, Job] = {}
        left = Left()
        for number, text in enumerate(whole.splitlines(), 1):
            try:
                line = json.decode(text, type=_Line)
            except MsgspecError as error:
                raise UsageError(f"{self._path}:{number}: {error}") from None
            if line.job is not None:
                jobs[line.job.uid] = line.job
                left.uid = max(left.uid, line.job.uid)
                left.epoch = max(left.epoch, line.job.epoch)
            elif line.over:
                jobs.pop(line.uid, None)
            elif line.uid in jobs:
                jobs[line.uid] = replace(jobs[line.uid], job_id=line.job_id)
        left.jobs = tuple(jobs.values())
        return left
