"""How to start a PMIx server, and its directory: what its PCT has to know of it.

The server keeps its files in one directory, whose name follows from the user and the
server's name. It removes it itself; when it was killed, the PCT does. Others may
write where it lies, so nothing here follows a symbolic link or trusts a name twice.
"""

from __future__ import annotations

import os
import stat
import sys

PARENT = b"/tmp"
_CODE = """\
import sys
sys.path[:] = sys.argv[1:]
from pct.pmix_server import main
main()
"""


def command() -> tuple[bytes, ...]:
    """Arguments of the server's process, program first.

    Its modules are looked up where ours were: ``site``, which takes as long as half of
    the server's own imports, need not run again.
    """
    path = [os.path.abspath(entry) for entry in sys.path]
    return tuple(
        os.fsencode(word) for word in (sys.executable, "-EPS", "-c", _CODE, *dict.fromkeys(path))
    )


def directory_of(uid: int, server: str) -> bytes:
    """Path of a server's directory; it need not be there."""
    return PARENT + b"/" + _name(uid, server)


def make_directory(uid: int, server: str) -> bytes:
    """Make a server's directory, anew when an earlier one has left it; gives its path.

    Raises:
        OSError: there is something else of that name, or it cannot be made.
    """
    remove_directory(uid, server)
    path = directory_of(uid, server)
    os.mkdir(path, 0o700)
    return path


def remove_directory(uid: int, server: str) -> None:
    """Remove a server's directory with all that is in it, if it is there and the user's.

    Raises:
        OSError: something in it cannot be removed.
    """
    parent = os.open(PARENT, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _remove(parent, _name(uid, server), uid)
    finally:
        os.close(parent)


def _name(uid: int, server: str) -> bytes:
    return b"yod-pmix-%d-%s" % (uid, os.fsencode(server.replace("/", "_")))


def _remove(parent: int, name: bytes, uid: int) -> None:
    """Remove a directory of the user's below an open one."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        directory = os.open(name, flags, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        if os.fstat(directory).st_uid != uid:
            return
        for entry in map(os.fsencode, os.listdir(directory)):
            mode = os.stat(entry, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                _remove(directory, entry, uid)
            else:
                os.unlink(entry, dir_fd=directory)
    finally:
        os.close(directory)
    os.rmdir(name, dir_fd=parent)
