"""One launch server and its clients, in one loop on a virtual clock."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from native.limits import Limits
from native.machine import DeadlineReached, Event
from native.wire import client as wire
from native.wire.alloc import Refused, Released
from native.wire.base import SLOTS_MAX, Message
from partition.find.kept import KeptPartitions
from partition.session import events
from partition.up.embedded import EmbeddedPartition
from tests.sim.clock import TRACE_SHOWN, Clock, Violation
from tests.sim.launchers import make_plan
from tests.sim.server import rules
from tests.sim.server.client import Client, Wish
from tests.sim.server.doors import Descriptors, Helpers, closed
from tests.sim.server.given import Gifts
from tests.sim.server.keepers import Keeper
from tests.sim.server.link import Channel
from tests.sim.server.loop import Loop
from tests.sim.server.record import Record, ServedTruth
from tests.sim.server.watchers import Slots, WatchedSession
from tests.sim.system import Host
from yod.plan.plan import Plan

ENDS_S = 200.0  # the longest that a client may take, whatever happens
SETTLE_S = 100.0


class NoSpawner:
    """In place of the partition's own spawner: no PMIx server is started."""

    unix_pid = 1


@contextmanager
def _uncollected() -> Iterator[None]:
    """No collections of garbage, which find next to nothing; the server hardly has any, too."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class ServerSim:
    """The world.

    Attributes:
        clients: all that have ever come.
        living: how many of them have not ended.
        most: sessions at a time, the highest number.
        is_ending: the server was told to end.
        gifts: streams that clients have given.
        starting: the keeper that is being asked for.
        on_entered: called when a client, or its launch, has come to a phase.
        struck: faults that have struck, and when.
        looked_at: the most jobs that were looked at for one event.
    """

    def __init__(self, seed: int, limits: Limits | None = None, slots: int | None = None) -> None:
        self.clock = Clock(seed)
        self.loop = Loop(self.clock)
        self.limits = limits or Limits()
        self.host = Host(self.clock, "n0")
        self.fds = Descriptors()
        self.gifts = Gifts(self)
        self.helpers = Helpers(self)
        self.slots = Slots(slots or SLOTS_MAX)
        self.truths: dict[int, ServedTruth] = {}
        self.clients: list[Client] = []
        self.living = 0
        self.most = 0
        self.is_ending = False
        self.starting: Keeper | None = None
        self.on_entered: Callable[[Record, object], None] = lambda record, phase: None
        self.struck: set[tuple[object, object]] = set()
        self.looked_at = 0
        self._sessions: dict[Any, Client] = {}
        self._plans: dict[int, tuple[Plan, Record]] = {}
        self._starts: dict[tuple[Client, int], Keeper] = {}
        self._slots_wanted = slots
        self.partition: EmbeddedPartition

    def run(self, play: Callable[[], None]) -> None:
        """Open the server, let something happen, and close it; a failure shows the trace."""
        with ExitStack() as stack:
            stack.enter_context(closed(self))
            stack.enter_context(_uncollected())
            stack.callback(self.loop.reactor.close)
            try:
                self.partition = EmbeddedPartition(
                    self.loop.reactor,
                    self.limits,
                    NoSpawner(),  # type: ignore[arg-type]
                    slots=self._slots_wanted,
                    first_job_id=1,
                )
                self._others = KeptPartitions(self.loop.reactor)
                self.loop.rearm()
                self.clock.run(1.0)
                play()
            except Violation as error:
                raise Violation(f"{error}\n\n{self._trace()}") from error
            except Exception as error:
                raise AssertionError(f"{error!r}\n\n{self._trace()}") from error

    def unix_time(self) -> float:
        """Wall-clock time."""
        return 1_700_000_000.25 + self.clock.now

    # -- clients ------------------------------------------------------------------

    def connect(self, wish: Wish, after_s: float) -> Client:
        """A user starts a client, so much later."""
        client = Client(self, len(self.clients) + 1, wish)
        self.clients.append(client)
        self.living += 1
        self.clock.after(after_s, client.begin)
        return client

    def accept(self, client: Client) -> bool:
        """What the server does with a new connection."""
        if self.is_ending or len(self._sessions) >= self.limits.launches_count:
            return False
        session = WatchedSession(
            client,  # type: ignore[arg-type]
            client.unix_pid,
            self.loop.reactor,
            self.limits,
            self.partition,
            self._others,
            self.helpers,  # type: ignore[arg-type]
            self._over,
            lambda: None,
            lambda line: None,
        )
        self._sessions[session] = client
        self.most = max(self.most, len(self._sessions))
        self.loop.enter(None, session.open)
        return True

    def _over(self, session: Any) -> None:
        if self._sessions.pop(session, None) is None:
            raise Violation("a session is over twice")

    def end(self) -> None:
        """The server is told to end."""
        self.is_ending = True
        for session in list(self._sessions):
            self.loop.enter(None, session.handle, events.ServerEnds())

    def client_of(self, session: Any) -> Client:
        """Whose session it is."""
        return self._sessions[session]

    def starting_of(self, client: Client, number: int) -> Keeper:
        """What a START is to start."""
        return self._starts.pop((client, number))

    def told_to_start(self, client: Client, message: wire.Start) -> None:
        """The server sends a START."""
        assert self.starting is not None
        self._starts[client, message.keeper] = self.starting
        self.starting = None

    # -- launches -----------------------------------------------------------------

    def plan_of(self, record: Record) -> Plan:
        """What a helper has prepared."""
        plan, _ = make_plan(record.job)
        self._plans[id(plan)] = plan, record
        return plan

    def record_of_plan(self, plan: Plan) -> Record:
        """Whose plan it is."""
        return self._plans[id(plan)][1]

    def record_of_channel(self, channel: Any) -> Record:
        """Whose connection it is."""
        assert isinstance(channel, Channel)
        return channel.record

    def watch(self, record: Record, message: Message) -> None:
        """A launch gets a message from the partition."""
        if isinstance(message, Refused):
            record.was_refused = True
        if isinstance(message, Released) and not message.unreachable:
            record.was_confirmed = True

    def entered(self, record: Record, phase: object) -> None:
        """A client, or its launch, has come to a phase."""
        self.on_entered(record, phase)

    # -- rules at each event ------------------------------------------------------

    def freed(self, job_id: int) -> None:
        """bebopd takes slots back."""
        self.slots.frees(job_id)
        truth = self.truths.get(job_id)
        if truth is not None and not truth.is_forsaken and (left := truth.living()):
            raise Violation(f"rule 1: job {job_id} is freed, and {left} live")

    def looks_at(self, event: Event, count: int) -> None:
        """The node, or bebopd, has gone through so many jobs for one event."""
        if not isinstance(event, DeadlineReached):  # many may have one deadline
            self.looked_at = max(self.looked_at, count)

    def check_window(self, client: Client, in_flight: int) -> None:
        """A client has so many bytes of one stream to write."""
        own = len(client.record.own)
        most = wire.OUTPUT_WINDOW_BYTES + min(own, wire.OWN_LINE_MAX_BYTES)
        if in_flight > most:
            raise Violation(f"{client.name}: {in_flight} bytes of a stream are on their way")

    # -- the run ------------------------------------------------------------------

    def finish(self) -> None:
        """Run until all clients have ended, and look at what is left."""
        self.clock.run(self.clock.now + ENDS_S, lambda: not self.living)
        self.clock.run(self.clock.now + SETTLE_S)
        rules.check_at_rest(self)

    @property
    def sessions(self) -> int:
        """How many there are."""
        return len(self._sessions)

    def _trace(self) -> str:
        return f"last events (SIM_TRACE=5000 shows more):\n{self.clock.last(TRACE_SHOWN)}"
