"""A signal that ends ranks reaches all nodes before the first of them tells of its dead."""

from __future__ import annotations

import pytest

from native.host.files import Owner
from native.loop.reactor import Reactor
from native.wire import keeper as wire
from native.wire import load
from pct.events import JobEvent, KeeperSignal, OutputRead, Several
from pct.host import ranks as module
from pct.host.ranks import JobRanks
from pct.job.keepers import SPREAD_MAX_S, SPREAD_NODE_S
from pct.rare_events import LetSpread
from tests.unit.pct.job_of import JOB_ID, NOW, PRESENT, YOD, Tree, a_job, received
from tests.unit.pct.test_ranks_groups import SPEC

ENDED = wire.RankEnded(
    0, 15, was_released=True, user_s=0.0, system_s=0.0, max_rss_bytes=0, ended_at=0.0
)


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

        def start(spec, spawner, reactor, on_event, *_: object, **__: object) -> Told:
            self.report = on_event
            return self

        monkeypatch.setattr(module.Keeper, "start", start)
        nothing = lambda *_: None  # noqa: E731
        owner = Owner(1000, 100, ())
        self.ranks = JobRanks(7, owner, self.reactor, None, self.take, nothing, None)
        self.ranks.start_keeper(SPEC, 0)

    def take(self, event: JobEvent) -> None:
        assert isinstance(event, Several)
        self.events += event.events

    def close(self) -> None:
        """In place of the keeper's."""

    def turn(self, after_s: float = 0.0) -> int:
        """What has been told when so much time has passed and the loop has turned."""
        self.now += after_s
        self.reactor.run_once(0.0)
        self.reactor.run_once(0.0)
        return len(self.events)


@pytest.fixture
def told(monkeypatch):
    told = Told(monkeypatch)
    yield told
    told.ranks.close()
    told.reactor.close()


def test_an_end_is_told_when_the_signal_has_spread(told):
    told.ranks.let_spread(0.05)
    told.report(ENDED)
    assert told.turn() == 0 and told.turn(0.04) == 0
    told.report(wire.KeeperEmpty())
    assert told.turn(0.02) == 2  # at once, in one piece
    told.report(ENDED)
    assert told.turn() == 3


def test_output_waits_for_no_signal(told):
    told.ranks.let_spread(0.05)
    told.report(ENDED)
    told.ranks._read(0, 1, b"its last words\n")
    assert told.events[1] == OutputRead(7, 0, 1, b"its last words\n")
    assert told.turn(0.1) == 2


def test_nothing_is_told_of_a_job_that_has_been_dropped(told):
    told.ranks.let_spread(0.05)
    told.report(ENDED)
    told.ranks.close()
    assert told.turn(0.1) == 0
