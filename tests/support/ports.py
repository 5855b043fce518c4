"""Ports driven by hand, and a peer made of bytes that may do what it likes.

Nothing sleeps: :func:`pump` waits for the ports' descriptors.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import NamedTuple, Protocol

from native.auth import mac
from native.ids import NID_ANY, PID_ANY, PortalId
from native.port.port import Port, PortEvent
from tests.support.wait import LIMIT_S

TEST_KEY = bytes(range(32))
LOOPBACK = 0x7F000001

HELLO = struct.Struct("<4sBBBBB3xIQQIIQIII4x32s")  # native/wire/FRAMES.md
FRAME = struct.Struct("<BBHBBBBIIIIHHIQQQQ")
MAGIC = b"YODT"
VERSION = 1


class Driven(Protocol):
    """What can be driven by hand: a port, or a part of one."""

    def fileno(self) -> int: ...

    def events(self) -> list[PortEvent]: ...


Seen = dict[Driven, list[PortEvent]]


def pump(
    ports: Iterable[Driven], until: Callable[[Seen], object], limit_s: float = LIMIT_S
) -> Seen:
    """Drive ports until ``until`` says so of what they have seen; gives that."""
    seen: Seen = {port: [] for port in ports}
    deadline = time.monotonic() + limit_s
    while not until(seen):
        left = deadline - time.monotonic()
        readable = select.select(list(seen), [], [], max(left, 0))[0]
        assert readable, f"nothing more happens; seen: {[e[-5:] for e in seen.values()]}"
        assert left > 0, f"not within {limit_s:g} s; seen: {[e[-5:] for e in seen.values()]}"
        for port in readable:
            seen[port] += port.events()
    return seen


def all_of(seen: Seen) -> list[PortEvent]:
    """The events of every port."""
    return [event for events in seen.values() for event in events]


def quiet(ports: Iterable[Port], rounds: int = 3) -> list[PortEvent]:
    """Drive ports while anything is readable at once; for "nothing more comes".

    Rounds, because what one port writes is readable at another right after.
    """
    ports = list(ports)
    events: list[PortEvent] = []
    while rounds:
        rounds -= 1
        for port in select.select(ports, [], [], 0.02)[0]:
            events += port.events()
            rounds = 3
    return events


class HasId(Protocol):
    """A port, or anything else that can be dialled."""

    @property
    def id(self) -> PortalId: ...


class Key(NamedTuple):
    """What a raw peer claims, and the secret that it proves it with."""

    kind: int
    secret: bytes
    uid: int = 0
    job_id: int = 0
    expires: int = 0


PARTITION = Key(1, TEST_KEY)


class RawPeer:
    """One connection to a port, byte by byte.

    Args:
        target: the port to connect to.
        own: the id that it names.
        key: what it proves itself with.
        incarnation: likewise.
        path: of a Unix socket, in place of the target's address.
    """

    def __init__(
        self,
        target: HasId,
        *,
        own: PortalId | None = None,
        key: Key = PARTITION,
        incarnation: int | None = None,
        path: str | None = None,
    ) -> None:
        self.target = target.id
        self.own = own or PortalId(LOOPBACK, int.from_bytes(os.urandom(3), "big") | 1 << 24)
        self.key = key
        self.incarnation = incarnation or int.from_bytes(os.urandom(8), "big") | 1
        if path is None:
            address = (socket.inet_ntoa(self.target.nid.to_bytes(4, "big")), self.target.pid)
            self.socket = socket.create_connection(address)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(path)
        self.socket.settimeout(LIMIT_S)
        self.transcript = b""

    def m1(self, **changes: int | bytes) -> bytes:
        """A first message; fields may be changed."""
        fields: dict[str, int | bytes] = {
            "magic": MAGIC,
            "message": 1,
            "version_min": VERSION,
            "version_max": VERSION,
            "version": 0,
            "key_kind": self.key.kind,
            "uid": self.key.uid,
            "job_id": self.key.job_id,
            "expires": self.key.expires,
            "nid": self.own.nid,
            "pid": self.own.pid,
            "incarnation": self.incarnation,
            "intended_nid": NID_ANY,
            "intended_pid": PID_ANY,
            "offers": 0x100,
            "nonce": os.urandom(32),
        }
        assert changes.keys() <= fields.keys()
        return HELLO.pack(*(fields | changes).values())

    def m3(self) -> bytes:
        """The proof, after m2."""
        return MAGIC + b"\3\0\0\0" + mac(self.key.secret, "yod.dialler", self.transcript)

    def take(self, port: Port, length: int) -> bytes:
        """Read from the port, driving it; less at the end of the stream."""
        data = b""
        deadline = time.monotonic() + LIMIT_S
        while len(data) < length:
            assert time.monotonic() < deadline
            readable = select.select([self.socket, port], [], [], LIMIT_S)[0]
            if port in readable:
                self.events += port.events()
            if self.socket in readable:
                try:
                    part = self.socket.recv(length - len(data))
                except ConnectionResetError:
                    break
                if not part:
                    break
                data += part
        return data

    events: list[PortEvent]

    def shake(self, port: Port, **changes: int | bytes) -> int:
        """The whole handshake; gives the code of m4 (0: ready), -1 for a hang-up."""
        self.events = []
        m1 = self.m1(**changes)
        self.socket.sendall(m1)
        start = self.take(port, 8)
        if len(start) < 8:
            return -1
        if start[4] == 4:
            self.take(port, 32)
            return start[5]
        m2 = start + self.take(port, 120)
        assert m2[96:] == mac(self.key.secret, "yod.listener", m1 + m2[:96])
        self.transcript = m1 + m2
        m3 = self.m3()
        self.socket.sendall(m3)
        m4 = self.take(port, 40)
        if len(m4) < 40:
            return -1
        if m4[8:] != bytes(32):
            whole = blake2b(m1 + m2 + m3, digest_size=32).digest()
            session = mac(self.key.secret, "yod.s2c", whole)
            assert m4[8:] == mac(session, "yod.ready", m4[:8])
        self.listener_incarnation = HELLO.unpack(m2[:96])[11]
        return m4[5]

    def frame(self, type_: int, payload: bytes = b"", **changes: int) -> bytes:
        """A frame; by default a whole message."""
        fields = {
            "type": type_,
            "version": VERSION,
            "flags": 3 if type_ == 1 else 0,
            "kind": 0,
            "lane": 0,
            "pt_index": 0,
            "detail": 1 if type_ == 1 else 0,
            "length": len(payload),
            "incarnation": self.incarnation & 0xFFFFFFFF,
            "op_index": 0,
            "op_generation": 1,
            "operation": 0,
            "datatype": 0,
            "fragment": 0,
            "total": len(payload),
            "match_bits": 0,
            "offset": 0,
            "hdr_data": 0,
        }
        assert changes.keys() <= fields.keys()
        return FRAME.pack(*(fields | changes).values()) + payload

    def send(self, data: bytes) -> None:
        """Bytes, as they are."""
        self.socket.sendall(data)

    def is_cut_off(self, port: Port) -> bool:
        """Does the port end this connection? Frames before the end are skipped."""
        while True:
            data = self.take(port, 1)
            if not data:
                return True

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    __del__ = close
