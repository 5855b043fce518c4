"""Gives up an agent that stands still; and, in the agent, what keeps it from going on then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from native.limits import variable
from native.loop.reactor import Reactor
from yod.pilot.link.link import Link
from yod.pilot.scheduler.silence import Leave, Silence, Verdict
from yod.pilot.wire.messages import FromClient

_VARIABLE = variable("pilot_silent_s")
_MARK = "given.up"  # in the pilot's sandbox


class Watchdog:
    """Looks at one agent.

    Args:
        silent_s: see :class:`~yod.pilot.scheduler.silence.Silence`.
        link: gives the connection to it; None: there is none yet.
        question: makes it say a word.
        on_marked: called once with the reason, when its pilot is to have the mark; on_silent:
            likewise, later, when it begins nothing any more.
    """

    def __init__(
        self,
        reactor: Reactor,
        silent_s: float,
        link: Callable[[], Link | None],
        question: FromClient,
        on_marked: Callable[[str], None],
        on_silent: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._silent_s = silent_s
        self._silence = Silence(silent_s)
        self._link = link
        self._question = question
        self._on_marked = on_marked
        self._on_silent = on_silent
        self._timer = reactor.timer(self._look)

    @property
    def is_asked(self) -> bool:
        """The agent has been asked for a word, and has not said one yet."""
        return self._silence.is_asked

    def begin(self, after_s: float = 0.0) -> None:
        """Look, the first time so much later than otherwise."""
        self._silence.begin(self._moved, self._reactor.monotonic(), after_s)
        self._timer.set(self._silence.deadline())

    def close(self) -> None:
        """Look no more. Calling twice is harmless."""
        self._silence.end()
        self._timer.close()

    @property
    def _moved(self) -> int:
        link = self._link()
        return link.moved if link is not None else 0

    def _look(self) -> None:
        verdict = self._silence.look(self._moved, self._reactor.monotonic())
        self._timer.set(self._silence.deadline())
        reason = f"its agent has not said a word for {self._silent_s:g} s ({_VARIABLE})"
        if verdict is Verdict.MARK:
            self._on_marked(reason)
        elif verdict is Verdict.GIVE_UP:
            self._on_silent(reason)
        elif verdict is Verdict.ASK and (link := self._link()) is not None:
            link.send(self._question)


class Permission:
    """Whether an agent may let anything begin: nobody has given it up.

    Args:
        directory: the pilot's sandbox.
    """

    def __init__(self, directory: str, silent_s: float) -> None:
        self._directory = directory
        self._leave = Leave(silent_s)

    def is_there(self, *, at_once: bool = False) -> bool:
        """It has not been given up.

        Args:
            at_once: look, though the last look is not long ago.
        """
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if not at_once and not self._leave.is_over(now):
            return True
        if is_given_up(self._directory):
            return False
        self._leave.looked(now)
        return True


def give_up(directory: str) -> None:
    """Leave the mark of a pilot that is over, though its agent may not know."""
    with suppress(OSError):  # the disk is full, or the sandbox has never been made
        os.close(os.open(os.path.join(directory, _MARK), os.O_WRONLY | os.O_CREAT, 0o600))


def is_given_up(directory: str) -> bool:
    """The mark is there."""
    return os.path.exists(os.path.join(directory, _MARK))
