"""Tasks go to the pilot with the least work for its size."""

from __future__ import annotations

from yod.pilot.scheduler.auto import FAILED_MAX, Auto, End, Stands, Submit
from yod.pilot.scheduler.pilots import WINDOW_LEAST, Dispatcher, Wanted


def want(dispatcher: Dispatcher, count: int, pilot: str = "") -> None:
    for n in range(count):
        dispatcher.want(Wanted(f"{pilot or 't'}{n}", 1, pilot))


def test_pilots_share_tasks_by_their_size():
    dispatcher = Dispatcher()
    dispatcher.add("a", 3)
    dispatcher.add("b", 1)
    want(dispatcher, 400)
    given = dispatcher.assign()
    assert {pilot: len(uids) for pilot, uids in given.items()} == {"a": 300, "b": 100}


def test_a_pilot_that_comes_later_gets_what_others_have_no_room_for():
    dispatcher = Dispatcher()
    dispatcher.add("a", 1)
    want(dispatcher, WINDOW_LEAST + 10)
    assert len(dispatcher.assign()["a"]) == WINDOW_LEAST
    assert len(dispatcher) == 10
    dispatcher.add("b", 1)
    assert len(dispatcher.assign()["b"]) == 10


def test_a_task_with_a_pilot_of_its_own_waits_for_it():
    dispatcher = Dispatcher()
    dispatcher.add("a", 1)
    want(dispatcher, 2, "b")
    assert dispatcher.assign() == {}
    dispatcher.add("b", 1)
    assert dispatcher.assign() == {"b": ["b0", "b1"]}


def test_a_task_goes_where_it_fits():
    dispatcher = Dispatcher()
    dispatcher.add("small", 1)
    dispatcher.add("large", 8)
    want(dispatcher, 8)
    dispatcher.assign()
    dispatcher.want(Wanted("wide", 4))
    assert dispatcher.assign() == {"large": ["wide"]}


def test_a_closed_pilot_gets_nothing_and_a_lost_one_gives_back_what_waited():
    dispatcher = Dispatcher()
    dispatcher.add("a", 1)
    dispatcher.close("a")
    want(dispatcher, 2)
    want(dispatcher, 2, "a")
    assert dispatcher.assign() == {}
    assert dispatcher.remove("a") == ["a0", "a1"]
    assert "t0" in dispatcher


def test_a_task_that_is_dropped_is_not_given():
    dispatcher = Dispatcher()
    want(dispatcher, 3)
    assert dispatcher.drop("t1")
    assert not dispatcher.drop("t1")
    dispatcher.add("a", 1)
    assert dispatcher.assign() == {"a": ["t0", "t2"]}
    dispatcher.want(Wanted("t1"))
    assert dispatcher.assign() == {"a": ["t1"]}


def test_pilots_come_one_at_a_time_while_tasks_wait_and_at_most_so_many():
    auto = Auto(most=2, idle_s=10.0)
    assert auto.decide(5, [], 0.0) == [Submit()]
    assert auto.decide(5, [Stands("a", False, 0)], 1.0) == []
    assert auto.decide(5, [Stands("a", True, 9)], 2.0) == [Submit()]
    assert auto.decide(5, [Stands("a", True, 9), Stands("b", True, 9)], 3.0) == []


def test_a_pilot_is_ended_when_it_has_had_no_task_for_so_long():
    auto = Auto(most=2, idle_s=10.0)
    assert auto.decide(0, [Stands("a", True, 0)], 0.0) == []
    assert auto.deadline() == 10.0
    assert auto.decide(0, [Stands("a", True, 1)], 5.0) == []
    assert auto.deadline() is None
    assert auto.decide(0, [Stands("a", True, 0)], 6.0) == []
    assert auto.decide(0, [Stands("a", True, 0)], 16.0) == [End("a")]


def test_pilots_that_fail_one_after_another_are_not_followed_by_more():
    auto = Auto(most=2, idle_s=10.0)
    for _ in range(FAILED_MAX):
        assert auto.decide(5, [], 0.0) == [Submit()]
        auto.became(False)
    assert auto.decide(5, [], 0.0) == []
    assert auto.has_given_up
    auto.became(True)
    assert auto.decide(5, [], 0.0) == [Submit()]
