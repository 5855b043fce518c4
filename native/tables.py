"""The tables of a TOML file of the site's: hooks, queues. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from native.errors import UsageError
from native.text import shown

Table = dict[str, Any]


def of_kind(table: Table, kind: str, most: int) -> Iterable[tuple[Table, str]]:
    """The tables of a kind, each with how an error names it.

    Raises:
        UsageError: they are written otherwise than ``[[kind]]``, or are too many.
    """
    found = table.get(kind, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UsageError(f"{kind} must be written as [[{kind}]]")
    if len(found) > most:
        raise UsageError(f"[[{kind}]]: there are {len(found)}, at most {most} may be")
    for number, one in enumerate(found, start=1):
        name = one.get("name")
        said = f" ({shown(name)})" if isinstance(name, str) else ""
        yield one, f"[[{kind}]] {number}{said}"


def demand_known(table: Table, known: Iterable[str], where: str) -> None:
    """Refuse a key that a table does not have.

    Raises:
        UsageError: it names the key.
    """
    if unknown := sorted(table.keys() - set(known)):
        raise UsageError(f"{where}: no {shown(unknown[0])} here; known are {', '.join(known)}")
