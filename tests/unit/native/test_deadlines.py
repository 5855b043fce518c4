"""The heap of deadlines against a dictionary that is searched."""

from hypothesis import given
from hypothesis import strategies as st

from native.deadlines import AskedDeadlines, Deadlines

HOLDERS = st.integers(0, 9)
TIMES = st.integers(0, 20).map(float)
SET = st.tuples(st.just("set"), HOLDERS, st.none() | TIMES)
DUE = st.tuples(st.just("due"), st.booleans(), TIMES)
STEPS = st.lists(SET | DUE, max_size=200)


class Naive:
    """The same, without a heap."""

    def __init__(self) -> None:
        self.times: dict[int, float] = {}
        self.order: list[int] = []  # by when a holder's deadline was set to what it is

    def set(self, holder: int, at: float | None) -> None:
        if self.times.get(holder) == at:
            return
        if self.times.pop(holder, None) is not None:
            self.order.remove(holder)
        if at is not None:
            self.times[holder] = at
            self.order.append(holder)

    def due(self, now: float) -> list[int]:
        return sorted(
            (holder for holder in self.order if self.times[holder] <= now),
            key=self.times.__getitem__,
        )


@given(STEPS)
def test_in_any_order_of_changes_the_heap_says_what_a_search_says(steps: list) -> None:
    deadlines: Deadlines[int] = Deadlines()
    naive = Naive()
    for kind, first, at in steps:
        if kind == "set":
            deadlines.set(first, at)
            naive.set(first, at)
        else:
            due = deadlines.due(at)
            assert due == naive.due(at)
            for holder in due if first else ():  # those that are told have no deadline then
                deadlines.set(holder, None)
                naive.set(holder, None)
        assert deadlines.earliest() == min(naive.times.values(), default=None)
        assert {holder: deadlines.get(holder) for holder in range(10)} == {
            holder: naive.times.get(holder) for holder in range(10)
        }
        assert deadlines.keys() == naive.times.keys()
        assert len(deadlines) == len(naive.times)
        assert all((holder in deadlines) == (holder in naive.times) for holder in range(10))


@given(STEPS)
def test_holders_that_are_asked_late_have_the_deadlines_of_those_that_are_set(steps: list) -> None:
    asked: AskedDeadlines[int] = AskedDeadlines()
    deadlines: Deadlines[int] = Deadlines()
    times: dict[int, float | None] = {}
    for kind, first, at in steps:
        if kind == "set":
            times[first] = at
            asked.ask(first, lambda holder=first: times[holder])
            continue
        for holder, time in times.items():
            deadlines.set(holder, time)
        assert sorted(asked.due(at)) == sorted(deadlines.due(at))
        assert asked.earliest() == deadlines.earliest()
        assert asked.keys() == deadlines.keys() and len(asked) == len(deadlines)
        assert all(asked.get(holder) == deadlines.get(holder) for holder in times)


def test_a_holder_that_changes_often_is_asked_once() -> None:
    deadlines: AskedDeadlines[str] = AskedDeadlines()
    questions: list[str] = []
    for name in ("a", "b", "a", "a"):
        deadlines.ask(name, lambda name=name: questions.append(name) or 5.0)
    assert not questions
    assert deadlines.due(5.0) == ["a", "b"] == questions
    deadlines.set("a", None)
    assert deadlines.earliest() == 5.0 and "a" not in deadlines and questions == ["a", "b"]


@given(STEPS)
def test_the_heap_is_at_most_twice_as_large_as_it_needs_to_be(steps: list) -> None:
    deadlines: Deadlines[int] = Deadlines()
    for kind, holder, at in steps:
        if kind == "set":
            deadlines.set(holder, at)
        assert len(deadlines._heap) <= 2 * len(deadlines)


def test_a_deadline_that_is_moved_for_ever_takes_no_more_room() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for now in range(10_000):
        deadlines.set("one", now + 10.0)
    assert deadlines.earliest() == 9_999 + 10.0
    assert len(deadlines._heap) <= 2
