"""The user's own directories and what is in them; and the names of users.

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
USER_LOG_BYTES = 4 << 20  # one that is larger becomes the older one
OLDER = ".1"  # behind its name, of the older one
RECORDS = "records"  # likewise: of the bebopd of `yodctl up`
BEBOPD = "bebopd"  # likewise: of a bebopd that is told no directory
ALLOCATIONS = "allocations"  # likewise: a key for each allocation of which a command has nodes
JOBS = "jobs"  # in the runtime directory: a socket for each running job
_BOOT_ID_BYTES = 64  # more than it has


def state(environment: Mapping[str, str]) -> str:
    """The user's directory for what outlives a session. It need not be there."""
    return os.path.join(*state_places(environment))


def make_state(environment: Mapping[str, str]) -> str:
    """The same; makes it if it is missing, with access for the user only.

    Raises:
        OSError: it cannot be made; names the directory at fault, which is the home
            (or what XDG_STATE_HOME names) where that is missing.
    """
    return _make(*state_places(environment))


def make_log(environment: Mapping[str, str]) -> str:
    """The user log, which need not be there; one that is full becomes the older one.

    Returns:
        Its path; empty: there is no home for it.
    """
    try:
        path = os.path.join(make_state(environment), USER_LOG)
    except OSError:
        return ""
    try:
        if os.stat(path).st_size > USER_LOG_BYTES:
            _put_away(path)
    except OSError:
        pass  # who writes to it says what is wrong
    return path


def _put_away(path: str) -> None:
    """Rename it, unless another process does, or has done so meanwhile."""
    import fcntl  # once in so many launches

    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            os.rename(path, path + OLDER)
    finally:
        os.close(fd)


def runtime(environment: Mapping[str, str]) -> str:
    """The user's directory for what ends with a session, else that of the state."""
    return os.path.join(*_runtime_places(environment))


def make_runtime(environment: Mapping[str, str]) -> str:
    """The same; makes it if it is missing, as :func:`make_state` does."""
    return _make(*_runtime_places(environment))


def jobs(environment: Mapping[str, str]) -> str:
    """The directory of the sockets of running jobs; see :mod:`native.host.jobsockets`."""
    return os.path.join(*_runtime_places(environment), JOBS)


def make_jobs(environment: Mapping[str, str]) -> str:
    """The same; makes it if it is missing, as :func:`make_state` does."""
    return _make(*_runtime_places(environment), JOBS)


def key_name(job_id: str) -> str:
    """The name of an allocation's key on this host, without the process id at its end.

    Hosts may share a home.
    """
    return f"{job_id}@{os.uname().nodename}."


def home(environment: Mapping[str, str]) -> str:
    """The user's home directory, which need not be there."""
    return environment.get("HOME") or _home()


def boot_id() -> str:
    """The kernel's id of this host's present boot; empty: it tells none.

    Hosts may share a home, and what is in it may be of an earlier boot.
    """
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, _BOOT_ID_BYTES).decode("ascii").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


def _make(path: str, *below: str) -> str:
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


def _runtime_places(environment: Mapping[str, str]) -> tuple[str, ...]:
    path = environment.get("XDG_RUNTIME_DIR", "")
    return (path, "yod") if path and _is_own(path) else state_places(environment)


def _is_own(path: str) -> bool:
    # A runtime directory of another user survives `su`.
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def state_places(environment: Mapping[str, str]) -> tuple[str, ...]:
    """A directory of the user's, and what is ours below it."""
    chosen = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(chosen):  # the XDG specification: another is to be ignored
        return chosen, "yod"
    return home(environment), ".local", "state", "yod"


def user_name(uid: int) -> str:
    """A user's name; the number where the system's table of users has none."""
    import pwd  # most launches ask for no name

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _home() -> str:
    """The home directory that the system's table of users has; it need not be there."""
    import pwd  # nearly everybody has HOME

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/nonexistent"
