"""A signal that ends ranks reaches all nodes before the first of them tells of its dead."""

from __future__ import annotations

import _socket
import os
import select

import pytest

from native.host.files import Owner
from native.loop.reactor import Reactor
from native.wire import keeper as wire
from native.wire import load
from pct.events import JobEvent, KeeperSignal, OutputRead, Several
from pct.host import ranks as module
from pct.host.keeper import Keeper
from pct.host.ranks import JobRanks
from pct.host.spawn.spawner import Departed
from pct.job.keepers import SPREAD_MAX_S, SPREAD_NODE_S
from pct.rare_events import LetSpread
from tests.unit.pct.job_of import JOB_ID, NOW, PRESENT, YOD, Tree, a_job, received
from tests.unit.pct.test_keeper import report
from tests.unit.pct.test_ranks_groups import SPEC

ENDED, EMPTY = report(4, 0, 15), report(5)


@pytest.mark.parametrize(("number", "holds"), [(15, True), (9, True), (2, True), (10, False)])
def test_a_signal_that_ends_ranks_has_time_to_spread(number, holds):
    tree = Tree(3)
    tree.run()
    tree.from_yod(load.Signal(JOB_ID, number))
    for place in range(3):
        assert tree.took(place, KeeperSignal) == [KeeperSignal(JOB_ID, number)]
        spread = [LetSpread(JOB_ID, 3 * SPREAD_NODE_S)] if holds else []
        assert tree.took(place, LetSpread) == spread


def test_where_there_is_one_node_nothing_waits():
    signal = received(YOD, load.Signal(JOB_ID, 15))
    assert a_job(PRESENT).handle(signal, NOW) == [KeeperSignal(JOB_ID, 15)]


def test_a_job_of_many_nodes_waits_no_longer_than_the_limit():
    tree = Tree(200)
    tree.run()
    tree.from_yod(load.Signal(JOB_ID, 15))
    assert tree.took(199, LetSpread) == [LetSpread(JOB_ID, SPREAD_MAX_S)]


class Told:
    """Ranks of a node on a clock of the test's, and what the node's machine is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.events: list[JobEvent] = []
        self.reactor = Reactor(lambda: self.now)
        self.keeper, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        theirs.setblocking(False)
        reading, self.stdout = os.pipe2(os.O_NONBLOCK)

        def start(spec, spawner, reactor, on_event, on_streams, *_: object, **__: object) -> Keeper:
            on_streams(0, None, reading, os.dup(reading), None)
            self.end = Keeper(theirs, Departed(), reactor, on_event, on_streams, range(2))
            return self.end

        monkeypatch.setattr(module.Keeper, "start", start)
        nothing = lambda *_: None  # noqa: E731
        owner = Owner(1000, 100, ())
        self.ranks = JobRanks(7, owner, self.reactor, None, self.take, nothing, Departed())
        self.ranks.start_keeper(SPEC, 0)

    def take(self, event: JobEvent) -> None:
        assert isinstance(event, Several)
        self.events += event.events

    def turn(self, after_s: float = 0.0) -> int:
        """What has been told when so much time has passed and the loop has turned."""
        self.now += after_s
        for _ in range(3):
            self.reactor.run_once(0.0)
        return len(self.events)

    def close(self) -> None:
        self.ranks.close()
        self.reactor.close()
        self.keeper.close()
        os.close(self.stdout)


@pytest.fixture
def told(monkeypatch):
    told = Told(monkeypatch)
    yield told
    told.close()


def test_an_end_is_looked_at_when_the_signal_has_spread(told):
    told.ranks.let_spread(0.05)
    told.keeper.send(ENDED + EMPTY)
    told.end.ended(0)
    assert told.turn() == 0 and told.turn(0.04) == 0
    assert told.turn(0.02) == 2  # at once, in one piece
    assert told.events[1].report == wire.KeeperEmpty()


def test_a_second_signal_spreads_anew(told):
    told.ranks.let_spread(0.05)
    told.keeper.send(ENDED)
    told.end.ended(9)
    assert told.turn(0.04) == 0
    told.ranks.let_spread(0.05)
    assert told.turn(0.04) == 0
    assert told.turn(0.02) == 2
    assert told.events[1].report == wire.KeeperLost("the keeper failed: killed by SIGKILL")


def test_a_keeper_that_has_ended_meanwhile_is_not_killed(told, monkeypatch):
    killed = []
    monkeypatch.setattr(os, "kill", lambda *arguments: killed.append(arguments))
    told.end.started(4711)
    told.ranks.let_spread(0.05)
    told.end.ended(9)
    told.ranks.kill_keepers()
    assert killed == [] and told.ranks.left() == set()


def test_the_loop_does_not_wake_up_before_that(told):
    told.ranks.let_spread(0.05)
    told.keeper.send(ENDED)
    os.write(told.stdout, b"its last words\n")
    assert not select.select([told.reactor], [], [], 0)[0]


def test_commands_reach_the_keeper_meanwhile(told):
    told.ranks.let_spread(0.05)
    told.ranks.signal(9)
    assert told.keeper.recv(100) == wire.encode_signal(9)
    told.keeper.send(ENDED)
    assert told.turn() == 0


def test_output_is_read_when_the_signal_has_spread(told):
    told.ranks.let_spread(0.05)
    os.write(told.stdout, b"its last words\n")
    assert told.turn() == 0
    assert told.turn(0.06) == 1
    assert isinstance(told.events[0], OutputRead) and told.events[0].data == b"its last words\n"


def test_output_that_is_paused_stays_so_when_the_signal_has_spread(told):
    told.ranks.pause(1, True)
    told.ranks.pause(2, True)
    told.ranks.let_spread(0.05)
    os.write(told.stdout, b"its last words\n")
    assert told.turn(0.06) == 0
    told.ranks.pause(1, False)
    assert told.turn() == 1


def test_nothing_is_told_of_a_job_that_has_been_dropped(told):
    told.ranks.let_spread(0.05)
    told.keeper.send(ENDED)
    told.ranks.close()
    assert told.turn(0.1) == 0
