"""The user's own directories, and what is in them.

===========  ====================================================  =========================
``state``    ``$XDG_STATE_HOME/yod``, else ``~/.local/state/yod``  what outlives a session
``runtime``  ``$XDG_RUNTIME_DIR/yod``, else the above              sockets, keys, who is up
===========  ====================================================  =========================

A directory is made only below an existing one of the user's: a missing home, which many
system users have, is not made.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping

USER_LOG = "userlog"  # in the state directory: a line for each launch
RECORDS = "records"  # likewise: of the bebopd of `yodctl up`
BEBOPD = "bebopd"  # likewise: of a bebopd that is told no directory


def state(environment: Mapping[str, str]) -> str:
    """The user's directory for what outlives a session. It need not be there."""
    return os.path.join(*_places(environment))


def make_state(environment: Mapping[str, str]) -> str:
    """The same; makes it if it is missing, with access for the user only.

    Raises:
        OSError: it cannot be made; names the directory at fault, which is the home
            (or what XDG_STATE_HOME names) where that is missing.
    """
    path, *below = _places(environment)
    if not os.path.isdir(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    for name in below:
        path = os.path.join(path, name)
        if not os.path.isdir(path):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:  # another command has made it, or it is no directory
                if not os.path.isdir(path):
                    raise
    return path


def runtime(environment: Mapping[str, str]) -> str:
    """The user's directory for what ends with a session, else that of the state."""
    path = environment.get("XDG_RUNTIME_DIR", "")
    if path and _is_own(path):
        return os.path.join(path, "yod")
    return state(environment)


def _is_own(path: str) -> bool:
    # A runtime directory of another user survives `su`.
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _places(environment: Mapping[str, str]) -> tuple[str, ...]:
    """A directory of the user's, and what is ours below it."""
    chosen = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(chosen):  # the XDG specification: another is to be ignored
        return chosen, "yod"
    return environment.get("HOME") or os.path.expanduser("~"), ".local", "state", "yod"
