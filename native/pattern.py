"""Files for output, of a batch job or of its ranks: patterns with codes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from native.errors import UsageError
from native.text import shown

DEFAULT = "yod-%j.out"
DEFAULT_OF_ARRAY = "yod-%A_%a.out"
_CODE = re.compile(r"%(\d*)(.)", re.DOTALL)
_WIDTH_MAX = 10
MEANINGS = {
    "%": "%",
    "j": "the job's id",
    "J": "the job's id",
    "A": "the id of its array; the job's, if it is of none",
    "a": "the index in its array",
    "x": "the job's name",
    "u": "the user's name",
    "N": "the name of the first node",
}
OF_RANKS = {
    "%": "%",
    "t": "the rank",
    "n": "the number of its node in the job, from 0",
    "N": "the name of its node",
    "j": "the job's id, or that of its allocation",
    "s": "the number of the step in its allocation; else 0",
    "x": "the name of its program",
    "u": "the user's name",
}


def values_of_rank(job: str, place: int, node: str, rank: int, program: bytes) -> dict[str, str]:
    """What the codes of a rank's files mean, but for the user.

    Args:
        job: what people call it; a step has a point in it.
        place: the number of the rank's node in the job.
        node: its name.
        program: what the rank runs, as it was named.
    """
    allocation, _, step = job.partition(".")
    return {
        "%": "%",
        "j": allocation,
        "s": step or "0",
        "n": str(place),
        "N": node,
        "t": str(rank),
        "x": program.rpartition(b"/")[2].decode(errors="surrogateescape"),
    }


def codes(pattern: str) -> set[str]:
    """The codes that a pattern has."""
    return {code for _, code in _CODE.findall(pattern)}


def check(pattern: str, meanings: Mapping[str, str] = MEANINGS) -> None:
    """Refuse a pattern that has an unknown code.

    Raises:
        UsageError: it has one.
    """
    for _, code in _CODE.findall(pattern):
        if code not in meanings:
            known = ", ".join(f"%{each}" for each in meanings)
            what = f"output file {shown(pattern)}: no code %{shown(code)}"
            raise UsageError(f"{what}; known: {known}")


def expand(pattern: str, values: Mapping[str, str]) -> str:
    """A pattern as a path: ``%5j`` is the job's id with five digits."""

    def value(found: re.Match[str]) -> str:
        width, code = found.groups()
        text = values.get(code, found[0])
        return text.zfill(min(int(width), _WIDTH_MAX)) if width and text.isdecimal() else text

    return _CODE.sub(value, pattern)
