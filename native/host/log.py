"""A daemon's log: one form of line for all daemons, in a file, the journal, or standard error.

::

    2026-11-25 14:03:07 n3: job 17: held, 4 ranks

A line has the time, who says it (bebopd, or the node's name), the job if it is about one, and text.
The journal is given these as fields: ``YOD_NODE``, ``YOD_JOB``. What cannot be written is lost, and
the next line that can be written is preceded by one that says how many were.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from native.errors import UsageError
from native.host import stdio, systemd
from native.machine import fault_text, is_bug
from native.text import plural, shown

JOURNAL = "journal"  # in place of a file's name


class DaemonLog:
    """The log of this process.

    Args:
        command: the daemon's name.
        who: in each line.
        target: the name of a file, or ``journal``; empty: the journal where systemd has connected
            standard error to it, else standard error.

    Raises:
        UsageError: the file cannot be opened.
    """

    def __init__(
        self,
        command: str,
        who: str,
        target: str,
        environment: Mapping[str, str],
        has_milliseconds: bool = False,
    ) -> None:
        self._command = command
        self._who = who
        self._path = ""
        self._fd = -1
        self._has_milliseconds = has_milliseconds
        self._lost_count = 0
        self._lost_why = ""
        self._journal: systemd.Journal | None = None
        self._put: Callable[[str, int], None] = self._put_on_stderr
        if target == JOURNAL or (not target and systemd.is_journal(environment, 2)):
            self._journal = systemd.Journal()
            self._put = self._put_in_journal
        elif target:
            self._path = os.path.abspath(target)
            self._put = self._put_in_file
            if why := self._open():
                raise UsageError(f"--log {shown(target)}: {why}")

    def say(self, text: str, job_id: int = 0) -> None:
        """Write a line.

        Args:
            job_id: that it is about; 0: none.
        """
        try:
            if self._lost_count:
                lost = plural(self._lost_count, "line")
                self._put(f"here {lost} could not be written: {self._lost_why}", 0)
                self._lost_count = 0
            self._put(text, job_id)
        except OSError as error:
            self._lost_count += 1
            self._lost_why = error.strerror or str(error)

    def contain(self, whose: str, error: Exception) -> None:
        """Tell of a bug that ends one job or one peer's connection; the daemon goes on."""
        self.say(f"{whose}: {fault_text(error)}")
        if not is_bug(error):
            return
        import traceback  # rarely needed

        for line in "".join(traceback.format_exception(error)).splitlines():
            self.say(line)

    def open_again(self) -> None:
        """Go on in a new file where the old one was moved away, and say so."""
        if not self._path:
            self.say("SIGHUP: there is no log file to open again")
        elif why := self._open():
            self.say(f"SIGHUP: the log is the same file: {self._path}: {why}")
        else:
            self.say("SIGHUP: the log is open again")

    def close(self) -> None:
        """Close what this has opened; nothing can be said any more."""
        if self._journal is not None:
            self._journal.close()
        if self._fd >= 0:
            os.close(self._fd)

    def _open(self) -> str:
        """Open the file; why not, or empty."""
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            return error.strerror or str(error)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        return ""

    def _line(self, text: str, job_id: int) -> str:
        now = time.time()
        part = f".{int(now * 1000) % 1000:03d}" if self._has_milliseconds else ""
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        return f"{at}{part} {self._who}: {_with_job(text, job_id)}"

    def _put_on_stderr(self, text: str, job_id: int) -> None:
        stdio.say(self._line(text, job_id))

    def _put_in_file(self, text: str, job_id: int) -> None:
        os.write(self._fd, (self._line(text, job_id) + "\n").encode("utf-8", "surrogateescape"))

    def _put_in_journal(self, text: str, job_id: int) -> None:
        assert self._journal is not None
        job = {"YOD_JOB": job_id} if job_id else {}
        self._journal.write(
            MESSAGE=_with_job(text, job_id),
            PRIORITY=systemd.INFO,
            SYSLOG_IDENTIFIER=self._command,
            YOD_NODE=self._who,
            **job,
        )


def _with_job(text: str, job_id: int) -> str:
    return f"job {job_id}: {text}" if job_id else text
