"""Long work leaves the loop to the others, and goes with who asked for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from native.loop.reactor import Reactor
from native.loop.slices import Slices, Work, run


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


class Log:
    """What has been done, in order."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def work(self, name: str, slices: int) -> Work[str]:
        try:
            for number in range(slices):
                self.said.append(f"{name}{number}")
                if number < slices - 1:
                    yield
        finally:
            self.said.append(f"{name} closed")
        return name

    def done(self, result: str) -> None:
        self.said.append(f"{result} done")


def test_short_work_is_done_at_once(reactor):
    log = Log()
    Slices(reactor).start(1, log.work("a", 1), log.done)
    assert log.said == ["a0", "a closed", "a done"]


def test_a_turn_does_one_slice_whoever_waits(reactor):
    log = Log()
    slices = Slices(reactor)
    for owner, name in enumerate("abc"):
        slices.start(owner, log.work(name, 3), log.done)
    began = [word for word in log.said if word[1:].isdigit()]
    assert began == ["a0"]
    for turn in range(2, 10):
        reactor.run_once(0)
        began = [word for word in log.said if word[1:].isdigit()]
        assert len(began) == turn
    assert began == ["a0", "a1", "b0", "c0", "a2", "b1", "c1", "b2", "c2"]
    assert not any(slices.has(owner) for owner in range(3))


def test_other_events_are_handled_between_two_slices(reactor):
    log = Log()
    reading, writing = os.pipe()
    reactor.watch(reading, lambda: log.said.append(os.read(reading, 1).decode()))
    Slices(reactor).start(1, log.work("a", 3), log.done)
    os.write(writing, b"xyz")
    for _ in range(3):
        reactor.run_once(0)
    assert log.said == ["a0", "a1", "x", "a2", "a closed", "a done", "y", "z"]
    os.close(reading)
    os.close(writing)


def test_cancelled_work_gives_back_what_it_holds_and_reports_nothing(reactor):
    log = Log()
    slices = Slices(reactor)
    slices.start(1, log.work("a", 9), log.done)
    slices.start(2, log.work("b", 2), log.done)
    slices.cancel(1)
    assert log.said == ["a0", "a closed"]
    for _ in range(3):
        reactor.run_once(0)
    assert log.said == ["a0", "a closed", "b0", "b1", "b closed", "b done"]


def test_what_a_result_starts_waits_for_its_turn(reactor):
    log = Log()
    slices = Slices(reactor)

    def more(result: str) -> None:
        log.done(result)
        slices.start(1, log.work("b", 1), log.done)

    slices.start(1, log.work("a", 1), more)
    assert log.said == ["a0", "a closed", "a done"]
    reactor.run_once(0)
    assert log.said[3:] == ["b0", "b closed", "b done"]


def test_a_process_that_ends_does_the_rest_at_once(reactor):
    log = Log()
    slices = Slices(reactor)
    slices.start(0, log.work("a", 5), log.done)
    slices.start(1, log.work("b", 5), log.done)
    slices.finish(0)
    assert log.said == ["a0", "a1", "a2", "a3", "a4", "a closed"]
    assert run(log.work("c", 2)) == "c"


def test_what_a_slice_raises_is_its_owners_and_the_others_go_on(reactor):
    log = Log()
    slices = Slices(reactor)
    told: list[Exception] = []

    def broken() -> Work[str]:
        yield
        raise ValueError("unforeseen")

    reactor.run_for(told.append, lambda: slices.start(1, broken(), log.done))
    slices.start(2, log.work("a", 3), log.done)
    for _ in range(5):
        reactor.run_once(0)
    assert [str(error) for error in told] == ["unforeseen"]
    assert log.said == ["a0", "a1", "a2", "a closed", "a done"]
    assert not slices.has(1)
