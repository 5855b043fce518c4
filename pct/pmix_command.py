"""How to start a PMIx server, and its directory: what its PCT has to know of it.

The server keeps its files in one directory, whose name follows from the user and the
server's name. It removes it itself; when it was killed, the PCT does. Others may
write where it lies, so nothing here follows a symbolic link or trusts a name twice.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

PARENT = b"/tmp"
DEPTH_MAX = 16  # directories below one another: the PCT has other users too
ENTRIES_MAX = 10_000
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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


def remove_directory(uid: int, server: str) -> bool:
    """Remove a server's directory with all that is in it, if it is the user's.

    Returns:
        Whether nothing is left of it. Some is, where it was made too deep or too full
        to be ours.
    """
    parent = os.open(PARENT, _FLAGS)
    try:
        _Removal(uid).remove(parent, _name(uid, server), DEPTH_MAX)
        return True
    except OSError:
        return False
    finally:
        os.close(parent)


def _name(uid: int, server: str) -> bytes:
    return b"yod-pmix-%d-%s" % (uid, os.fsencode(server.replace("/", "_")))


class _Removal:
    """One walk through a directory that its owner may change meanwhile."""

    def __init__(self, uid: int) -> None:
        self._uid = uid
        self._entries_left = ENTRIES_MAX

    def remove(self, parent: int, name: bytes, depth: int) -> None:
        """Remove a directory of the user's below an open one, if it is there.

        Raises:
            OSError: it is not a directory or not the user's, or cannot be removed.
        """
        try:
            directory = os.open(name, _FLAGS, dir_fd=parent)
        except FileNotFoundError:
            return
        try:
            if os.fstat(directory).st_uid != self._uid:
                raise PermissionError(errno.EPERM, "another user's", name)
            for entry in os.listdir(directory):
                self._remove_entry(directory, os.fsencode(entry), depth)
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=parent)

    def _remove_entry(self, directory: int, name: bytes, depth: int) -> None:
        self._entries_left -= 1
        if not depth or not self._entries_left:
            raise OSError(errno.ENOTEMPTY, "too much", name)
        try:
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                self.remove(directory, name, depth - 1)
            else:
                os.unlink(name, dir_fd=directory)
        except FileNotFoundError:  # its owner was faster
            return
