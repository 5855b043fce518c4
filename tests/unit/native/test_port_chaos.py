"""Ports that come, go and leave one another at random keep their promises.

After each loss or disconnect a sender counts its messages to the target from 0 again: an
epoch. A receiver sees the first messages of each epoch, in order and without gaps, and epochs
in order. All messages of an epoch that ended without a loss arrive.
"""

from __future__ import annotations

import random
import select

import pytest

from native.ids import PortalId
from native.port.port import Loss, PeerLost, Received
from native.port.portals import PortalsPort
from native.wire.io import Input
from tests.support.ports import TEST_KEY

PORTS = 5
STEPS = 400
STALLED_S = 2.0  # a ping would set it going again after five


class Member:
    """A port, what it has sent, and what it has heard."""

    def __init__(self, listen: str, life: int) -> None:
        self.port = PortalsPort(listen=listen, partition_key=TEST_KEY)
        self.life = life  # distinguishes processes at one address
        self.epochs: dict[PortalId, int] = {}
        self.counts: dict[PortalId, int] = {}
        self.heard: dict[tuple[PortalId, int], tuple[int, int]] = {}  # epoch, next number
        self.losses: list[PeerLost] = []

    def send(self, target: PortalId, size: int) -> None:
        number = self.counts.get(target, 0)
        self.counts[target] = number + 1
        label = f"{self.life} {self.epochs.get(target, 0)} {number} ".encode()
        self.port.send(target, Input(1, label + bytes(size)))

    def new_epoch(self, target: PortalId) -> None:
        self.epochs[target] = self.epochs.get(target, 0) + 1
        self.counts[target] = 0

    def take(self) -> None:
        for event in self.port.events():
            if isinstance(event, PeerLost):
                self.losses.append(event)
                self.new_epoch(event.peer)
            else:
                assert isinstance(event, Received), event
                self.check(event)

    def check(self, event: Received) -> None:
        life, epoch, number = map(int, event.message.data.split(b" ", 3)[:3])
        last_epoch, expected = self.heard.get((event.source, life), (0, 0))
        assert epoch >= last_epoch
        assert number == (expected if epoch == last_epoch else 0)
        self.heard[event.source, life] = (epoch, number + 1)


@pytest.mark.parametrize("seed", range(12))
def test_random_comings_and_goings_keep_the_promises(seed: int) -> None:
    rng = random.Random(seed)
    lives = iter(range(10_000))
    members = [Member("127.0.0.1:0", next(lives)) for _ in range(PORTS)]

    def drive(wait_s: float = 0) -> bool:
        ready = select.select([m.port for m in members], [], [], wait_s)[0]
        for member in members:
            if member.port in ready:
                member.take()
        return bool(ready)

    def missing() -> list[tuple[int, PortalId]]:
        """The members that lack a message of a present epoch: without a loss all must arrive."""
        found = []
        for member in members:
            for target, count in member.counts.items():
                other = next(m for m in members if m.port.id == target)
                heard = other.heard.get((member.port.id, member.life), (0, 0))
                if count and heard != (member.epochs.get(target, 0), count):
                    found.append((member.life, target))
        return found

    try:
        for _ in range(STEPS):
            place = rng.randrange(PORTS)
            member = members[place]
            target = rng.choice([m.port.id for m in members if m is not member])
            match rng.choices(["send", "leave", "restart", "drive"], [60, 3, 2, 60])[0]:
                case "send":
                    for _ in range(rng.randrange(1, 30)):
                        member.send(target, rng.choice([0, 10, 1000, 60_000]))
                case "leave":
                    member.port.disconnect(target)
                    member.new_epoch(target)
                case "restart":
                    listen = f"127.0.0.1:{member.port.id.pid}"
                    member.port.close(flush_s=rng.choice([0, 0.01]))
                    members[place] = Member(listen, next(lives))
                case "drive":
                    drive()
        while missing():
            assert drive(STALLED_S), missing()
        while drive(0.1):
            assert not missing()
        for member in members:
            assert {loss.loss for loss in member.losses} <= {
                Loss.CLOSED,
                Loss.DIED,
                Loss.RESTARTED,
                Loss.UNREACHABLE,
            }
    finally:
        for member in members:
            member.port.close(flush_s=0)
