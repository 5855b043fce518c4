"""Who may connect, and as whom."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from native import auth
from native.errors import TOO_OLD, UsageError
from native.ids import PortalId, Principal, PrincipalKind
from native.port.port import Loss, PeerLost, Port, Received
from native.port.portals import AnyKey, JobKey, LocalKey, PartitionKey, PortalsPort, UserKey
from native.wire.io import InputCredit
from tests.support.ports import LOOPBACK, TEST_KEY, Key, RawPeer, pump, quiet
from tests.unit.native.port_of import HELLO, Open, heard

OTHER_KEY = bytes(32)
FAR = int(time.time()) + 3600


def guest(port: Open, key: AnyKey | None) -> PortalsPort:
    """An end that neither listens nor holds the partition's key."""
    one = port(listen=None, partition_key=None)
    if key is not None:
        one.use_key(None, key)
    return one


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
    lost = loss(a, port())
    assert lost.loss is Loss.WRONG_KEY
    assert lost.text == f"does not take the key, which has expired: {TOO_OLD}"


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


@pytest.mark.parametrize(
    "address", ["", "localhost:1", "1.2.3:4", "1.2.3.4", "1.2.3.4:70000", "unix:", "unix:a", "::1"]
)
def test_addresses_that_are_none_are_usage_errors(port: Open, address: str) -> None:
    with pytest.raises(UsageError):
        port().resolve(address)
