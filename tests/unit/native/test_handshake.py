"""Who may connect, and as whom."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from native import auth
from native.errors import UsageError
from native.ids import PortalId, Principal, PrincipalKind
from native.port.port import Loss, PeerLost, Port, Received
from native.port.portals import (
    AnyKey,
    JobKey,
    LocalKey,
    PartitionKey,
    PortalsPort,
    UserKey,
)
from native.wire.io import InputCredit
from tests.support.ports import LOOPBACK, MAGIC, TEST_KEY, VERSION, Key, RawPeer, pump, quiet
from tests.support.wait import LIMIT_S

OTHER_KEY = bytes(32)
HELLO = InputCredit(1, 1)
FAR = int(time.time()) + 3600
Open = Callable[..., PortalsPort]


@pytest.fixture
def port() -> Iterator[Open]:
    """Opens ports: listening on the loopback with the partition's key, unless told."""
    ports: list[PortalsPort] = []

    def open_port(**options: Any) -> PortalsPort:
        options.setdefault("listen", "127.0.0.1:0")
        options.setdefault("partition_key", TEST_KEY)
        ports.append(PortalsPort(**options))
        return ports[-1]

    yield open_port
    for one in ports:
        one.close(flush_s=0.1)


def guest(port: Open, key: AnyKey | None) -> PortalsPort:
    """An end that neither listens nor holds the partition's key."""
    one = port(listen=None, partition_key=None)
    if key is not None:
        one.use_key(None, key)
    return one


def heard(a: PortalsPort, b: PortalsPort, at: PortalId | None = None) -> Received:
    """What ``b`` receives when ``a`` sends to it."""
    a.send(at or b.id, HELLO)
    (event,) = pump([a, b], lambda seen: seen[b])[b]
    assert isinstance(event, Received)
    return event


def connections(port: PortalsPort) -> int:
    return port._interface.counters()["connections"]


def loss(a: PortalsPort, b: Port, at: PortalId | None = None) -> PeerLost:
    """How ``a`` fails to send to ``b``, of which ``b`` hears nothing."""
    target = at or b.id
    a.send(target, HELLO)
    seen = pump([a, b], lambda seen: seen[a])
    assert seen[b] == []
    (event,) = seen[a]
    assert isinstance(event, PeerLost)
    assert event.peer == target
    return event


def test_partition_key_proves_a_daemon(port: Open) -> None:
    a, b = port(uid=12), port(uid=34)
    event = heard(a, b)
    assert event == Received(a.id, Principal(PrincipalKind.PARTITION, 12), HELLO)
    b.send(a.id, HELLO)
    (event,) = pump([a, b], lambda seen: seen[a])[a]
    assert event.principal == Principal(PrincipalKind.PARTITION, 34)


def test_user_key_proves_its_user(port: Open) -> None:
    b = port()
    a = guest(port, UserKey(1001, auth.derive_user_key(TEST_KEY, 1001)))
    event = heard(a, b)
    assert event.principal == Principal(PrincipalKind.USER, 1001)
    assert event.source == a.id


def test_job_key_proves_its_job_and_owner(port: Open) -> None:
    b = port()
    a = guest(port, JobKey(7, 1001, FAR, auth.derive_job_key(TEST_KEY, 7, 1001, FAR)))
    assert heard(a, b).principal == Principal(PrincipalKind.JOB, 1001, 7)


def test_a_key_of_another_id_is_refused(port: Open) -> None:
    b = port()
    users = auth.derive_user_key(TEST_KEY, 1001)
    jobs = auth.derive_job_key(TEST_KEY, 7, 1001, FAR)
    for key in (
        UserKey(0, users),
        JobKey(8, 1001, FAR, jobs),
        JobKey(7, 0, FAR, jobs),
        JobKey(7, 1001, FAR + 1, jobs),
        PartitionKey(users),
    ):
        assert loss(guest(port, key), b).loss is Loss.WRONG_KEY


def test_a_job_key_that_has_expired_is_refused(port: Open) -> None:
    past = int(time.time()) - 10
    a = guest(port, JobKey(7, 1001, past, auth.derive_job_key(TEST_KEY, 7, 1001, past)))
    assert loss(a, port()).loss is Loss.WRONG_KEY


def test_partitions_with_different_keys_do_not_meet(port: Open) -> None:
    a, b = port(partition_key=OTHER_KEY), port()
    event = loss(a, b)
    assert event.loss is Loss.WRONG_KEY
    assert event.text == "does not hold the same key"


def test_an_end_without_any_key_cannot_dial_over_tcp(port: Open) -> None:
    b = port()
    for key in (None, LocalKey()):
        event = loss(guest(port, key), b)
        assert event.loss is Loss.WRONG_KEY
        assert event.text == "cannot be dialled: there is no key for it"


def test_a_key_can_be_given_for_one_target(port: Open) -> None:
    b, c = port(), port(partition_key=OTHER_KEY)
    a = guest(port, PartitionKey(TEST_KEY))
    a.use_key(c.id, PartitionKey(OTHER_KEY))
    assert heard(a, b).source == a.id
    assert heard(a, c).source == a.id


def test_ranks_of_a_job_meet_with_nothing_but_its_key(port: Open) -> None:
    key = JobKey(7, 1001, FAR, auth.derive_job_key(TEST_KEY, 7, 1001, FAR))
    other = JobKey(8, 1001, FAR, auth.derive_job_key(TEST_KEY, 8, 1001, FAR))
    a, b, c = (port(partition_key=None) for _ in range(3))
    a.use_key(None, key)
    b.use_key(None, key)
    c.use_key(None, other)
    assert heard(a, b) == Received(a.id, Principal(PrincipalKind.JOB, 1001, 7), HELLO)
    assert loss(c, b).loss is Loss.WRONG_KEY


def test_a_unix_socket_needs_no_key_and_the_kernel_names_the_user(
    port: Open, tmp_path: Path
) -> None:
    path = str(tmp_path / "socket")
    b = port(listen=None, unix_path=path)
    a = guest(port, None)
    at = a.resolve(f"unix:{path}")
    event = heard(a, b, at)
    assert event.principal == Principal(PrincipalKind.USER, os.getuid())
    b.send(event.source, HELLO)
    (back,) = pump([a, b], lambda seen: seen[a])[a]
    assert back.source == at  # not the listener's own id: the one that was dialled
    assert a.resolve(f"unix:{path}") == at
    b.close(flush_s=0)
    (lost,) = pump([a], lambda seen: seen[a])[a]
    assert (lost.peer, lost.loss) == (at, Loss.CLOSED)


def test_a_unix_socket_takes_proven_keys_as_well(port: Open, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    b = port(unix_path=path)
    a = port(uid=5)
    event = heard(a, b, a.resolve(f"unix:{path}"))
    assert event.principal == Principal(PrincipalKind.PARTITION, 5)


def test_a_granted_address_table_leads_to_its_paths(port: Open, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    b = port(listen=None, unix_path=path)
    a = port()
    a.set_addresses({5: path})
    assert heard(a, b, PortalId(5, 0xFFFFFFFF)).source == a.id
    assert loss(a, b, PortalId(6, 0xFFFFFFFF)).loss is Loss.UNREACHABLE


def test_an_end_that_does_not_listen_is_reached_over_its_own_connection_only(port: Open) -> None:
    a, b, c = port(listen=None), port(), port()
    assert a.id.pid >= 1 << 16
    source = heard(a, b).source
    b.send(source, HELLO)
    assert pump([a, b], lambda seen: seen[a])[a]
    assert loss(c, a, a.id).loss is Loss.UNREACHABLE


def test_a_user_cannot_take_the_name_of_a_daemon(port: Open) -> None:
    """Else what is meant for the daemon would go to the user."""
    a, daemon = port(), port()
    key = Key(2, auth.derive_user_key(TEST_KEY, 1001), 1001)
    liar = RawPeer(a, own=daemon.id, key=key)
    assert liar.shake(a) == 0
    a.send(daemon.id, HELLO)
    (event,) = pump([a, daemon], lambda seen: seen[daemon])[daemon]
    assert event.source == a.id
    liar.close()
    (lost,) = pump([a], lambda seen: seen[a])[a]
    assert lost.peer != daemon.id
    assert lost.peer.pid >= 1 << 16


def test_a_user_cannot_push_another_user_off_its_name(port: Open) -> None:
    a = port()
    victim = guest(port, UserKey(1, auth.derive_user_key(TEST_KEY, 1)))
    heard(victim, a)
    liar = RawPeer(a, own=victim.id, key=Key(2, auth.derive_user_key(TEST_KEY, 2), 2))
    assert liar.shake(a) == 0
    a.send(victim.id, HELLO)
    seen = pump([a, victim], lambda seen: seen[victim])
    assert seen[a] == []
    liar.close()


def test_dialling_another_process_than_was_meant_is_refused(port: Open) -> None:
    a = port()
    stranger = RawPeer(a)
    assert stranger.shake(a, intended_nid=LOOPBACK, intended_pid=a.id.pid ^ 1) == 4
    assert stranger.is_cut_off(a)


def test_a_listener_that_is_not_who_was_dialled_is_left(port: Open) -> None:
    """It holds the key, and says itself that it is another."""
    a = port()
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = PortalId(LOOPBACK, server.getsockname()[1])
        a.send(target, HELLO)
        accepted, _ = server.accept()
        liar = RawPeer(a, own=PortalId(LOOPBACK, target.pid ^ 1))
        liar.socket.close()
        liar.socket = accepted
        liar.events = []
        m1 = liar.take(a, 96)
        m2 = liar.m1(message=2, version=1, intended_nid=a.id.nid, intended_pid=a.id.pid)
        accepted.sendall(m2 + auth.mac(TEST_KEY, "yod.listener", m1 + m2))
        (lost,) = pump([a], lambda seen: seen[a])[a]
        assert (lost.peer, lost.loss) == (target, Loss.WRONG_PEER)
        liar.close()


def test_a_listener_answers_to_every_address_of_its_host(port: Open) -> None:
    b = port(listen="0.0.0.0:0", advertise="127.0.0.9")
    assert b.id.nid == 0x7F000009
    a = port()
    for nid in (LOOPBACK, 0x7F000009):
        at = PortalId(nid, b.id.pid)
        a.use_key(at, PartitionKey(TEST_KEY))
        event = heard(a, b, at)
        b.send(event.source, HELLO)
        (back,) = pump([a, b], lambda seen: seen[a])[a]
        assert back.source == at
        a.disconnect(at)
        pump([a, b], lambda seen: seen[b])


def test_listening_everywhere_needs_an_address_to_advertise() -> None:
    with pytest.raises(UsageError, match="advertise"):
        PortalsPort(listen="0.0.0.0:0")


def test_versions_without_one_in_common_are_refused_with_both_ends_numbers(port: Open) -> None:
    a, b = port(versions=(2, 3)), port()
    event = loss(a, b)
    assert event.loss is Loss.WRONG_VERSION
    assert event.text.endswith("its versions are 1 to 1")


def test_a_port_of_several_versions_takes_the_highest_in_common(port: Open) -> None:
    a, b = port(versions=(1, 9)), port()
    assert heard(a, b).source == a.id
    assert heard(b, a).source == b.id


def test_a_process_does_not_connect_to_itself_by_another_name(port: Open, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    a = port(unix_path=path)
    a.send(a.resolve(f"unix:{path}"), HELLO)
    (lost,) = pump([a], lambda seen: seen[a])[a]
    assert lost.loss is Loss.WRONG_PEER


def test_both_ends_dialling_at_once_end_up_with_one_connection(port: Open) -> None:
    for _ in range(10):
        a, b = port(), port()
        a.send(b.id, InputCredit(1, 1))
        b.send(a.id, InputCredit(1, 2))
        seen = pump([a, b], lambda seen: all(seen.values()))
        assert [event.message for event in seen[a]] == [InputCredit(1, 2)]
        assert [event.message for event in seen[b]] == [InputCredit(1, 1)]
        pump([a, b], lambda _, ends=(a, b): {connections(end) for end in ends} == {1})
        assert quiet([a, b]) == []


def test_a_second_connection_of_the_same_process_ends_the_half_open_first(port: Open) -> None:
    a = port()
    first = RawPeer(a)
    assert first.shake(a) == 0
    first.send(first.frame(9)[:30])  # half a frame; then its host forgot the connection
    second = RawPeer(a, own=first.own, incarnation=first.incarnation)
    assert second.shake(a) == 0
    events = second.events + pump([a], lambda seen: second.events or seen[a])[a]
    assert [(e.peer, e.loss) for e in events] == [(first.own, Loss.DIED)]
    assert quiet([a]) == []
    assert first.is_cut_off(a)
    a.send(first.own, HELLO)
    assert len(second.take(a, 64)) == 64


def test_what_arrived_on_the_old_connection_comes_before_its_end(port: Open) -> None:
    a = port()
    first = RawPeer(a)
    assert first.shake(a) == 0
    payload = b"".join(first.frame(1, b"\xc1") for _ in range(100))
    first.send(payload)
    second = RawPeer(a, own=first.own)  # another incarnation
    assert second.shake(a) == 0
    events = second.events + pump([a], lambda seen: len(second.events) + len(seen[a]) > 100)[a]
    assert [type(event).__name__ for event in events] == ["Refused"] * 100 + ["PeerLost"]
    assert events[-1].loss is Loss.RESTARTED
    assert quiet([a]) == []


def test_a_restarted_peer_is_lost_before_the_new_one_speaks(port: Open) -> None:
    a = port()
    old = RawPeer(a)
    assert old.shake(a) == 0
    new = RawPeer(a, own=old.own)
    assert new.shake(a) == 0
    new.send(new.frame(1, b"\xc1"))
    events = new.events + pump([a], lambda seen: seen[a])[a]
    assert [type(event).__name__ for event in events] == ["PeerLost", "Refused"]
    assert events[0] == PeerLost(old.own, Loss.RESTARTED, "has been restarted")


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


@pytest.mark.parametrize(
    "address", ["", "localhost:1", "1.2.3:4", "1.2.3.4", "1.2.3.4:70000", "unix:", "unix:a", "::1"]
)
def test_addresses_that_are_none_are_usage_errors(port: Open, address: str) -> None:
    with pytest.raises(UsageError):
        port().resolve(address)
