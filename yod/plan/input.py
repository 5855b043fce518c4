"""Which ranks read yod's standard input. Pure."""

from __future__ import annotations

from native import nodelist
from native.errors import UsageError
from native.text import shown
from native.wire.base import SIZE_MAX
from native.wire.group import INPUTS_MAX
from yod.plan.plan import Ranges

ALL: Ranges = ((0, SIZE_MAX - 1),)
SHARED = "shared"
_WORDS: dict[str, Ranges] = {"all": ALL, "none": (), SHARED: ALL}


def parse(text: str) -> Ranges:
    """What ``--stdin`` says: ``all``, ``shared``, ``none``, or a list of ranks: ``0,4..7``.

    Raises:
        UsageError: it says none of them.
    """
    if text in _WORDS:
        return _WORDS[text]
    try:
        ranges = nodelist.ranges(nodelist.parse(text))
    except UsageError:
        raise UsageError(
            f"--stdin {shown(text)}: all, shared, none, or ranks, as in 0,4..7"
        ) from None
    if len(ranges) > INPUTS_MAX:
        raise UsageError(f"--stdin: {len(ranges)} ranges of ranks, at most {INPUTS_MAX}")
    return tuple(ranges)


def parse_rank(text: str) -> Ranges:
    """What ``--pty`` says: a rank, or nothing, which is rank 0.

    Raises:
        UsageError: it is no rank.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= 9
    if text and not is_number:
        raise UsageError(f"--pty={shown(text)}: a rank, as in --pty=3, or --pty for rank 0")
    rank = int(text or 0)
    return ((rank, rank),)


def check(ranges: Ranges, size: int, option: str) -> None:
    """Refuse ranks that a job of so many has not.

    Raises:
        UsageError: it names one.
    """
    if ranges != ALL and ranges and (last := ranges[-1][1]) >= size:
        raise UsageError(f"{option}: there is no rank {last}: the job has ranks 0 to {size - 1}")
