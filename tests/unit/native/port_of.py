"""What tests say through ports, and hear and count there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from native.ids import ObjectKey, PortalId
from native.port.port import Received
from native.port.portals import PortalsPort
from native.wire.io import InputCredit
from tests.support.ports import RawPeer, pump

HELLO = InputCredit(1, 1)
KEY = ObjectKey(5, 1)
Open = Callable[..., PortalsPort]


def heard(a: PortalsPort, b: PortalsPort, at: PortalId | None = None) -> Received:
    """What ``b`` receives when ``a`` sends to it."""
    a.send(at or b.id, HELLO)
    (event,) = pump([a, b], lambda seen: seen[b])[b]
    assert isinstance(event, Received)
    return event


def raw_peer(target: PortalsPort, **options: Any) -> RawPeer:
    """A raw peer that has proven itself."""
    raw = RawPeer(target, **options)
    assert raw.shake(target) == 0
    return raw


def counters(port: PortalsPort) -> dict[str, int]:
    return port._interface.counters()


def file_of(data: bytes) -> int:
    fd = os.memfd_create("object")
    os.write(fd, data)
    return fd


def room_for(size: int) -> int:
    fd = os.memfd_create("room")
    os.posix_fallocate(fd, 0, size)
    return fd
