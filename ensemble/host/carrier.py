"""Carries out what the machine of a study decides, and tells it what has happened."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable

from ensemble.host.journal import Journal
from ensemble.host.listener import Listener
from ensemble.host.runners import Runner
from ensemble.host.story import Story
from ensemble.machine import job as j
from ensemble.machine.job import Job, JobState
from ensemble.machine.state import Ensemble
from native.loop.daemon import settle
from native.loop.reactor import Reactor


class Carrier:
    """One study in a loop.

    Args:
        machine: decides.
        shows_messages: each message of and to the server is a line.

    Attributes:
        on_event: takes what happens.
        finished: how it has ended; None: it has not.
        runner, listener: to be set before :meth:`run`; they call :meth:`on_event`.
        observe: is told of all actions; None: nobody is.
    """

    runner: Runner
    listener: Listener

    def __init__(
        self,
        machine: Ensemble,
        journal: Journal,
        story: Story,
        reactor: Reactor,
        *,
        shows_messages: bool = False,
    ) -> None:
        self.machine = machine
        self._shows_messages = shows_messages
        self.finished: j.Finish | None = None
        self.observe: Callable[[list[j.Action]], None] | None = None
        self._journal = journal
        self._story = story
        self._reactor = reactor
        self._events: deque[j.Event] = deque()
        self._is_handling = False
        self._timer = reactor.timer(lambda: self.on_event(j.Timeout()))

    def run(self) -> j.Finish:
        """Run the study to its end; SIGINT and SIGTERM stop it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._reactor.on_signal(number, lambda n=number: self.on_event(j.Interrupted(n)))  # type: ignore[misc]
        self.on_event(j.Timeout())
        if self.finished is None:
            settle()
            self._reactor.run()
        assert self.finished is not None
        return self.finished

    def on_event(self, event: j.Event) -> None:
        """Give an event to the machine; one that comes of an action waits for its end."""
        self._events.append(event)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._events and self.finished is None:
                now, event = self._reactor.monotonic(), self._events.popleft()
                if self._shows_messages and isinstance(event, j.Received):
                    self._story.say(f"from the server: {event.message}", is_detail=True)
                actions = self.machine.handle(event, now)
                for action in actions:
                    self._perform(action)
                if self.observe is not None:
                    self.observe(actions)
        finally:
            self._is_handling = False
        self._timer.set(None if self.finished else self.machine.deadline())
        self._story.progress(self._progress)

    def _perform(self, action: j.Action) -> None:
        match action:
            case j.Submit(job, from_checkpoint):
                self._submit(job, from_checkpoint)
            case j.Find(jobs):
                self.runner.find(jobs)
            case j.Update(jobs):
                self.runner.update(jobs)
            case j.Cancel(jobs):
                self.runner.cancel(jobs)
            case j.Took(job):
                self._journal.has_id(job.uid, job.job_id)
            case j.Forget(job, state):
                self._journal.over(job.uid, state)
                self.runner.forget(job)
            case j.Tell(connection, epoch, message):
                if self._shows_messages:
                    self._story.say(f"to the server: {message}", is_detail=True)
                self.listener.send(connection, epoch, message)
            case j.Close(connection, text):
                self.listener.refuse(connection, text)
            case j.Log(text, is_detail):
                self._story.say(text, is_detail)
            case j.Abandon(jobs):
                for job in jobs:
                    self._story.say(f"{job.text} may be left: its name is {job.name}")
                self.runner.abandon(jobs)
            case j.Finish():
                self.finished = action
                self._reactor.stop()
            case _:
                raise AssertionError(f"no case for {action!r}")

    def _submit(self, job: Job, from_checkpoint: bool) -> None:
        """Nothing is submitted that the journal does not know of."""
        try:
            self._journal.submit(job)
            self.runner.submit(job, from_checkpoint)
        except OSError as error:  # of the journal or a script: a full disk, for one
            text = f"{error.filename or 'the journal'}: {error.strerror}"
            self.on_event(j.SubmissionFailed(job.uid, text))

    def _progress(self) -> str:
        machine = self.machine
        counts = machine.counts
        failed = counts[JobState.FAILED] + counts[JobState.ERROR]
        return (
            f"{machine.phase.value}: {machine.jobs.counted} clients, {machine.waiting} waiting,"
            f" {counts[JobState.TERMINATED]} ended, {failed} failed"
        )
