"""Runs jobs by yod: each is a launch in this process's loop, which tells what becomes of it."""

from __future__ import annotations

import ctypes
import os
import shlex
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ensemble.config import Config
from ensemble.host.runners import OfJob, OnEvent
from ensemble.machine import job as j
from ensemble.machine.job import Job, JobState
from ensemble.schedulers.backend import Program
from ensemble.schedulers.yod import choices
from native.errors import YodError
from native.host import stdio
from native.loop.reactor import Reactor
from native.machine import fault_text
from native.port.port import Opened
from yod.guest.again import Preparations
from yod.guest.choices import Member
from yod.guest.driver import GuestLaunch
from yod.guest.feed import Feed, Message, Output, Started
from yod.guest.front import Given
from yod.guest.request import Request, request
from yod.plan.prepared import Prepared

if TYPE_CHECKING:
    from partition.find.kept import KeptPartitions
    from partition.up.guest import GuestPartition

MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h
MAPPED_BYTES = 128 * 1024
_BY = "yod-ensemble"  # who has cancelled a job, for its user


class Launches:
    """Launches of yod, as steps of the allocation that this process is in, or as jobs."""

    polls = False

    def __init__(self, config: Config, of_job: OfJob, reactor: Reactor, on_event: OnEvent) -> None:
        stdio.take_numbers()
        _map_large_memory()
        self.config = config
        self.of_job = of_job
        self.reactor = reactor
        self.on_event = on_event
        self._launches: dict[int, _Launch] = {}
        self._guest: GuestPartition | None = None
        self._kept: KeptPartitions | None = None
        self._requests: dict[tuple[bool, int], Request] = {}  # by kind of job
        self._preparations = Preparations(reactor.monotonic)
        self._choices = {
            True: choices(config, is_server=True),
            False: choices(config, is_server=False),
        }

    def submit(self, job: Job, from_checkpoint: bool) -> None:
        """Begin a launch, which waits for its slots."""
        runs = self.of_job(job, from_checkpoint)
        try:
            asked = self._request(job, runs)
            prepared = self._prepared(asked, job)
            launch = _Launch(self, job, runs)
            launch.begin(asked, prepared, self._open(prepared, launch))
        except YodError as error:
            self.on_event(j.SubmissionFailed(job.uid, str(error)))
            return
        self._launches[job.uid] = launch
        self.on_event(j.Submitted(job.uid, str(job.uid)))

    def find(self, jobs: Sequence[Job]) -> None:
        """None is there: launches of an earlier launcher have ended with it."""
        self.on_event(j.Found(tuple(job.uid for job in jobs), {}))

    def update(self, jobs: Sequence[Job]) -> None:
        """Do nothing: launches tell by themselves."""

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End them; one that is not there belonged to an earlier launcher, and ended with it."""
        self.on_event(j.Cancelled(tuple(job.uid for job in jobs)))
        gone = {job.uid: JobState.FAILED for job in jobs if job.uid not in self._launches}
        for job in jobs:
            if (launch := self._launches.get(job.uid)) is not None:
                launch.cancel()
        if gone:
            self.on_event(j.Updated((), gone))

    def forget(self, job: Job) -> None:
        """Do nothing: a launch that has ended is forgotten."""

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Do nothing: the nodes end what has lost its launcher."""

    def shown(self, job: Job) -> list[str]:
        """The command of yod that would do the same."""
        arguments = [*self.config.scheduler_arg, *(
            self.config.scheduler_arg_server if job.is_server else self.config.scheduler_arg_client
        )]  # fmt: skip
        words = [
            "yod",
            "-sz",
            str(self._choices[job.is_server]["size"]),
            *arguments,
            *self.of_job(job, False).words,
        ]
        many = f"  # {job.group_size} of them, as a load file" if job.group_size > 1 else ""
        return [shlex.join(words) + many]

    def close(self) -> None:
        """End what is left."""
        for launch in list(self._launches.values()):
            launch.close()
        if self._guest is not None:
            self._guest.close()
        if self._kept is not None:
            self._kept.close()

    def is_over(self, uid: int) -> None:
        """A launch has ended."""
        self._launches.pop(uid, None)

    def _prepared(self, asked: Request, job: Job) -> Prepared:
        """Clients of one kind differ in what the launcher itself tells them, else in ``sort``."""
        kind = (job.is_server, job.group_size)
        return self._preparations.prepare(asked, kind, sort=job.variables)

    def _request(self, job: Job, runs: Program) -> Request:
        """What is asked of yod for a job: the same for all of its kind, but for variables."""
        kind = (job.is_server, job.group_size)
        if kind not in self._requests:
            self._requests[kind] = self._made(job, runs)
        same = self._requests[kind]
        own = {os.fsencode(name): os.fsencode(value) for name, value in runs.variables}
        environment = {**same.invocation.environment, **own}
        return replace(same, invocation=replace(same.invocation, environment=environment))

    def _made(self, job: Job, runs: Program) -> Request:
        more = dict(self._choices[job.is_server])
        command: Any = list(runs.words)
        if job.group_size > 1:
            size = more.pop("size", None)
            command = [Member(runs.words, size)] * job.group_size
        return request(
            command,
            has_input=False,
            raw=True,
            quiet=True,
            cwd=runs.directory,
            wait_s=inf,
            **more,
        )

    def _open(self, prepared: Prepared, launch: _Launch) -> Opened:
        if prepared.reach is not None:
            if self._kept is None:
                from partition.find.kept import KeptPartitions

                self._kept = KeptPartitions(self.reactor)
            return self._kept.open(prepared.reach, prepared.limits)
        if self._guest is None:
            from partition.up.guest import GuestPartition

            self._guest = GuestPartition(self.reactor, prepared.limits)
        return self._guest.open(launch.unix_pids)


def _map_large_memory() -> None:
    """Have large memory given back when it is freed: each launch has some for its messages.

    glibc raises its threshold once such memory was freed, and then keeps it among small pieces.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none, and no such habit
    if mallopt is not None:
        mallopt(MMAP_THRESHOLD, MAPPED_BYTES)


class _Launch:
    """One launch, and the files of its output."""

    def __init__(self, launches: Launches, job: Job, runs: Program) -> None:
        self._launches = launches
        self._job = job
        self._reactor = launches.reactor
        is_filed = launches.config.std_output
        self._paths: Mapping[int, str] = {1: runs.out, 2: runs.err} if is_filed else {}
        self._feed = Feed(self._more)
        self._is_due = False
        self._launch: GuestLaunch | None = None
        self._is_over = False

    def unix_pids(self) -> Any:
        """Of its ranks."""
        return self._launch.unix_pids if self._launch is not None else ()

    def begin(self, asked: Request, prepared: Prepared, opened: Opened) -> None:
        """Start it."""
        self._reactor.run_for(self._fault, self._begin, asked, prepared, opened)

    def cancel(self) -> None:
        """SIGTERM, and later SIGKILL; a second time at once."""
        if self._launch is not None and not self._is_over:
            self._feed.drop()
            self._reactor.run_for(self._fault, self._launch.cancellation.begin, _BY)

    def close(self) -> None:
        """Give everything back; what is left of it ends."""
        self._is_over = True
        self._feed.abandon()
        launch, self._launch = self._launch, None  # it holds this object, too
        if launch is not None:
            launch.close()

    def _begin(self, asked: Request, prepared: Prepared, opened: Opened) -> None:
        self._launch = GuestLaunch(
            asked,
            prepared,
            opened,
            self._reactor,
            lambda: self._reactor.call_soon(self._ended),  # not from within its driver
            source=Given(self._reactor, b""),
            collects_output=False,
            feed=self._feed,
            takes_signals=False,
            timeout_s=None,
            is_id_late=True,
        )
        self._launch.begin()

    def _fault(self, error: Exception) -> None:
        text = str(error) if isinstance(error, YodError) else fault_text(error)
        self._write(2, f"yod: {text}\n".encode())
        self._end(JobState.ERROR)

    def _ended(self) -> None:
        if self._is_over or self._launch is None:
            return
        self._drain()
        ended = self._launch.driver.result
        assert ended is not None
        if ended.exit_status and (text := "; ".join(self._launch.result().summary)):
            self._write(2, f"yod: {text}\n".encode())
        self._end(JobState.FAILED if ended.exit_status else JobState.TERMINATED)

    def _end(self, state: JobState) -> None:
        if self._is_over:
            return
        self.close()
        self._launches.is_over(self._job.uid)
        self._reactor.call_soon(
            lambda: self._launches.on_event(j.Updated((), {self._job.uid: state}))
        )

    def _more(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._reactor.call_soon(self._drain)

    def _drain(self) -> None:
        self._is_due = False
        while (event := self._feed.take()) is not None:
            match event:
                case Started():
                    self._launches.on_event(j.Updated((), {self._job.uid: JobState.RUNNING}))
                case Output(_, stream, data):
                    self._write(stream, data)
                case Message(text):
                    self._write(2, f"yod: {text}\n".encode())

    def _write(self, stream: int, data: bytes) -> None:
        """To its file, which is made when there is something; a full disk loses what is written."""
        path = self._paths.get(stream)
        fd = stream
        try:
            if path is not None:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.write(fd, data)
        except OSError:
            pass
        finally:
            if fd != stream:
                os.close(fd)
