"""Which ranks of a raptor's workers have which call."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yod.pilot.function.raptors import Given, Raptors


def with_workers(**sizes: int) -> Raptors:
    """A raptor r whose workers have so many ranks; their numbers count down from -1."""
    raptors = Raptors()
    number = 0
    for worker, size in sizes.items():
        for rank in range(size):
            number -= 1
            raptors.came(number, "r", worker, rank)
    return raptors


def test_workers_of_a_raptor_pull_its_calls_in_their_order():
    raptors = Raptors()
    assert [raptors.want(uid, "r") for uid in ("a", "b", "c")] == [[]] * 3
    assert raptors.why("b") == "the raptor r has no worker"
    assert raptors.came(-1, "r", "w", 0) == [Given("a", (-1,))]
    assert raptors.why("b") == "it waits for one of 1 workers of the raptor r"
    assert raptors.came(-2, "r", "w", 0) == [Given("b", (-2,))]
    assert raptors.call_of(-1) == "a"
    assert raptors.done("a") == [Given("c", (-1,))]
    assert raptors.done("b") == []
    assert raptors.done("b") == []
    assert raptors.want("d", "other") == []
    assert raptors.want("e", "r") == [Given("e", (-2,))]


def test_a_worker_of_a_raptor_that_is_lost_loses_its_call_alone():
    raptors = Raptors()
    for uid in ("a", "b"):
        raptors.want(uid, "r")
    raptors.came(-1, "r", "w", 0)
    assert raptors.gone(-1) == ("a", [])
    assert raptors.gone(-1) == ("", [])
    assert raptors.came(-2, "r", "w", 0) == [Given("b", (-2,))]
    raptors.done("b")
    assert raptors.gone(-2) == ("", [])
    assert raptors.want("c", "r") == []


def test_a_worker_that_comes_when_its_raptor_has_ended_is_not_kept():
    raptors = Raptors()
    raptors.want("a", "r")
    raptors.came(-1, "r", "w", 0)
    assert raptors.done("a") == []
    assert raptors.end("r") == ([], [-1])
    with pytest.raises(KeyError):
        raptors.came(-2, "r", "w", 0)
    assert raptors.gone(-2) == ("", [])


def test_a_call_that_is_not_wanted_is_taken_from_the_line_or_its_ranks_are_named():
    raptors = Raptors()
    for uid in ("a", "b", "c"):
        raptors.want(uid, "r")
    raptors.want("large", "r", 2)
    raptors.came(-1, "r", "w", 0)
    assert raptors.drop("a") == ([-1], [])
    assert raptors.drop("c") == ([], [])
    assert raptors.drop("b") == ([], [])
    assert raptors.drop("large") == ([], [])
    assert raptors.done("a") == []


def test_a_raptor_that_ends_gives_up_its_calls_and_takes_no_more():
    raptors = Raptors()
    for uid, count in (("a", 1), ("b", 1), ("c", 5)):
        raptors.want(uid, "r", count)
    raptors.came(-1, "r", "w", 0)
    assert raptors.end("r") == (["b", "c"], [-1])
    with pytest.raises(KeyError):
        raptors.want("d", "r")


def test_a_call_of_several_ranks_has_those_of_one_worker_in_their_order():
    raptors = with_workers(w=2, x=3)
    assert raptors.want("a", "r", 3) == [Given("a", (-3, -4, -5))]
    assert raptors.want("b", "r", 2) == [Given("b", (-1, -2))]
    assert raptors.want("c", "r", 3) == []
    assert raptors.why("c") == "it waits for 3 ranks of a worker of the raptor r to be free"
    assert raptors.done("a") == [Given("c", (-3, -4, -5))]


def test_a_call_that_no_worker_has_room_for_stops_no_other_and_says_why():
    raptors = with_workers(w=1)
    assert raptors.want("large", "r", 2) == []
    assert raptors.want("small", "r") == [Given("small", (-1,))]
    assert raptors.why("large") == ("it has 2 ranks, and the largest worker of the raptor r has 1")
    raptors.came(-2, "r", "x", 0)
    assert raptors.came(-3, "r", "x", 1) == [Given("large", (-2, -3))]


def test_a_call_of_several_ranks_is_not_passed_for_ever():
    raptors = with_workers(w=2, x=1)
    raptors.want("a", "r")
    raptors.want("b", "r")
    both = raptors.want("both", "r", 2)
    assert both == []
    assert raptors.want("c", "r") == [Given("c", (-3,))]  # nothing on w, where one waits for two
    assert raptors.want("d", "r") == []
    assert raptors.done("b") == []
    assert raptors.done("c") == [Given("d", (-3,))]
    assert raptors.done("a") == [Given("both", (-1, -2))]


def test_a_call_loses_its_ranks_one_by_one():
    raptors = with_workers(w=3)
    raptors.want("a", "r", 2)
    assert raptors.gone(-1)[0] in ("a", "")
    raptors.gone(-2)
    raptors.gone(-3)
    assert raptors.drop("a") == ([], [])
    assert raptors.done("a") == []
    raptors.check()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=80))
def test_every_call_is_run_once_and_none_waits_while_all_ranks_are_free(steps):
    raptors = Raptors()
    sizes = {"w": 0, "x": 0}
    alive: list[int] = []
    wanted: dict[str, int] = {}
    running: list[str] = []
    dropped: set[str] = set()
    seen: set[str] = set()

    def take(given: list[Given]) -> None:
        for each in given:
            assert each.uid not in seen
            assert each.uid not in dropped
            assert len(each.ranks) == wanted[each.uid]
            seen.add(each.uid)
            running.append(each.uid)

    for n, (what, which) in enumerate(steps):
        if what == 0:
            wanted[f"c{n}"] = 1 + which // 2
            take(raptors.want(f"c{n}", "r", 1 + which // 2))
        elif what == 1:
            worker = "wx"[which % 2]
            alive.append(-1 - n)
            take(raptors.came(-1 - n, "r", worker, sizes[worker]))
            sizes[worker] += 1
        elif what == 2 and running:
            take(raptors.done(running.pop(which % len(running))))
        elif what == 3 and alive:
            take(raptors.gone(alive.pop(which % len(alive)))[1])
        elif what == 4 and (waiting := [uid for uid in wanted if uid not in seen | dropped]):
            dropped.add(waiting[which % len(waiting)])
            ranks, given = raptors.drop(waiting[which % len(waiting)])
            assert ranks == []
            take(given)
        raptors.check()
    for worker in "wx":
        for rank in range(3):
            alive.append(-1000 - len(alive))
            take(raptors.came(alive[-1], "r", worker, 10 + rank))
    while running:
        take(raptors.done(running.pop()))
        raptors.check()
    assert seen | dropped == wanted.keys()
