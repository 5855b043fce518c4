"""The brokers of batch jobs whose first node this is.

bebopd says what to start, the job's grant follows, and the broker's end is told until bebopd
has heard it::

    (start) --grant--> STARTING --> RUNNING --> ENDED --heard--> (gone)

When its first process has ended, or it is to be killed, what is below it is killed as that of a
job is (:mod:`pct.job.rules.unkillable`): processes that do not end are told to bebopd.

Pure: no clock, no transport.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from native.deadlines import Deadlines
from native.ids import PortalId
from native.machine import Action, Event, Log, Send
from native.wire import batch
from native.wire.alloc import Grant, Unfit
from native.wire.base import Message
from native.wire.group import WriteDown
from pct.job.rules.unkillable import NAMED, Countdown, Step


class BrokerState(Enum):
    """Where a broker is."""

    TOLD = "its grant is on the way"
    STARTING = "starts"
    RUNNING = "runs"
    ENDED = "has ended, bebopd has not heard"


_TOLD = BrokerState.TOLD
ForBroker = batch.EndBroker | batch.SignalScript | batch.LimitTime | batch.Suspend | WriteDown
NOT_STARTED = -1  # a wait status


class BrokerEvent(Event, frozen=True):
    """Something that happened to the broker of a batch job."""

    job_id: int


class BrokerStarted(BrokerEvent, frozen=True):
    """It runs."""


class BrokerServes(BrokerEvent, frozen=True):
    """Terminals can attach to it; the fields are those of ``batch.started``."""

    address: str
    key: bytes


class BrokerEnds(BrokerEvent, frozen=True):
    """Its first process has ended or its keeper is lost: what is left is killed."""


class BrokerLeft(BrokerEvent, frozen=True):
    """The answer to :class:`NameLeft`.

    Attributes:
        text: for people; empty: no process of it is left, or none can be seen.
    """

    text: str


class BrokerGone(BrokerEvent, frozen=True):
    """It has ended, and nothing of it is left; the fields are those of ``batch.ended``."""

    wait_status: int
    outcome: bytes


class BrokerAction(Action, frozen=True):
    """Something to do for the broker of a batch job."""

    job_id: int


class BeginBroker(BrokerAction, frozen=True):
    """Start it.

    Attributes:
        holds_script: a script waits until the job's nodes are ready.
    """

    start: batch.Start
    grant: Grant
    bebopd: PortalId
    holds_script: bool = False


class TellBroker(BrokerAction, frozen=True):
    """Pass a message on to it."""

    message: ForBroker


class KillBroker(BrokerAction, frozen=True):
    """Kill it, and everything below it."""


class KillBrokerKeeper(BrokerAction, frozen=True):
    """Kill its keeper, which has not ended what is below it."""


class NameLeft(BrokerAction, frozen=True):
    """Find out which processes of it are left; answered by :class:`BrokerLeft`."""


class Broker(Struct):
    """One broker.

    Attributes:
        started: what bebopd is told while it runs.
        countdown: until its processes are to have ended; None: they are not killed yet.
    """

    start: batch.Start
    state: BrokerState = BrokerState.TOLD
    started: batch.Started | None = None
    ended: batch.BrokerEnded | None = None
    countdown: Countdown | None = None


class Brokers:
    """All brokers of a node, by job. Methods return the actions to carry out.

    Args:
        holds_scripts: the site's hooks run before anything of an allocation may.
        unkillable_s: processes that were killed end within this, else their keeper is killed.
    """

    def __init__(self, holds_scripts: bool = False, unkillable_s: float = float("inf")) -> None:
        self._holds_scripts = holds_scripts
        self._unkillable_s = unkillable_s
        self._brokers: dict[int, Broker] = {}
        self._deadlines: Deadlines[int] = Deadlines()

    def __len__(self) -> int:
        return len(self._brokers)

    @property
    def job_ids(self) -> tuple[int, ...]:
        """The jobs whose brokers bebopd must know of, ascending."""
        brokers = self._brokers.items()
        return tuple(sorted(job_id for job_id, each in brokers if each.state is not _TOLD))

    @property
    def attempts(self) -> tuple[int, ...]:
        """Which attempts of these jobs they are; empty: of each the first."""
        found = tuple(self._brokers[job_id].start.attempt for job_id in self.job_ids)
        return found if any(found) else ()

    def lines(self) -> list[str]:
        """For people: a line for each."""
        return [
            f"job {job_id}: batch job of uid {broker.start.uid}: its broker {broker.state.value}"
            for job_id, broker in self._brokers.items()
        ]

    def check(self) -> None:
        """Assert the invariants."""
        for job_id, broker in self._brokers.items():
            assert job_id == broker.start.job_id
            assert (broker.ended is not None) == (broker.state is BrokerState.ENDED), broker
            until = None if broker.countdown is None else broker.countdown.deadline()
            assert until == self._deadlines.get(job_id), broker
        assert self._deadlines.keys() <= self._brokers.keys()

    # -- from bebopd -------------------------------------------------------

    def told_by_bebopd(self, bebopd: PortalId, message: Message, now: float) -> list[Action]:
        """bebopd speaks of a broker."""
        match message:
            case batch.Start():
                return self.told(message)
            case Grant():
                return self.granted(bebopd, message)
            case batch.EndBroker():
                return self.end(bebopd, message, now)
            case batch.SignalScript() | batch.LimitTime() | batch.Suspend() | WriteDown():
                return self.pass_on(message)
            case batch.Heard():
                return self.heard(message)
        raise AssertionError(f"no case for {message!r}")

    def told(self, message: batch.Start) -> list[Action]:
        """Start a broker when its grant is here. bebopd may say so twice."""
        known = self._brokers.get(message.job_id)
        if known is None or (known.ended is not None and known.ended.attempt < message.attempt):
            self._brokers[message.job_id] = Broker(message)  # what has ended bebopd has heard
        return []

    def bebopd_lost(self) -> None:
        """A grant that has not come does not come any more: bebopd says again what to start."""
        brokers = self._brokers.items()
        self._brokers = {job_id: each for job_id, each in brokers if each.state is not _TOLD}

    def granted(self, bebopd: PortalId, grant: Grant) -> list[Action]:
        """The grant of a job."""
        broker = self._brokers.get(grant.job_id)
        if broker is None or broker.state is not BrokerState.TOLD:
            return []
        broker.state = BrokerState.STARTING
        return [BeginBroker(grant.job_id, broker.start, grant, bebopd, self._holds_scripts)]

    def end(self, bebopd: PortalId, message: batch.EndBroker, now: float) -> list[Action]:
        """End a broker, which ends its job; or kill it, and say so also where it is not here."""
        job_id, broker = message.job_id, self._brokers.get(message.job_id)
        if broker is None or broker.start.attempt != message.attempt or broker.state is _TOLD:
            if not message.is_forced:
                return []
            if broker is not None and broker.state is _TOLD:
                del self._brokers[job_id]
            gone = batch.BrokerEnded(job_id, NOT_STARTED, b"", message.attempt)
            return [Send(bebopd, gone)]
        if not self._is_alive(job_id):
            return []
        if message.is_forced:
            self._count_down(broker, now)
            return [KillBroker(job_id)]
        return [TellBroker(job_id, message)]

    def pass_on(
        self, message: batch.SignalScript | batch.LimitTime | batch.Suspend | WriteDown
    ) -> list[Action]:
        """For the broker of a job to see to: its script, its time, its steps."""
        return [TellBroker(message.job_id, message)] if self._is_alive(message.job_id) else []

    def heard(self, message: batch.Heard) -> list[Action]:
        """bebopd has the end of a broker on its disk."""
        broker = self._brokers.get(message.job_id)
        if broker is None or broker.ended is None:
            return []
        if broker.ended.attempt == message.attempt:
            del self._brokers[message.job_id]
        return []

    def unheard(self, bebopd: PortalId) -> list[Action]:
        """Tell bebopd, which may be another one, of what runs, and of ends it has not heard."""
        told = [broker.ended or broker.started for broker in self._brokers.values()]
        return [Send(bebopd, message) for message in told if message is not None]

    def _is_alive(self, job_id: int) -> bool:
        broker = self._brokers.get(job_id)
        return broker is not None and broker.state in (BrokerState.STARTING, BrokerState.RUNNING)

    # -- time ----------------------------------------------------------------

    def deadline(self) -> float | None:
        """When :meth:`due` has something to do; None: nothing is timed."""
        return self._deadlines.earliest()

    def due(self, now: float) -> list[Action]:
        """Time has passed: do what is next against processes that have not ended."""
        actions: list[Action] = []
        for job_id in self._deadlines.due(now):
            countdown = self._brokers[job_id].countdown
            assert countdown is not None
            match countdown.due(now):
                case Step.KILL_KEEPERS:
                    text = f"its broker has not ended in {self._unkillable_s:g} s: "
                    text += "the broker's keeper is killed"
                    actions += [Log(text, job_id), KillBrokerKeeper(job_id)]
                case Step.NAME:
                    actions.append(NameLeft(job_id))
            self._deadlines.set(job_id, countdown.deadline())
        return actions

    def _count_down(self, broker: Broker, now: float) -> None:
        """What is left of it is killed; a second time changes nothing."""
        if broker.countdown is None:
            broker.countdown = Countdown(self._unkillable_s)
            broker.countdown.begin(now)
            self._deadlines.set(broker.start.job_id, broker.countdown.deadline())

    # -- from this host ----------------------------------------------------

    def happened(
        self, event: BrokerEvent, bebopd: PortalId, number: int, now: float
    ) -> list[Action]:
        """A broker runs, or ends.

        Args:
            number: of this node.
        """
        broker = self._brokers.get(event.job_id)
        if broker is None or broker.state is BrokerState.ENDED:
            return []
        match event:
            case BrokerStarted(job_id):
                broker.state = BrokerState.RUNNING
                broker.started = batch.Started(job_id)
                return [Send(bebopd, broker.started)]
            case BrokerServes(job_id, address, key):
                broker.started = batch.Started(job_id, address, key)
                return [Send(bebopd, broker.started)]
            case BrokerEnds():
                self._count_down(broker, now)
                return []
            case BrokerLeft(_, ""):
                return []
            case BrokerLeft(job_id, text):
                text = NAMED.format(text)
                return [Log(text, job_id), Send(bebopd, Unfit(job_id, number, text))]
            case BrokerGone(job_id, wait_status, outcome):
                broker.state, broker.countdown = BrokerState.ENDED, None
                self._deadlines.set(job_id, None)
                attempt = broker.start.attempt
                broker.ended = batch.BrokerEnded(job_id, wait_status, outcome, attempt)
                return [Log("its broker has ended", job_id), Send(bebopd, broker.ended)]
        raise AssertionError(f"no case for {event!r}")
