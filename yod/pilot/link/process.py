"""The process of an agent on this host, or of what starts it: a child, or one of before."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from native.host import userdirs
from native.host.process import stat_of
from native.loop.reactor import Reactor, Watch
from native.waitstatus import how_it_ended

# proc(5), /proc/PID/stat, counted from the state: starttime; states without a process.
_BEGAN = 19
_ENDED = (b"Z", b"X")
_TAIL_BYTES = 4096


class Process:
    """One process, which may not be there yet.

    Args:
        on_end: called when it has ended, with words for how.

    Attributes:
        unix_pid: 0: it is not there.
        is_script: it leads a process group, which gets its signals.
    """

    def __init__(self, reactor: Reactor, on_end: Callable[[str], None]) -> None:
        self._reactor = reactor
        self._on_end = on_end
        self._pidfd = -1
        self._watch: Watch | None = None
        self.unix_pid = 0
        self.is_script = False

    def began(self, unix_pid: int, is_script: bool) -> None:
        """It is a child of this process."""
        self.unix_pid, self.is_script = unix_pid, is_script
        self._reactor.on_child(unix_pid, lambda status: self._ended(how_it_ended(status)))

    def find(self, unix_pid: int, beginning: str, is_script: bool) -> None:
        """It was a child of an earlier client, and may be there."""
        try:
            pidfd = os.pidfd_open(unix_pid)
        except OSError:
            return
        if beginning_of(unix_pid) != beginning:  # the descriptor refers to one from now on
            os.close(pidfd)
            return
        self.unix_pid, self.is_script, self._pidfd = unix_pid, is_script, pidfd
        self._watch = self._reactor.watch(pidfd, lambda: self._ended("has ended"))

    def signal(self, number: int) -> None:
        """Send it a signal, if it is there."""
        if self.unix_pid:
            with suppress(OSError):
                (os.killpg if self.is_script else os.kill)(self.unix_pid, number)

    def close(self) -> None:
        """Watch it no more, unless it is a child. Calling twice is harmless."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
            os.close(self._pidfd)
            self.unix_pid = 0

    def _ended(self, how: str) -> None:
        self.close()
        self.unix_pid = 0
        self._on_end(how)


def beginning_of(unix_pid: int) -> str:
    """When a process of this host has begun: no other one of its number has the same text.

    Empty: there is none of this number, or it has ended.
    """
    words = stat_of(unix_pid)
    if not words or words[0] in _ENDED:
        return ""
    return f"{os.uname().nodename} {userdirs.boot_id()} {words[_BEGAN].decode()}"


def tail(path: str) -> str:
    """The end of what a process has written to a file; empty: there is none."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
