"""What the transport does to messages: order, delay, death; see ``native/port/port.py``.

A connection joins two processes. What is sent over it arrives in order; when it
breaks, some of what was on its way still arrives, then each end that lives is
told once. A send without a connection dials.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from native.ids import PortalId, Principal
from native.port.port import ObjectArrived, ObjectFailed, ObjectSent
from native.wire import codec
from native.wire.base import Message
from tests.sim.clock import Clock, Violation

CONNECT_S = 5.0  # a dial that nobody answers
LIVENESS_S = (8.0, 20.0)  # until a silent host is noticed
DYNAMIC = 1 << 16  # pids from here on do not listen
BANDWIDTH = 1e9  # bytes a second


class Process:
    """An end of connections.

    Attributes:
        host: the name of its machine; whole hosts are cut off or die silently.
        on_message: called with source, principal and message.
        on_gone: called with the lost peer and a text.
        slowness: factor on what it sends and receives.
    """

    def __init__(self, name: str, host: str, own_id: PortalId) -> None:
        self.name = name
        self.host = host
        self.id = own_id
        self.is_alive = True
        self.slowness = 1.0
        self.connections: dict[PortalId, Connection] = {}
        self.principal_to: Callable[[Process], Principal]
        self.on_message: Callable[[PortalId, Principal, Message], None]
        self.on_gone: Callable[[PortalId, str], None]
        self.on_object: Callable[[ObjectArrived | ObjectSent | ObjectFailed], None]


class _Way:
    """One direction of a connection."""

    def __init__(self, receiver: Process) -> None:
        self.receiver = receiver
        self.last_due = 0.0
        self.in_flight: list[_Parcel] = []
        self.loss_due: float | None = None  # when the receiver learns of the end
        self.is_told = False
        self.loss_text = ""
        self.successor: Connection | None = None


class _Parcel(Struct):
    """A message on its way."""

    due: float
    message: Message
    is_dropped: bool = False


class Connection:
    """Two processes, or one and a dial that will fail (``target`` is None)."""

    def __init__(self, source: Process, target: Process | None, ready_at: float) -> None:
        self.ready_at = ready_at
        self.is_broken = target is None
        self.ends = (source, target)
        self.to: dict[Process, _Way] = {end: _Way(end) for end in self.ends if end is not None}

    def other(self, end: Process) -> Process | None:
        """The other end."""
        return self.ends[1] if end is self.ends[0] else self.ends[0]


class Network:
    """All processes, and what lies between them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.processes: dict[PortalId, Process] = {}
        self.latency_s = (1e-5, 2e-3)
        self.dead_hosts: set[str] = set()  # no answer at all, not even a refusal
        self.cuts: dict[frozenset[str], float] = {}  # two hosts -> when they heal
        self.fail_send: Callable[[Process, PortalId, Message], bool] = lambda *_: False
        self.watch_send: Callable[[Process, PortalId, Message], None] = lambda *_: None
        self.on_break: Callable[[Connection], None] = lambda connection: None

    # -- processes ----------------------------------------------------------

    def add(self, process: Process) -> None:
        """A process begins; at an address that an earlier one had, it is a restart."""
        self.processes[process.id] = process
        self.dead_hosts.discard(process.host)

    def die(self, process: Process, is_silent: bool = False) -> None:
        """A process is killed; silently: with its whole host, without a last packet."""
        process.is_alive = False
        if is_silent:
            self.dead_hosts.add(process.host)
        for connection in list(process.connections.values()):
            delay = self.clock.rng.uniform(*LIVENESS_S) if is_silent else 0.0
            self._break(connection, f"{process.name} died", delay, is_silent)

    def close(self, process: Process) -> None:
        """A process ends in order: all that it has sent arrives."""
        process.is_alive = False
        for connection in list(process.connections.values()):
            self._break(connection, f"{process.name} has closed", 0.0, keeps_all=True)

    def reset(self, one: Process, other: Process) -> None:
        """The connection of two processes breaks."""
        if (connection := one.connections.get(other.id)) is not None:
            self._break(connection, "connection reset", 0.0)

    def cut(self, one: str, other: str, duration_s: float) -> None:
        """Two hosts do not reach one another for a while."""
        heals_at = self.clock.now + duration_s
        pair = frozenset((one, other))
        self.cuts[pair] = heals_at
        noticed = self.clock.rng.uniform(*LIVENESS_S)
        if noticed < duration_s:
            self.clock.after(noticed, lambda: self._break_between(pair))

    def give_up(self, process: Process) -> None:
        """Its kernel takes every byte, and it answers nobody: its peers give it up in time."""

        def give_up() -> None:
            for connection in list(process.connections.values()):
                self._break(connection, "does not answer; it may be stopped", 0.0, drops_all=True)

        self.clock.after(self.clock.rng.uniform(*LIVENESS_S), give_up)

    def _break_between(self, pair: frozenset[str]) -> None:
        for process in list(self.processes.values()):
            for connection in list(process.connections.values()):
                source, target = connection.ends
                if target is not None and frozenset((source.host, target.host)) == pair:
                    self._break(connection, "timed out", 0.0, drops_all=True)

    # -- messages -------------------------------------------------------------

    def send(self, source: Process, target: PortalId, message: Message) -> None:
        """What :meth:`native.port.port.Port.send` does."""
        data = codec.encode(message)
        try:
            message = codec.decode(data)
        except Exception as error:
            raise Violation(f"{source.name} sends what nobody can read: {error}") from error
        self.watch_send(source, target, message)
        connection = source.connections.get(target)
        if connection is None:
            connection = self._dial(source, target)
        if connection.is_broken:
            return  # lost; its sender is told, or will be
        receiver = connection.other(source)
        assert receiver is not None
        if self.fail_send(source, target, message):
            self._break(connection, "connection reset", 0.0, drops_all=True)
            return
        way = connection.to[receiver]
        delay = self._delay(source, receiver) + len(data) / BANDWIDTH
        due = max(self.clock.now + delay, way.last_due, connection.ready_at)
        due = max(due, self.cuts.get(frozenset((source.host, receiver.host)), 0.0))
        way.last_due = due
        parcel = _Parcel(due, message)
        way.in_flight.append(parcel)
        self.clock.at(due, lambda: self._deliver(source, way, parcel))

    def _deliver(self, source: Process, way: _Way, parcel: _Parcel) -> None:
        if parcel.is_dropped:
            return
        way.in_flight.remove(parcel)
        if way.receiver.is_alive and not way.is_told:
            principal = source.principal_to(way.receiver)
            way.receiver.on_message(source.id, principal, parcel.message)

    def _delay(self, one: Process, other: Process) -> float:
        if one.host == other.host:
            return self.clock.rng.uniform(1e-6, 2e-5)
        return self.clock.rng.uniform(*self.latency_s) * one.slowness * other.slowness

    # -- connections ----------------------------------------------------------

    def _dial(self, source: Process, target_id: PortalId) -> Connection:
        target = self.processes.get(target_id)
        now = self.clock.now
        is_there = target is not None and target.is_alive and target_id.pid < DYNAMIC
        is_silent = target is not None and (
            target.host in self.dead_hosts
            or self.cuts.get(frozenset((source.host, target.host)), 0.0) > now
        )
        if target is None or not is_there or is_silent:
            connection = Connection(source, None, now)
            source.connections[target_id] = connection
            delay = CONNECT_S if is_silent and target_id.pid < DYNAMIC else 1e-3
            self._tell(connection, source, target_id, f"nothing answers at {target_id}", delay)
            return connection
        connection = Connection(source, target, now + 3 * self._delay(source, target))
        source.connections[target_id] = connection
        old = target.connections.get(source.id)
        if old is None:
            target.connections[source.id] = connection
            return connection
        # The other end does not know yet that the earlier one is gone: it learns
        # that first, from the new one's handshake.
        if not old.is_broken:
            self._break(old, "another process, or a new connection", 0.0, drops_all=True)
        way = old.to[target]
        while way.successor is not None:
            way = way.successor.to[target]
        way.successor = connection
        self._tell(old, target, source.id, "restarted", 3 * self._delay(source, target))
        told_at = old.to[target].loss_due
        assert told_at is not None
        connection.ready_at = max(connection.ready_at, told_at)
        return connection

    def _break(
        self,
        connection: Connection,
        text: str,
        delay_s: float,
        keeps_all: bool = False,
        drops_all: bool = False,
    ) -> None:
        if connection.is_broken:
            return
        connection.is_broken = True
        self.on_break(connection)
        for end, way in connection.to.items():
            other = connection.other(end)
            assert other is not None
            on_way = len(way.in_flight)
            kept = on_way if keeps_all else 0 if drops_all else self.clock.rng.randint(0, on_way)
            for parcel in way.in_flight[kept:]:
                parcel.is_dropped = True
            del way.in_flight[kept:]
            last = way.in_flight[-1].due if way.in_flight else 0.0
            delay = max(delay_s, last - self.clock.now) + self._delay(end, other)
            if not other.is_alive and self.clock.now < connection.ready_at:
                for parcel in way.in_flight:
                    parcel.is_dropped = True
                if end.connections.get(other.id) is connection:
                    del end.connections[other.id]  # it never knew of it
                continue
            self._tell(connection, end, other.id, text, delay)

    def _tell(
        self, connection: Connection, end: Process, peer: PortalId, text: str, delay_s: float
    ) -> None:
        """Tell an end that a connection is over, once, at the earliest time given."""
        way = connection.to[end]
        due = self.clock.now + delay_s
        if way.in_flight:
            due = max(due, way.in_flight[-1].due)
        if way.is_told or (way.loss_due is not None and way.loss_due <= due):
            return
        way.loss_due = due
        way.loss_text = way.loss_text or text

        def tell() -> None:
            if way.is_told or way.loss_due != due:
                return
            way.is_told = True
            if end.connections.get(peer) is connection:
                del end.connections[peer]
                following = way.successor
                while following is not None and following.to[end].is_told:
                    following = following.to[end].successor
                if following is not None:
                    end.connections[peer] = following
            if end.is_alive:
                end.on_gone(peer, way.loss_text)

        self.clock.at(due, tell)
