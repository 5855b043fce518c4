"""The rules of an executor: calls, workers, and cores."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.errors import UsageError
from yod.pilot.executor.crew import (
    GRACE_S,
    PATIENCE_S,
    STARTS_MAX,
    Crew,
    End,
    Fail,
    Give,
    Start,
    State,
)
from yod.pilot.executor.wants import Kind, Wants, wants_of

ONE, TWO = Kind(), Kind(ranks=2)
PLAIN, WIDE = Wants(), Wants(TWO)


def manned(cores=1, wants=PLAIN):
    """A crew with a worker that has call 1."""
    crew = Crew(cores)
    assert crew.ask(1, wants, 0.0) == [Start(1, wants.kind)]
    assert crew.came(1, 0.0) == [Give(1, 1)]
    return crew


def test_calls_wait_for_a_worker_and_find_it_warm_later():
    crew = manned()
    assert crew.ask(2, PLAIN, 0.0) == []
    assert crew.answered(1, 0.0) == [Give(1, 2)]
    assert crew.answered(1, 0.0) == []
    assert crew.is_quiet
    assert crew.ask(3, PLAIN, 0.0) == [Give(1, 3)]


def test_there_are_as_many_workers_as_calls_want_and_cores_allow():
    crew = Crew(2)
    started = [action for n in range(5) for action in crew.ask(n, PLAIN, 0.0)]
    assert started == [Start(1, ONE), Start(2, ONE)]
    assert crew.resize(3) == [Start(3, ONE)]


def test_an_idle_worker_gives_way_to_one_of_another_kind():
    crew = manned(2)
    crew.answered(1, 0.0)
    assert crew.ask(2, WIDE, 0.0) == [End(1, is_forced=False)]
    assert crew.state_of(1) is State.ENDING
    assert crew.over(1, "") == [Start(2, TWO)]


def test_a_busy_worker_gives_way_when_others_without_a_worker_have_waited_for_some_time():
    crew = Crew(2)
    for n in (1, 2):
        crew.ask(n, PLAIN, 0.0)
        crew.came(n, 0.0)
    crew.ask(3, WIDE, 0.1)
    for n in (4, 5):
        crew.ask(n, PLAIN, 0.2)
    assert crew.answered(1, PATIENCE_S / 2) == [Give(1, 4)]
    assert crew.answered(1, 0.1 + PATIENCE_S) == [End(1, is_forced=False)]
    assert crew.answered(2, 0.1 + PATIENCE_S) == [End(2, is_forced=False)]
    assert crew.over(1, "") == []
    assert crew.over(2, "") == [Start(3, TWO)]


def test_what_becomes_free_is_kept_for_calls_that_came_earlier_and_have_no_worker():
    crew = manned(2)
    crew.ask(2, WIDE, 0.0)
    assert crew.ask(3, PLAIN, 0.1) == []
    assert crew.answered(1, 0.2) == [Give(1, 3)]


def test_the_call_of_a_dead_worker_fails_or_is_given_back_so_often_as_was_said():
    crew = manned(1, Wants(restarts=1))
    assert crew.over(1, "killed") == [Start(2, ONE)]
    assert crew.came(2, 0.0) == [Give(2, 1)]
    assert crew.over(2, "killed") == [Fail(1, "killed")]
    assert crew.is_quiet


def test_workers_that_never_come_fail_the_calls_that_wait():
    crew = Crew(1)
    assert crew.ask(1, PLAIN, 0.0) == [Start(1, ONE)]
    for n in range(1, STARTS_MAX):
        assert crew.over(n, "no") == [Start(n + 1, ONE)]
    assert crew.over(STARTS_MAX, "no") == [Fail(1, "no")]


def test_one_that_is_larger_than_everything_is_left_to_the_pilot_to_refuse():
    crew = manned(1)
    assert crew.ask(2, WIDE, 0.0) == [Start(2, TWO)]


def test_a_call_whose_time_is_over_fails_and_takes_its_worker_with_it():
    crew = manned(1, Wants(time_s=3.0))
    assert crew.deadline() == 3.0
    assert crew.due(3.0) == [
        Fail(1, "its time of 3 s is over", is_late=True),
        End(1, is_forced=True),
    ]
    assert crew.deadline() is None
    assert crew.is_quiet
    assert crew.over(1, "canceled") == []


def test_a_worker_that_is_silent_is_ended_when_nobody_says_why():
    crew = manned()
    assert crew.broke(1, 0.0) == []
    assert crew.due(GRACE_S) == [End(1, is_forced=True)]
    assert crew.over(1, "killed") == [Fail(1, "killed")]


def test_nothing_stays_when_no_call_will_come():
    crew = manned(2)
    crew.ask(2, PLAIN, 0.0)
    assert crew.dismiss() == [End(2, is_forced=True)]
    assert crew.over(2, "") == [Start(3, ONE)]
    crew.answered(1, 0.0)
    assert crew.answered(1, 0.0) == []
    assert set(crew.dismiss()) == {End(1, is_forced=False), End(3, is_forced=True)}


KINDS = (Kind(), Kind(cores=2), Kind(ranks=2), Kind(gpus=1.0))
STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7), st.floats(0, 1)), max_size=80)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_every_call_has_one_end_whatever_happens_and_cores_are_not_exceeded(steps):
    crew = Crew(3)
    kinds: dict[int, Kind] = {}
    alive: list[int] = []
    ending: set[int] = set()
    open_calls: dict[int, Wants] = {}
    now, number = 0.0, 0

    def obey(actions):
        for action in actions:
            match action:
                case Start(worker, kind):
                    kinds[worker] = kind
                    alive.append(worker)
                case Give(worker, call):
                    assert worker in alive
                    assert open_calls[call].kind == kinds[worker]
                case End(worker):
                    ending.add(worker)
                case Fail(call):
                    del open_calls[call]
        assert sum(kinds[each].size for each in alive) <= 3

    def answer(worker):
        call = crew.call_of(worker)
        if crew.state_of(worker) is State.BUSY:
            del open_calls[call]
        obey(crew.answered(worker, now))

    def end(worker):
        alive.remove(worker)
        ending.discard(worker)
        obey(crew.over(worker, "gone"))

    for what, which, later in steps:
        now += later
        if what == 0:
            number += 1
            wants = Wants(KINDS[which % 4], time_s=which % 3, restarts=which % 2)
            open_calls[number] = wants
            obey(crew.ask(number, wants, now))
        elif alive:
            worker = alive[which % len(alive)]
            if what == 1:
                obey(crew.came(worker, now))
            elif what == 2:
                answer(worker)
            elif what == 3:
                end(worker)
            elif what == 4:
                obey(crew.broke(worker, now))
            else:
                obey(crew.due(now))
    for _ in range(1000):
        if not open_calls:
            break
        now += 100.0
        obey(crew.due(now))
        for worker in list(alive):
            if worker in ending:
                end(worker)
            elif crew.state_of(worker) is State.STARTING:
                obey(crew.came(worker, now))
            elif crew.state_of(worker) is State.BUSY:
                answer(worker)
    assert not open_calls
    assert crew.is_quiet


def test_the_keys_of_executorlib_are_taken():
    keys = {"cores": 2, "threads_per_core": 3, "gpus_per_core": 1, "cwd": "/tmp", "num_nodes": 1}
    wants = wants_of({"restart_limit": 1}, keys | {"run_time_max": 5, "priority": -1})
    assert wants == Wants(Kind(2, 3, 1.0, 1, -1), "/tmp", 5.0, 1)
    assert wants.kind.size == 6
    assert wants.kind.description() == {
        "ranks": 2,
        "cores_per_rank": 3,
        "gpus_per_rank": 1.0,
        "ranks_per_node": 2,
        "priority": -1,
    }
    assert wants_of({"cores": None, "slurm_cmd_args": [], "cache_key": None}) == Wants()


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"core": 1}, "there is no key 'core'; did you mean 'cores'?"),
        ({"cores": "2"}, "'cores' is '2'; it is to be of type int"),
        ({"cores": 0}, "'cores' is 0, which is less than 1"),
        ({"cwd": 7}, "'cwd' is 7; it is to be of type str"),
        ({"slurm_cmd_args": ["-p"]}, "'slurm_cmd_args' is refused: "),
    ],
)
def test_a_wrong_key_is_refused_by_name(entries, told):
    with pytest.raises(UsageError) as caught:
        wants_of(entries)
    assert str(caught.value).startswith(f"resource_dict: {told}")
