"""A launcher on a virtual clock, with a scheduler that fails, stalls, answers late, lies and loses
jobs, and with servers that die, fall silent or come twice."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

from ensemble import messages as m
from ensemble.machine import job as j
from ensemble.machine.job import Job, JobState
from ensemble.machine.settings import Settings
from ensemble.machine.state import Ensemble

ALIVE = (JobState.WAITING, JobState.RUNNING)


class Real:
    """A job as it really is."""

    def __init__(self, job: Job, job_id: str) -> None:
        self.job = job
        self.job_id = job_id
        self.state = JobState.WAITING
        self.is_hidden = False  # the scheduler does not tell of it
        self.can_hide = True  # one that lives in spite of a cancellation is told of


class Journal:
    """What a launcher leaves to the next one."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.uid = self.epoch = 0


class World:
    """One study, from its first launcher to its last.

    Args:
        trouble: chance of each fault at each call, until :attr:`calm_at`.
        polls: the scheduler is asked; else it tells.
    """

    def __init__(self, seed: int, *, trouble: float, polls: bool, clients: int, **more: Any):
        self.rng = random.Random(seed)
        self.now = 0.0
        self.trouble, self.calm_at = trouble, 200.0
        self.clients = clients
        self.settings = Settings(prefix="s", polls=polls, restarts=1000, **more)
        self.real: dict[str, Real] = {}
        self.journal = Journal()
        self.machine = Ensemble(self.settings)
        self.finished: j.Finish | None = None
        self.abandoned: tuple[Job, ...] = ()
        self.told: dict[tuple[int, int], list[int]] = {}  # (epoch, client) -> states
        self.ended: set[int] = set()  # clients that have ended well
        self.log: list[str] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._tickets = itertools.count()
        self._connections = itertools.count(3)
        self._launcher = 0
        self._servers: dict[int, int] = {}  # connection -> epoch, alive
        self._next_id = itertools.count(100)

    # -- the clock ---------------------------------------------------------

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay_s, next(self._tickets), call))

    def run(self, until: float) -> None:
        while self.finished is None:
            due = self.machine.deadline()
            assert due is not None
            is_call = bool(self._queue) and self._queue[0][0] <= due
            at = self._queue[0][0] if is_call else due
            if at > until:
                self.now = until
                return
            self.now = max(self.now, at)
            if is_call:
                heapq.heappop(self._queue)[2]()
            else:
                self.give(j.Timeout())
            self.check()

    def give(self, event: j.Event) -> None:
        for action in self.machine.handle(event, self.now):
            self.perform(action)

    def answer(self, event: j.Event, late_s: float = 0.0) -> None:
        """An answer of the scheduler, to the launcher that has asked."""
        launcher = self._launcher

        def arrive() -> None:
            if launcher == self._launcher and self.finished is None:
                self.give(event)

        self.later(self.rng.uniform(0.01, 0.5) + late_s, arrive)

    def goes_wrong(self) -> bool:
        return self.now < self.calm_at and self.rng.random() < self.trouble

    # -- what must hold ---------------------------------------------------

    def check(self) -> None:
        assert self.machine.jobs.counted <= self.settings.job_limit
        for states in self.told.values():
            final = [JobState(state).is_final for state in states]
            assert True not in final[:-1], f"told after its end: {states}"
            assert all(a != b for a, b in itertools.pairwise(states)), f"told twice: {states}"

    def alive(self) -> list[Real]:
        return [real for real in self.real.values() if real.state in ALIVE]

    # -- actions -----------------------------------------------------------

    def perform(self, action: j.Action) -> None:
        match action:
            case j.Submit(job):
                self.journal.jobs[job.uid] = job
                self.journal.uid = max(self.journal.uid, job.uid)
                self.journal.epoch = max(self.journal.epoch, job.epoch)
                self._submit(job)
            case j.Find(jobs):
                if self.goes_wrong():
                    self.answer(j.FindFailed(tuple(job.uid for job in jobs), "down"))
                    return
                names = {job.name: job.uid for job in jobs}
                found = {
                    names[r.job.name]: r.job_id for r in self.real.values() if r.job.name in names
                }
                self.answer(j.Found(tuple(names.values()), found))
            case j.Update(jobs):
                self._update(jobs)
            case j.Cancel(jobs):
                self._cancel(jobs)
            case j.Forget(job):
                del self.journal.jobs[job.uid]
            case j.Tell(connection, epoch, message):
                self._told(connection, epoch, message)
            case j.Close(connection):
                self._servers.pop(connection, None)
            case j.Log(text):
                self.log.append(f"{self.now:.1f} {text}")
            case j.Abandon(jobs):
                self.abandoned = jobs
            case j.Finish():
                self.finished = action

    def _submit(self, job: Job) -> None:
        if self.goes_wrong():
            self.answer(j.SubmissionFailed(job.uid, "down"))
            return
        real = Real(job, str(next(self._next_id)))
        self.real[real.job_id] = real
        self.later(self.rng.uniform(0, 20), lambda: self._begin(real))
        if self.goes_wrong():  # it has the job, and does not say so
            self.answer(j.SubmissionUnknown(job.uid, "no answer"), late_s=30)
        else:
            late = self.rng.uniform(0, 60) if self.goes_wrong() else 0.0
            self.answer(j.Submitted(job.uid, real.job_id), late)

    def _update(self, jobs: tuple[Job, ...]) -> None:
        asked = tuple(job.uid for job in jobs)
        if self.goes_wrong():
            self.answer(j.UpdateFailed("down"), late_s=self.rng.uniform(0, 40))
            return
        states = {}
        for job in jobs:
            real = self.real[job.job_id]
            if real.can_hide and self.goes_wrong():
                real.is_hidden = self.rng.random() < 0.5
            if not real.is_hidden:
                states[job.uid] = real.state
        self.answer(j.Updated(asked, states))

    def _cancel(self, jobs: tuple[Job, ...]) -> None:
        uids = tuple(job.uid for job in jobs)
        if self.goes_wrong():
            self.answer(j.CancellationFailed(uids, "down"))
            return
        for job in jobs:
            real = self.real[job.job_id]
            if not real.is_hidden and self.goes_wrong():  # it lies, and shows that
                real.can_hide = False
            else:
                self.later(
                    self.rng.uniform(0, 3), lambda real=real: self._set(real, JobState.FAILED)
                )
        self.answer(j.Cancelled(uids))

    # -- jobs --------------------------------------------------------------

    def _set(self, real: Real, state: JobState) -> None:
        if real.state not in ALIVE:
            return
        real.state = state
        if not self.settings.polls:
            self.answer(j.Updated((), {real.job.uid: state}))
        if state.is_final and real.job.is_server:
            for connection, epoch in list(self._servers.items()):
                if epoch == real.job.epoch:
                    self._hang_up(connection)

    def _begin(self, real: Real) -> None:
        if real.state is not JobState.WAITING:
            return
        self._set(real, JobState.RUNNING)
        if real.job.is_server:
            self.later(self.rng.uniform(0, 5), lambda: self._connect(real))
            return
        fails = self.rng.random() < 0.2
        end = JobState.FAILED if fails else JobState.TERMINATED
        self.later(self.rng.uniform(0, 30), lambda: self._set(real, end))

    def _hang_up(self, connection: int) -> None:
        if self._servers.pop(connection, None) is not None:
            self.answer(j.ConnectionClosed(connection))

    # -- servers ------------------------------------------------------------

    def _connect(self, real: Real) -> None:
        if real.state is not JobState.RUNNING or self.finished:
            return
        connection = next(self._connections)
        self._servers[connection] = real.job.epoch
        self.give(j.ServerConnected(connection, real.job.epoch))
        if self.finished or connection not in self._servers:
            return
        if self.rng.random() < 0.3:
            self.give(j.ServerConnected(next(self._connections), real.job.epoch))
            self.give(j.ServerConnected(next(self._connections), real.job.epoch - 1))
        lacking = [c for c in range(self.clients) if c not in self.ended]
        for client in lacking:
            self._ask(connection, m.JobSubmission(client, 1))
        self._ping(connection, real)

    def _ask(self, connection: int, message: m.Message) -> None:
        if connection in self._servers and self.finished is None:
            self.give(j.Received(connection, self._servers[connection], message))

    def _ping(self, connection: int, real: Real) -> None:
        if connection not in self._servers or self.finished:
            return
        if self.now < self.calm_at and self.rng.random() < self.trouble / 10:
            return  # it is silent from now on
        if self.now < self.calm_at and self.rng.random() < self.trouble / 10:
            self._set(real, JobState.FAILED)  # it is killed
            return
        if len(self.ended) == self.clients:
            self._ask(connection, m.CompletionNotification())
            self.later(1.0, lambda: self._set(real, JobState.TERMINATED))
            return
        self._ask(connection, m.Ping())
        self.later(2.0, lambda: self._ping(connection, real))

    def _told(self, connection: int, epoch: int, message: m.Message) -> None:
        if not isinstance(message, m.JobUpdate):
            return
        assert self._servers.get(connection, epoch) == epoch == self.machine.epoch
        states = self.told.setdefault((epoch, message.client), [])
        if states and JobState(states[-1]).is_final:
            states.clear()  # it has been asked for again
        states.append(message.state)
        state = JobState(message.state)
        if state is JobState.TERMINATED:
            self.ended.add(message.client)
        elif state.is_final:
            self.later(1.0, lambda: self._ask(connection, m.JobSubmission(message.client, 1)))

    # -- the launcher -------------------------------------------------------

    def kill_launcher(self) -> None:
        """It is gone, and another one is started; only the journal is left."""
        self._launcher += 1
        for connection in list(self._servers):
            del self._servers[connection]
        self.finished = None
        journal = self.journal
        ids = {real.job.uid: real.job_id for real in self.real.values()}
        left = []
        for job in journal.jobs.values():
            is_known = self.rng.random() < 0.5 and job.uid in ids
            job_id = ids[job.uid] if is_known else ""
            left.append(Job(job.uid, job.name, job.epoch, job.client, job_id=job_id))
        self.machine = Ensemble(self.settings, left, journal.uid, journal.epoch)
