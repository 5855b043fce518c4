"""Ports to partitions that a process keeps from one launch to the next.

To open a port, to prove one's user to bebopd and to say goodbye takes a tenth of what a short
launch takes in all, and the goodbye waits for the peers in the loop. So a port whose launch has
ended well stays with its connection to bebopd, and the next launch of the same user to the same
partition takes it. It has no other launch meanwhile. Connections to PCTs prove one job, and end
with it: a port is lent again only when they are gone at both ends. What comes from PCTs about
another job than the launch's own is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from native.ids import ObjectKey, PortalId
from native.limits import Limits
from native.loop.reactor import Reactor
from native.port.port import Listener, Opened, PeerLost, PortEvent, Received
from native.wire.alloc import Grant, NodeRequest, Release, Released
from native.wire.base import JobMessage, Message
from partition.find.remote import RemotePartition
from yod.plan.reach import Reach

_To = tuple[str, bytes, int | None, float, float, int]


class KeptPartitions:
    """The ports of one process that are lent to launches, and those that wait for one."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._waiting: deque[_Kept] = deque()  # the one that has waited longest first
        self._timer = reactor.timer(self._expire)
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, reach: Reach, limits: Limits) -> Opened:
        """A launch's place in a partition: a port of its own until it is closed.

        Raises:
            PtlError: the system refused.
            UsageError: the address cannot be dialled.
        """
        if reach.credential or not limits.kept_ports_count:  # a credential is used once
            return RemotePartition(reach, limits)
        to = _to(reach, limits)
        for kept in [each for each in self._waiting if each.to == to]:
            if kept.take_news():
                self._drop(kept)
            elif kept.is_free:
                self._waiting.remove(kept)
                kept.rest_ends()
                return Lent(self, to, kept.partition, limits)
        return Lent(self, to, RemotePartition(reach, limits), limits)

    def keep(self, to: _To, partition: RemotePartition, limits: Limits) -> bool:
        """Take a port back from a launch that has ended well; False: it is to be closed."""
        if self._is_closed:
            return False
        if len(self._waiting) >= limits.kept_ports_count:
            self._drop(self._waiting[0])
        until = self._reactor.monotonic() + limits.kept_port_s
        kept = _Kept(to, partition, until)
        self._waiting.append(kept)
        self._reactor.run_for(None, kept.rest, self._reactor, partial(self._news, kept))
        if self._timer.at is None:
            self._timer.set(until)
        return True

    def close(self) -> None:
        """Close what waits; what is lent is closed when it comes back."""
        self._is_closed = True
        self._timer.close()
        while self._waiting:
            self._drop(self._waiting[0])

    def _news(self, kept: _Kept) -> None:
        if kept.take_news():
            self._drop(kept)

    def _expire(self) -> None:
        now = self._reactor.monotonic()
        for kept in [each for each in self._waiting if each.until <= now]:
            self._drop(kept)
        if self._waiting:
            self._timer.set(min(each.until for each in self._waiting))

    def _drop(self, kept: _Kept) -> None:
        self._waiting.remove(kept)
        kept.close()


class _Kept:
    """A port that waits for a launch.

    Attributes:
        to: whom its connection reaches, and how.
        until: it is closed then.
    """

    def __init__(self, to: _To, partition: RemotePartition, until: float) -> None:
        self.to = to
        self.partition = partition
        self.until = until
        self._listener: Listener | None = None

    @property
    def is_free(self) -> bool:
        """The connection to bebopd is all that it has."""
        return self.partition.port.connections() == 1

    def rest(self, reactor: Reactor, on_news: Callable[[], None]) -> None:
        """Answer bebopd's signs of life, and the goodbyes of PCTs."""
        self._listener = self.partition.port.listen(reactor, on_news)

    def rest_ends(self) -> None:
        """Leave the events to a launch."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def take_news(self) -> bool:
        """Drop what is left for the earlier launch; whether bebopd is lost."""
        while events := self.partition.port.events():
            for event in events:
                if isinstance(event, PeerLost) and event.peer == self.partition.bebopd:
                    return True
        return False

    def close(self) -> None:
        """Close it. Nothing is left to be sent."""
        self.rest_ends()
        self.partition.port.close(flush_s=0.0)


class Lent:
    """A port while a launch has it, and that launch's place in the partition.

    Attributes:
        bebopd: the id to send requests to.
        port: the launch's own, which is this.
    """

    def __init__(
        self, partitions: KeptPartitions, to: _To, partition: RemotePartition, limits: Limits
    ) -> None:
        self.bebopd: PortalId = partition.bebopd
        self._partitions = partitions
        self._to = to
        self._partition = partition
        self._port = port = partition.port
        self._limits = limits
        self._job_id = 0  # from the grant
        self._peers: set[PortalId] = set()  # but for bebopd
        self._owed = 0  # answers of bebopd
        self._is_released = False
        self._is_doubtful = False  # something has happened that is none of a plain launch
        self._is_closed = False
        self.fileno = port.fileno
        self.listen = port.listen
        self.receive_object = port.receive_object
        self.cancel_object = port.cancel_object
        self.disconnect = port.disconnect
        self.part = port.part

    @property
    def id(self) -> PortalId:
        """Own address."""
        return self._port.id

    @property
    def port(self) -> Lent:
        """The launch's port."""
        return self

    def use_grant(self, grant: Grant) -> None:
        """Use the job's key for connections from now on."""
        self._job_id = grant.job_id
        self._partition.use_grant(grant)

    def send(self, target: PortalId, message: Message) -> None:
        """Send one message. Raises ValueError when it exceeds MESSAGE_MAX_BYTES."""
        self._port.send(target, message)
        if target != self.bebopd:
            self._peers.add(target)
        elif isinstance(message, (NodeRequest, Release)):
            self._owed += 1

    def send_object(
        self, key: ObjectKey, fd: int, size: int, chunk_bytes: int, targets: list[PortalId]
    ) -> None:
        """Send a file as an object; ends in ``ObjectSent`` or ``ObjectFailed``."""
        self._peers.update(targets)
        self._port.send_object(key, fd, size, chunk_bytes, targets)

    def events(self) -> list[PortEvent]:
        """Drive the transport and take what has happened, at most EVENTS_PER_TURN events."""
        return [event for event in self._port.events() if self._is_ours(event)]

    def _is_ours(self, event: PortEvent) -> bool:
        if not isinstance(event, Received):
            self._is_doubtful |= isinstance(event, PeerLost)
            return True
        message = event.message
        if event.source != self.bebopd:
            return isinstance(message, JobMessage) and message.job_id == self._job_id
        if isinstance(message, Grant):
            self._owed -= 1
        elif isinstance(message, Released):
            self._owed -= 1
            self._is_released = message.job_id == self._job_id
            self._is_doubtful |= bool(message.unreachable_ranges)
        return True

    def close(self, flush_s: float = 2.0) -> None:
        """Give the port back; one whose launch has not ended well is closed."""
        if self._is_closed:
            return
        self._is_closed = True
        port = self._port
        if self._is_released and not (self._owed or self._is_doubtful or port.is_worn):
            for peer in self._peers:
                port.disconnect(peer)
            port.use_key(None, None)  # the job's is no longer known here
            if self._partitions.keep(self._to, self._partition, self._limits):
                return
        port.close(flush_s)


def _to(reach: Reach, limits: Limits) -> _To:
    waits = limits.connect_s, limits.liveness_s, limits.sending_bytes
    return reach.address, reach.key, reach.key_uid, *waits
