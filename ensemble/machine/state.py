"""The life of a study: one server, its clients, and what the launcher does about them.

Pure: no clock, no process, no socket. Times are seconds on the caller's monotonic clock.

    BEGINNING  nothing has been submitted; a launcher that was started again looks for its jobs
    AWAITING   a server has been submitted, and has not connected
    SERVING    it has
    ENDING     no job is wanted any more, but for a server that has completed its study
    OVER       no job is left, or what is left has been named

A server that is lost is replaced: all jobs are doomed and a new one is submitted at once, of the
next *epoch*. What a server of an earlier epoch says is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ensemble import messages as m
from ensemble.machine import job as j
from ensemble.machine.answers import OF_SCHEDULER
from ensemble.machine.job import Action, Event, Job, JobState
from ensemble.machine.jobs import Entry, Jobs, Stage
from ensemble.machine.requests import Requests
from ensemble.machine.settings import Phase, Settings
from native.errors import IllegalTransition
from native.text import plural

CALLS_MAX = 16  # submissions whose answers are awaited
ENDING_TIMER_S = 1.0


class Ensemble:
    """State machine of a study. Feed events to :meth:`handle`; carry out what it returns, in order.

    Args:
        left: jobs of an earlier launcher of this study whose ends are not known.
        uid: the last number that has been used.
        epoch: the last one.

    Attributes:
        phase: where the study is.
        epoch: of the present server; 0: there was none.
        restarts: times at which servers were replaced.
        counts: clients that have ended, by state.
    """

    def __init__(
        self, settings: Settings, left: Sequence[Job] = (), uid: int = 0, epoch: int = 0
    ) -> None:
        self.settings = settings
        self.phase = Phase.BEGINNING
        self.epoch = epoch
        self.restarts: deque[float] = deque(maxlen=settings.restarts + 1)
        self.restart_count = 0
        self.counts = dict.fromkeys(JobState, 0)
        self.jobs = Jobs()
        self.connection = -1
        self._left = left
        self._is_replacing = False
        self._uid = uid
        self._server_uid = 0
        self._requests = Requests()
        self._clients: dict[int, int] = {}  # id -> uid, of this epoch
        self._group_size = self.settings.group_size
        self._variables: dict[str, str] = {}
        self._tick_at = 0.0
        self._heard_at = 0.0
        self._ran_at: float | None = None  # since when the server runs, and has not connected
        self._is_server_gone = False
        self._update_at = 0.0
        self.is_updating = self.has_update_failed = False
        self._end_by = 0.0
        self._server_until: float | None = None
        self._exit_status = 0
        self._why = ""
        self.out: list[Action] = []

    def deadline(self) -> float | None:
        """Time of the next ``Timeout``; None: nothing is timed."""
        return None if self.phase is Phase.OVER else self._tick_at

    @property
    def waiting(self) -> int:
        """Clients that the server has asked for and that have not been submitted."""
        return self._requests.count

    @property
    def server(self) -> Entry | None:
        """The present server's job."""
        return self.jobs.get(self._server_uid)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Args:
            now: seconds, monotonic; never less than in an earlier call.

        Returns:
            Actions for the driver, in the order to carry them out.

        Raises:
            IllegalTransition: the phase has no transition for the event; nothing has changed.
        """
        if self.phase is Phase.OVER:
            return []
        take = TABLE[self.phase].get(type(event))
        if take is None:
            raise IllegalTransition(self.phase, event)
        self.out = []
        take(self, event, now)
        self._settle(now)
        return self.out

    # -- time and signals -------------------------------------------------

    def _begin(self, event: j.Timeout, now: float) -> None:
        """The first time-out: look for jobs of an earlier launcher, and submit a server."""
        for job in self._left:
            entry = self.jobs.add(job, Stage.SUBMITTED if job.job_id else Stage.UNSURE)
            self.jobs.doom(entry)
        if self._left:
            self.say(f"{plural(len(self._left), 'job')} of an earlier launcher: cancelled")
        self._tick_at = now + self.settings.timer_s
        self._submit_server(now)

    def _await(self, event: j.Timeout, now: float) -> None:
        self._tick(now)
        if self._ran_at is not None and now - self._ran_at > self.settings.connect_s:
            self._lose(f"has not connected within {self.settings.connect_s:g} s", now)

    def _watch(self, event: j.Timeout, now: float) -> None:
        self._tick(now)
        if self._is_server_gone:
            self._lose("has ended", now)
        elif now - self._heard_at > self.settings.server_timeout_s:
            self._lose(f"has said nothing for {now - self._heard_at:.1f} s", now)
        else:
            self._tell(m.Ping())

    def _wait_for_end(self, event: j.Timeout, now: float) -> None:
        self._tick(now)
        if self._server_until is not None and now >= self._server_until:
            self._server_until = None
            if (server := self.server) is not None:
                self.say("the server has not ended by itself: cancelled")
                self.doom(server)
        if now >= self._end_by:
            self._leave(self._exit_status or 1, self._why)

    def _tick(self, now: float) -> None:
        late_s = max(0.0, now - self._tick_at)  # while we stood still, nobody was heard
        self._heard_at += late_s
        if self._ran_at is not None:
            self._ran_at += late_s
        is_ending = self.phase is Phase.ENDING
        self._tick_at = now + min(self.settings.timer_s, ENDING_TIMER_S if is_ending else 86400.0)
        if not self.settings.polls or self.is_updating:
            return
        has_doomed = is_ending or any(entry.is_doomed for entry in self.jobs)
        if (now >= self._update_at or has_doomed) and (jobs := self.jobs.known()):
            self.is_updating = True
            self._update_at = now + self.settings.update_s
            self.out.append(j.Update(jobs))

    def _interrupted(self, event: j.Interrupted, now: float) -> None:
        self.end(128 + event.number, f"interrupted by signal {event.number}", now)

    def _interrupted_again(self, event: j.Interrupted, now: float) -> None:
        if self._exit_status > 128:
            self._leave(128 + event.number, self._why)
        else:
            self._exit_status = 128 + event.number
            for entry in list(self.jobs):
                self.doom(entry)

    # -- the server -------------------------------------------------------

    def _connected(self, event: j.ServerConnected, now: float) -> None:
        if event.epoch != self.epoch:
            self._close(event.connection, f"epoch {event.epoch} is over; this is {self.epoch}")
            return
        self.phase = Phase.SERVING
        self.connection, self._heard_at = event.connection, now
        self.say(f"the server has connected (epoch {self.epoch})")
        self._tell(m.Ping())

    def _connected_twice(self, event: j.ServerConnected, now: float) -> None:
        self._close(event.connection, "a server is connected already, or none is wanted")

    def _closed(self, event: j.ConnectionClosed, now: float) -> None:
        if event.connection == self.connection:
            self.connection = -1
            self._lose("has ended" if self._is_server_gone else event.text, now)

    def _closed_at_end(self, event: j.ConnectionClosed, now: float) -> None:
        if event.connection == self.connection:
            self.connection = -1

    def _received(self, event: j.Received, now: float) -> None:
        if event.connection != self.connection or event.epoch != self.epoch:
            self._close(event.connection, f"this is epoch {self.epoch}")
            return
        self._heard_at = now
        match event.message:
            case m.Ping():
                pass
            case m.GroupSize(size):
                self._group_size = size
            case m.Variable(name, value):
                self._variables[name] = value
            case m.JobSubmission(first, count):
                if not self._requests.add(first, count):
                    self._lose("has asked too often for clients that wait", now)
            case m.JobCancellation(client):
                self._cancel_client(client, now)
            case m.CompletionNotification():
                self.say("the study is complete")
                self.end(0, "", now)
            case other:
                self._lose(f"has sent {type(other).__name__} out of turn", now)

    def _cancel_client(self, client: int, now: float) -> None:
        entry = self.jobs.get(self._clients.get(client, 0))
        if entry is not None:
            self.doom(entry)
        elif self._requests.withdraw(client):
            self._tell(m.JobUpdate(client, JobState.ERROR.value))

    # -- rules ------------------------------------------------------------

    def _lose(self, text: str, now: float) -> None:
        """The server is lost: start another one, or end."""
        text = f"the server {text}"
        if self.connection >= 0:
            self._close(self.connection, text)
            self.connection = -1
        self.restarts.append(now)
        if not self.settings.is_tolerant:
            self.end(1, f"{text}; fault_tolerance is false", now)
            return
        since = now - self.settings.restarts_s
        if len(self.restarts) > self.settings.restarts and self.restarts[0] >= since:
            often = f"{self.settings.restarts} restarts within {self.settings.restarts_s:g} s"
            self.end(1, f"{text}; {often} are enough", now)
            return
        self.restart_count += 1
        self.say(f"{text}: all jobs are cancelled, and another server is started")
        for entry in list(self.jobs):
            self.doom(entry)
        self._is_replacing = True
        self._submit_server(now)

    def _submit_server(self, now: float) -> None:
        self.phase = Phase.AWAITING
        self.epoch += 1
        self._ran_at, self._is_server_gone = None, False
        self._requests.clear()
        self._clients.clear()
        self._variables.clear()
        self._group_size = self.settings.group_size
        self._server_uid = self._submit(-1)

    def _submit(self, client: int) -> int:
        self._uid += 1
        job = Job(
            uid=self._uid,
            name=f"{self.settings.prefix}-{self._uid}",
            epoch=self.epoch,
            client=client,
            group_size=1 if client < 0 else self._group_size,
            variables=() if client < 0 else tuple(self._variables.items()),
        )
        self.jobs.add(job, Stage.SUBMITTING)
        self._order(job)
        return self._uid

    def _order(self, job: Job) -> None:
        goes_on = job.is_server and (self.settings.from_checkpoint or self._is_replacing)
        self.out.append(j.Submit(job, goes_on))

    def end(self, exit_status: int, text: str, now: float) -> None:
        """No job is wanted any more; a server that has completed its study ends by itself."""
        self.phase = Phase.ENDING
        self._exit_status, self._why = exit_status, text
        self._end_by = now + self.settings.stop_s
        self._tick_at = min(self._tick_at, now + ENDING_TIMER_S)
        self._requests.clear()
        if text:
            self.say(text)
        if not exit_status:
            self._server_until = now + self.settings.server_timeout_s
        for entry in list(self.jobs):
            if exit_status or entry.job.uid != self._server_uid:
                self.doom(entry)

    def _leave(self, exit_status: int, text: str) -> None:
        self.phase = Phase.OVER
        if left := tuple(entry.job for entry in self.jobs):
            self.out.append(j.Abandon(left))
        self.out.append(j.Finish(exit_status, text))

    def doom(self, entry: Entry) -> None:
        if not entry.is_doomed and not self.jobs.doom(entry):
            self.show(entry, JobState.ERROR)
            self._drop(entry, JobState.ERROR)

    def take(self, entry: Entry, state: JobState, now: float, *, is_over: bool = True) -> None:
        """The scheduler has said how a job is.

        Args:
            is_over: False: it may still be there, though its state is final, until a cancellation.
        """
        is_server = entry.job.uid == self._server_uid
        if is_server and state is JobState.RUNNING and self.phase is Phase.AWAITING:
            self._ran_at = now if self._ran_at is None else self._ran_at
        if state.is_final and is_over:
            self.over(entry, state, now)
            return
        self.show(entry, state)
        if state.is_final:
            self._follow(entry, state, now)

    def over(self, entry: Entry, state: JobState, now: float) -> None:
        had_ended = entry.has_ended
        self.show(entry, state)
        self._drop(entry, state)
        if not had_ended:
            self._follow(entry, state, now)

    def _drop(self, entry: Entry, state: JobState) -> None:
        job = entry.job
        self.jobs.remove(entry)
        self.out.append(j.Forget(job, state))

    def _follow(self, entry: Entry, state: JobState, now: float) -> None:
        """What comes of the end of a job."""
        job = entry.job
        if not job.is_server:
            self.counts[state] += 1
            how = "cancelled" if entry.is_doomed else state.name.lower()
            text = f"{job.text}: {how}"
            self.say(text, is_detail=state is JobState.TERMINATED or entry.is_doomed)
        if entry.is_doomed and job.uid != self._server_uid:
            return
        if self.phase not in (Phase.AWAITING, Phase.SERVING):
            return
        if job.uid == self._server_uid:
            if self.phase is Phase.SERVING:  # what it has said last may still come
                self._is_server_gone = True
            else:
                self._lose(f"has ended ({state.name.lower()}) before it connected", now)
        elif state is not JobState.TERMINATED and not self.settings.is_tolerant:
            self.end(1, f"{job.text} has failed; fault_tolerance is false", now)

    def show(self, entry: Entry, state: JobState) -> None:
        """Tell the server of a client's state, if it has changed and is its own client's."""
        if entry.has_ended or entry.state is state:
            return
        job, entry.state = entry.job, state
        if state.is_final and self._clients.get(job.client) == job.uid:
            del self._clients[job.client]  # it may be asked for again
        if not job.is_server and job.epoch == self.epoch and self.connection >= 0:
            self._tell(m.JobUpdate(job.client, state.value))

    def _settle(self, now: float) -> None:
        """Do what is due about jobs, and submit more up to the limit."""
        if self.phase is Phase.OVER:
            return
        again, find, cancel = self.jobs.due(now)
        for entry in again:
            self.jobs.enter(entry, Stage.SUBMITTING)
            self._order(entry.job)
        if find:
            for entry in find:
                entry.is_asked = True
            self.out.append(j.Find(tuple(entry.job for entry in find)))
        if cancel:
            for entry in cancel:
                self.jobs.enter(entry, Stage.CANCELLING)
            self.out.append(j.Cancel(tuple(entry.job for entry in cancel)))
        if self.phase is Phase.SERVING:
            self._submit_clients()
        elif self.phase is Phase.ENDING and not len(self.jobs):
            self._leave(self._exit_status, self._why)

    def _submit_clients(self) -> None:
        if not self._requests:
            return
        room = self.settings.job_limit - self.jobs.counted
        if self.settings.polls:
            room = min(room, CALLS_MAX - self.jobs.in_flight)
        while room > 0 and (client := self._requests.next()) is not None:
            if client in self._clients:
                self.say(f"client {client} was asked for again before its end: ignored")
            else:
                self._clients[client] = self._submit(client)
                room -= 1

    def _tell(self, message: m.Message) -> None:
        self.out.append(j.Tell(self.connection, self.epoch, message))

    def _close(self, connection: int, text: str) -> None:
        self.out.append(j.Close(connection, text))

    def say(self, text: str, is_detail: bool = False) -> None:
        self.out.append(j.Log(text, is_detail))


_Row = Callable[[Ensemble, Any, float], None]


def _ignore(machine: Ensemble, event: Event, now: float) -> None:
    """What comes too late."""


TABLE: dict[Phase, dict[type, _Row]] = {
    Phase.BEGINNING: {
        j.Timeout: Ensemble._begin,
        j.Interrupted: Ensemble._interrupted,
        j.ServerConnected: Ensemble._connected_twice,
        j.ConnectionClosed: _ignore,
    },
    Phase.AWAITING: {
        **OF_SCHEDULER,
        j.Timeout: Ensemble._await,
        j.Interrupted: Ensemble._interrupted,
        j.ServerConnected: Ensemble._connected,
        j.ConnectionClosed: _ignore,
        j.Received: Ensemble._received,
    },
    Phase.SERVING: {
        **OF_SCHEDULER,
        j.Timeout: Ensemble._watch,
        j.Interrupted: Ensemble._interrupted,
        j.ServerConnected: Ensemble._connected_twice,
        j.ConnectionClosed: Ensemble._closed,
        j.Received: Ensemble._received,
    },
    Phase.ENDING: {
        **OF_SCHEDULER,
        j.Timeout: Ensemble._wait_for_end,
        j.Interrupted: Ensemble._interrupted_again,
        j.ServerConnected: Ensemble._connected_twice,
        j.ConnectionClosed: Ensemble._closed_at_end,
        j.Received: _ignore,
    },
}
