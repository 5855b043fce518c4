"""What random signals strike: programs for jobs, the signals, and whose a process is."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

MOMENT_S = 0.5  # at most, from the start of a round to its signal, and of a stop
NUMBER = "TRIAL_JOB"  # in the environment of a job's processes
WORDS = "of the input\n" * 1000
SIGNALS = (*[signal.SIGKILL] * 5, signal.SIGSTOP, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT)


class Kind(NamedTuple):
    """A program for a job, and what its ranks print in all when nothing disturbs them."""

    name: str
    ranks: int
    words: tuple[str, ...]
    said: str
    given: str = ""


KINDS = (
    Kind("short", 4, ("echo", "hi"), "hi\n" * 4),
    Kind("output", 3, ("seq", "3000"), "".join(f"{n}\n" for n in range(1, 3001)) * 3),
    Kind("input", 2, ("cat",), WORDS, WORDS),
    Kind("lasting", 4, ("sh", "-c", "read line </dev/null; sleep 1; echo up"), "up\n" * 4),
    Kind("daemon", 2, ("sh", "-c", "setsid sleep 1000 & echo up"), "up\n" * 2),
)


def environment_of(unix_pid: int) -> bytes:
    """Of a process, as it began; empty when it has ended."""
    try:
        return Path(f"/proc/{unix_pid}/environ").read_bytes()
    except OSError:
        return b""
