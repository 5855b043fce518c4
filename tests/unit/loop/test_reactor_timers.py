"""Timers of the loop, on a clock that the test sets."""

import os
import select

import pytest


@pytest.fixture
def calls():
    return []


def timer_of(reactor, calls, name="called"):
    return reactor.timer(lambda: calls.append(name))


def test_a_timer_calls_once_when_its_time_has_come(reactor, clock, calls):
    timer = timer_of(reactor, calls)
    assert (timer.at, reactor.deadline()) == (None, None)
    timer.set(105.0)
    assert (timer.at, reactor.deadline()) == (105.0, 105.0)
    clock.now = 104.9
    reactor.run_once(0)
    assert calls == []
    clock.now = 105.0
    for _ in range(2):
        reactor.run_once(0)
    assert calls == ["called"]
    assert (timer.at, reactor.deadline()) == (None, None)


def test_the_earliest_of_several_deadlines_is_the_loops(reactor, calls):
    timers = [timer_of(reactor, calls) for _ in range(3)]
    for timer, at in zip(timers, (None, 120.0, 110.0), strict=True):
        timer.set(at)
    assert reactor.deadline() == 110.0
    timers[2].set(None)
    assert reactor.deadline() == 120.0
    timers[0].set(90.0)
    assert reactor.deadline() == 90.0


def test_timers_that_are_due_together_call_in_the_order_of_their_times(reactor, clock, calls):
    for number, at in enumerate((103.0, 101.0, 102.0, 101.0)):
        timer_of(reactor, calls, number).set(at)
    clock.now = 110.0
    reactor.run_once(0)
    assert calls == [1, 3, 2, 0]


def test_a_deadline_that_an_event_has_cancelled_is_not_delivered(reactor, clock, pipes, calls):
    (read, write), timer = pipes(), timer_of(reactor, calls)
    timer.set(105.0)
    reactor.watch(read, lambda: (os.read(read, 1), timer.set(None)))
    os.write(write, b"x")
    clock.now = 106.0
    reactor.run_once(0)
    assert calls == []


@pytest.mark.parametrize("change", [lambda timer: timer.set(200.0), lambda timer: timer.close()])
def test_a_timer_changed_by_one_of_the_same_moment_is_not_called(reactor, clock, calls, change):
    first = reactor.timer(lambda: (calls.append("first"), change(second)))
    second = timer_of(reactor, calls, "second")
    first.set(101.0)
    second.set(101.0)
    clock.now = 102.0
    reactor.run_once(0)
    assert calls == ["first"]


def test_a_closed_timer_cannot_be_set(reactor, calls):
    timer = timer_of(reactor, calls)
    for _ in range(2):  # twice is harmless
        timer.set(90.0)
        timer.close()
        assert (timer.at, reactor.deadline()) == (None, None)
    timer.set(90.0)
    reactor.run_once(0)
    assert calls == []


def test_a_timer_that_is_always_due_calls_once_a_turn_and_holds_up_no_other(reactor, calls):
    timer = reactor.timer(lambda: (calls.append("busy"), timer.set(0.0)))
    timer.set(0.0)
    timer_of(reactor, calls, "other").set(50.0)
    reactor.run_once(0)
    assert calls == ["busy", "other"]
    reactor.run_once(0)
    assert calls == ["busy", "other", "busy"]


def test_what_a_timer_without_owner_raises_loses_no_other_deadline(reactor, calls):
    def fail():
        raise ValueError("broken")

    reactor.timer(fail).set(90.0)
    timer_of(reactor, calls).set(95.0)
    with pytest.raises(ValueError, match="broken"):
        reactor.run_once(0)
    reactor.run_once(0)
    assert calls == ["called"]


def test_the_loop_stops_at_a_deadline(reactor, clock, calls):
    timer = reactor.timer(lambda: (calls.append(clock.now), reactor.stop()))
    timer.set(100.0)
    reactor.run()
    assert calls == [100.0]
    reactor.call_soon(reactor.stop)
    reactor.run()  # and may run again


def test_a_deadline_in_many_years_is_waited_for_like_any_other(reactor, pipes, calls):
    (read, write) = pipes()
    timer_of(reactor, calls).set(float(1 << 40))
    reactor.watch(read, lambda: (calls.append("readable"), reactor.stop()))
    os.write(write, b"x")
    reactor.run()
    assert calls == ["readable"]


def test_a_loop_that_hosts_another_is_told_of_each_change_of_its_deadline(reactor, clock, calls):
    """An outer loop waits for the descriptor and the deadline, and calls run_once(0)."""
    timer = timer_of(reactor, calls)
    for at in (130.0, 120.0, 140.0):
        timer.set(at)
        assert reactor.deadline() == at
    clock.now = 140.0
    assert select.select([reactor], [], [], 0)[0] == []
    reactor.run_once(0)
    assert (calls, reactor.deadline()) == (["called"], None)


def test_a_thousand_timers_are_each_called_at_their_time(reactor, clock):
    told = []
    for number in range(1000):
        at = 100.0 + number * 617 % 1000
        reactor.timer(lambda at=at: told.append((at, clock.now))).set(at)
    while (due := reactor.deadline()) is not None:
        clock.now = due
        reactor.run_once(0)
    assert told == [(at, at) for at in map(float, range(100, 1100))]
