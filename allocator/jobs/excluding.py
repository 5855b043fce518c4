"""Which nodes users mean that a job is to get none of (``--exclude``).

A list has numbers as ``-list`` has them, names, and names with numbers in square brackets::

    3,5..7        nodes 3, 5, 6, 7         n9,n[01-03,7]    n9, n01, n02, n03, n7

What names no node is refused: it is not known which node was meant. Of a job that waits, nodes
that come later are looked for in its list again. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from allocator.jobs.assign import RequestRefused
from allocator.nodes.table import NodeTable
from native import nodelist
from native.errors import Refusal, UsageError
from native.text import shown

_COMMA = re.compile(r",(?![^\[]*\])")  # none in square brackets
_NUMBERS = re.compile(r"[0-9.]+", re.ASCII)
_BRACKETS = re.compile(r"([^\[\]]*)\[([^\[\]]*)\]([^\[\]]*)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


class Excluded(Struct, frozen=True):
    """The nodes that a list means.

    Attributes:
        is_whole: each number and name of it is known; else more may come to be meant.
    """

    nodes: frozenset[int]
    is_whole: bool


def excluded(text: str, nodes: NodeTable, *, may_lack: bool = False) -> Excluded:
    """Read a list; those that are down or were here once are known, too.

    Args:
        may_lack: an item may mean no node.

    Raises:
        RequestRefused: it is none, or an item means no node of the partition.
    """
    names = nodes.names()
    numbers = {name: number for number, name in names.items()}
    found: set[int] = set()
    is_whole = True
    try:
        for item in _COMMA.split(text):
            here, count = _numbers(item, text, names, numbers)
            if not (here or may_lack):
                has = nodelist.named_nodes(sorted(names)) if names else "none"
                why = f"no node {shown(item)} here; this partition has {has}"
                raise RequestRefused(Refusal.UNKNOWN_NODE, f"--exclude {shown(text)}: {why}")
            found |= here
            is_whole = is_whole and len(here) == count
    except UsageError as error:
        raise RequestRefused(Refusal.BAD_REQUEST, f"--exclude: {error}") from None
    return Excluded(frozenset(found), is_whole)


def _numbers(
    item: str, text: str, names: Mapping[int, str], numbers: Mapping[str, int]
) -> tuple[set[int], int]:
    """The nodes that one item means, and how many it would mean if all were known.

    Args:
        names: of all nodes, by number.
        numbers: of all nodes, by name.

    Raises:
        UsageError: it is no item.
    """
    if not item or _NUMBERS.fullmatch(item):
        wanted = nodelist.numbers_of(item, text)
        if len(wanted) < len(names):
            return {number for number in wanted if number in names}, len(wanted)
        return {number for number in names if number in wanted}, len(wanted)
    if match := _BRACKETS.fullmatch(item):
        before, inside, after = match.groups()
        theirs = _numbered(names, before, after)
        bounds = [_bounds(part, item, text) for part in inside.split(",")]
        found = {number for low, high in bounds for number in _within(theirs, low, high)}
        return found, sum(max(0, int(high) - int(low) + 1) for low, high in bounds)
    if "[" in item or "]" in item:
        raise UsageError(f"node list `{shown(text)}`: `{shown(item)}` is no name, nor n[1-4]")
    return ({numbers[item]} if item in numbers else set()), 1


def _numbered(names: Mapping[int, str], before: str, after: str) -> dict[str, int]:
    """The nodes whose names have digits between these texts, by the digits."""
    found = {}
    for number, name in names.items():
        if name.startswith(before) and name.endswith(after):
            digits = name[len(before) : len(name) - len(after)]
            if _RANGE.fullmatch(digits) and digits.isdecimal():
                found[digits] = number
    return found


def _within(theirs: Mapping[str, int], low: str, high: str) -> Iterator[int]:
    """Those whose digits are from one number to another, with as many zeros as the first has."""
    width, first, last = len(low), int(low), int(high)
    if last - first < len(theirs):
        written = (str(number).zfill(width) for number in range(first, last + 1))
        return (theirs[digits] for digits in written if digits in theirs)
    return (
        number
        for digits, number in theirs.items()
        if first <= int(digits) <= last and digits == str(int(digits)).zfill(width)
    )


def _bounds(part: str, item: str, text: str) -> tuple[str, str]:
    """The first and the last number of what stands in square brackets, as they are written."""
    match = _RANGE.fullmatch(part)
    if match is None:
        why = f"`{shown(part)}` in {shown(item)} is neither a number nor a range a-b"
        raise UsageError(f"node list `{shown(text)}`: {why}")
    return match[1], match[2] or match[1]
