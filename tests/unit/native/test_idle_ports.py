"""A connection of two daemons is closed when neither needs it, and nothing is lost by that."""

from __future__ import annotations

from native.port.port import PeerIdle, Received
from native.port.portals import PortalsPort
from native.wire.io import Input
from tests.support.ports import pump
from tests.unit.native.port_of import HELLO, Open, counters

IDLE_S = 0.02


def connected(a: PortalsPort, b: PortalsPort) -> None:
    """Let a message pass."""
    a.send(b.id, HELLO)
    pump([a, b], lambda seen: any(isinstance(event, Received) for event in seen[b]))


def connections(*ports: PortalsPort) -> set[int]:
    return {counters(port)["connections"] for port in ports}


class Sparing:
    """A port whose owner needs no connection."""

    def __init__(self, port: PortalsPort) -> None:
        self._port = port
        self.fileno = port.fileno

    def events(self) -> list[object]:
        found = self._port.events()
        for event in found:
            if isinstance(event, PeerIdle):
                self._port.part(event.peer)
        return [event for event in found if not isinstance(event, PeerIdle)]


def test_a_connection_that_neither_end_needs_is_closed_and_a_message_opens_another(
    port: Open,
) -> None:
    a, b = port(idle_s=IDLE_S), port(idle_s=IDLE_S)
    for first, second in ((a, b), (b, a)):
        connected(first, second)
        ends = [Sparing(a), Sparing(b)]
        seen = pump(ends, lambda _: connections(a, b) == {0})
        assert [seen[end] for end in ends] == [[], []]  # nobody has lost anybody
        assert a._peers == b._peers == {}


def test_a_connection_that_one_end_needs_stays(port: Open) -> None:
    a, b = port(idle_s=IDLE_S), port(idle_s=IDLE_S)
    connected(a, b)
    spares = Sparing(a)
    seen = pump([spares, b], lambda seen: len(seen[b]) == 3)
    assert seen[b] == [PeerIdle(a.id)] * 3
    assert connections(a, b) == {1}


def test_a_port_without_idle_s_closes_nothing_and_lets_nothing_be_closed(port: Open) -> None:
    a, b = port(idle_s=IDLE_S), port()
    connected(a, b)
    idles: list[PeerIdle] = []

    def has_asked_thrice(_: object) -> bool:
        for event in a.events():
            assert isinstance(event, PeerIdle)
            idles.append(event)
            a.part(event.peer)
        return len(idles) == 3

    seen = pump([b], has_asked_thrice)
    assert seen[b] == []
    assert connections(a, b) == {1}


def test_messages_at_the_moment_of_the_close_arrive_once_and_in_order(port: Open) -> None:
    """Each end sends as soon as it has offered the connection, or just before."""
    a, b = port(idle_s=IDLE_S), port(idle_s=IDLE_S)
    count = 120
    for number in range(count):
        ends = (a, b) if number & 1 else (b, a)
        message = Input(number + 1, b"x" * (number * 7 % 90))
        if number & 2:
            ends[1].part(ends[0].id)
            ends[1].events()
        ends[0].part(ends[1].id)
        if number & 4:
            ends[0].events()
        ends[0].send(ends[1].id, message)
        if number & 8:
            ends[1].send(ends[0].id, message)
        seen = pump(
            [Sparing(a), Sparing(b)],
            lambda seen, sent=2 if number & 8 else 1: sum(map(len, seen.values())) == sent,
        )
        for events in seen.values():
            assert all(isinstance(each, Received) and each.message == message for each in events)
