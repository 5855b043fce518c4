"""Asks launches of this host by their ids; native/wire/JOB.md."""

from __future__ import annotations

import _socket  # as the launches do
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum

from native.errors import PeerProtocolError
from native.host import jobsockets, unixsockets
from native.host.process import stat_of
from native.wire import job

_MS = 1000


class Silent(Enum):
    """Why a job has not answered. The value is for people: a sentence with its subject."""

    UNKNOWN = "there is no such job of yours on this host"
    STOPPED = "it does not answer: it is stopped (kill -CONT {unix_pid})"
    LATE = "it does not answer: process {unix_pid}"
    ENDED = "the job has ended"
    LOST = "it ended without an answer: process {unix_pid} was killed"
    FOREIGN = "it speaks another version of this conversation: process {unix_pid}"
    NOT_OURS = "process {unix_pid} is another user's"


class Answer:
    """What came of asking one job.

    Attributes:
        reply: None: see ``silent``.
        before: what came before the reply, if it came in parts.
        unix_pid: of the process that listens; 0: not known.
    """

    def __init__(
        self, job_id: str, reply: job.Reply | None, silent: Silent | None, unix_pid: int = 0
    ) -> None:
        self.id = job_id
        self.reply = reply
        self.silent = silent
        self.unix_pid = unix_pid
        self.before: list[job.Stacks] = []

    @property
    def trouble(self) -> str:
        """Why there is no answer, or why the request was refused; empty: it was done."""
        if self.silent is not None:
            return self.silent.value.format(unix_pid=self.unix_pid)
        return self.reply.text if isinstance(self.reply, job.Refused) else ""


def open_directory() -> jobsockets.Directory | None:
    """The directory of the jobs; None: no job was ever here."""
    try:
        return jobsockets.Directory(os.environ)
    except (FileNotFoundError, NotADirectoryError):
        return None


def ask(
    job_ids: Iterable[str],
    request: job.Request,
    wait_s: float | None,
    on_output: Callable[[job.Reply], None] | None = None,
) -> list[Answer]:
    """Ask jobs, all at the same time; the answers in their order.

    Args:
        on_output: takes what comes of ranks that are followed.
        wait_s: for how long; None: until each has answered or is gone.

    Raises:
        OSError: the directory cannot be read.
    """
    ids = list(job_ids)
    directory = open_directory()
    talks: dict[str, _Talk] = {}
    try:
        for job_id in ids:
            if job_id not in talks:
                talks[job_id] = _Talk(job_id, directory, request, on_output)
    finally:
        if directory is not None:
            directory.close()
    talking = [talk for talk in talks.values() if not talk.is_over]
    if wait_s is not None:  # one that is stopped says nothing however long it is waited for
        talking = [talk for talk in talking if not talk.is_stopped]
    _run(talking, wait_s)
    return [talks[job_id].answer() for job_id in ids]


def ask_all(request: job.Request, wait_s: float) -> Iterator[Answer]:
    """Ask every job of this user on this host, but for those that have just ended."""
    directory = open_directory()
    if directory is None:
        return
    try:
        ids = directory.ids()
    finally:
        directory.close()
    for answer in ask(ids, request, wait_s):
        if answer.silent in (None, Silent.STOPPED, Silent.LATE, Silent.FOREIGN):
            yield answer


class _Talk:
    """One conversation."""

    def __init__(
        self,
        job_id: str,
        directory: jobsockets.Directory | None,
        request: job.Request,
        on_output: Callable[[job.Reply], None] | None = None,
    ) -> None:
        self._on_output = on_output
        self._id = job_id
        self._request = request
        self._is_asked = False
        self._reply: job.Reply | None = None
        self._silent: Silent | None = None
        self._unix_pid = 0
        self._before: list[job.Stacks] = []
        self.end: _socket.socket | None = None
        try:
            self.end = directory.connect(job_id) if directory is not None else None
        except BlockingIOError:  # it has not accepted those before us
            self._silent = Silent.LATE
            return
        if self.end is None:
            self._silent = Silent.UNKNOWN
            return
        self._unix_pid, uid = unixsockets.peer_of(self.end)
        if os.geteuid() not in (0, uid):
            self._finish(silent=Silent.NOT_OURS)

    @property
    def is_over(self) -> bool:
        return self.end is None

    @property
    def is_stopped(self) -> bool:
        return _state_of(self._unix_pid) in ("T", "t")

    def answer(self) -> Answer:
        """What has come of it; late if nothing has."""
        if not self.is_over:
            self._finish(silent=Silent.STOPPED if self.is_stopped else Silent.LATE)
        answer = Answer(self._id, self._reply, self._silent, self._unix_pid)
        answer.before = self._before
        return answer

    def read(self) -> None:
        """Take one packet."""
        assert self.end is not None
        try:
            data = self.end.recv(job.REPLY_MAX_BYTES + 1)
        except (BlockingIOError, ConnectionResetError):
            return  # the latter: our request was not read, and what was said before is there
        try:
            reply = job.decode_reply(data) if data else None
        except PeerProtocolError:
            self._finish(silent=Silent.FOREIGN)
            return
        match reply:
            case None:
                self._finish(silent=Silent.LOST)
            case job.Hello(version) if version != job.VERSION or self._is_asked:
                self._finish(silent=Silent.FOREIGN)
            case job.Hello():
                self._is_asked = True
                with suppress(OSError):  # it has ended, and said so
                    self.end.send(job.encode(self._request), _socket.MSG_NOSIGNAL)
            case job.Output() | job.Accepted() if self._on_output is not None:
                self._on_output(reply)
            case job.Ended() if not isinstance(self._request, job.Wait | job.Follow):
                self._finish(silent=Silent.ENDED)
            case job.Stacks(left=left) if left:
                self._before.append(reply)
            case _:
                self._finish(reply=reply)

    def _finish(self, reply: job.Reply | None = None, silent: Silent | None = None) -> None:
        assert self.end is not None
        self._reply, self._silent = reply, silent
        self.end.close()
        self.end = None


def _run(talks: list[_Talk], wait_s: float | None) -> None:
    poll = select.poll()
    by_fd = {}
    for talk in talks:
        assert talk.end is not None
        by_fd[talk.end.fileno()] = talk
        poll.register(talk.end.fileno(), select.POLLIN)
    until = None if wait_s is None else time.monotonic() + wait_s
    while by_fd:
        left_s = None if until is None else until - time.monotonic()
        if left_s is not None and left_s <= 0:
            return
        for fd, _ in poll.poll(None if left_s is None else left_s * _MS):
            by_fd[fd].read()
            if by_fd[fd].is_over:
                poll.unregister(fd)
                del by_fd[fd]


def _state_of(unix_pid: int) -> str:
    """The letter of /proc/PID/stat; empty: the process has ended or is not to be seen."""
    fields = stat_of(unix_pid)
    return fields[0].decode() if fields else ""
