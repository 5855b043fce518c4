"""A pilot's job: handed in, watched until its agent comes, ended.

A batch system says nothing by itself, so it is asked, less and less often. Its commands are
children whose output goes to files; nobody waits for them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from native.errors import YodError
from native.loop.reactor import Reactor
from yod.pilot.batch.ends import End, meaning_of
from yod.pilot.batch.system import JobStage, System

SCRIPT = "pilot.sh"  # in the pilot's sandbox
CALLER = "yod.pilot.site.caller"  # what a job runs that does not see that
ANSWERS = "batch.out"
_LOOK_S = (1.0, 30.0)  # between two questions: at first, and at most
_SLOWER = 1.5


class SiteJob:
    """One job.

    Args:
        directory: the pilot's sandbox, where its script and answers of commands are.
        home: where the job calls the client.
        on_id: called with its id.
        on_over: called once with why, when it is over and nobody has said so before.
        job_id: of one that an earlier client has handed in.

    Attributes:
        words: the batch system's, for how it stands.
    """

    def __init__(
        self,
        reactor: Reactor,
        system: System,
        directory: str,
        home: str,
        on_id: Callable[[str], None],
        on_over: Callable[[str], None],
        job_id: str = "",
    ) -> None:
        self._reactor = reactor
        self._system = system
        self._directory = directory
        self._home = home
        self._on_id = on_id
        self._on_over: Callable[[str], None] | None = on_over
        self._wait_s = _LOOK_S[0]
        self._timer = reactor.timer(self._look)
        self._is_unwanted = False
        self._is_sent = False  # its script, where that is to be sent: it is there or on its way
        self._unsent = ""  # why it is not
        self.job_id = job_id
        self.words = "it is being handed in"
        if job_id:
            self._look_later()

    def __str__(self) -> str:
        return f"{self._system.name} job {self.job_id}".strip()

    def submit(self, words: list[str]) -> None:
        """Hand its script in, by a command.

        Raises:
            YodError: there is no such command.
        """
        self._run(words, partial(self._submitted, words[0]))

    def cancel(self) -> None:
        """End it."""
        self._is_unwanted = True
        if self.job_id:
            with suppress(YodError):
                self._run(self._system.cancel(self.job_id), lambda status, output: None)
            self._wait_s = _LOOK_S[0]
            self._look_later()

    def active(self) -> None:
        """Its agent has come, and tells the rest."""
        self._timer.set(None)

    def close(self) -> None:
        """Watch it no more."""
        self._on_over = None
        self._timer.close()

    def _submitted(self, command: str, status: int, output: str) -> None:
        self.job_id = "" if status else self._system.read_id(output)
        if not self.job_id:
            self._end(f"{command} has failed: {_last(output) or 'no word'}")
            return
        self.words = "it is handed in"
        if self._on_over is None:
            return  # the client ends
        self._on_id(self.job_id)
        if self._is_unwanted:
            self.cancel()
        else:
            self._look_later()

    def _look_later(self) -> None:
        if self._on_over is not None:
            self._timer.set(self._reactor.monotonic() + self._wait_s)
            self._wait_s = min(self._wait_s * _SLOWER, _LOOK_S[1])

    def _look(self) -> None:
        try:
            self._run(self._system.query(self.job_id), self._looked)
        except YodError as error:
            self._end(str(error))

    def _looked(self, status: int, output: str) -> None:
        if self._on_over is None:
            return
        stand = self._system.read_stand(status, output)
        self.words = stand.words
        if stand.stage is JobStage.OVER:
            own = meaning_of(stand.status, self._directory, sys.executable, self._home)
            unsent = f": {self._unsent}" if stand.status == End.NO_SCRIPT and self._unsent else ""
            self._end(f"{self}: {own or stand.words}{unsent}")
            return
        self._look_later()
        words = self._system.send(self.job_id, output)
        if words and not self._is_sent:
            self._send(words)

    def _send(self, words: list[str]) -> None:
        """Send its script to it, which it may not take yet, or have found."""

        def sent(status: int, output: str) -> None:
            self._is_sent = not status
            self._unsent = _last(output)

        try:
            self._run(words, sent, os.path.join(self._directory, SCRIPT))
            self._is_sent = True
        except YodError as error:
            self._unsent = str(error)

    def _end(self, why: str) -> None:
        on_over, self._on_over = self._on_over, None
        if on_over is not None:
            self._timer.close()
            on_over(why)

    def _run(
        self, words: list[str], then: Callable[[int, str], None], source: str = "/dev/null"
    ) -> None:
        path = os.path.join(self._directory, f"{ANSWERS}.{words[0]}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            pid = os.posix_spawnp(
                words[0],
                words,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, source, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, path, flags, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsigmask=[],
                setsigdef=[signal.SIGPIPE],
            )
        except OSError as error:
            raise YodError(f"{words[0]}: {error.strerror}") from None

        def over(wait_status: int) -> None:
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    output = file.read()
            except OSError:
                output = ""
            then(wait_status, output)

        self._reactor.on_child(pid, over)


def _last(output: str) -> str:
    """The last line that a command has written; empty: there is none."""
    return (output.strip().splitlines() or [""])[-1]
