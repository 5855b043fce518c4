"""Daemons as processes: starts them detached, recognises them later, ends them."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from native.host.process import stat_of
from partition.find.state import Daemon

READY_FD = 3  # where a started daemon finds its end of the ready pipe


def spawn(
    argv: list[str],
    environment: Mapping[str, str],
    log: Path,
    ready_fd: int = -1,
    stdin_fd: int = -1,
    *,
    stays_in_session: bool = False,
) -> int:
    """Start a process in a session of its own; its output goes to a log file.

    Args:
        stays_in_session: it is a process group of the caller's session instead.
        ready_fd: becomes its READY_FD; -1: it gets none.
        stdin_fd: becomes its standard input; -1: that is empty.

    Returns:
        Its Unix process id.
    """
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    if stdin_fd >= 0:
        actions[0] = (os.POSIX_SPAWN_DUP2, stdin_fd, 0)
    if ready_fd >= 0:
        actions.append((os.POSIX_SPAWN_DUP2, ready_fd, READY_FD))
    group = {"setpgroup": 0} if stays_in_session else {"setsid": True}
    return os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsigmask=(), **group)


def start_ticks(unix_pid: int) -> int:
    """When a process started, in clock ticks since boot; 0: no such process."""
    fields = stat_of(unix_pid)
    return int(fields[19]) if fields else 0


def parent_of(unix_pid: int) -> int:
    """A process's parent; 0: no such process."""
    fields = stat_of(unix_pid)
    return int(fields[1]) if fields else 0


def session_of(unix_pid: int) -> int:
    """The id of a process's session; 0: no such process."""
    fields = stat_of(unix_pid)
    return int(fields[3]) if fields else 0


def owner_of(unix_pid: int) -> int:
    """The effective user of a process; -1: no such process."""
    try:
        return os.stat(f"/proc/{unix_pid}").st_uid
    except OSError:
        return -1


def open_pidfd(daemon: Daemon) -> int:
    """A descriptor of a daemon; -1: it has ended."""
    try:
        fd = os.pidfd_open(daemon.unix_pid)
    except OSError:
        return -1
    # Compared after the descriptor is open: from then on it refers to one process.
    if start_ticks(daemon.unix_pid) != daemon.start_ticks or _has_ended(fd):
        os.close(fd)
        return -1
    return fd


def is_alive(daemon: Daemon) -> bool:
    """Does a daemon still run?"""
    if (fd := open_pidfd(daemon)) < 0:
        return False
    os.close(fd)
    return True


def end(daemons: Iterable[Daemon], wait_s: float, *, resumes: bool = False) -> tuple[int, int]:
    """End daemons: SIGTERM, then SIGKILL for those that take too long.

    Args:
        resumes: a daemon that was stopped gets SIGCONT, too, and so handles the SIGTERM.

    Returns:
        How many were running, and how many of them got SIGKILL.
    """
    pidfds = [fd for daemon in daemons if (fd := open_pidfd(daemon)) >= 0]
    try:
        first = (signal.SIGTERM, signal.SIGCONT) if resumes else (signal.SIGTERM,)
        late = _signal(pidfds, first, wait_s)
        _signal(late, (signal.SIGKILL,), wait_s)
    finally:
        for fd in pidfds:
            os.close(fd)
    return len(pidfds), len(late)


def _signal(pidfds: Sequence[int], numbers: Sequence[int], wait_s: float) -> list[int]:
    """Signal all, and wait for them to end; those that have not ended in time."""
    for fd in pidfds:
        try:
            for number in numbers:
                signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            pass
    left = set(pidfds)
    poll = select.poll()
    for fd in left:
        poll.register(fd, select.POLLIN)
    until = time.monotonic() + wait_s
    while left and (remaining := until - time.monotonic()) > 0:
        for fd, _ in poll.poll(remaining * 1000):
            poll.unregister(fd)
            left.discard(fd)
    return sorted(left)


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
