"""One machine with its fake driver: events in, actions out, checks after each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from native.errors import IllegalTransition, PeerProtocolError
from native.ids import PortalId, Principal
from native.machine import Action, DeadlineReached, Event, MessageReceived
from native.wire.base import Message
from tests.sim.clock import SPINS_MAX, Violation
from tests.sim.network import Process

if TYPE_CHECKING:
    from tests.sim.world import Sim


FOR_EVER = float("inf")


class Machine(Protocol):
    """What every machine of the partition offers."""

    def handle(self, event: Event, now: float) -> list[Action]: ...

    def deadline(self) -> float | None: ...

    def check(self) -> None: ...


class Actor:
    """A process of the partition.

    Attributes:
        events: handled so far.
        stopped_until: SIGSTOP; what happens to it waits.
        dies_at: (events, actions) at which the process is killed: in the handling
            of that event, after so many of its actions.
    """

    def __init__(self, sim: Sim, process: Process, machine: Machine) -> None:
        self.sim = sim
        self.process = process
        self.events = 0
        self.stopped_until = 0.0
        self.dies_at: tuple[int, int] | None = None
        self._machine = machine
        self._timer_due: float | None = None
        self._spins = 0
        process.on_message = self._message
        process.on_gone = self.lost
        sim.network.add(process)

    @property
    def name(self) -> str:
        """Who this is in traces."""
        return self.process.name

    def perform(self, action: Action) -> None:
        """Carry out one action."""
        raise NotImplementedError

    def lost(self, peer: PortalId, text: str) -> None:
        """A peer is out of reach."""
        raise NotImplementedError

    def gone(self) -> None:
        """The process has been killed; what else that ends."""

    def die(self, is_silent: bool = False) -> None:
        """SIGKILL; or, silently, its host without power."""
        if self.process.is_alive:
            self.sim.clock.note(self.name, "KILLED")
            self.sim.network.die(self.process, is_silent)
            self.gone()
            self.sim.has_died(self, is_silent)

    def _message(self, source: PortalId, principal: Principal, message: Message) -> None:
        self.handle(MessageReceived(source, principal, message))

    def handle(self, event: Event) -> None:
        """Give the machine an event, check it, do what it says."""
        if not self.process.is_alive:
            return
        sim = self.sim
        if sim.clock.now < self.stopped_until:
            if self.stopped_until != FOR_EVER:
                sim.clock.at(self.stopped_until, lambda: self.handle(event))
            return
        sim.clock.note(self.name, event)
        self.events += 1
        try:
            actions = self._machine.handle(event, sim.clock.now)
            self._machine.check()
        except PeerProtocolError as error:
            if isinstance(event, MessageReceived) and event.source in sim.liars:
                return
            raise Violation(f"{self.name}: refuses an honest peer: {error}") from error
        except IllegalTransition as error:
            raise Violation(f"{self.name}: {type(error).__name__}: {error}") from error
        except AssertionError as error:
            raise Violation(f"{self.name} after {event!r:.200}: check: {error}") from error
        self.act(actions)
        self.rearm()
        sim.check(self)

    def act(self, actions: list[Action]) -> None:
        """Carry out actions in order, as far as the process lives."""
        at_event = self.dies_at is not None and self.dies_at[0] == self.events
        for index, action in enumerate(actions):
            if at_event and self.dies_at is not None and index >= self.dies_at[1]:
                self.die()
            if not self.process.is_alive:
                return
            self.perform(action)
        if at_event:
            self.die()
        self.rearm()

    def rearm(self) -> None:
        """Be called at the machine's deadline."""
        due = self._machine.deadline()
        if due is None or due == self._timer_due or not self.process.is_alive:
            self._timer_due = due
            return
        self._timer_due = due
        self.sim.clock.at(due, lambda: self._due(due))

    def _due(self, due: float) -> None:
        if self._timer_due != due or not self.process.is_alive:
            return
        self._timer_due = None
        now = self.sim.clock.now
        self._spins += 1
        self.handle(DeadlineReached())
        following = self._machine.deadline()
        if following is None or following > now:
            self._spins = 0
        elif self._spins > SPINS_MAX:
            raise Violation(f"{self.name}: its deadline {following} never passes")
