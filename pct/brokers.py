"""The brokers of batch jobs whose first node this is.

bebopd says what to start, the job's grant follows, and the broker's end is told until bebopd
has heard it::

    (start) --grant--> STARTING --> RUNNING --> ENDED --heard--> (gone)

Pure: no clock, no transport.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from native.ids import PortalId
from native.machine import Action, Event, Log, Send
from native.wire import batch
from native.wire.alloc import Grant


class BrokerState(Enum):
    """Where a broker is."""

    TOLD = "its grant is on the way"
    STARTING = "starts"
    RUNNING = "runs"
    ENDED = "has ended, bebopd has not heard"


_TOLD = BrokerState.TOLD


class BrokerEvent(Event, frozen=True):
    """Something that happened to the broker of a batch job."""

    job_id: int


class BrokerStarted(BrokerEvent, frozen=True):
    """It runs."""


class BrokerServes(BrokerEvent, frozen=True):
    """Terminals can attach to it; the fields are those of ``batch.started``."""

    address: str
    key: bytes


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

    message: batch.EndBroker | batch.SignalScript | batch.LimitTime | batch.Suspend


class KillBroker(BrokerAction, frozen=True):
    """Kill it, and everything below it."""


class Broker(Struct):
    """One broker.

    Attributes:
        started: what bebopd is told while it runs.
    """

    start: batch.Start
    state: BrokerState = BrokerState.TOLD
    started: batch.Started | None = None
    ended: batch.BrokerEnded | None = None


class Brokers:
    """All brokers of a node, by job. Methods return the actions to carry out.

    Args:
        holds_scripts: the site's hooks run before anything of an allocation may.
    """

    def __init__(self, holds_scripts: bool = False) -> None:
        self._holds_scripts = holds_scripts
        self._brokers: dict[int, Broker] = {}

    def __len__(self) -> int:
        return len(self._brokers)

    @property
    def job_ids(self) -> tuple[int, ...]:
        """The jobs whose brokers bebopd must know of, ascending."""
        brokers = self._brokers.items()
        return tuple(sorted(job_id for job_id, each in brokers if each.state is not _TOLD))

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

    # -- from bebopd -------------------------------------------------------

    def told(self, message: batch.Start) -> list[Action]:
        """Start a broker when its grant is here. bebopd may say so twice."""
        self._brokers.setdefault(message.job_id, Broker(message))
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

    def end(self, message: batch.EndBroker) -> list[Action]:
        """End a broker, which ends its job; or kill it."""
        if not self._is_alive(message.job_id):
            return []
        if message.is_forced:
            return [KillBroker(message.job_id)]
        return [TellBroker(message.job_id, message)]

    def pass_on(
        self, message: batch.SignalScript | batch.LimitTime | batch.Suspend
    ) -> list[Action]:
        """For the broker of a job to see to: signal its script, limit its time, suspend it."""
        return [TellBroker(message.job_id, message)] if self._is_alive(message.job_id) else []

    def heard(self, message: batch.Heard) -> list[Action]:
        """bebopd has the end of a broker on its disk."""
        broker = self._brokers.get(message.job_id)
        if broker is not None and broker.state is BrokerState.ENDED:
            del self._brokers[message.job_id]
        return []

    def unheard(self, bebopd: PortalId) -> list[Action]:
        """Tell bebopd, which may be another one, of what runs, and of ends it has not heard."""
        told = [broker.ended or broker.started for broker in self._brokers.values()]
        return [Send(bebopd, message) for message in told if message is not None]

    def _is_alive(self, job_id: int) -> bool:
        broker = self._brokers.get(job_id)
        return broker is not None and broker.state in (BrokerState.STARTING, BrokerState.RUNNING)

    # -- from this host ----------------------------------------------------

    def happened(self, event: BrokerEvent, bebopd: PortalId) -> list[Action]:
        """A broker runs, or has ended."""
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
            case BrokerGone(job_id, wait_status, outcome):
                broker.state = BrokerState.ENDED
                broker.ended = batch.BrokerEnded(job_id, wait_status, outcome)
                return [Log("its broker has ended", job_id), Send(bebopd, broker.ended)]
        raise AssertionError(f"no case for {event!r}")
