"""A user of another host is proven by a credential that somebody else judges."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from native import auth
from native.ids import Principal, PrincipalKind
from native.port.losses import Verdict
from native.port.port import Loss, PeerLost
from native.port.portals import MungeKey, PortalsPort, UserKey
from tests.support.ports import TEST_KEY, Key, RawPeer, pump
from tests.unit.native.port_of import HELLO, Open, counters, heard
from tests.unit.native.test_handshake import guest

SECRET = bytes(range(32))
ALICE = MungeKey(1001, SECRET, b"MUNGE:credential-of-alice:")


def door(port: Open, judge: Callable[[PortalsPort, int, bytes], None]) -> PortalsPort:
    """A listener that takes credentials."""
    one = port()
    one.take_credentials(lambda ticket, credential: judge(one, ticket, credential))
    return one


def accepts(port: PortalsPort, ticket: int, credential: bytes) -> None:
    assert credential == ALICE.credential
    port.accept_credential(ticket, 1001, SECRET)


def lost(a: PortalsPort, b: PortalsPort) -> PeerLost:
    a.send(b.id, HELLO)
    seen = pump([a, b], lambda seen: seen[a])
    assert seen[b] == []
    (event,) = seen[a]
    assert isinstance(event, PeerLost)
    return event


def test_a_credential_proves_its_user(port: Open) -> None:
    event = heard(guest(port, ALICE), door(port, accepts))
    assert event.principal == Principal(PrincipalKind.USER, 1001)


def test_an_answer_may_come_later_and_others_are_served_meanwhile(port: Open) -> None:
    tickets: list[int] = []
    b = door(port, lambda _, ticket, credential: tickets.append(ticket))
    a = guest(port, ALICE)
    a.send(b.id, HELLO)
    pump([a, b], lambda _: tickets)
    other = guest(port, UserKey(7, auth.derive_user_key(TEST_KEY, 7)))
    assert heard(other, b).principal.uid == 7
    b.accept_credential(tickets[0], 1001, SECRET)
    (event,) = pump([a, b], lambda seen: seen[b])[b]
    assert event.principal.uid == 1001  # type: ignore[union-attr]
    b.accept_credential(tickets[0], 0, SECRET)  # too late, and of nobody
    assert heard(a, b).principal.uid == 1001


@pytest.mark.parametrize("verdict", Verdict)
def test_whose_credential_is_not_taken_is_told_why(port: Open, verdict: Verdict) -> None:
    b = door(port, lambda one, ticket, credential: one.refuse_credential(ticket, verdict))
    event = lost(guest(port, ALICE), b)
    assert event.loss is Loss.CREDENTIAL
    assert event.text.startswith("does not take the credential of MUNGE: ")
    assert "no reason" not in event.text


def test_who_takes_none_says_so(port: Open) -> None:
    event = lost(guest(port, ALICE), port())
    assert (event.loss, event.text[-15:]) == (Loss.CREDENTIAL, "a key is needed")


def test_a_credential_that_was_overheard_proves_nothing_without_its_secret(port: Open) -> None:
    thief = guest(port, MungeKey(1001, bytes(32), ALICE.credential))
    assert lost(thief, door(port, accepts)).loss is Loss.WRONG_KEY


def test_another_uid_than_the_credentials_is_refused(port: Open) -> None:
    liar = guest(port, MungeKey(0, SECRET, ALICE.credential))
    assert lost(liar, door(port, accepts)).loss is Loss.WRONG_KEY


def test_a_kind_of_key_that_needs_a_credential_is_refused_without_one(port: Open) -> None:
    b = door(port, accepts)
    raw = RawPeer(b, key=Key(5, SECRET, 1001))
    assert raw.shake(b) == 7


@pytest.mark.parametrize(
    "data",
    [
        b"YODT\5\0\0\0",  # empty
        b"YODT\5\0\1\4" + bytes(1025),  # longer than any
        b"YODT\5\0\4\0abcdYODT\1",  # goes on before it is answered
        b"YODT\6\0\0\0",  # out of turn
        b"YODT\5\0\4\0abcd" * 2,
    ],
)
def test_what_is_no_credential_ends_the_connection_alone(port: Open, data: bytes) -> None:
    b = door(port, lambda one, ticket, credential: None)
    raw = RawPeer(b)
    raw.socket.send(data)
    pump([b], lambda _: counters(b)["connections"] == 0)
    assert heard(port(), b)


def test_a_key_is_made_anew_when_the_peer_is_lost(port: Open) -> None:
    seen: list[bytes] = []

    def judge(one: PortalsPort, ticket: int, credential: bytes) -> None:
        seen.append(credential)
        one.accept_credential(ticket, 1001, SECRET)

    b = door(port, judge)
    a = guest(port, ALICE)
    a.renew_key(b.id, lambda: MungeKey(1001, SECRET, b"another"))
    source = heard(a, b).source
    b.disconnect(source)
    pump([a, b], lambda seen: seen[a])
    heard(a, b)
    assert seen == [ALICE.credential, b"another"]
