"""How to start a PMIx server, and its directory: what its PCT has to know of it.

The server keeps its files in one directory, which the PCT makes and removes. Its user
may do there what they like, so nothing here follows a symbolic link or trusts a name
twice.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from native.loop.slices import Work
from pct.host import removal

DEPTH_MAX = 16  # directories below one another: the PCT has other users too
ENTRIES_MAX = 10_000
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CODE = """\
import sys
sys.path[:] = sys.argv[1:]
from pct.pmix_server.server import main
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


def make_directory(parent: str, uid: int, gid: int, server: str) -> bytes:
    """Make a server's directory, which its user alone can enter; gives its path.

    Args:
        parent: a directory of the PCT's.

    Raises:
        OSError: it cannot be made.
    """
    path = os.path.join(os.fsencode(parent), b"pmix-" + os.fsencode(server.replace("/", "_")))
    os.mkdir(path, 0o700)
    os.chown(path, uid, gid)
    return path


def remove_directory(path: bytes, uid: int) -> Work[bool]:
    """Remove a server's directory with all that is in it, if it is the user's.

    Returns:
        Whether nothing is left of it. Some is, where it was made too deep or too full
        to be ours.
    """
    above, name = os.path.split(path)
    try:
        parent = os.open(above, _FLAGS)
    except FileNotFoundError:
        return True
    try:
        yield from _Removal(uid).remove(parent, name, DEPTH_MAX)
        return True
    except OSError:
        return False
    finally:
        os.close(parent)


class _Removal:
    """One walk through a directory that its owner may change meanwhile."""

    def __init__(self, uid: int) -> None:
        self._uid = uid
        self._entries_left = ENTRIES_MAX

    def remove(self, parent: int, name: bytes, depth: int) -> Work[None]:
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
                yield from self._remove_entry(directory, os.fsencode(entry), depth)
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=parent)

    def _remove_entry(self, directory: int, name: bytes, depth: int) -> Work[None]:
        self._entries_left -= 1
        if self._entries_left % removal.ENTRIES == 0:
            yield
        if not depth or not self._entries_left:
            raise OSError(errno.ENOTEMPTY, "too much", name)
        try:
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                yield from self.remove(directory, name, depth - 1)
            else:
                yield from removal.remove_file(name, directory)
        except FileNotFoundError:  # its owner was faster
            return
