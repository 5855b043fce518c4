"""When a job may begin that waits for others: the one rule, for batch jobs and for steps. Pure."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from native.wire.base import After, AfterKind, Dependency

_IS_TO = {
    AfterKind.BEGUN: "begin",
    AfterKind.ENDED: "end",
    AfterKind.OK: "end well",
    AfterKind.NOT_OK: "fail",
    AfterKind.CORRESPONDS: "end well",  # arrays aside, which wait by element
}


class Progress(Enum):
    """How far a job is that others may wait for."""

    WAITS = "it has not begun"
    RUNS = "it has begun"
    ASKS = "the one that waits runs in it, so it cannot end before"
    WELL = "it has ended with exit status 0"
    FAILED = "it has ended otherwise"
    FORGOTTEN = "it has ended, and nobody knows how"


class Verdict(Enum):
    """Whether a job may have slots."""

    READY = "it may"
    WAITS = "not yet"
    NEVER = "it never may"


_READY, _WAITS, _NEVER = Verdict
_ONCE_ENDED = {AfterKind.BEGUN: _READY, AfterKind.ENDED: _READY}
_OF: dict[Progress, dict[AfterKind, Verdict]] = {
    Progress.WAITS: dict.fromkeys(AfterKind, _WAITS),
    Progress.RUNS: {**dict.fromkeys(AfterKind, _WAITS), AfterKind.BEGUN: _READY},
    Progress.ASKS: {**dict.fromkeys(AfterKind, _NEVER), AfterKind.BEGUN: _READY},
    Progress.WELL: {**_ONCE_ENDED, AfterKind.OK: _READY, AfterKind.NOT_OK: _NEVER},
    Progress.FAILED: {**_ONCE_ENDED, AfterKind.OK: _NEVER, AfterKind.NOT_OK: _READY},
    Progress.FORGOTTEN: {**_ONCE_ENDED, AfterKind.OK: _NEVER, AfterKind.NOT_OK: _NEVER},
}
for _row in _OF.values():
    _row[AfterKind.CORRESPONDS] = _row[AfterKind.OK]


class Judgement(Struct, frozen=True):
    """What a rule says of one that waits.

    Attributes:
        text: what it waits for, or why it never may; empty: it may.
        left: what it still waits for.
    """

    verdict: Verdict
    text: str = ""
    left: tuple[After, ...] = ()


def judge(
    dependency: Dependency,
    progress_of: Callable[[int], Progress],
    name_of: Callable[[int], str] = str,
) -> Judgement:
    """Whether a job that waits for others may have slots.

    Args:
        progress_of: of a job, by its id.
        name_of: what people call it.
    """
    if not dependency.on:
        return Judgement(Verdict.READY)
    progress = {each.job_id: progress_of(each.job_id) for each in dependency.on}
    verdicts = [_OF[progress[each.job_id]][each.kind] for each in dependency.on]
    if (any if dependency.is_any else all)(verdict is Verdict.READY for verdict in verdicts):
        return Judgement(Verdict.READY)
    met = list(zip(verdicts, dependency.on, strict=True))
    left = tuple(each for verdict, each in met if verdict is Verdict.WAITS)
    never = [each for verdict, each in met if verdict is Verdict.NEVER]
    if never and not (dependency.is_any and left):
        first = never[0]
        return Judgement(Verdict.NEVER, _never_text(first, progress[first.job_id], name_of))
    is_to = _IS_TO[left[0].kind]
    return Judgement(Verdict.WAITS, f"job {name_of(left[0].job_id)} is to {is_to} first", left)


def _never_text(after: After, progress: Progress, name_of: Callable[[int], str]) -> str:
    name, is_to = name_of(after.job_id), _IS_TO[after.kind]
    if progress is Progress.ASKS:
        text = f"job {name} is to {is_to} first ({after.text(name)})"
        return f"{text}, and the yod that asks runs in it"
    return f"job {name} has ended and was to {is_to} ({after.text(name)})"
