"""The message port over Portals: :class:`native.port.port.Port` between processes.

Messages are puts to portal table entry 0 of the receiver. There they land in
slabs, locally managed overflow entries that unlink themselves when less than one
message fits and are linked again when their last byte is free. A message is
decoded in :meth:`PortalsPort.events`, before its slab is given back.

When no slab has room the entry turns itself off; the senders' C holds what they
sent and tries again (TRANSPORT.md, "Frames and order"). The port turns the entry
on as soon as a slab is linked again, so the memory for arriving messages is
bounded however many peers send, and nothing is lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from native._native import lib
from native.errors import PeerProtocolError, UsageError, YodError
from native.ids import NID_ANY, PID_ANY, ObjectKey, PortalId, Principal, PrincipalKind
from native.port import endpoint
from native.port.address import parse_ipv4
from native.port.endpoint import Key
from native.port.losses import Verdict, loss_text
from native.port.port import (
    EVENTS_PER_TURN,
    Listener,
    Loss,
    ObjectArrived,
    ObjectFailed,
    ObjectSent,
    PeerIdle,
    PeerLost,
    PortEvent,
    Received,
    Refused,
)
from native.transport.raw import NO_LISTEN
from native.wire import codec
from native.wire.base import MESSAGE_MAX_BYTES, Message

if TYPE_CHECKING:
    from native.loop.reactor import Reactor

SLAB_BYTES = 1 << 19  # two messages; small slabs are used again soon, so their pages are present
SLABS = 3
ACK_DELAY_MS = 250  # an answer is mostly sent sooner, and the ack goes with it
TABLE_NIDS = 1 << 24  # nids below are places in the address table

_PUT: int = lib.PTL_EVENT_PUT
_AUTO_UNLINK: int = lib.PTL_EVENT_AUTO_UNLINK
_AUTO_FREE: int = lib.PTL_EVENT_AUTO_FREE
_PT_DISABLED: int = lib.PTL_EVENT_PT_DISABLED
_PEER_LOST: int = lib.PTLX_EVENT_PEER_LOST
_ARRIVED: int = lib.PTLX_EVENT_OBJECT_ARRIVED
_SENT: int = lib.PTLX_EVENT_OBJECT_SENT
_LEFT: int = lib.PTLX_EVENT_PEER_LEFT
_CREDENTIAL: int = lib.PTLX_EVENT_CREDENTIAL
_IDLE: int = lib.PTLX_EVENT_PEER_IDLE


class PartitionKey(NamedTuple):
    """Proves a daemon or an operator."""

    key: bytes


class UserKey(NamedTuple):
    """Proves a user of the partition's hosts."""

    uid: int
    key: bytes


class JobKey(NamedTuple):
    """Proves a process of one job, or its yod."""

    job_id: int
    uid: int
    expires: int  # seconds since 1970
    key: bytes


class LocalKey(NamedTuple):
    """No secret: the Unix socket's peer credentials prove the user."""


class MungeKey(NamedTuple):
    """Proves a user by a credential of MUNGE; an end has one at most.

    Attributes:
        secret: in the credential, where only the other end can read it.
    """

    uid: int
    secret: bytes
    credential: bytes


AnyKey = PartitionKey | UserKey | JobKey | LocalKey | MungeKey


class PortalsPort:
    """A port whose peers are reached over TCP or Unix sockets.

    Args:
        listener: a descriptor of a socket that listens there already; it is duplicated.
        listen: ``"127.0.0.1:0"``; port 0 takes a free one. None: this end does not
            listen, and is reached over connections that it opens.
        advertise: the IPv4 address that peers dial, when ``listen`` is 0.0.0.0.
        unix_path: a path to listen at as well.
        partition_key: 32 bytes. With it this end proves itself a daemon, and
            accepts every key that follows from it.
        uid: of this process, told to other daemons.
        connect_timeout_s: from a send to ``PeerLost`` when nobody answers.
        liveness_s: time after the last sign of life until a peer is lost. Its host gives them, and
            where it listens its process must, too (a stopped yod is not lost, a stopped PCT is).
        idle_s: after this without a message to or from a daemon comes ``PeerIdle``; 0: never.
        handshake_timeout_s: a connection that has not proven itself by then is closed.
        max_unproven: inbound connections that have not proven themselves, at most.
        max_unproven_each: the same of one user of this host, or of one other address.
        max_connections_each: proven ones of one user, but for root; 0: any number.
        max_unread_each: bytes of messages that wait until that user reads them; 0: any number.
        sending_bytes: buffers for all objects that are sent for one job.
        versions: lowest and highest protocol version, (0, 0): all known.

    Attributes:
        is_worn: memory for messages has been filled, which stays with the port.

    Raises:
        UsageError: ``listen`` is no address, or 0.0.0.0 without ``advertise``.
        InUseError: the port or the path is in use.
        PtlError: the system refused.
    """

    def __init__(
        self,
        *,
        listen: str | None = None,
        listener: int = 0,
        advertise: str | None = None,
        unix_path: str | None = None,
        partition_key: bytes | None = None,
        uid: int | None = None,
        connect_timeout_s: float = 5.0,
        liveness_s: float = 20.0,
        idle_s: float = 0.0,
        handshake_timeout_s: float = 5.0,
        max_unproven: int = 1024,
        max_unproven_each: int = 256,
        max_connections_each: int = 0,
        max_unread_each: int = 0,
        sending_bytes: int = 8 << 20,
        versions: tuple[int, int] = (0, 0),
    ) -> None:
        nid, pid = (0, NO_LISTEN) if listen is None else parse_ipv4(listen)
        if listen is not None and nid == 0 and advertise is None:
            raise UsageError(f"to listen at {listen} needs an address to advertise")
        self._uid = os.getuid() if uid is None else uid
        self._interface = endpoint.NetworkInterface(
            listen_nid=nid,
            listen_pid=pid,
            listen_fd=listener,
            advertise_nid=parse_ipv4(f"{advertise}:0")[0] if advertise else 0,
            unix_path=os.fsencode(unix_path) if unix_path is not None else None,
            partition_key=partition_key,
            uid=self._uid,
            connect_timeout_ms=round(connect_timeout_s * 1000),
            handshake_timeout_ms=round(handshake_timeout_s * 1000),
            liveness_ms=round(liveness_s * 1000),
            idle_ms=round(idle_s * 1000),
            max_unproven=max_unproven,
            max_unproven_each=max_unproven_each,
            max_connections_each=max_connections_each,
            max_unread_each=max_unread_each,
            sending_bytes=sending_bytes,
            ack_delay_ms=ACK_DELAY_MS,
            versions=versions,
            wants_answers=True,
        )
        self._id = PortalId(*self._interface.id())
        self._fileno = self._interface.fileno()
        self._peers: dict[int, tuple[PortalId, Principal]] = {}  # by connection
        self._table: dict[str, PortalId] = {}  # by path, from resolve()
        self._next_nid = TABLE_NIDS - 1  # own entries grow down, granted ones are low
        self._last: Message | None = None  # the next one sent is often the same, to another child
        self._last_data = b""
        self._makers: dict[PortalId, Callable[[], AnyKey]] = {}
        self._judge: Callable[[int, bytes], None] | None = None  # of credentials
        self._is_off = self.is_worn = False  # off: the entry has turned itself off
        self._interface.receive_messages()
        self._slabs = [
            endpoint.Slab(self._interface, SLAB_BYTES, number, MESSAGE_MAX_BYTES)
            for number in range(1, SLABS + 1)
        ]
        self._linked = SLABS  # slabs with room, as far as the events tell

    @property
    def id(self) -> PortalId:
        """Own address; pid is 2**16 or more when the port does not listen."""
        return self._id

    def fileno(self) -> int:
        """Readable while :meth:`events` has something to do."""
        if self._interface.is_closed:
            raise ValueError("port is closed")
        return self._fileno

    # ---- who and where ----

    def listen(self, reactor: Reactor, call: Callable[[], None]) -> Listener:
        """Call while :meth:`events` has something to do."""
        return reactor.watch(self.fileno(), call)

    def connections(self) -> int:
        """Also those that have not ended at both ends."""
        return self._interface.connections()

    def use_key(self, target: PortalId | None, key: AnyKey | None) -> None:
        """Dial a target with this key; None as target: every one without its own; as key: none."""
        place = (NID_ANY, PID_ANY) if target is None else target
        match key:
            case None:
                self._interface.use_key(place, Key.NONE)
            case PartitionKey(secret):
                self._interface.use_key(place, Key.PARTITION, secret)
            case UserKey(uid, secret):
                self._interface.use_key(place, Key.USER, secret, uid=uid)
            case JobKey(job_id, uid, expires, secret):
                self._interface.use_key(
                    place, Key.JOB, secret, uid=uid, job_id=job_id, expires=expires
                )
            case MungeKey(uid, secret, credential):
                self._interface.use_credential(credential)
                self._interface.use_key(place, Key.MUNGE, secret, uid=uid)
            case LocalKey():
                self._interface.use_key(place, Key.LOCAL)

    def renew_key(self, target: PortalId, make: Callable[[], AnyKey]) -> None:
        """Have another key made when the target is lost, for the next connection to it.

        Args:
            make: gives it, or raises YodError: the key stays as it is.
        """
        self._makers[target] = make

    def hold_keys(self, keys: Sequence[bytes]) -> None:
        """Hold these keys of the partition: the first to dial with, all are accepted."""
        self._interface.hold_keys(keys)

    def take_credentials(self, judge: Callable[[int, bytes], None]) -> None:
        """Take credentials of MUNGE from users of other hosts.

        Args:
            judge: called with a ticket and the credential; it has :meth:`accept_credential` or
                :meth:`refuse_credential` called with that ticket, in time.
        """
        self._judge = judge
        self._interface.take_credentials()

    def accept_credential(self, ticket: int, uid: int, secret: bytes) -> None:
        """The credential of this ticket is a user's, with this secret in it."""
        self._interface.accept_credential(ticket, uid, secret)

    def refuse_credential(self, ticket: int, verdict: Verdict) -> None:
        """The credential of this ticket proves nobody."""
        self._interface.refuse_credential(ticket, verdict)

    def resolve(self, address: str) -> PortalId:
        """The id to dial for ``"127.0.0.1:1234"`` or ``"unix:/path"``.

        The process that listens at the path is known by this id, whatever its own is.

        Raises:
            UsageError: neither of the two.
        """
        if not address.startswith("unix:"):
            nid, pid = parse_ipv4(address)
            if nid < TABLE_NIDS or nid == NID_ANY or pid == 0:
                raise UsageError(f"{address!r} cannot be dialled")
            return PortalId(nid, pid)
        path = address.removeprefix("unix:")
        if path not in self._table:
            nid = self._next_nid
            try:
                self._interface.set_address(nid, os.fsencode(path))
            except ValueError:
                raise UsageError(f"{path!r} is no absolute path of a socket") from None
            self._table[path] = PortalId(nid, PID_ANY)
            self._next_nid -= 1
        return self._table[path]

    def set_addresses(self, addresses: dict[int, str]) -> None:
        """Entries of a granted address table: nid to path or ``[ipv6]:port``."""
        for nid, address in addresses.items():
            self._interface.set_address(nid, os.fsencode(address.removeprefix("unix:")))

    # ---- messages ----

    def send(self, target: PortalId, message: Message) -> None:
        """Send one message. Raises ValueError when it exceeds MESSAGE_MAX_BYTES."""
        if message is not self._last:
            self._last, self._last_data = message, codec.encode(message)
        self._interface.send(target[0], target[1], self._last_data)

    def events(self) -> list[PortEvent]:
        """Drive the transport and take what has happened, at most EVENTS_PER_TURN events."""
        batch, count = self._interface.events(EVENTS_PER_TURN)
        events: list[PortEvent] = []
        for event in batch[0:count]:
            kind = event.type
            if kind == _PUT:
                if event.ni_fail == 0:
                    events.append(self._received(event))
            elif kind == _AUTO_UNLINK:
                self._linked -= 1
                self.is_worn = True
            elif kind == _AUTO_FREE:
                self._relink(endpoint.number_of(event))
            elif kind == _PT_DISABLED:
                self._turned_off()
            elif kind == _PEER_LOST:
                events.append(self._peer_lost(event))
            elif kind == _LEFT:
                self._peers.pop(event.serial, None)
            elif kind == _CREDENTIAL:
                credential = self._interface.credential(event.serial)
                if credential is not None and self._judge is not None:
                    self._judge(event.serial, credential)
            elif kind == _IDLE:
                events.append(PeerIdle(PortalId(event.nid, event.pid)))
            elif kind >= _ARRIVED:
                events.append(self._about_object(kind, event))
        return events

    def _received(self, event: Any) -> PortEvent:
        known = self._peers.get(event.serial)
        if known is None:
            known = self._peers[event.serial] = (
                PortalId(event.nid, event.pid),
                Principal(PrincipalKind(event.kind), event.uid, event.job_id),
            )
        try:
            message = codec.decode(endpoint.buffer(event.start, event.mlength))
        except PeerProtocolError as error:
            return Refused(*known, str(error))
        return Received(*known, message)

    def _relink(self, number: int) -> None:
        self._slabs[number - 1].append()
        self._linked += 1
        if self._is_off:
            self._turn_on()

    def _turned_off(self) -> None:
        """No slab had room, or the queue was full of messages: these are read now."""
        self._is_off = True
        if self._linked > 0:
            self._turn_on()

    def _turn_on(self) -> None:
        self._is_off = False
        self._interface.turn_on()

    def _peer_lost(self, event: Any) -> PeerLost:
        self._peers.pop(event.serial, None)
        peer = PortalId(event.nid, event.pid)
        if peer in self._makers:
            with suppress(YodError):  # the next connection says what is wrong
                self.use_key(peer, self._makers[peer]())
        loss = Loss(event.reason)
        return PeerLost(peer, loss, loss_text(loss, event.detail))

    def disconnect(self, peer: PortalId) -> None:
        """End the connection to a peer; unsent messages to it are flushed first."""
        self._interface.disconnect(peer.nid, peer.pid)

    def part(self, peer: PortalId) -> None:
        """Close the connection to a daemon if it needs it no more than this end does."""
        self._interface.part(peer.nid, peer.pid)

    # ---- objects ----

    def receive_object(
        self, key: ObjectKey, fd: int, size: int, chunk_bytes: int, children: list[PortalId]
    ) -> None:
        """Expect an object and pass each chunk on to the children as it lands."""
        self._forward(key, fd, size, chunk_bytes, children, is_source=False)

    def send_object(
        self, key: ObjectKey, fd: int, size: int, chunk_bytes: int, targets: list[PortalId]
    ) -> None:
        """Send a file as an object; ends in ``ObjectSent`` or ``ObjectFailed``."""
        self._forward(key, fd, size, chunk_bytes, targets, is_source=True)

    def _forward(
        self,
        key: ObjectKey,
        fd: int,
        size: int,
        chunk_bytes: int,
        peers: list[PortalId],
        *,
        is_source: bool,
    ) -> None:
        self._interface.forward(
            _match_bits(key), key.job_id, fd, size, chunk_bytes, list(peers), is_source=is_source
        )

    def cancel_object(self, key: ObjectKey) -> None:
        """Forget an object. No event about it follows; unknown keys are ignored."""
        self._interface.cancel(_match_bits(key))

    def _about_object(self, kind: int, event: Any) -> PortEvent:
        key = ObjectKey(event.match_bits >> 16, event.match_bits & 0xFFFF)
        if kind == _ARRIVED:
            digest = bytes(endpoint.buffer(event.digest))
            return ObjectArrived(key, digest, event.first_ns / 1e9, event.last_ns / 1e9)
        if kind == _SENT:
            return ObjectSent(key)
        return ObjectFailed(key, _failure_text(event), event.reason in _CONSEQUENCES)

    def close(self, flush_s: float = 2.0) -> None:
        """Flush for at most ``flush_s`` seconds, then end every connection."""
        self._interface.close(round(flush_s * 1000))


def _match_bits(key: ObjectKey) -> int:
    if 0 <= key.job_id < 1 << 48 and 0 <= key.number < 1 << 16:
        return key.job_id << 16 | key.number
    raise ValueError(f"{key} is no object of a job")


_CONSEQUENCES = (1, 2, 3)
_FAILURE_TEXT = {
    1: "the parent {peer} was lost",
    2: "the child {peer} was lost",
    3: "the child {peer} did not take it",
    4: "the file has shrunk",
    5: "the file cannot be read: {error}",
    6: "chunks came out of order",
}


def _failure_text(event: Any) -> str:
    peer = PortalId(event.nid, event.pid)
    return _FAILURE_TEXT[event.reason].format(peer=peer, error=os.strerror(event.detail))
