"""One node: its place in the partition, and the jobs that it hosts.

The node gives each event to the job that it concerns, keeps bebopd informed, and takes or
refuses load messages. Everything about a single job is in :mod:`pct.job.machine`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from signal import SIGCONT, SIGSTOP, SIGTERM
from typing import TYPE_CHECKING

from native.deadlines import AskedDeadlines, Deadlines, earliest
from native.errors import IllegalTransition, PeerProtocolError
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import (
    Action,
    Contain,
    DeadlineReached,
    Event,
    JobEvent,
    Log,
    MessageReceived,
    PeerGone,
    Send,
    fault_text,
    propagate,
)
from native.wire import alloc, batch, codec, group, load, nodes, status
from native.wire.base import JobMessage, Message, clipped
from pct.account import Gpu
from pct.admission import Admission
from pct.brokers import BrokerEvent, Brokers
from pct.events import DropJob, HealthChecked, Leave, Restart, Several, TellBebopd
from pct.hosted import Condition, Seen, announcement, line_of, stamped
from pct.job.machine import Job
from pct.job.progress import JobState
from pct.peers import Peers
from pct.rare_events import FeaturesSeen, RoguesSeen
from pct.reservation import Reservation

if TYPE_CHECKING:
    from pct.cores import Core
    from pct.job.hooks import Site

ENDING_TEXT = "the allocation ends"


class Node:
    """State machine of a PCT.

    Feed events to :meth:`handle`; carry out the actions it returns, in order.

    Args:
        name: host name shown to users.
        address: where this PCT listens.
        bebopd: whom to announce to.
        wanted: the node number asked for; -1: bebopd chooses.
        is_signed: tells whether a credential's MAC is the partition key's.
        unix_time: wall-clock seconds.
        contain: takes what handling an event of one job has raised; the job ends.
        memory: bytes that jobs may have.
        gpus: that jobs may have.
        cores: that ranks can be bound to.
        site: its hooks; None: it has none.
        features: what its host can do, until another word comes.
    """

    def __init__(
        self,
        *,
        name: str,
        slots: int,
        address: PortalId,
        bebopd: PortalId,
        wanted: int,
        incarnation: int,
        limits: Limits,
        is_signed: Callable[[bytes, bytes], bool],
        unix_time: Callable[[], float],
        contain: Contain = propagate,
        memory: int = 0,
        gpus: tuple[Gpu, ...] = (),
        cores: tuple[Core, ...] = (),
        site: Site | None = None,
        features: tuple[status.Feature, ...] = (),
    ) -> None:
        self._site = site
        self.number = wanted
        self.jobs: dict[int, Job] = {}
        self.brokers = Brokers(bool(site and site.prepares_allocations), limits.unkillable_s)
        self.reservation = Reservation(slots, limits.jobs_per_node_count, memory, gpus, cores)
        self._name = name
        self._address = address
        self._bebopd = bebopd
        self._incarnation = incarnation
        self.limits = limits
        self._admission = Admission(self.reservation, limits, is_signed, unix_time)
        self._contain = contain
        self._deadlines: AskedDeadlines[int] = AskedDeadlines()  # of the jobs
        self._faulty: Deadlines[int] = Deadlines()  # jobs that have raised: when they are dropped
        self.peers = Peers()
        self._announce_at: float | None = None
        self._heartbeat_s = limits.announce_retry_s
        self._trouble = ""  # with bebopd, as last told
        self._condition = Condition(features)  # as last seen
        self._is_ending = False  # the allocation that it belongs to
        self._is_suspended = False  # the same
        self._is_restarting = False  # when the last job has ended

    def begin(self, now: float) -> list[Action]:
        """The first announcement."""
        return self._announce(now)

    def deadline(self) -> float | None:
        """Time of the next ``DeadlineReached``, or None when nothing is timed."""
        times = self._deadlines.earliest(), self._faulty.earliest()
        return earliest(*times, self.brokers.deadline(), self._announce_at)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Advance by one event.

        Raises:
            PeerProtocolError: a message that its sender may not send.
            IllegalTransition: a bug.
        """
        return self._then_restart(self._handled(event, now))

    def _handled(self, event: Event, now: float) -> list[Action]:
        match event:  # the most frequent first
            case Several(job_id, events) if job_id in self.jobs:
                return self._several(self.jobs[job_id], events, now)
            case MessageReceived():
                return self._message(event, now)
            case PeerGone(peer, text):
                actions = self._bebopd_lost(text, now) if peer == self._bebopd else []
                for job_id in self.peers.concerned(peer):
                    actions += self._of_job(self.jobs[job_id], event, now)
                return actions
            case DeadlineReached():
                return self._deadline_reached(now)
            case HealthChecked() | RoguesSeen() | FeaturesSeen():
                return self._checked(event, now)
            case BrokerEvent():
                return self.brokers.happened(event, self._bebopd, self.number, now)
            case JobEvent(job_id) if job_id in self.jobs:
                return self._of_job(self.jobs[job_id], event, now)
            case JobEvent():  # it has been dropped
                return []
        raise IllegalTransition(self.number, event)

    def fault(self, job_id: int, error: Exception, now: float) -> list[Action]:
        """An exception was raised on behalf of a job: end this job, and nothing else.

        The job ends in order if it can. If it raises again, or has not ended in ``end_s``,
        the node drops it.
        """
        return self._then_restart(self._faulted(job_id, error, now))

    def _faulted(self, job_id: int, error: Exception, now: float) -> list[Action]:
        job = self.jobs.get(job_id)
        if job is None:  # it raised while what it held was given back
            return [DropJob(job_id)]
        if job_id not in self._faulty:
            self._faulty.set(job_id, now + self.limits.end_s)
            return self._guarded(job, lambda: job.give_up(fault_text(error), now), now)
        return self._translated(job, job.drop(fault_text(error), now))

    def state(self, now: float) -> list[str]:
        """For people: a line for the node, and one for each job."""
        slots = f"{self.reservation.slots_used} of {self.reservation.slots} slots in use"
        more = f", bebopd: {self._trouble}" if self._trouble else ""
        more += str(self._condition)
        more += ", restarts when free of jobs" if self._is_restarting else ""
        lines = [f"node {self.number} ({self._name}): {slots}, {len(self.jobs)} jobs{more}"]
        lines += [line_of(job, now) for job in self.jobs.values()]
        return lines + self.brokers.lines()

    def check(self) -> None:
        """Assert the invariants."""
        self.reservation.check()
        self.brokers.check()
        for job in self.jobs.values():
            job.check()
            assert job.state is not JobState.RELEASED, job.job_id
            assert job.deadline() == self._deadlines.get(job.job_id), job.job_id
        self.peers.check(self.jobs)
        assert self.jobs.keys() >= self._deadlines.keys() | self._faulty.keys()

    # -- messages ---------------------------------------------------------

    def _message(self, event: MessageReceived, now: float) -> list[Action]:
        message, principal = event.message, event.principal
        if (method := FROM_BEBOPD.get(type(message))) is not None:
            _demand(principal, PrincipalKind.PARTITION)
            return method(self, event.source, message, now)
        if not isinstance(message, JobMessage):
            raise PeerProtocolError(f"{type(message).__name__} is not for a PCT")
        job_id = message.job_id
        if principal.kind is PrincipalKind.JOB and principal.job_id != job_id:
            raise PeerProtocolError(f"job {principal.job_id} speaks of job {job_id}")
        if principal.kind is PrincipalKind.USER:
            raise PeerProtocolError("a user's key does not open a job")
        if isinstance(message, load.Load):
            return self._load(event.source, principal, message, now)
        if isinstance(message, load.Reset) and message.attempt != self.reservation.attempt(job_id):
            return self._reset(event.source, message, now)  # of an earlier placing of the job
        if (job := self.jobs.get(job_id)) is not None:
            return self._of_job(job, event, now)
        method = OF_NO_JOB.get(type(message))
        return [] if method is None else method(self, event.source, message, now)

    def _orphan(self, source: PortalId, message: group.Orphan, now: float) -> list[Action]:
        """A node has lost its parent and asks this one. The job has ended here: end it there."""
        job_id = message.job_id
        return [Send(source, group.Adopted(job_id)), Send(source, load.AllDone(job_id))]

    def _all_done(
        self, source: PortalId, message: load.AllDone, now: float, attempt: int = 0
    ) -> list[Action]:
        """The job is not here. Refuse its load message, which may still be on the way."""
        if self.number < 0:
            return []
        self.reservation.refuse(message.job_id, attempt)
        return [Send(source, load.Released.of(message.job_id, (self.number,)))]

    def _reset(self, source: PortalId, message: load.Reset, now: float) -> list[Action]:
        """As for all-done. The root no longer reports for this node, so tell bebopd too."""
        job_id, attempt = message.job_id, message.attempt
        actions = self._all_done(source, load.AllDone(job_id), now, attempt)
        if actions:
            freed = Send(self._bebopd, alloc.Freed.of(job_id, (self.number,)))
            actions.append(stamped(freed, attempt))
        return actions

    def _load(
        self, source: PortalId, principal: Principal, message: load.Load, now: float
    ) -> list[Action]:
        if self._is_ending:
            return self._refused(source, message.job_id, ENDING_TEXT)
        refusal = self._admission.why_not(principal, message, self.number)
        if refusal is not None:
            return self._refused(source, message.job_id, refusal)
        credential = codec.decode_credential(message.credential)
        try:
            limits = (self.limits.notice_s, self.limits.job_store_bytes)
            _, gpus = self.reservation.share(message.job_id)
            cores = self.reservation.cores(message.job_id)
            unkillable_s, site = self.limits.unkillable_s, self._site
            job = Job(message, credential, source, now, *limits, gpus, unkillable_s, cores, site)
        except Exception as error:
            self._contain(f"job {message.job_id}", error)
            self.reservation.give_back(message.job_id)
            return self._refused(source, message.job_id, clipped(fault_text(error)))
        self.jobs[job.job_id] = job
        self.peers.add(job.job_id, len(message.nodes) > 1)
        if self._is_suspended:
            job.signal(SIGSTOP)
        return self._guarded(job, lambda: job.begin(now), now)

    def _refused(self, source: PortalId, job_id: int, why: str) -> list[Action]:
        kind, phase = load.FailureKind.REFUSED, JobState.FORMING.value
        failure = load.Failure(job_id, kind, phase, max(self.number, 0), self._name, -1, why)
        return [Send(source, failure), Log(why, job_id)]

    # -- bebopd -----------------------------------------------------------

    def _announce(self, now: float) -> list[Action]:
        self._announce_at = now + self._heartbeat_s
        me = (self.number, self._name, self._address, self._incarnation)
        here = (self.jobs.values(), self.reservation, self.brokers)
        return [Send(self._bebopd, announcement(*me, *here, self._condition, now))]

    def _checked(self, event: Seen, now: float) -> list[Action]:
        """The node has been looked at; bebopd is told at once of what is new."""
        text = self._condition.take(event)
        actions: list[Action] = []
        if isinstance(event, HealthChecked) and event.is_lost:
            for job in list(self.jobs.values()):
                lose = partial(job.lose, self._condition.trouble, now)
                actions += self._guarded(job, lose, now)
        if not text:
            return actions
        return [*actions, Log(text), *(self._announce(now) if self.reservation.epoch else ())]

    def _accepted(self, source: PortalId, message: status.Accepted, now: float) -> list[Action]:
        is_new = message.epoch != self.reservation.epoch or self._trouble != ""
        self._trouble, self.number = "", message.node
        self.reservation.epoch = message.epoch
        self._heartbeat_s = message.heartbeat_s
        self._announce_at = now + message.heartbeat_s
        log = [Log(f"node {self.number} of the partition")] if is_new else []
        return [*log, *self.brokers.unheard(self._bebopd)]

    def _rejected(self, source: PortalId, message: status.Rejected, now: float) -> list[Action]:
        text = f"bebopd does not take this node: {message.text}"
        return [Log(text), Leave(message.text)]

    def _broker(self, source: PortalId, message: Message, now: float) -> list[Action]:
        """bebopd speaks of the broker of a batch job."""
        return self.brokers.told_by_bebopd(self._bebopd, message, now)

    def _revoke(self, source: PortalId, message: alloc.Revoke, now: float) -> list[Action]:
        is_hosting = self.reservation.refuse(message.job_id, message.attempt)
        return [
            Send(source, alloc.Revoked(message.job_id, self.number, is_hosting, message.attempt))
        ]

    def _restart_now(self, source: PortalId, message: nodes.RestartNow, now: float) -> list[Action]:
        self._is_restarting = True
        return [Restart()] if message.is_forced and (self.jobs or self.brokers) else []

    def _signal_ranks(
        self, source: PortalId, message: nodes.SignalRanks, now: float
    ) -> list[Action]:
        """The allocation that this node belongs to ends, is suspended, or warns its steps."""
        number = message.number
        self._is_ending |= number == SIGTERM
        if number in (SIGSTOP, SIGCONT, SIGTERM):
            self._is_suspended = number == SIGSTOP
        actions: list[Action] = []
        for job in list(self.jobs.values()):
            if job.has_ranks or number in (SIGSTOP, SIGCONT):
                actions += job.signal(number)
            elif self._is_ending:  # it would begin behind the signal
                actions += self._guarded(job, partial(job.give_up, ENDING_TEXT, now), now)
        return actions

    def _signal_job(self, source: PortalId, message: nodes.SignalJob, now: float) -> list[Action]:
        """Somebody ends a job by bebopd: its ranks here get the signal; without any it fails."""
        job = self.jobs.get(message.job_id)
        if job is None:  # it has ended
            return []
        said = Log(f"signal {message.number}, asked for by {message.by}", job.job_id)
        if job.has_ranks:
            return [said, *job.signal(message.number)]
        text = f"{message.by} ended the job"
        return [said, *self._guarded(job, partial(job.give_up, text, now), now)]

    def _then_restart(self, actions: list[Action]) -> list[Action]:
        """Restart behind the actions that end the last job."""
        if self._is_restarting and not self.jobs and not self.brokers:
            return [*actions, Restart()]
        return actions

    def _bebopd_lost(self, text: str, now: float) -> list[Action]:
        self._heartbeat_s = self.limits.announce_retry_s
        self._announce_at = now + self._heartbeat_s
        self.brokers.bebopd_lost()
        if text == self._trouble:
            return []
        self._trouble = text
        return [Log(f"bebopd: {text}; announcing again every {self._heartbeat_s:g} s")]

    # -- jobs -------------------------------------------------------------

    def _of_job(self, job: Job, event: Event, now: float) -> list[Action]:
        may_refuse = not isinstance(event, (PeerGone, DeadlineReached))
        return self._guarded(job, lambda: job.handle(event, now), now, may_refuse)

    def _several(self, job: Job, events: tuple[JobEvent, ...], now: float) -> list[Action]:
        """Handle events one by one. What followed from the first stays if a later one raises."""
        actions: list[Action] = []
        try:
            for event in events:
                actions += job.handle(event, now)
        except Exception as error:
            self._contain(f"job {job.job_id}", error)
            return [*self._translated(job, actions), *self._faulted(job.job_id, error, now)]
        return self._translated(job, actions)

    def _guarded(
        self, job: Job, handle: Callable[[], list[Action]], now: float, may_refuse: bool = False
    ) -> list[Action]:
        """Run a handler of a job: an exception ends the job, unless it refuses a message."""
        try:
            return self._translated(job, handle())
        except Exception as error:
            if may_refuse and isinstance(error, PeerProtocolError):
                raise
            self._contain(f"job {job.job_id}", error)
            return self._faulted(job.job_id, error, now)

    def _translated(self, job: Job, actions: list[Action]) -> list[Action]:
        """Address the messages for bebopd; note the job's deadline, or forget it if it is over."""
        if attempt := self.reservation.attempt(job.job_id):
            actions = [stamped(action, attempt) for action in actions]
        out = [
            Send(self._bebopd, action.message) if isinstance(action, TellBebopd) else action
            for action in actions
        ]
        if self.jobs.get(job.job_id) is not job:
            return out
        self._deadlines.ask(job.job_id, job.deadline)
        self.peers.note(job.job_id, job.parent)
        if job.state is JobState.RELEASED:
            del self.jobs[job.job_id]
            self._deadlines.set(job.job_id, None)
            self._faulty.set(job.job_id, None)
            self.peers.remove(job.job_id)
            self.reservation.give_back(job.job_id)
        return out

    def _deadline_reached(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for job_id in self._faulty.due(now):
            job = self.jobs[job_id]
            dropped = job.drop("it did not end after an internal error", now)
            actions += self._translated(job, dropped)
        for job_id in self._deadlines.due(now):
            actions += self._of_job(self.jobs[job_id], DeadlineReached(), now)
        actions += self.brokers.due(now)
        if self._announce_at is not None and now >= self._announce_at:
            actions += self._announce(now)
        return actions


def _demand(principal: Principal, kind: PrincipalKind) -> None:
    if principal.kind is not kind:
        raise PeerProtocolError(f"needs the {kind.name.lower()} key")


Method = Callable[..., list[Action]]

# From bebopd, which has the partition's key: method(node, sender, message, now)
FROM_BEBOPD: dict[type[Message], Method] = {
    status.Accepted: Node._accepted,
    status.Rejected: Node._rejected,
    alloc.Revoke: Node._revoke,
    nodes.RestartNow: Node._restart_now,
    nodes.SignalRanks: Node._signal_ranks,
    nodes.SignalJob: Node._signal_job,
    batch.Start: Node._broker,
    alloc.Grant: Node._broker,
    batch.EndBroker: Node._broker,
    batch.SignalScript: Node._broker,
    batch.LimitTime: Node._broker,
    batch.Suspend: Node._broker,
    group.WriteDown: Node._broker,
    batch.Heard: Node._broker,
}

# About a job that is not here, or not any more; other messages about it are late.
OF_NO_JOB: dict[type[Message], Method] = {
    load.AllDone: Node._all_done,
    load.Reset: Node._reset,
    group.Orphan: Node._orphan,
}
