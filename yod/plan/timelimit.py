"""The options about a time limit, and about ends. Pure; imported when one of them is given."""

from __future__ import annotations

from collections.abc import Mapping

from native import duration
from native.errors import UsageError
from native.text import shown
from yod.plan.plan import TimeLimit
from yod.plan.signals import number_of

_TIME, _SIGNAL = "-time", "-signal"
GRACE = "--grace"


def chosen(given: dict[str, list[str]]) -> TimeLimit | None:
    """What the options ask for; None: for no limit.

    Raises:
        UsageError: the text names the option.
    """
    times, warnings = given.get(_TIME), given.get(_SIGNAL)
    if times is None:
        if warnings is not None:
            raise UsageError(f"{_SIGNAL} {shown(warnings[-1])}: only with {_TIME} T")
        return None
    return limit(float(duration.parse(times[-1], _TIME)), warnings[-1] if warnings else "")


def grace(given: Mapping[str, list[str]]) -> float | None:
    """How long ranks have to end after a signal that asks them to; None: as the limits say.

    Raises:
        UsageError: it is no time.
    """
    if (times := given.get(GRACE)) is None:
        return None
    return float(duration.parse(times[-1], GRACE, may_be_none=True))


def limit(time_s: float, warning: str) -> TimeLimit:
    """A limit, and the warning before it as users write it; empty: none.

    Raises:
        UsageError: the warning is none, or not within the limit.
    """
    if not warning:
        return TimeLimit(time_s)
    name, at, before = warning.rpartition("@")
    if not (at and before.isascii() and before.isdigit() and int(before[:9]) > 0):
        raise UsageError(f"{_SIGNAL} {shown(warning)}: as USR1@60, so many seconds before")
    if (before_s := float(before[:9])) >= time_s:
        raise UsageError(f"{_SIGNAL} {shown(warning)}: the limit is {time_s:g} s")
    return TimeLimit(time_s, number_of(name), before_s)
