"""Where all users of a host find the partition that root runs there.

Its socket is in ``/run/yod``, which only root can write. ``YOD_RUN_DIRECTORY`` names another
directory; ``none``: there is no such partition.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from native.text import shown

RUN = "/run/yod"
VARIABLE = "YOD_RUN_DIRECTORY"
SOCKET = "bebopd.sock"
NONE = "none"  # in the place of a path
UNIX_PATH_MAX = 107  # bytes of a socket's path, sockaddr_un without its NUL


def socket_path(environment: Mapping[str, str]) -> str:
    """The path of the socket, which need not be there; empty: there is to be none."""
    directory = environment.get(VARIABLE) or RUN
    return "" if directory == NONE else f"{directory}/{SOCKET}"


def has_socket(path: str) -> bool:
    """Whether somebody listens there, or has until he was killed."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def make(path: str) -> str:
    """Make the directory of the socket, for all users to search.

    Returns:
        Why there cannot be a socket for all; empty: there can.
    """
    directory = os.path.dirname(path)
    try:
        try:
            os.mkdir(directory, 0o755)
            os.chmod(directory, 0o755)  # whatever the umask is
        except FileExistsError:
            pass
        status = os.stat(directory)
    except OSError as error:
        return f"{shown(directory)}: {error.strerror}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{shown(directory)}: not a directory"
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        return f"{shown(directory)}: others can write it"
    if len(os.fsencode(path)) > UNIX_PATH_MAX:
        return f"{shown(path)}: a socket's path has at most {UNIX_PATH_MAX} bytes"
    return ""


def is_answered(path: str) -> bool:
    """Whether a process listens there."""
    import _socket  # few processes ask

    end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    end.setblocking(False)
    try:
        end.connect(path)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        end.close()
    return True


def for_root(environment: Mapping[str, str]) -> tuple[str, str]:
    """Where a bebopd of root's listens for all users of the host.

    Returns:
        The path, and nothing; or nothing, and why it is not for all users, if it was to be.
    """
    if not (path := socket_path(environment)):
        return "", ""
    if why := make(path):
        return "", why
    if is_answered(path):
        return "", f"{shown(path)}: another bebopd listens there"
    return path, ""
