"""The host files of a job on a node, for a launcher that a rank starts.

They are in a directory of their own, which stays the PCT's: the job's owner can read
the files and overwrite them, but not put anything else there, so that removing them
is safe for a PCT that runs as root.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from pct import foreign

_NAMES = ("openmpi", "hydra")


def write(
    parent: str, uid: int, gid: int, nodes: Sequence[tuple[str, int]]
) -> tuple[str, tuple[bytes, bytes]]:
    """Write them.

    Args:
        parent: a local directory, such as ``/tmp``.
        uid, gid: of the job's owner.
        nodes: as of :func:`pct.foreign.host_files`.

    Returns:
        The directory, for :func:`remove`, and the paths of both files.

    Raises:
        OSError: nothing is left behind.
    """
    directory = os.path.join(parent, f"yod-hosts-{os.urandom(8).hex()}")
    os.mkdir(directory, 0o700)
    try:
        for name, text in zip(_NAMES, foreign.host_files(nodes), strict=True):
            _write(os.path.join(directory, name), text, uid, gid)
        os.chmod(directory, 0o711)
    except OSError:
        remove(directory)
        raise
    first, second = (os.fsencode(os.path.join(directory, name)) for name in _NAMES)
    return directory, (first, second)


def remove(directory: str) -> None:
    """Take them away; what is not there is no fault."""
    for name in _NAMES:
        try:
            os.unlink(os.path.join(directory, name))
        except OSError:
            continue
    try:
        os.rmdir(directory)
    except OSError:
        return


def _write(path: str, text: bytes, uid: int, gid: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchown(fd, uid, gid)
        while text:
            text = text[os.write(fd, text) :]
    finally:
        os.close(fd)
