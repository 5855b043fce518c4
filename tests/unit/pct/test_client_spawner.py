"""A keeper that is another process's child: what its client tells, in whatever order."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import pytest

from native.errors import PeerProtocolError
from native.loop.reactor import Reactor
from native.wire import keeper as wire
from pct.host.keeper import Keeper
from pct.host.spawn.client import ClientSpawner
from tests.unit.pct.test_keeper import SPEC, report

CLIENT = 4711
KEEPER = 2**22 + 1  # no process has this number
LOST = "the keeper is lost: the process that has started it has died"


class FakeChannel:
    """Keeps what it is given, as a client would."""

    def __init__(self) -> None:
        self.packets: list[tuple[str, int]] = []
        self.fds: dict[int, tuple[int, ...]] = {}

    def send_start(self, number: int, fds: tuple[int, ...]) -> None:
        self.packets.append(("start", number))
        self.fds[number] = fds

    def send_continue(self, number: int) -> None:
        self.packets.append(("continue", number))

    def send_kill_orphans(self, token: int) -> None:
        self.packets.append(("kill orphans", token))

    def drop(self, number: int) -> None:
        """Close what a keeper was to be given: it has ended, or could not be started."""
        for fd in self.fds.pop(number, ()):
            os.close(fd)


class Place:
    """A client, and the PCT that asks it for keepers."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.channel = FakeChannel()
        self.spawner = ClientSpawner(CLIENT, self.reactor, self.channel)
        self.events: list[wire.Report] = []
        self.refusals: list[str] = []
        self.keepers: list[Keeper] = []

    def start(self) -> int:
        """Ask for a keeper; gives its number."""
        keeper = Keeper.start(
            SPEC,
            self.spawner,
            self.reactor,
            self.events.append,
            lambda *streams: None,
            on_not_started=self.refusals.append,
        )
        self.keepers.append(keeper)
        return len(self.keepers)

    def say(self, number: int, packet: bytes) -> None:
        """The keeper reports."""
        os.write(self.channel.fds[number][0], packet)

    def turn(self) -> None:
        self.reactor.run_once(0.0)

    def close(self) -> None:
        for keeper in self.keepers:
            keeper.close()
        for number in list(self.channel.fds):
            self.channel.drop(number)
        self.reactor.close()


@pytest.fixture
def place() -> Iterator[Place]:
    before = len(os.listdir("/proc/self/fd"))
    place = Place()
    yield place
    place.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_client_gets_the_keepers_descriptors_and_is_the_parent_that_it_is_told_of(place):
    number = place.start()
    assert place.channel.packets == [("start", number)]
    control, spec = place.channel.fds[number]
    assert os.pread(spec, 8, 0) == struct.pack("<4sI", b"YOK1", CLIENT)
    place.keepers[0].go()
    assert os.read(control, 100) == wire.encode_go()
    place.spawner.started(number, KEEPER)
    assert place.keepers[0].unix_pid == KEEPER
    assert place.spawner.has_keepers


def test_reports_may_come_before_the_word_that_the_keeper_has_been_started(place):
    number = place.start()
    place.say(number, report(3, 8, 2, step=8, text=b"/a"))
    place.turn()
    assert [type(event) for event in place.events] == [wire.ExecFailed]
    place.spawner.started(number, KEEPER)
    place.say(number, report(5))
    place.turn()
    assert place.events[1:] == [wire.KeeperEmpty()]


def test_what_a_keeper_said_last_is_heard_though_its_end_is_told_first(place):
    number = place.start()
    place.spawner.started(number, KEEPER)
    place.say(number, report(5))
    place.channel.drop(number)
    place.spawner.ended(number, 0)
    assert place.events == [wire.KeeperEmpty()]
    assert not place.spawner.has_keepers


def test_a_keeper_whose_socket_ends_first_is_lost_when_its_end_is_told(place):
    number = place.start()
    place.spawner.started(number, KEEPER)
    place.channel.drop(number)
    place.turn()
    assert place.events == []
    place.spawner.ended(number, 9)
    assert place.events == [wire.KeeperLost("the keeper failed: killed by SIGKILL")]


@pytest.mark.parametrize("has_socket_ended", [False, True])
def test_a_start_that_fails_later_is_told_once_and_nothing_else_is(place, has_socket_ended):
    number = place.start()
    if has_socket_ended:
        place.channel.drop(number)
        place.turn()
    place.spawner.started(number, -11)
    place.turn()
    assert place.refusals == ["Resource temporarily unavailable"]
    assert place.events == []
    place.keepers[0].end()
    place.spawner.gone()
    assert (place.refusals[1:], place.events) == ([], [])


def test_a_keeper_is_continued_to_end_its_ranks_until_it_has_ended(place):
    number = place.start()
    place.keepers[0].end()
    place.spawner.started(number, KEEPER)
    place.keepers[0].end()
    place.channel.drop(number)
    place.spawner.ended(number, 0)
    place.keepers[0].end()
    assert place.channel.packets[1:] == [("continue", number)] * 2


def test_one_that_has_nothing_left_is_not_continued(place):
    number = place.start()
    place.spawner.started(number, KEEPER)
    place.say(number, report(5))
    place.turn()
    place.keepers[0].close()
    assert place.channel.packets == [("start", number)]


@pytest.mark.parametrize("is_started", [False, True])
def test_a_keeper_of_a_dead_client_is_told_to_end_and_lost_at_the_end_of_its_socket(
    place, is_started
):
    number = place.start()
    if is_started:
        place.spawner.started(number, KEEPER)
    place.say(number, report(3, 8, 2, step=8, text=b"/a"))
    place.spawner.gone()
    place.turn()
    assert [type(event) for event in place.events] == [wire.ExecFailed]
    assert os.read(place.channel.fds[number][0], 100) == wire.encode_end()
    place.say(number, report(4, 8, 9))
    place.channel.drop(number)
    place.turn()
    assert [type(event) for event in place.events[1:]] == [wire.RankEnded, wire.KeeperLost]
    assert place.events[-1] == wire.KeeperLost(LOST)


def test_one_that_has_ended_its_ranks_after_the_clients_death_is_not_lost(place):
    number = place.start()
    place.spawner.started(number, KEEPER)
    place.spawner.gone()
    place.say(number, report(5))
    place.channel.drop(number)
    place.turn()
    assert place.events == [wire.KeeperEmpty()]


def test_one_whose_socket_has_ended_is_lost_with_its_client(place):
    number = place.start()
    place.spawner.started(number, KEEPER)
    place.channel.drop(number)
    place.turn()
    place.spawner.gone()
    place.spawner.gone()
    assert place.events == [wire.KeeperLost(LOST)]


def test_a_dead_client_starts_nothing_and_has_no_orphans(place):
    told = []
    place.spawner.kill_orphans(lambda: told.append("asked before"))
    assert place.channel.packets == [("kill orphans", 1)]
    assert told == []
    place.spawner.gone()
    place.spawner.kill_orphans(lambda: told.append("asked after"))
    assert told == ["asked before", "asked after"]
    with pytest.raises(OSError, match="the user's yod has ended"):
        place.start()
    assert len(place.channel.packets) == 1


def test_each_who_waits_for_orphans_hears_of_the_end_of_those_that_it_has_asked_for(place):
    told = []
    place.spawner.kill_orphans(lambda: told.append(1))
    place.spawner.kill_orphans(lambda: told.append(2))
    place.spawner.orphans_killed(2)
    assert told == [2]
    place.spawner.orphans_killed(1)
    assert told == [2, 1]


def test_what_follows_is_done_for_the_job_that_has_asked(place):
    faults = []

    def fail() -> None:
        raise ZeroDivisionError

    place.reactor.run_for(faults.append, place.spawner.kill_orphans, fail)
    place.reactor.run_for(faults.append, place.start)
    place.keepers[0].started = lambda unix_pid: fail()
    place.spawner.orphans_killed(1)
    place.spawner.started(1, KEEPER)
    assert [type(error) for error in faults] == [ZeroDivisionError] * 2


@pytest.mark.parametrize(
    "words",
    [
        [("started", 2, KEEPER)],
        [("started", 0, KEEPER)],
        [("started", 1, 0)],
        [("started", 1, KEEPER), ("started", 1, KEEPER + 1)],
        [("started", 1, -11), ("ended", 1, 0)],
        [("ended", 1, 0)],
        [("started", 1, KEEPER), ("ended", 1, 0), ("ended", 1, 0)],
        [("orphans_killed", 1)],
    ],
)
def test_a_client_that_speaks_out_of_turn_is_refused(place, words):
    place.start()
    *before, last = words
    for name, *arguments in before:
        getattr(place.spawner, name)(*arguments)
    with pytest.raises(PeerProtocolError, match="client: "):
        getattr(place.spawner, last[0])(*last[1:])
