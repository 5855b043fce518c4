"""The message port: what drivers use of the transport.

A port sends typed messages, forwards objects (shipped files) down a tree and
yields events. There are two: :class:`native.port.portals.PortalsPort` over the C transport and
:class:`MemoryPort` here, whose peers live in the same process (the embedded
partition, tests). One parametrised suite holds both to this page:

* Messages between one pair of ports arrive in the order they were sent, once
  and whole, or the sender gets :class:`PeerLost` for that peer. ``PeerLost`` is
  delivered once per death, after every message that arrived before it; all that
  was not yet delivered to the peer is lost with it.
* A later ``send`` to a lost peer tries anew, and may reach a restarted process.
* ``send`` never blocks and never calls back: everything that happens is an event
  taken with :meth:`Port.events`.
* An object lands in the receiver's file while its chunks already go on to the
  receiver's children; no byte of it becomes a Python object.
"""

from __future__ import annotations

import os
import time
from _blake2 import blake2b
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from native.ids import ObjectKey, PortalId, Principal
from native.wire import codec
from native.wire.alloc import Grant
from native.wire.base import Message

if TYPE_CHECKING:
    from native.loop.reactor import Owner, Reactor

# Most events that a port gives at once, so in one turn of the loop. Each takes a driver some
# 0.1 ms; in the time that these take together the other descriptors of the loop wait.
EVENTS_PER_TURN = 32
LISTENERS_PER_TURN = 8  # that a hub calls in one turn


class Loss(IntEnum):
    """Why a peer cannot be reached."""

    UNREACHABLE = 1  # no connection could be made
    WRONG_KEY = 2  # one end does not hold the key the other asked for
    WRONG_VERSION = 3  # no protocol version in common
    WRONG_PEER = 4  # the process there is not the one that was dialled
    CLOSED = 5  # it closed the connection in an orderly way
    DIED = 6  # the connection broke, or the peer stopped answering
    RESTARTED = 7  # the same address, another process
    MISBEHAVED = 8  # it broke the transport's protocol and was cut off
    REFUSED = 9  # it refused the connection for another reason
    CROWDED = 10  # it has too many connections that have not proven who they are
    CREDENTIAL = 11  # it does not take our credential of MUNGE
    UNREAD = 12  # its user reads too little of what is sent


class Received(Struct, frozen=True):
    """A message has arrived.

    Attributes:
        source: who sent it; replies go there.
        principal: what the sender has proven.
        message: decoded and within its limits.
    """

    source: PortalId
    principal: Principal
    message: Message


class Refused(Struct, frozen=True):
    """Bytes arrived that are no message; the text says why."""

    source: PortalId
    principal: Principal
    reason: str


class PeerLost(Struct, frozen=True):
    """A peer is gone; what it had not yet received is lost.

    Attributes:
        text: why, to be put behind the peer's name: "has died".
    """

    peer: PortalId
    loss: Loss
    text: str


class PeerIdle(Struct, frozen=True):
    """Nothing has passed to or from a daemon for the port's ``idle_s``; see :meth:`Port.part`."""

    peer: PortalId


class ObjectArrived(Struct, frozen=True):
    """Every byte of an object is in the file given to :meth:`Port.receive_object`.

    Attributes:
        digest: BLAKE2b-256 of what landed, 32 bytes; the caller compares it.
        first_chunk_at: seconds, monotonic clock, when chunk 0 was whole.
        last_chunk_at: the same for the last one.
    """

    key: ObjectKey
    digest: bytes
    first_chunk_at: float
    last_chunk_at: float


class ObjectSent(Struct, frozen=True):
    """Every child has all of the object: its file is no longer needed here."""

    key: ObjectKey


class ObjectFailed(Struct, frozen=True):
    """An object cannot be completed: a peer of it was lost, or a file failed.

    Attributes:
        is_consequence: the cause is told by another event, here (:class:`PeerLost`)
            or at the peer that did not take the object.
    """

    key: ObjectKey
    text: str
    is_consequence: bool = False


PortEvent = Received | Refused | PeerLost | PeerIdle | ObjectArrived | ObjectSent | ObjectFailed


class Listener(Protocol):
    """Ends what :meth:`Port.listen` has begun."""

    def close(self) -> None:
        """Call no more."""


class Port(Protocol):
    """Messages and objects in, events out. One thread."""

    @property
    def id(self) -> PortalId:
        """Own address; pid is 2**16 or more when the port does not listen."""

    def fileno(self) -> int:
        """A descriptor that is readable while :meth:`events` has something to do."""

    def listen(self, reactor: Reactor, call: Callable[[], None]) -> Listener:
        """Call in the loop while :meth:`events` has something to do, for the present owner.

        As :meth:`Reactor.watch` of :meth:`fileno`, maybe by a shorter way. One at a time.
        """

    def events(self) -> list[PortEvent]:
        """Drive the transport and take what has happened, at most EVENTS_PER_TURN events.

        The descriptor stays readable when more is left.
        """

    def send(self, target: PortalId, message: Message) -> None:
        """Send one message. Raises ValueError when it exceeds MESSAGE_MAX_BYTES."""

    def receive_object(
        self,
        key: ObjectKey,
        fd: int,
        size: int,
        chunk_bytes: int,
        children: list[PortalId],
    ) -> None:
        """Expect an object and pass each chunk on to the children as it lands.

        Args:
            key: names the object at the sender, here and at the children.
            fd: a file open for reading and writing that already holds ``size``
                bytes of allocated room. The port keeps no reference to it after
                ``ObjectArrived`` and ``ObjectSent`` (or ``ObjectFailed``).
            size: bytes, at least 1.
            chunk_bytes: the unit of forwarding; the same at every node.
            children: who gets it from here; each must be expecting it.

        Only a process that holds the partition's key or this job's may deliver it.
        """

    def send_object(
        self,
        key: ObjectKey,
        fd: int,
        size: int,
        chunk_bytes: int,
        targets: list[PortalId],
    ) -> None:
        """Send a file as an object; ends in ``ObjectSent`` or ``ObjectFailed``.

        The file is read with pread as the connections drain, a few chunks ahead;
        one that shrinks ends in ``ObjectFailed``.
        """

    def cancel_object(self, key: ObjectKey) -> None:
        """Forget an object. No event about it follows; unknown keys are ignored."""

    def disconnect(self, peer: PortalId) -> None:
        """End the connection to a peer; unsent messages to it are flushed first."""

    def part(self, peer: PortalId) -> None:
        """Close the connection to a daemon that needs it no more than this end does.

        Neither hears of a loss, and a later :meth:`send` opens another one.
        """

    def close(self, flush_s: float = 2.0) -> None:
        """Flush for at most ``flush_s`` seconds, then end every connection."""


class Opened(Protocol):
    """A launch's place in a partition."""

    bebopd: PortalId

    @property
    def port(self) -> Port:
        """The launch's port."""

    def use_grant(self, grant: Grant) -> None:
        """Open connections to the job's PCTs."""

    def close(self) -> None:
        """Leave: what is left of the job ends."""


class Hub:
    """Joins the memory ports of one process.

    In one turn of the loop it calls at most LISTENERS_PER_TURN listeners. A message and the
    answers to it mostly take one turn together, and no descriptor.
    """

    def __init__(self) -> None:
        self.ports: dict[PortalId, MemoryPort] = {}
        self._next_pid = 1
        self._ready: deque[MemoryPort] = deque()  # with a listener to be called
        self._is_called = False  # by the loop, in its next turn

    def port(self, principal: Principal) -> MemoryPort:
        """A new port whose peers see it as ``principal``."""
        port = MemoryPort(self, PortalId(1, self._next_pid), principal)
        self._next_pid += 1
        self.ports[port.id] = port
        return port

    def call(self, port: MemoryPort, reactor: Reactor) -> None:
        """Have a port's listener called in the next turn."""
        self._ready.append(port)
        if not self._is_called:
            self._is_called = True
            reactor.run_for(None, reactor.call_soon, partial(self._turn, reactor))

    def _turn(self, reactor: Reactor) -> None:
        ready = self._ready
        noisy: list[MemoryPort] = []
        self._is_called = False  # a listener may run the loop itself
        try:
            for _ in range(LISTENERS_PER_TURN):
                if not ready:
                    break
                port = ready.popleft()
                if port.call_listener():
                    noisy.append(port)
        finally:
            ready.extend(noisy)
            if ready and not self._is_called:
                self._is_called = True
                reactor.call_soon(partial(self._turn, reactor))


class _Incoming(Struct, frozen=True):
    """An object that a port expects."""

    fd: int
    size: int
    children: list[PortalId]


class _Listener:
    """Whom a memory port tells that it has events."""

    def __init__(self, reactor: Reactor, call: Callable[[], None]) -> None:
        self.reactor = reactor
        self.owner: Owner | None = reactor.owner
        self.call: Callable[[], None] | None = call
        self.is_ready = False  # the hub will call

    def close(self) -> None:
        """Call no more."""
        self.call = None


class MemoryPort:
    """A port whose peers are the other ports of the same :class:`Hub`."""

    COPY_BYTES = 1 << 20  # copied at a time

    def __init__(self, hub: Hub, own_id: PortalId, principal: Principal) -> None:
        self._hub = hub
        self._id = own_id
        self._principal = principal
        self._queue: deque[PortEvent] = deque()
        self._seen: set[PortalId] = set()  # peers with traffic in either direction
        self._eventfd = -1  # made for who asks for it
        self._listener: _Listener | None = None
        self._incoming: dict[ObjectKey, _Incoming] = {}

    @property
    def id(self) -> PortalId:
        """Own address."""
        return self._id

    def fileno(self) -> int:
        """Readable while an event is queued."""
        if self._eventfd < 0:
            self._eventfd = os.eventfd(bool(self._queue), os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return self._eventfd

    def listen(self, reactor: Reactor, call: Callable[[], None]) -> Listener:
        """Call while an event is queued."""
        self._listener = _Listener(reactor, call)
        if self._queue:
            self._wake(self._listener)
        return self._listener

    def call_listener(self) -> bool:
        """Call the listener; whether events are left, for the next turn."""
        listener = self._listener
        if listener is None or listener.call is None:
            return False
        listener.is_ready = False
        if not listener.reactor.run_for(listener.owner, listener.call):
            listener.close()
            return False
        is_left = bool(self._queue) and not listener.is_ready
        listener.is_ready |= is_left
        return is_left

    def events(self) -> list[PortEvent]:
        """The oldest of what is queued, at most EVENTS_PER_TURN events."""
        if not self._queue:
            return []
        count = min(len(self._queue), EVENTS_PER_TURN)
        events = [self._queue.popleft() for _ in range(count)]
        if self._eventfd >= 0 and not self._queue:  # else it stays readable
            os.eventfd_read(self._eventfd)
        return events

    def send(self, target: PortalId, message: Message) -> None:
        """Hand the message over; it is immutable, so no copy is made."""
        if not message.comes_cut:
            codec.encode(message)  # no larger than the transport would take
        peer = self._hub.ports.get(target)
        if peer is None:
            self._put(
                PeerLost(target, Loss.UNREACHABLE, "cannot be reached: nothing listens there")
            )
            return
        self._seen.add(target)
        peer._seen.add(self._id)
        peer._put(Received(self._id, self._principal, message))

    def receive_object(
        self, key: ObjectKey, fd: int, size: int, chunk_bytes: int, children: list[PortalId]
    ) -> None:
        """Expect an object; it comes in one piece."""
        self._incoming[key] = _Incoming(fd, size, children)

    def send_object(
        self, key: ObjectKey, fd: int, size: int, chunk_bytes: int, targets: list[PortalId]
    ) -> None:
        """Copy the file to every target, and on to the targets' children."""
        if os.fstat(fd).st_size < size:
            self._put(ObjectFailed(key, "the file has shrunk"))
            return
        for target in targets:
            peer = self._hub.ports.get(target)
            if peer is None or not peer._take_object(key, fd, size):
                self._put(ObjectFailed(key, f"{target} does not expect it"))
                return
        self._put(ObjectSent(key))

    def cancel_object(self, key: ObjectKey) -> None:
        """Forget an object."""
        self._incoming.pop(key, None)

    def _take_object(self, key: ObjectKey, source_fd: int, size: int) -> bool:
        incoming = self._incoming.pop(key, None)
        if incoming is None or incoming.size != size:
            return False
        began = time.monotonic()
        digest = blake2b(digest_size=32)
        for offset in range(0, size, self.COPY_BYTES):
            data = os.pread(source_fd, min(self.COPY_BYTES, size - offset), offset)
            os.pwrite(incoming.fd, data, offset)
            digest.update(data)
        self._put(ObjectArrived(key, digest.digest(), began, time.monotonic()))
        if incoming.children:
            self.send_object(key, incoming.fd, size, size, incoming.children)
        return True

    def close(self, flush_s: float = 2.0) -> None:
        """Leave the hub; every peer that this port has talked to is told."""
        if self._hub.ports.pop(self._id, None) is None:
            return
        for peer_id in self._seen:
            if (peer := self._hub.ports.get(peer_id)) is not None:
                peer._seen.discard(self._id)
                peer._put(PeerLost(self._id, Loss.CLOSED, "has closed the connection"))
        if self._eventfd >= 0:
            os.close(self._eventfd)
        self._listener = None
        self._queue.clear()

    def disconnect(self, peer: PortalId) -> None:
        """Tell one peer that this port has disconnected from it."""
        if peer in self._seen and (other := self._hub.ports.get(peer)) is not None:
            self._seen.discard(peer)
            other._seen.discard(self._id)
            other._put(PeerLost(self._id, Loss.CLOSED, "has closed the connection"))

    def part(self, peer: PortalId) -> None:
        """A port in memory has no connections."""

    def _put(self, event: PortEvent) -> None:
        self._queue.append(event)
        if len(self._queue) == 1:
            if self._eventfd >= 0:
                os.eventfd_write(self._eventfd, 1)
            if self._listener is not None:
                self._wake(self._listener)

    def _wake(self, listener: _Listener) -> None:
        if not listener.is_ready:
            listener.is_ready = True
            self._hub.call(self, listener.reactor)
