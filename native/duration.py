"""Lengths of time as batch systems write them."""

from __future__ import annotations

import re

from native.errors import UsageError
from native.text import shown

_FORM = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})", re.ASCII)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_HELP = "use minutes, minutes:seconds, hours:minutes:seconds, or days-hours{:minutes{:seconds}}"


def parse(text: str, what: str, *, may_be_none: bool = False) -> int:
    """Seconds, from Slurm's forms: ``90``, ``90:00``, ``1:30:00``, ``2-12``, ``2-12:30:00``.

    Args:
        what: names the value in the error, as ``-time``.
        may_be_none: ``0`` is a time, too.

    Raises:
        UsageError: another form, or no time at all.
    """
    found = _FORM.fullmatch(text)
    seconds = 0
    if found is not None:
        numbers = list(map(int, found["rest"].split(":")))
        has_hours = found["days"] is not None or len(numbers) == 3
        units = (_HOUR_S, _MINUTE_S, 1) if has_hours else (_MINUTE_S, 1)
        seconds = int(found["days"] or 0) * _DAY_S
        seconds += sum(number * unit for number, unit in zip(numbers, units, strict=False))
    if not seconds and not (may_be_none and found is not None):
        none = "no time" if may_be_none else "no time above 0"
        raise UsageError(f"{what} {shown(text)}: {none}; {_HELP}")
    return seconds


def written(seconds: float) -> str:
    """``1:30:00``, ``2-12:00:00``; no limit: ``unlimited``."""
    if not seconds:
        return "unlimited"
    hours, minutes, left = clock(round(seconds))
    days, hours = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hours}:{minutes:02}:{left:02}"


def in_words(seconds: float) -> str:
    """``45 s``, ``2 min 5 s``, ``1 h 30 min``: how long something has lasted, for people."""
    hours, minutes, left = clock(seconds)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


def clock(seconds: float) -> tuple[int, int, int]:
    """Whole hours, minutes and seconds."""
    minutes, left = divmod(int(seconds), _MINUTE_S)
    hours, minutes = divmod(minutes, 60)
    return hours, minutes, left
