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
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from native.ids import ObjectKey, PortalId, Principal
from native.wire import codec
from native.wire.base import Message


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


PortEvent = Received | Refused | PeerLost | ObjectArrived | ObjectSent | ObjectFailed


class Port(Protocol):
    """Messages and objects in, events out. One thread."""

    @property
    def id(self) -> PortalId:
        """Own address; pid is 2**16 or more when the port does not listen."""

    def fileno(self) -> int:
        """A descriptor that is readable while :meth:`events` has something to do."""

    def events(self) -> list[PortEvent]:
        """Drive the transport and take what has happened, a bounded batch.

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

    def close(self, flush_s: float = 2.0) -> None:
        """Flush for at most ``flush_s`` seconds, then end every connection."""


class Hub:
    """Joins the memory ports of one process."""

    def __init__(self) -> None:
        self.ports: dict[PortalId, MemoryPort] = {}
        self._next_pid = 1

    def port(self, principal: Principal) -> MemoryPort:
        """A new port whose peers see it as ``principal``."""
        port = MemoryPort(self, PortalId(1, self._next_pid), principal)
        self._next_pid += 1
        self.ports[port.id] = port
        return port


class _Incoming(Struct, frozen=True):
    """An object that a port expects."""

    fd: int
    size: int
    children: list[PortalId]


class MemoryPort:
    """A port whose peers are the other ports of the same :class:`Hub`."""

    COPY_BYTES = 1 << 20  # copied at a time

    def __init__(self, hub: Hub, own_id: PortalId, principal: Principal) -> None:
        self._hub = hub
        self._id = own_id
        self._principal = principal
        self._queue: deque[PortEvent] = deque()
        self._seen: set[PortalId] = set()  # peers with traffic in either direction
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._incoming: dict[ObjectKey, _Incoming] = {}

    @property
    def id(self) -> PortalId:
        """Own address."""
        return self._id

    def fileno(self) -> int:
        """Readable while an event is queued."""
        return self._eventfd

    def events(self) -> list[PortEvent]:
        """Everything queued so far."""
        if not self._queue:
            return []
        os.eventfd_read(self._eventfd)
        events = list(self._queue)
        self._queue.clear()
        return events

    def send(self, target: PortalId, message: Message) -> None:
        """Hand the message over; it is immutable, so no copy is made."""
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
        os.close(self._eventfd)
        self._queue.clear()

    def disconnect(self, peer: PortalId) -> None:
        """Tell one peer that this port has disconnected from it."""
        if peer in self._seen and (other := self._hub.ports.get(peer)) is not None:
            self._seen.discard(peer)
            other._seen.discard(self._id)
            other._put(PeerLost(self._id, Loss.CLOSED, "has closed the connection"))

    def _put(self, event: PortEvent) -> None:
        if not self._queue:
            os.eventfd_write(self._eventfd, 1)
        self._queue.append(event)
