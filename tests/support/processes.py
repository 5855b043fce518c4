"""Processes of a test: holds them still, and describes those that should have ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.leaks import command_line, descendants

# A root may read all of these, another user some.
_SHOWN = ("wchan", "syscall", "stack")
_FIELDS = ("State:", "PPid:", "TracerPid:", "Uid:", "ShdPnd:", "SigBlk:")
_WORDS = 160  # characters of a command line


@contextmanager
def stopped(*unix_pids: int) -> Iterator[None]:
    """Processes stand still for the time of a block; they may end in it."""
    for unix_pid in unix_pids:
        os.kill(unix_pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for unix_pid in unix_pids:
            with suppress(ProcessLookupError):
                os.kill(unix_pid, signal.SIGCONT)


def below_this_one() -> str:
    """What every process does that this one, or a child of it, has started."""
    return show(sorted(descendants(os.getpid())))


def show(unix_pids: Iterable[int]) -> str:
    """A paragraph for each process: how it was started, its state, where in the kernel it waits."""
    return "\n".join(map(_show_one, unix_pids))


def _show_one(unix_pid: int) -> str:
    place = Path(f"/proc/{unix_pid}")
    lines = [f"{unix_pid}: {command_line(unix_pid)[:_WORDS]}"]
    fields = [" ".join(line.split()) for line in _read(place / "status").splitlines()]
    lines += [f"  {', '.join(field for field in fields if field.startswith(_FIELDS))}"]
    for name in _SHOWN:
        words = _read(place / name).split("\n")
        lines += [f"  {name}: {' < '.join(word.removeprefix('[<0>] ') for word in words if word)}"]
    return "\n".join(lines)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip("\n\0")
    except OSError as error:
        return f"({error.strerror})"
