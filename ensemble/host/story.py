"""Lines that tell what happens: in a file, and on standard error with colours and a progress line
where that is a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

_DIM, _RED, _PLAIN, _CLEAR = "\x1b[2m", "\x1b[31m", "\x1b[0m", "\r\x1b[K"
_BAD = ("failed", "error", "cannot", "not ", "lost", "nothing")


class Story:
    """The lines of one launcher.

    Args:
        is_detailed: lines of single clients are shown, too; the file has them always.
    """

    def __init__(self, path: Path, is_detailed: bool) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._is_detailed = is_detailed
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._has_colours = self._is_terminal and not os.environ.get("NO_COLOR")
        self._progress = ""

    def say(self, text: str, is_detail: bool = False) -> None:
        """Write a line."""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        self._put(self._fd, f"{now} {text}\n")
        if is_detail and not self._is_detailed:
            return
        clear = _CLEAR if self._progress else ""
        if self._has_colours:
            colour = _RED if any(word in text for word in _BAD) else ""
            line = f"{_DIM}{now[11:]}{_PLAIN} {colour}{text}{_PLAIN if colour else ''}"
        else:
            line = f"yod-ensemble: {text}"
        self._put(2, f"{clear}{line}\n{self._progress}")

    def progress(self, make: Callable[[], str]) -> None:
        """Show a line that is replaced by the next one; only on a terminal is it made."""
        if self._is_terminal and (text := make()) != self._progress:
            self._progress = text
            self._put(2, f"{_CLEAR}{text}")

    def close(self) -> None:
        """Clear the progress line."""
        if self._progress:
            self._put(2, _CLEAR)
        os.close(self._fd)

    def _put(self, fd: int, text: str) -> None:
        try:
            os.write(fd, text.encode(errors="replace"))
        except OSError:  # a full disk, or a terminal that is gone, ends no study
            pass
