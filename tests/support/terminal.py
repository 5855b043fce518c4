"""A pseudo-terminal for yod, in a session of its own; the test has the other end."""

from __future__ import annotations

import os
import pty
import subprocess
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support.partition import BIN, ROOT, Partition, Word

CTRL_C, CTRL_D, CTRL_Z = b"\x03", b"\x04", b"\x1a"


@contextmanager
def on_a_terminal(
    partition: Partition, *words: Word, env: Mapping[str, str | None] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """yod with these words. Nothing that is typed comes back, no line end is changed."""
    with command_on_a_terminal(partition, BIN / "yod", *words, env=env) as started:
        yield started


@contextmanager
def command_on_a_terminal(
    partition: Partition, *command: Word, env: Mapping[str, str | None] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Any command with the partition's environment."""

    def start(words: Sequence[Word], **options: Any) -> subprocess.Popen[bytes]:
        return partition.start_command(*words, env=env, **options)

    with _a_terminal_of(start, command) as started:
        yield started


@contextmanager
def a_terminal_of(
    *command: Word, env: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Any command: the leader of the session."""

    def start(words: Sequence[Word], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, env=env, **options)

    with _a_terminal_of(start, command) as started:
        yield started


@contextmanager
def _a_terminal_of(
    start: Callable[..., subprocess.Popen[bytes]], command: Sequence[Word]
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    # setsid -c makes the terminal the controlling one.
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = start(["setsid", "-c", *command], cwd=ROOT, **streams)
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        try:
            os.close(ours)
        except OSError:  # the test has closed it, as a user closes a window
            pass
