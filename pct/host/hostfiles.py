"""For a launcher that a rank starts (``mpirun`` inside the job): host files, and our agent.

The host files of a job are in a directory that belongs to the PCT. The job's owner can read
and overwrite the files, but cannot add other entries to the directory; so a PCT that runs as
root can remove it safely.
"""

from __future__ import annotations

import os
import stat
import sys

AGENT = "yod-agent"

_NAMES = ("openmpi", "hydra")


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


def write(
    parent: str, uid: int, gid: int, texts: tuple[bytes, ...]
) -> tuple[str, tuple[bytes, ...]]:
    """Write the host files of a job.

    Args:
        parent: a local directory. Where the owner cannot enter it, as the run-time
            directory of root, ``/tmp`` is used instead.
        uid, gid: of the job's owner.
        texts: as of :func:`pct.wireup.foreign.host_files`.

    Returns:
        The directory, for :func:`remove`, and the paths of the files.

    Raises:
        OSError: nothing is left behind.
    """
    if not _can_search(parent, uid):
        parent = "/tmp"
    directory = os.path.join(parent, f"yod-hosts-{os.urandom(8).hex()}")
    os.mkdir(directory, 0o700)
    try:
        for name, text in zip(_NAMES, texts, strict=True):
            _write(os.path.join(directory, name), text, uid, gid)
        os.chmod(directory, 0o711)
    except OSError:
        remove(directory)
        raise
    return directory, tuple(os.fsencode(os.path.join(directory, name)) for name in _NAMES)


def remove(directory: str) -> None:
    """Remove the host files of a job. It is no error if some are not there."""
    for name in _NAMES:
        try:
            os.unlink(os.path.join(directory, name))
        except OSError:
            continue
    try:
        os.rmdir(directory)
    except OSError:
        return


def _can_search(directory: str, uid: int) -> bool:
    """Can a user open files below a directory? The groups of the user are not considered."""
    path = os.path.realpath(directory)
    while uid != 0:
        status = os.stat(path)
        if not status.st_mode & (stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH):
            return False
        if path == "/":
            break
        path = os.path.dirname(path)
    return True


def _write(path: str, text: bytes, uid: int, gid: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchown(fd, uid, gid)
        while text:
            text = text[os.write(fd, text) :]
    finally:
        os.close(fd)
