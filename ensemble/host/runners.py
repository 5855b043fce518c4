"""Runs what back-ends of commands say: scheduler commands, and jobs that are children."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from ensemble.host.children import Child, Command, program
from ensemble.machine import job as j
from ensemble.machine.job import Job, JobState
from ensemble.schedulers.backend import Direct, Indirect, Program
from native.loop.reactor import Reactor
from native.waitstatus import how_it_ended

OnEvent = Callable[[j.Event], None]
OfJob = Callable[[Job, bool], Program]  # what a job runs; may it go on from a checkpoint?
IDS_A_COMMAND = 1000  # arguments of one command


class Runner(Protocol):
    """Carries out what the machine wants of a scheduler; its answers are events.

    Attributes:
        polls: jobs have to be asked for.
    """

    polls: bool

    def submit(self, job: Job, from_checkpoint: bool) -> None:
        """Submit a job."""

    def find(self, jobs: Sequence[Job]) -> None:
        """Look for jobs by name."""

    def update(self, jobs: Sequence[Job]) -> None:
        """Ask how jobs are."""

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Cancel jobs."""

    def forget(self, job: Job) -> None:
        """A job is over."""

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Let a process of its own cancel them, and do not wait."""

    def shown(self, job: Job) -> list[str]:
        """What is submitted, as commands for people."""

    def close(self) -> None:
        """End all children."""


class Submitting:
    """Jobs of an indirect back-end: each request is a command with a deadline.

    Args:
        directory: where scripts go.
    """

    polls = True

    def __init__(
        self,
        backend: Indirect,
        of_job: OfJob,
        directory: Path,
        reactor: Reactor,
        on_event: OnEvent,
    ) -> None:
        for word in backend.programs:
            program(word)
        self._backend = backend
        self._of_job = of_job
        self._directory = directory
        self._reactor = reactor
        self._on_event = on_event
        self._limit_s = backend.config.command_timeout
        self._commands: set[Command] = set()

    def submit(self, job: Job, from_checkpoint: bool) -> None:
        """Write its script, and run the command that submits it."""
        path = self._script(job, from_checkpoint)

        def ended(status: int | None, out: str, err: str) -> None:
            self._keep(path.stem, out, err)
            if status is None:
                text = f"{words[0]} did not answer within {self._limit_s:g} s"
                self._on_event(j.SubmissionUnknown(job.uid, text))
            elif status:
                self._on_event(j.SubmissionFailed(job.uid, _why(words, status, out, err)))
            elif job_id := self._backend.read_id(out):
                self._backend.began(job, job_id)
                self._on_event(j.Submitted(job.uid, job_id))
            else:
                self._on_event(j.SubmissionUnknown(job.uid, f"{words[0]} names no job: {out!r}"))

        words = self._backend.submit(job, str(path))
        self._run(words, ended)

    def find(self, jobs: Sequence[Job]) -> None:
        """Run the command that looks for names."""
        uids = tuple(job.uid for job in jobs)

        def ended(status: int | None, out: str, err: str) -> None:
            self._keep(words[0], out, err)
            try:
                if status is None or not self._backend.is_answer(_code(status), err):
                    raise ValueError(_why(words, status, out, err))
                ids = self._backend.read_names(out)
            except ValueError as error:
                self._on_event(j.FindFailed(uids, str(error)))
                return
            found = {job.uid: ids[job.name] for job in jobs if job.name in ids}
            for job in jobs:
                if job.uid in found:
                    self._backend.began(job, found[job.uid])
            self._on_event(j.Found(uids, found))

        words = self._backend.find(jobs)
        self._run(words, ended)

    def update(self, jobs: Sequence[Job]) -> None:
        """Run the command that asks for all."""
        asked = tuple(job.uid for job in jobs)

        def ended(status: int | None, out: str, err: str) -> None:
            self._keep(words[0], out, err)
            try:
                if status is None or not self._backend.is_answer(_code(status), err):
                    raise ValueError(_why(words, status, out, err))
                states = self._backend.read_states(out)
            except ValueError as error:
                self._on_event(j.UpdateFailed(str(error)))
                return
            found = {job.uid: states[job.job_id] for job in jobs if job.job_id in states}
            lost = [job for job in jobs if job.uid not in found]
            recall = self._backend.recall(lost) if lost else []
            if recall and shutil.which(recall[0]) is not None:
                self._recall(recall, lost, asked, found)
            else:
                self._on_event(j.Updated(asked, found))

        words = self._backend.update(jobs)
        self._run(words, ended)

    def _recall(
        self,
        words: Sequence[str],
        lost: Sequence[Job],
        asked: tuple[int, ...],
        found: dict[int, JobState],
    ) -> None:
        """Ask how jobs have ended that the scheduler has forgotten; no answer is no error."""

        def ended(status: int | None, out: str, err: str) -> None:
            self._keep(words[0], out, err)
            ends = self._backend.read_ends(out) if status == 0 else {}
            known = {job.uid: ends[job.job_id] for job in lost if job.job_id in ends}
            self._on_event(j.Updated(asked, {**found, **known}))

        self._run(words, ended)

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Run the command that cancels, with so many ids as fit."""
        for some in _parts(jobs):
            self._cancel(some)

    def _cancel(self, jobs: Sequence[Job]) -> None:
        uids = tuple(job.uid for job in jobs)

        def ended(status: int | None, out: str, err: str) -> None:
            self._keep(words[0], out, err)
            if status is not None and self._backend.is_cancelled(_code(status), err):
                self._on_event(j.Cancelled(uids))
            else:
                self._on_event(j.CancellationFailed(uids, _why(words, status, out, err)))

        words = self._backend.cancel([job.job_id for job in jobs])
        self._run(words, ended)

    def forget(self, job: Job) -> None:
        """Tell the back-end."""
        self._backend.ended(job)

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Start the commands in sessions of their own."""
        for some in _parts([job for job in jobs if job.job_id]):
            words = self._backend.cancel([job.job_id for job in some])
            null = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)]
            try:
                os.posix_spawnp(
                    words[0], words, os.environ, file_actions=null, setsid=True, setsigmask=()
                )
            except OSError:  # they have been named
                pass

    def shown(self, job: Job) -> list[str]:
        """The command with its script, and those that ask for the job and cancel it."""
        name, text = self._backend.make_job(job, self._of_job(job, False))
        taken = replace(job, job_id="JOB")
        return [
            " ".join(self._backend.submit(job, str(self._directory / name))),
            *(f"    {line}" for line in text.splitlines()),
            " ".join(self._backend.update([taken])),
            " ".join(self._backend.cancel([taken.job_id])),
        ]

    def close(self) -> None:
        """End commands whose answers nobody needs any more."""
        for command in self._commands:
            command.kill()

    def _script(self, job: Job, from_checkpoint: bool) -> Path:
        name, text = self._backend.make_job(job, self._of_job(job, from_checkpoint))
        path = self._directory / name
        path.write_text(text)
        path.chmod(0o700)
        return path

    def _keep(self, name: str, out: str, err: str) -> None:
        """Write what a command has said to files of its name; a full disk loses it."""
        for stream, text in (("out", out), ("err", err)):
            try:
                (self._directory / f"{name}.{stream}").write_text(text, "utf-8")
            except OSError:
                pass

    def _run(self, words: Sequence[str], then: Callable[[int | None, str, str], None]) -> None:
        def ended(status: int | None, out: str, err: str) -> None:
            self._commands.discard(command)
            then(status, out, err)

        command = Command(words, os.environ, self._reactor, self._limit_s, ended)
        self._commands.add(command)


class Running:
    """Jobs of a direct back-end: each is a child, which ends with the launcher."""

    polls = False

    def __init__(self, backend: Direct, of_job: OfJob, reactor: Reactor, on_event: OnEvent) -> None:
        for word in (*backend.programs, "setpriv", "env"):
            program(word)
        self._backend = backend
        self._of_job = of_job
        self._reactor = reactor
        self._on_event = on_event
        self._children: dict[int, Child] = {}

    def submit(self, job: Job, from_checkpoint: bool) -> None:
        """Start it; it runs at once."""
        runs = self._of_job(job, from_checkpoint)
        words = self._backend.make_job(job, runs)
        outputs = (runs.out, runs.err) if self._backend.config.std_output else None
        environment = {**os.environ, **self._backend.environment, **dict(runs.variables)}

        def ended(status: int) -> None:
            del self._children[job.uid]
            state = JobState.FAILED if status else JobState.TERMINATED
            self._on_event(j.Updated((), {job.uid: state}))

        try:
            child = Child(words, environment, runs.directory, outputs, self._reactor, ended)
        except OSError as error:
            self._on_event(j.SubmissionFailed(job.uid, f"{words[0]}: {error.strerror}"))
            return
        self._children[job.uid] = child
        self._on_event(j.Submitted(job.uid, str(child.unix_pid)))
        self._on_event(j.Updated((), {job.uid: JobState.RUNNING}))

    def find(self, jobs: Sequence[Job]) -> None:
        """None is there: children of an earlier launcher have died with it."""
        self._on_event(j.Found(tuple(job.uid for job in jobs), {}))

    def update(self, jobs: Sequence[Job]) -> None:
        """Say which are not there any more."""
        here = {job.uid: JobState.RUNNING for job in jobs if job.uid in self._children}
        self._on_event(j.Updated(tuple(job.uid for job in jobs), here))

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End them; one that is not there belonged to an earlier launcher, and died with it."""
        self._on_event(j.Cancelled(tuple(job.uid for job in jobs)))
        gone = {job.uid: JobState.FAILED for job in jobs if job.uid not in self._children}
        for job in jobs:
            if (child := self._children.get(job.uid)) is not None:
                child.end()
        if gone:
            self._on_event(j.Updated((), gone))

    def forget(self, job: Job) -> None:
        """Do nothing: a child that has ended is forgotten."""

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Kill the jobs. Each is a child of the launcher, so no scheduler keeps one."""
        for job in jobs:
            if (child := self._children.get(job.uid)) is not None:
                child.kill()

    def shown(self, job: Job) -> list[str]:
        """The command."""
        import shlex

        return [shlex.join(self._backend.make_job(job, self._of_job(job, False)))]

    def close(self) -> None:
        """Kill what is left."""
        for child in self._children.values():
            child.kill()


class Both:
    """The server by one runner, clients by another one."""

    def __init__(self, server: Runner, clients: Runner) -> None:
        self._server, self._clients = server, clients
        self.polls = server.polls or clients.polls

    def submit(self, job: Job, from_checkpoint: bool) -> None:
        """As its kind of job is."""
        self._of(job).submit(job, from_checkpoint)

    def find(self, jobs: Sequence[Job]) -> None:
        """Each where it may be."""
        self._each(jobs, "find")

    def update(self, jobs: Sequence[Job]) -> None:
        """Ask for jobs that do not tell by themselves; where all do, for all: one answers."""
        every = self._split(jobs)
        for runner, some in [pair for pair in every if pair[0].polls] or every:
            runner.update(some)

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Each where it is."""
        self._each(jobs, "cancel")

    def forget(self, job: Job) -> None:
        """As its kind of job is."""
        self._of(job).forget(job)

    def abandon(self, jobs: Sequence[Job]) -> None:
        """Each where it is."""
        self._each(jobs, "abandon")

    def shown(self, job: Job) -> list[str]:
        """As its kind of job is."""
        return self._of(job).shown(job)

    def close(self) -> None:
        """Both."""
        self._server.close()
        self._clients.close()

    def _of(self, job: Job) -> Runner:
        return self._server if job.is_server else self._clients

    def _split(self, jobs: Iterable[Job]) -> list[tuple[Runner, list[Job]]]:
        servers = [job for job in jobs if job.is_server]
        clients = [job for job in jobs if not job.is_server]
        pairs = [(self._server, servers), (self._clients, clients)]
        return [(runner, some) for runner, some in pairs if some]

    def _each(self, jobs: Sequence[Job], what: str) -> None:
        for runner, some in self._split(jobs):
            getattr(runner, what)(some)


def _parts(jobs: Sequence[Job]) -> list[Sequence[Job]]:
    return [jobs[at : at + IDS_A_COMMAND] for at in range(0, len(jobs), IDS_A_COMMAND)]


def _code(status: int) -> int:
    return status >> 8 if not status & 0x7F else 128 + (status & 0x7F)


def _why(words: Sequence[str], status: int | None, out: str, err: str) -> str:
    """Why a command has not done what it should, in one line."""
    said = (err or out).strip().splitlines()
    how = "did not answer in time" if status is None else how_it_ended(status)
    return f"{words[0]}: {said[-1]}" if said else f"{words[0]} {how}"
