"""Times of the clock on the wall, as people write them: ``-begin``, ``-deadline``. Pure.

The forms are Slurm's: ``18:30``, ``2026-12-24``, ``2026-12-24T18:30``, ``now+3600`` (seconds),
``now+2hours`` and the words ``now``, ``midnight``, ``noon``, ``tomorrow``; and ``now+2:00:00``.
What has no date is the next such time.
"""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

from native import duration
from native.errors import UsageError
from native.text import shown

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_PBS = re.compile(r"(?:(\d{2})?(\d{2}))?(\d{2})(\d{2})(\d{2})(\d{2})(?:\.(\d{2}))?", re.ASCII)
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_LATER = re.compile(r"(\d+)\s*(second|minute|hour|day|week)s?", re.ASCII)
_FORMS = "18:30, 2026-12-24T18:30, now+2:00:00, midnight, noon, tomorrow"


def parse(text: str, option: str, now: datetime) -> float:
    """Unix time of a moment.

    Args:
        option: that it was said with, for the text of a refusal.
        now: in the zone in which the user means it; without a zone that of this host.

    Raises:
        UsageError: it is none.
    """
    try:
        word, plus, later = text.strip().lower().partition("+")
        if plus and word.strip() == "now":
            later_s = now.timestamp() + _later_s(later.strip(), option)
            return datetime.fromtimestamp(later_s).timestamp()  # or it is no time
        return _moment(text.strip().lower(), now).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(f"{option} {shown(text)}: no time; as {_FORMS}") from None


def of_pbs(text: str, now: datetime) -> str:
    """PBS's form ``[[CC]YY]MMDDhhmm[.SS]`` in that of :func:`parse`.

    Raises:
        UsageError: another form.
    """
    if (found := _PBS.fullmatch(text)) is None:
        raise UsageError(f"-a {shown(text)}: no time; as [[CC]YY]MMDDhhmm[.SS]")
    century, year, month, day, hour, minute, second = found.groups()
    years = f"{century or now.year // 100:02}{year}" if year else f"{now.year}"
    return f"{years}-{month}-{day}T{hour}:{minute}:{second or '00'}"


def _moment(text: str, now: datetime) -> datetime:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    match text:
        case "now":
            return now
        case "midnight" | "tomorrow":
            return midnight + timedelta(days=1)
        case "noon":
            return _next(time(12), now)
    if clock := _CLOCK.fullmatch(text):
        return _next(time(int(clock[1]), int(clock[2]), int(clock[3] or 0)), now)
    found = datetime.fromisoformat(text.upper())
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)


def _later_s(text: str, option: str) -> int:
    """``90``, ``2hours``, or as a time limit."""
    if text.isascii() and text.isdecimal():
        return int(text)
    if found := _LATER.fullmatch(text):
        return int(found[1]) * _UNITS[found[2]]
    return duration.parse(text, option)


def _next(clock: time, now: datetime) -> datetime:
    today = now.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
    return today if today > now else today + timedelta(days=1)
