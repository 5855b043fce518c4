"""The output file of a batch job: a pattern with codes. Pure."""

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


def check(pattern: str) -> None:
    """Refuse a pattern that has an unknown code.

    Raises:
        UsageError: it has one.
    """
    for _, code in _CODE.findall(pattern):
        if code not in MEANINGS:
            known = ", ".join(f"%{each}" for each in MEANINGS)
            what = f"output file {shown(pattern)}: no code %{shown(code)}"
            raise UsageError(f"{what}; known: {known}")


def expand(pattern: str, values: Mapping[str, str]) -> str:
    """A pattern as a path: ``%5j`` is the job's id with five digits."""

    def value(found: re.Match[str]) -> str:
        width, code = found.groups()
        text = values.get(code, found[0])
        return text.zfill(min(int(width), _WIDTH_MAX)) if width and text.isdecimal() else text

    return _CODE.sub(value, pattern)
