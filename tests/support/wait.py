"""Waiting for an event with a limit. A test never sleeps for a time.

The limit is reached only if something has gone wrong: also a busy machine needs far less.

Each helper raises AssertionError with what it had seen when the limit is over.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import termios
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

LIMIT_S = 120.0
_FIRST_PROBE_S = 0.002
_LAST_PROBE_S = 0.1


def wait_for_exit(unix_pid: int, limit_s: float = LIMIT_S) -> None:
    """Return when a process has ended, be it a child or not; a zombie has ended."""
    try:
        pidfd = os.pidfd_open(unix_pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([pidfd], [], [], limit_s)[0]:
            raise AssertionError(f"process {unix_pid} still runs after {limit_s:g} s")
    finally:
        os.close(pidfd)


def read_until(fd: int, text: bytes, limit_s: float = LIMIT_S, times: int = 1) -> bytes:
    """Read from a descriptor until ``text`` has come so often; gives all that was read.

    Reads the descriptor itself: use it on unbuffered pipes only.
    """
    seen = b""
    deadline = time.monotonic() + limit_s
    while seen.count(text) < times:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            raise AssertionError(f"{text!r} did not come within {limit_s:g} s, but {seen!r}")
        if not (data := os.read(fd, 65536)):
            raise AssertionError(f"end of file before {text!r}, after {seen!r}")
        seen += data
    return seen


def wait_until(
    probe: Callable[[], Value], limit_s: float = LIMIT_S, what: str = "the condition"
) -> Value:
    """Ask ``probe`` until its answer is true, and give that answer.

    For what the kernel announces to nobody (a mount, an entry of /proc). Where a
    descriptor tells, use that. It asks less often the longer it takes, so that
    waiting does not slow down what it waits for.
    """
    deadline = time.monotonic() + limit_s
    pause_s = _FIRST_PROBE_S
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} is not so after {limit_s:g} s: {answer!r}")
        select.select([], [], [], pause_s)
        pause_s = min(1.5 * pause_s, _LAST_PROBE_S)
    return answer


def unread(fd: int) -> int:
    """Bytes that wait in a pipe."""
    answer = bytearray(4)
    fcntl.ioctl(fd, termios.FIONREAD, answer)
    return int.from_bytes(answer, sys.byteorder)
