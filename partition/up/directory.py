"""The directory of a partition that this user has started: made, locked, cleaned."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from native.errors import PartitionError
from native.host import sitedirs, userdirs
from native.text import shown
from partition.find import state

# Names in the directory. Without XDG_RUNTIME_DIR this is the user's persistent
# directory, which also has bebopd's records and the user's log.
KEY, SOCKET, LOGS = "key", "bebopd.sock", "logs"
TAIL_LINES = 12


def socket_path(where: Path, environment: Mapping[str, str], *, is_for_all: bool) -> str:
    """Where bebopd's Unix socket is; empty: its path would be too long.

    Args:
        is_for_all: it is where all users look if root starts it, and no other one is there.
    """
    if is_for_all and os.geteuid() == 0 and (path := sitedirs.for_root(environment)[0]):
        return path
    path = str(where / SOCKET)
    return path if len(os.fsencode(path)) <= sitedirs.UNIX_PATH_MAX else ""


def remove_socket(unix_address: str) -> None:
    """Remove what a bebopd that was killed has left, wherever it is."""
    path = unix_address.removeprefix("unix:")
    if path and not sitedirs.is_answered(path):
        Path(path).unlink(missing_ok=True)


def make(where: Path, environment: Mapping[str, str]) -> None:
    """Make the partition's directory, and the user's, which contains the records.

    Raises:
        PartitionError: one cannot be made.
    """
    try:
        userdirs.make_state(environment)
    except OSError as error:
        raise PartitionError(
            f"no place for records: {shown(error.filename)}: {error.strerror};"
            " XDG_STATE_HOME names a directory for them"
        ) from None
    try:
        if str(where) != userdirs.runtime(environment):
            userdirs.make_runtime(environment)
        where.mkdir(mode=0o700, exist_ok=True)
        if where.stat().st_uid != os.geteuid():
            raise PartitionError(f"{shown(str(where))}: belongs to another user")
        where.chmod(0o700)
    except OSError as error:
        raise PartitionError(f"{shown(str(where))}: {error.strerror}") from None


@contextmanager
def locked(where: Path) -> Iterator[None]:
    """Let one yodctl work at a time; the directory exists as long as it is locked."""
    while True:
        where.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            if os.fstat(fd).st_ino == where.stat().st_ino:
                break
        except FileNotFoundError:
            pass
        os.close(fd)  # another yodctl has removed it meanwhile
    try:
        yield
    finally:
        os.close(fd)


def clean(where: Path, *, removes_itself: bool = True) -> None:
    """Remove a partition's files from the state directory."""
    for pattern in (KEY, SOCKET, state.FILE_NAME, f"{state.TEMPORARY}*"):
        for path in where.glob(pattern):
            path.unlink(missing_ok=True)
    shutil.rmtree(where / LOGS, ignore_errors=True)
    if removes_itself:
        try:
            where.rmdir()
        except OSError:
            pass  # it has what is not the partition's


def tail(log: str) -> str:
    """The end of a log, as lines that are shown below an error."""
    if not log:
        return ""
    try:
        lines = Path(log).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    if not lines:
        room = os.statvfs(log)
        full = f"; no space is left in {shown(os.path.dirname(log))}" if not room.f_bavail else ""
        return f"; it has written nothing{full}"
    return "".join(f"\n    {line}" for line in lines[-TAIL_LINES:])
