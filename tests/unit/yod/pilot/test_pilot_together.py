"""Calls of several ranks, and arguments that a worker has: what is given to whom."""

from __future__ import annotations

import pytest

from native.errors import UsageError
from yod.pilot.function import codec, preset
from yod.pilot.function.together import Answers, with_communicator
from yod.pilot.wire.calls import Answer
from yod.pilot.work.place import Outcome


def first(comm, n=0):
    return comm, n


def other(n, comm=None):
    return n, comm


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "called"),
    [
        (first, (), {}, ("world", 0)),
        (first, (7,), {}, ("world", 7)),
        (first, (None, 7), {}, ("world", 7)),
        (first, (), {"comm": None}, ("world", 0)),
        (first, (1, 2), {}, (1, 2)),
        (other, (7,), {}, (7, None)),
        (other, (7,), {"comm": None}, (7, "world")),
        (max, (1, 2), {}, 2),
    ],
)
def test_a_communicator_goes_where_there_is_room_for_one(function, args, kwargs, called):
    args, kwargs = with_communicator(function, args, kwargs, lambda: "world")
    assert function(*args, **kwargs) == called


def test_all_values_come_back_in_the_order_of_ranks():
    answers = Answers(2)
    answers.add(1, Answer(0, codec.dumps("one")))
    assert not answers.is_complete
    answers.add(0, Answer(0, codec.dumps("zero")))
    assert answers.is_complete
    assert codec.unpack_value(answers.outcome(Outcome()).value) == ["zero", "one"]


def test_the_first_exception_is_the_calls_whatever_became_of_the_launch():
    answers = Answers(2)
    answers.add(1, Answer(0, exception="E(1)", detail="trace", exit_code=3))
    answers.add(0, Answer(0, exception="E(0)", exit_code=1))
    outcome = answers.outcome(Outcome(exit_code=137, signal=9, reason="killed", is_lost=True))
    assert (outcome.failure, outcome.exit_code, outcome.is_lost) == ("E(1)", 3, False)


def test_a_rank_without_an_answer_fails_the_call():
    outcome = Answers(2).outcome(Outcome(exit_code=137, reason="killed", is_lost=True))
    assert (outcome.failure, outcome.is_lost) == ("killed", True)
    assert Answers(2).outcome(Outcome()).failure == "a rank ended in the call: exit code 0"
    answers = Answers(2)
    answers.lost = 1
    told = answers.outcome(Outcome(exit_code=143, signal=15, reason="cancelled"))
    assert (told.failure, told.exit_code) == ("rank 1 ended in the call: exit code 0", None)


def test_calls_lack_what_the_worker_has_by_their_parameters_names(monkeypatch):
    monkeypatch.setattr(preset, "_given", {})
    assert preset.filled_in(other, (1,), {}) == {}
    preset.take(None)
    preset.take({"comm": "mine", "more": 1})
    assert preset.filled_in(other, (1,), {}) == {"comm": "mine"}
    assert preset.filled_in(other, (1, 2), {}) == {}
    assert preset.filled_in(other, (), {"n": 1, "comm": 2}) == {"n": 1, "comm": 2}
    assert preset.filled_in(other, (1, 2, 3), {}) == {}
    assert preset.ready(other, (1,))(5) == (5, "mine")
    assert preset.ready(abs, (1,)) is abs
    for wrong in (7, {1: 2}):
        with pytest.raises(UsageError, match="no dictionary of arguments"):
            preset.take(wrong)
