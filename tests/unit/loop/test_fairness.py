"""One that has much to do takes its share of a turn, and the others theirs."""

import os
from functools import partial

import pytest

from native.ids import Principal, PrincipalKind
from native.port.port import EVENTS_PER_TURN, Hub
from native.wire.io import Input

OWNER = Principal(PrincipalKind.PARTITION, 77)
NOISE = 20 * EVENTS_PER_TURN


@pytest.fixture
def noisy(reactor):
    """A port in the loop with very many messages, and what has been taken of them."""
    hub = Hub()
    port, peer = hub.port(OWNER), hub.port(OWNER)
    taken = []
    watch = port.listen(reactor, lambda: taken.extend(port.events()))
    for number in range(NOISE):
        peer.send(port.id, Input(number + 1, b""))
    yield taken
    watch.close()
    port.close()
    peer.close()


def test_a_noisy_port_holds_up_nobody_for_more_than_its_share(reactor, clock, pipes, noisy):
    heard = {}

    def hear(name):
        heard.setdefault(name, len(noisy))

    for number in range(100):
        read, write = pipes()
        os.write(write, b"x")
        reactor.watch(read, partial(hear, number))
    reactor.timer(partial(hear, "timer")).set(clock.now)
    reactor.call_soon(partial(hear, "call"))
    reactor.run_once(0)
    assert len(heard) == 102 and max(heard.values()) <= EVENTS_PER_TURN


def test_what_a_noisy_port_has_left_comes_in_the_next_turns_in_order(reactor, noisy):
    turns = 0
    while len(noisy) < NOISE:
        reactor.run_once(0)
        turns += 1
    assert turns == NOISE // EVENTS_PER_TURN
    assert [event.message.job_id for event in noisy] == list(range(1, NOISE + 1))
    reactor.run_once(0)
    assert len(noisy) == NOISE


def test_a_noisy_port_takes_turns_with_another(reactor):
    hub, order = Hub(), []
    sender = hub.port(OWNER)
    for name in ("one", "other"):
        port = hub.port(OWNER)
        port.listen(reactor, lambda name=name, port=port: order.append((name, len(port.events()))))
        for number in range(3 * EVENTS_PER_TURN):
            sender.send(port.id, Input(number + 1, b""))
    for _ in range(3):
        reactor.run_once(0)
        assert sorted(order) == [("one", EVENTS_PER_TURN), ("other", EVENTS_PER_TURN)]
        order.clear()
    for port in list(hub.ports.values()):
        port.close()
