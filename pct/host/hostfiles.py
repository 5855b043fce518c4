"""For a launcher that a rank starts (``mpirun`` inside the job): host files, and our agent.

The host files of a job belong to its owner, who can read and overwrite them. They are in a
directory of the PCT's, or in ``/tmp``, under names that nobody can guess.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from functools import cache

AGENT = "yod-agent"

_NAMES = ("openmpi", "hydra")


@cache  # it is asked for every job, and is where it was
def find_agent() -> bytes:
    """Path of the installed ``yod-agent``; empty: there is none that launchers can use.

    It is looked for beside the interpreter, beside this command and in PATH. A path with
    a blank or a colon cannot be used, because Open MPI splits it there.
    """
    places = [os.path.dirname(sys.executable), os.path.dirname(os.path.abspath(sys.argv[0]))]
    for place in places + os.get_exec_path():
        path = os.path.join(place, AGENT)
        if os.path.isabs(path) and os.access(path, os.X_OK):
            is_usable = ":" not in path and path.split() == [path]
            return os.fsencode(path) if is_usable else b""
    return b""


def write(parent: str, uid: int, gid: int, texts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Write the host files of a job.

    Args:
        parent: a local directory. Where the owner cannot enter it, as the run-time
            directory of root, ``/tmp`` is used instead.
        uid, gid: of the job's owner.
        texts: as of :func:`pct.wireup.foreign.host_files`.

    Returns:
        The paths of the files, for :func:`remove`.

    Raises:
        OSError: nothing is left behind.
    """
    if uid not in (0, os.geteuid()) and not _can_search(parent, uid):
        parent = "/tmp"
    stem = os.path.join(parent, f"yod-hosts-{os.urandom(8).hex()}-")
    paths: list[bytes] = []
    try:
        for name, text in zip(_NAMES, texts, strict=True):
            paths.append(os.fsencode(stem + name))
            _write(paths[-1], text, uid, gid)
    except OSError:
        remove(paths)
        raise
    return tuple(paths)


def remove(paths: Iterable[bytes]) -> None:
    """Remove the host files of a job. It is no error if some are not there."""
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            continue


def _can_search(directory: str, uid: int) -> bool:
    """Can a user open files below a directory? The groups of the user are not considered."""
    path = os.path.realpath(directory)
    while True:
        status = os.stat(path)
        if not status.st_mode & (stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH):
            return False
        if path == "/":
            break
        path = os.path.dirname(path)
    return True


def _write(path: bytes, text: bytes, uid: int, gid: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchown(fd, uid, gid)
        while text:
            text = text[os.write(fd, text) :]
    finally:
        os.close(fd)
