"""What one user has of a daemon's connections and memory, and what is left for others."""

from __future__ import annotations

from native import auth
from native.port.port import Loss, PeerLost
from native.port.portals import PortalsPort, UserKey
from native.wire import io
from tests.support.ports import TEST_KEY, Key, pump, quiet
from tests.unit.native.port_of import HELLO, Open, counters, heard, raw_peer

MEBIBYTE = 1 << 20


def of(port: Open, uid: int, **options: float) -> PortalsPort:
    one = port(listen=None, partition_key=None, **options)
    one.use_key(None, UserKey(uid, auth.derive_user_key(TEST_KEY, uid)))
    return one


def test_a_user_has_so_many_connections_and_others_have_theirs(port: Open) -> None:
    b = port(max_connections_each=2)
    first, second = of(port, 1001), of(port, 1001)
    for each in (first, second, of(port, 1002)):
        heard(each, b)
    third = of(port, 1001, connect_timeout_s=0.2)
    third.send(b.id, HELLO)
    (event,) = pump([third, b], lambda seen: seen[third])[third]
    assert isinstance(event, PeerLost)
    assert event.loss is Loss.CROWDED
    assert event.text == "refused the connection: you have too many connections there"
    first.close(flush_s=0)
    pump([b], lambda seen: seen[b])
    heard(of(port, 1001), b)


def test_root_and_daemons_have_any_number_of_connections(port: Open) -> None:
    b = port(max_connections_each=1)
    for _ in range(3):
        heard(of(port, 0), b)
        heard(port(), b)


def test_a_refused_user_leaves_nothing_behind(port: Open) -> None:
    b = port(max_connections_each=1)
    heard(of(port, 1001), b)
    late = of(port, 1001, connect_timeout_s=0.2)
    late.send(b.id, HELLO)
    pump([late, b], lambda seen: seen[late])
    quiet([b])
    assert counters(b)["connections"] == 1


def test_who_reads_nothing_is_cut_off_when_the_users_share_is_full(port: Open) -> None:
    b = port(max_unread_each=MEBIBYTE)
    key = Key(2, auth.derive_user_key(TEST_KEY, 1001), 1001)
    silent, other = raw_peer(b, key=key), of(port, 1002)
    source = heard(other, b).source
    large = io.Input(1, b"x" * 65536)
    seen: list[object] = []
    for _ in range(200):
        b.send(silent.own, large)
        seen += b.events()
        if seen:
            break
    (event,) = seen
    assert isinstance(event, PeerLost)
    assert (event.peer, event.loss) == (silent.own, Loss.UNREAD)
    assert event.text == "was cut off: its user leaves too much unread"
    for _ in range(40):  # who reads gets all of it, and more than a share in the end
        b.send(source, large)
        pump([b, other], lambda seen: seen[other])
    silent.close()


def test_the_share_is_of_a_user_whatever_connections_they_have(port: Open) -> None:
    b = port(max_unread_each=MEBIBYTE)
    key = Key(2, auth.derive_user_key(TEST_KEY, 1001), 1001)
    silent = [raw_peer(b, key=key) for _ in range(4)]
    large = io.Input(1, b"x" * 65536)
    seen: list[object] = []
    for number in range(200):
        b.send(silent[number % 4].own, large)
        seen += b.events()
        if seen:
            break
    assert isinstance(seen[0], PeerLost) and seen[0].loss is Loss.UNREAD
    assert counters(b)["connections"] == 3
    for each in silent:
        each.close()
