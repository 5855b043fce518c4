r"""The line ``~d`` at a terminal: the user leaves.

A terminal that echoes and edits lines gives yod whole lines, so no single key could ask. Keys
that are signals (Ctrl-C, Ctrl-\) reach all of a pipeline, and with them the terminal drops
output that it has not shown yet. So it is a line, as the escapes of ssh. ``~~d`` is the line
``~d`` for the job.
"""

from __future__ import annotations

_ENDS = (b"\n", b"\r")  # the latter where a terminal is raw
_ASKED = tuple(b"~d" + end for end in _ENDS)
_MEANT = tuple(b"~~d" + end for end in _ENDS)
_BEGUN = (b"~", b"~d", b"~~", b"~~d")


class Escape:
    """State machine of what is typed at one terminal."""

    def __init__(self) -> None:
        self._is_at_start = True  # of a line
        self._held = b""

    def take(self, data: bytes) -> tuple[bytes, bool]:
        """Something was typed; empty: the input has ended.

        Returns:
            What is for the job, and whether the user leaves.
        """
        text, self._held = self._held + data, b""
        passed, is_asked = bytearray(), False
        while text:
            if self._is_at_start and text.startswith(_ASKED):
                is_asked, text = True, text[3:]
                continue
            if self._is_at_start and data and text in _BEGUN:
                self._held = text
                break
            if self._is_at_start and text.startswith(_MEANT):
                text = text[1:]
            line = _first_line(text)
            passed += line
            self._is_at_start = line.endswith(_ENDS)
            text = text[len(line) :]
        return bytes(passed), is_asked


def _first_line(text: bytes) -> bytes:
    """Up to its end, or all that is there of it."""
    ends = [place for end in _ENDS if (place := text.find(end)) >= 0]
    return text[: min(ends) + 1] if ends else text
