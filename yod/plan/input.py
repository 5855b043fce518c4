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
_WORDS: dict[str, Ranges] = {"all": ALL, SHARED: ALL, "none": ()}


def parse(text: str, option: str = "--stdin") -> Ranges:
    """What ``--stdin`` says: ``all``, ``shared``, ``none``, or a list of ranks: ``0,4..7``.

    Args:
        option: another one that names ranks, and has no input to share.

    Raises:
        UsageError: it says none of them.
    """
    words = _WORDS if option == "--stdin" else {"all": ALL}
    if text in words:
        return words[text]
    try:
        ranges = nodelist.ranges(nodelist.parse(text))
    except UsageError:
        said = f"{option} {shown(text)}: {', '.join(words)}, or ranks, as in 0,4..7"
        raise UsageError(said) from None
    if len(ranges) > INPUTS_MAX:
        raise UsageError(f"{option}: {len(ranges)} ranges of ranks, at most {INPUTS_MAX}")
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
