"""The elements of an array of jobs, as users write them: ``0-99:2,120%10``. Pure."""

from __future__ import annotations

import re

from native.errors import UsageError
from native.text import plural, shown
from native.wire.base import RANGES_MAX, Array

_INDEX_MAX = (1 << 31) - 1
_AT_ONCE_MAX = (1 << 20) - 1
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?", re.ASCII)
_HELP = "ranges as 0-99, 0-99:2 or 1,3,7, and %N for so many at once"


def parse(text: str, what: str = "") -> Array:
    """Slurm's form.

    Args:
        what: names the text in errors; empty: it is that of ``-array``.

    Raises:
        UsageError: another one.
    """
    what = shown(what or f"-array {text}")
    ranges, percent, at_once = text.partition("%")
    found = sorted(_range(each, what) for each in ranges.split(","))
    if percent and not (at_once.isascii() and at_once.isdecimal() and int(at_once) > 0):
        raise UsageError(f"{what}: {_HELP}")
    if len(found) > RANGES_MAX:
        raise UsageError(f"{what}: {plural(len(found), 'range')}, at most {RANGES_MAX}")
    array = Array(tuple(found), min(int(at_once or 0), _AT_ONCE_MAX))
    if not array.is_sound:
        raise UsageError(f"{what}: an index is there twice, or a range is empty")
    return array


def _range(part: str, what: str) -> tuple[int, int, int]:
    if (found := _RANGE.fullmatch(part)) is None:
        raise UsageError(f"{what}: {_HELP}")
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if max(first, last, step) > _INDEX_MAX or not step:
        raise UsageError(f"{what}: indices are from 0 to {_INDEX_MAX}, steps from 1")
    return first, last, step
