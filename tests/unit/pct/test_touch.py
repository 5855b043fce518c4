"""A store that hangs is told from a slow one, and the loop of the node goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from native.loop.reactor import Reactor
from native.machine import DeadlineReached, Log, MessageReceived, Send
from native.wire import load, status
from pct.events import HealthChecked
from pct.host.health.touching import Touching
from pct.touch import Answer, Hang, StoreTouch, Touch, Touched, TouchState, Wanted
from tests.support.wait import LIMIT_S
from tests.unit.pct.job_of import YOD
from tests.unit.pct.node_of import OWNER, granted, ready


def test_it_is_asked_before_each_use_and_from_time_to_time():
    store = StoreTouch(10.0, 100.0)
    assert store.handle(Wanted(), 101.0) == [Touch()]
    assert store.handle(Wanted(), 101.5) == []  # they wait for the same answer
    assert store.handle(Touched(), 102.0) == [Answer(is_back=False)]
    assert store.deadline() == 112.0
    assert store.handle(DeadlineReached(), 112.0) == [Touch()]
    assert store.deadline() == 122.0


def test_a_slow_one_answers_in_time_and_one_that_does_not_hangs_until_it_does():
    store = StoreTouch(10.0, 100.0)
    store.handle(Wanted(), 101.0)
    assert store.handle(Touched(), 110.9) == [Answer(is_back=False)]
    store.handle(Wanted(), 111.0)
    assert store.handle(DeadlineReached(), 121.0) == [Hang()]
    assert (store.state, store.deadline()) == (TouchState.HANGING, None)
    assert store.handle(Wanted(), 130.0) == [Hang()]
    assert store.handle(Touched(), 500.0) == [Answer(is_back=True)]
    assert store.handle(DeadlineReached(), 510.0) == [Touch()]


def test_one_that_is_not_asked_has_no_deadline():
    assert StoreTouch(0.0, 100.0).deadline() is None


def test_the_jobs_of_a_node_whose_store_hangs_end_with_that_reason_and_bebopd_hears_it():
    node = ready()
    node.handle(MessageReceived(YOD, OWNER, granted()), 1.0)
    why = "hangs: a write to /x has not ended in 10 s"
    actions = node.handle(HealthChecked(why, is_lost=True), 2.0)
    said = [action.message for action in actions if isinstance(action, Send)]
    (failure,) = [message for message in said if isinstance(message, load.Failure)]
    assert (failure.kind, failure.text) == (load.FailureKind.NODE_LOST, why)
    assert [each.trouble for each in said if isinstance(each, status.Announce)] == [why]
    assert Log(f"in trouble: {why}") in actions
    again = node.handle(HealthChecked(why, is_lost=True), 3.0)
    assert not any(isinstance(action, Log) for action in again)


class Disk:
    """A directory that takes a byte when the test says so."""

    def __init__(self) -> None:
        self.is_free = threading.Event()
        self.is_free.set()

    def touch(self, directory: str) -> None:
        assert directory == "/store"
        assert self.is_free.wait(LIMIT_S)


@pytest.fixture
def disk() -> Iterator[Disk]:
    found = Disk()
    yield found
    found.is_free.set()


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    found = Reactor()
    yield found
    found.close()


def test_while_a_directory_hangs_the_loop_goes_on_and_work_on_the_store_rests(disk, reactor):
    told: list[str] = []
    paused: list[bool] = []
    done: list[str] = []

    def tell(trouble: str) -> None:
        told.append(trouble)
        reactor.stop()

    touching = Touching(reactor, ["/store"], 0.05, pause=paused.append, tell=tell, touch=disk.touch)
    touching.want(lambda: (done.append("first"), reactor.stop()))
    reactor.run()
    assert (done, told, paused) == (["first"], [], [])
    disk.is_free.clear()
    touching.want(lambda: done.append("second"))
    reactor.run()
    assert told == ["hangs: a write to /store has not ended in 0.05 s (YOD_STORE_ANSWER_S)"]
    assert paused == [True]
    # Whoever looks at the same directories does not touch them meanwhile.
    assert next(touching.looks(lambda: pytest.fail("touched"))) == told[0]
    disk.is_free.set()
    reactor.run()
    assert (told[1:], paused) == ([""], [True, False])
    assert done == ["first"]  # the job of the second has ended
    touching.close()
