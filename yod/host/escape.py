r"""What a user types at a terminal for yod itself: the line ``~d`` leaves.

A terminal that echoes and edits lines gives yod whole lines, so no single key could ask. Keys
that are signals (Ctrl-C, Ctrl-\) reach all of a pipeline, and with them the terminal drops
output that it has not shown yet. So it is a line, as the escapes of ssh. ``~~d`` is the line
``~d`` for the job.

Where a rank has a terminal of its own (``--pty``), yod's is raw, and all keys are the rank's.
There ``~.`` at the beginning of a line is yod's Ctrl-C, and ``~`` with Ctrl-Z its Ctrl-Z.
"""

from __future__ import annotations

from enum import Enum


class Asked(Enum):
    """What the user asks of yod."""

    LEAVE = "d"
    END = "."
    STOP = "\x1a"

    @property
    def is_leave(self) -> bool:
        """The user leaves."""
        return self is Asked.LEAVE


_ENDS = (b"\n", b"\r")  # the latter where a terminal is raw
_LINES = {b"~d" + end: Asked.LEAVE for end in _ENDS}
_KEYS = {b"~.": Asked.END, b"~\x1a": Asked.STOP}


class Escape:
    """State machine of what is typed at one terminal.

    Args:
        is_raw: each key comes by itself.
    """

    def __init__(self, *, is_raw: bool = False) -> None:
        self._asked = {**_LINES, **_KEYS} if is_raw else _LINES
        self._meant = tuple(b"~" + words for words in self._asked)
        self._begun = {
            words[:size] for words in (*self._asked, *self._meant) for size in range(1, len(words))
        }
        self._is_at_start = True  # of a line
        self._held = b""

    def take(self, data: bytes) -> tuple[bytes, Asked | None]:
        """Something was typed; empty: the input has ended.

        Returns:
            What is for the job, and what the user asks, the last if it is more than one.
        """
        text, self._held = self._held + data, b""
        passed = bytearray()
        asked: Asked | None = None
        while text:
            if self._is_at_start:
                words = next((each for each in self._asked if text.startswith(each)), b"")
                if words:
                    asked, text = self._asked[words], text[len(words) :]
                    continue
                if data and text in self._begun:
                    self._held = text
                    break
                if text.startswith(self._meant):
                    text = text[1:]
            line = _first_line(text)
            passed += line
            self._is_at_start = line.endswith(_ENDS)
            text = text[len(line) :]
        return bytes(passed), asked


def _first_line(text: bytes) -> bytes:
    """Up to its end, or all that is there of it."""
    ends = [place for end in _ENDS if (place := text.find(end)) >= 0]
    return text[: min(ends) + 1] if ends else text
