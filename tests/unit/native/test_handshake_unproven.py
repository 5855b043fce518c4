"""Ends that prove nothing: malformed messages, too many connections, silence."""

from __future__ import annotations

import os
import select
import socket
import time
from typing import Any

import pytest

from native.ids import PortalId
from native.port.port import Loss, PeerLost
from native.port.portals import PortalsPort
from tests.support.ports import LOOPBACK, MAGIC, VERSION, RawPeer, pump
from tests.support.wait import LIMIT_S
from tests.unit.native.port_of import HELLO, Open, heard


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 95])
def test_a_truncated_first_message_harms_nobody(port: Open, length: int) -> None:
    a, b = port(), port()
    raw = RawPeer(a)
    raw.send(raw.m1()[:length])
    raw.socket.shutdown(socket.SHUT_WR)
    raw.events = []
    assert raw.is_cut_off(a)
    assert raw.events == []
    assert heard(b, a).source == b.id


def test_a_second_message_in_place_of_the_first_harms_nobody(port: Open) -> None:
    """It is longer; the rest does not come."""
    a, b = port(), port()
    raw = RawPeer(a)
    raw.send(raw.m1(message=2))
    raw.socket.shutdown(socket.SHUT_WR)
    raw.events = []
    assert raw.is_cut_off(a)
    assert raw.events == []
    assert heard(b, a).source == b.id


@pytest.mark.parametrize(
    "changes",
    [
        {"magic": b"HTTP"},
        {"message": 0},
        {"message": 3},
        {"message": 200},
        {"version_min": 0},
        {"version_min": 2},
        {"version": 1},
        {"key_kind": 0},
        {"key_kind": 5},
        {"nid": 0},
        {"nid": 0xFFFFFFFF},
        {"pid": 0},
        {"pid": 0xFFFFFFFF},
    ],
    ids=str,
)
def test_a_malformed_first_message_harms_nobody(
    port: Open, changes: dict[str, int | bytes]
) -> None:
    a, b = port(), port()
    heard(b, a)
    raw = RawPeer(a)
    assert raw.shake(a, **changes) != 0
    assert raw.is_cut_off(a)
    assert raw.events == []
    assert heard(b, a).source == b.id


def test_a_wrong_proof_is_refused_and_unheard_of(port: Open) -> None:
    a, b = port(), port()
    raw = RawPeer(a)
    raw.events = []
    raw.send(raw.m1())
    m2 = raw.take(a, 128)
    assert len(m2) == 128
    raw.send(b"YODT\3\0\0\0" + bytes(32))
    m4 = raw.take(a, 40)
    assert (m4[4], m4[5], m4[8:]) == (4, 3, bytes(32))
    assert raw.is_cut_off(a)
    assert raw.events == []
    assert heard(b, a).source == b.id


def test_random_first_bytes_harm_nobody(port: Open) -> None:
    a, b = port(), port()
    for seed in range(60):
        raw = RawPeer(a)
        raw.events = []
        data = bytearray(raw.m1())
        data[seed] ^= 1 << seed % 8
        raw.send(bytes(data) if seed % 3 else os.urandom(200))
        raw.socket.shutdown(socket.SHUT_WR)
        assert raw.is_cut_off(a)
        assert raw.events == []
        raw.close()
    assert heard(b, a).source == b.id


def unproven(port: PortalsPort) -> int:
    return port._interface.counters()["unproven"]


@pytest.mark.parametrize("limit", ["max_unproven", "max_unproven_each"])
def test_unproven_connections_are_bounded_and_the_oldest_is_told_why(port: Open, limit) -> None:
    a, b = port(handshake_timeout_s=LIMIT_S, **{limit: 4}), port()
    silent = [RawPeer(a) for _ in range(4)]
    pump([a], lambda _: unproven(a) == 4)
    assert heard(b, a).source == b.id
    m4 = silent[0].socket.recv(100)
    assert (m4[4], m4[5], m4[8:]) == (4, 10, bytes(32))
    assert unproven(a) == 3
    for raw in silent:
        raw.close()
    pump([a], lambda _: unproven(a) == 0)


def refusing(server: socket.socket, code: int) -> socket.socket:
    """Take a connection as an end that has no place for it."""
    connection, _ = server.accept()
    connection.sendall(MAGIC + bytes([4, code, VERSION, VERSION]) + bytes(32))
    return connection


@pytest.mark.parametrize("code", [5, 10])
def test_who_finds_no_place_tries_again_until_there_is_one(port: Open, code: int) -> None:
    a = port()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        a.send(PortalId(LOOPBACK, address[1]), HELLO)
        for _ in range(3):
            pump([a], lambda _: select.select([server], [], [], 0)[0])
            refusing(server, code).close()
    b = port(listen=f"127.0.0.1:{address[1]}")
    (event,) = pump([a, b], lambda seen: seen[b])[b]
    assert event.message == HELLO


@pytest.mark.parametrize(
    ("code", "whose"),
    [(5, "too many connections have"), (10, "too many connections of yours have")],
)
def test_who_never_finds_a_place_is_told_that(port: Open, code: int, whose: str) -> None:
    a = port(connect_timeout_s=0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = PortalId(LOOPBACK, server.getsockname()[1])
        a.send(target, HELLO)
        events: list[Any] = []
        while not events:
            ready = select.select([a, server], [], [], LIMIT_S)[0]
            assert ready
            if server in ready:
                refusing(server, code).close()
            if a in ready:
                events += a.events()
    assert events == [
        PeerLost(
            target,
            Loss.CROWDED,
            f"refused the connection: {whose} not proven who they are",
        )
    ]


def test_a_refusal_is_read_although_what_was_sent_is_not(port: Open) -> None:
    """Closing with bytes unread resets the connection: the refusal must come through."""
    a = port(connect_timeout_s=0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = PortalId(LOOPBACK, server.getsockname()[1])
        a.send(target, HELLO)
        connection, _ = server.accept()
        pump([a], lambda _: select.select([connection], [], [], 0)[0])  # m1 has come
        connection.sendall(MAGIC + bytes([4, 3, VERSION, VERSION]) + bytes(32))
        connection.close()
        (lost,) = pump([a], lambda seen: seen[a])[a]
    assert lost.loss is Loss.WRONG_KEY


def test_unproven_connections_do_not_stay(port: Open) -> None:
    a = port(handshake_timeout_s=0.2)
    silent = [RawPeer(a) for _ in range(4)]
    for raw in silent:
        raw.events = []
        assert raw.is_cut_off(a)
    assert unproven(a) == 0


def test_a_listener_that_never_answers_is_unreachable_in_time(port: Open) -> None:
    a = port(connect_timeout_s=0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = PortalId(LOOPBACK, server.getsockname()[1])
        began = time.monotonic()
        a.send(target, HELLO)
        (lost,) = pump([a], lambda seen: seen[a])[a]
        assert lost.loss is Loss.UNREACHABLE
        assert time.monotonic() - began > 0.19


def test_a_listener_that_is_something_else_is_left(port: Open) -> None:
    a = port()
    with socket.create_server(("127.0.0.1", 0)) as server:
        a.send(PortalId(LOOPBACK, server.getsockname()[1]), HELLO)
        pump([a], lambda _: len(a.events()) == 0)
        other, _ = server.accept()
        other.sendall(b"220 mail.example.org ESMTP ready\r\n")
        (lost,) = pump([a], lambda seen: seen[a])[a]
        assert lost.loss is Loss.MISBEHAVED
        other.close()
