"""The one rule of jobs that wait for others: when one may begin, and when it never can."""

from __future__ import annotations

import itertools

import pytest

from allocator.jobs.dependencies import Judgement, Progress, Verdict, judge
from native.wire.base import NO_DEPENDENCY, After, AfterKind, Dependency

READY, WAITS, NEVER = Verdict
# by kind: before it begins, while it runs, ended well, ended otherwise, ended and forgotten
TABLE = {
    AfterKind.BEGUN: (WAITS, READY, READY, READY, READY),
    AfterKind.ENDED: (WAITS, WAITS, READY, READY, READY),
    AfterKind.OK: (WAITS, WAITS, READY, NEVER, NEVER),
    AfterKind.NOT_OK: (WAITS, WAITS, NEVER, READY, NEVER),
    AfterKind.CORRESPONDS: (WAITS, WAITS, READY, NEVER, NEVER),  # of what is no array
}
COLUMNS = (Progress.WAITS, Progress.RUNS, Progress.WELL, Progress.FAILED, Progress.FORGOTTEN)
CELLS = [
    (kind, progress, verdict)
    for kind, row in TABLE.items()
    for progress, verdict in zip(COLUMNS, row, strict=True)
]


def one(kind: AfterKind, job_id: int = 17) -> Dependency:
    return Dependency((After(kind, job_id),))


@pytest.mark.parametrize(("kind", "progress", "verdict"), CELLS)
def test_a_job_waits_for_another_as_the_kind_says(kind, progress, verdict):
    assert judge(one(kind), lambda job_id: progress).verdict is verdict


@pytest.mark.parametrize("kind", AfterKind)
def test_nobody_waits_for_the_end_of_the_job_that_it_runs_in(kind):
    found = judge(one(kind, 3), lambda job_id: Progress.ASKS, lambda job_id: f"17.{job_id}")
    if kind is AfterKind.BEGUN:
        assert found.verdict is READY
    else:
        assert found.verdict is NEVER
        assert found.text.startswith("job 17.3 is to ")
        assert found.text.endswith(f"({kind.value}:17.3), and the yod that asks runs in it")


def test_who_waits_for_nobody_may_begin():
    assert judge(NO_DEPENDENCY, {}.__getitem__) == Judgement(READY)


@pytest.mark.parametrize("verdicts", list(itertools.product(Verdict, repeat=3)))
@pytest.mark.parametrize("is_any", [False, True])
def test_several_are_all_needed_or_one_is_enough(verdicts, is_any):
    as_progress = {READY: Progress.WELL, WAITS: Progress.RUNS, NEVER: Progress.FAILED}
    progress = {number: as_progress[verdict] for number, verdict in enumerate(verdicts, 1)}
    on = tuple(After(AfterKind.OK, number) for number in progress)
    found = judge(Dependency(on, is_any), progress.__getitem__)
    if is_any:
        expected = next((each for each in (READY, WAITS) if each in verdicts), NEVER)
    else:
        expected = next((each for each in (NEVER, WAITS) if each in verdicts), READY)
    assert found.verdict is expected
    if expected is WAITS:
        left = tuple(each for each in on if progress[each.job_id] is Progress.RUNS)
        assert found.left == left
        assert found.text == f"job {left[0].job_id} is to end well first"
    if expected is NEVER:
        first = next(number for number in progress if progress[number] is Progress.FAILED)
        assert found.text == f"job {first} has ended and was to end well (afterok:{first})"
