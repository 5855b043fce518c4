"""What the PCT needs to start a PMIx server: its command, and its directory.

The server keeps its files in one directory, which the PCT makes and removes. The directory
belongs to the job's user, who may change it at any time. So no symbolic link is followed
here, and an entry is opened by name only once.
"""

from __future__ import annotations

import errno
import os
import stat

from native.host import programs
from native.loop.slices import Work
from pct.host import removal

DEPTH_MAX = 16  # of nested directories: removing them takes the PCT's time
ENTRIES_MAX = 10_000
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CODE = "from pct.pmix_server.server import main; main()"


def command() -> tuple[bytes, ...]:
    """Arguments of the server's process, program first."""
    return tuple(map(os.fsencode, programs.own_python(_CODE)))


def make_directory(parent: str, uid: int, gid: int, server: str) -> bytes:
    """Make a server's directory, which only its user can enter; its path.

    Args:
        parent: a directory of the PCT.

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
        Whether nothing is left of it. Something is left where directories are nested too
        deeply, or have too many entries.
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
