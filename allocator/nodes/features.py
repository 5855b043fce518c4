"""Features of nodes, and which nodes an expression of them means, as in Slurm's ``--constraint``::

    gpu&ib          both            (a|b)&c         one of the first two, and the third
    rack1|rack2     one of them     [rack1|rack2]   all nodes of the job the same one of them

``&`` binds more than ``|``. Square brackets stand once, and with ``&`` only. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from allocator.nodes.access import NOWHERE, Where
from native.errors import UsageError
from native.text import shown

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]*", re.ASCII)
DEPTH_MAX = 16  # of parentheses
_TOKEN = re.compile(rf"\s*({NAME.pattern}|[&|()\[\]])")

Nodes = frozenset[int]


def where(features: Mapping[str, Nodes], constraint: str, among: Nodes) -> Where:
    """The nodes that an expression means.

    Args:
        features: the nodes that have each.
        among: of these only; empty: of all.

    Raises:
        UsageError: it is none, or names what no node has.
    """
    found = _Reader(constraint, features).read()
    nodes = found.nodes & among if among else found.nodes
    one_of = tuple(each & nodes for each in found.one_of if each & nodes)
    return Where(nodes or NOWHERE, one_of, constraint)


class _Reader:
    """Reads one expression, and finds its nodes meanwhile."""

    def __init__(self, text: str, of: Mapping[str, Nodes]) -> None:
        self._text = text
        self._of = of
        self._tokens = self._split()
        self._next = next(self._tokens)
        self._depth = 0

    def read(self) -> Where:
        found = self._either()
        if self._next:
            raise self._wrong(f"what is {shown(self._next)} for?")
        return found

    def _split(self) -> Iterator[str]:
        at, text = 0, self._text.rstrip()
        while at < len(text):
            if (match := _TOKEN.match(text, at)) is None:
                raise self._wrong(f"{shown(text[at:].strip()[:1])} is no part of one")
            yield match[1]
            at = match.end()
        yield ""

    def _take(self, *expected: str) -> bool:
        if self._next not in expected:
            return False
        self._next = next(self._tokens)
        return True

    def _either(self) -> Where:
        found = self._both()
        while self._take("|"):
            other = self._both()
            if found.one_of or other.one_of:
                raise self._wrong("[...] goes with & only")
            found = Where(found.nodes | other.nodes)
        return found

    def _both(self) -> Where:
        found = self._one()
        while self._take("&"):
            other = self._one()
            if found.one_of and other.one_of:
                raise self._wrong("there is one [...] at most")
            one_of = found.one_of or other.one_of
            found = Where(found.nodes & other.nodes, one_of)
        return found

    def _one(self) -> Where:
        name = self._next
        if self._take("("):
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise self._wrong(f"more than {DEPTH_MAX} parentheses in one another")
            found = self._either()
            self._close(")")
            self._depth -= 1
            return found
        if self._take("["):
            each = [self._both()]
            while self._take("|"):
                each.append(self._both())
            self._close("]")
            if any(one.one_of for one in each):
                raise self._wrong("there is one [...] at most")
            one_of = tuple(one.nodes for one in each)
            return Where(frozenset().union(*one_of), one_of)
        if not NAME.fullmatch(name):
            before = f"before {shown(name)}" if name else "at its end"
            raise self._wrong(f"a feature is missing {before}")
        self._take(name)
        if name not in self._of:
            there = ", ".join(sorted(self._of))
            known = f"there are {there}" if there else "the nodes file of bebopd names none"
            raise self._wrong(f"no node has the feature {name}; {known}")
        return Where(self._of[name])

    def _close(self, bracket: str) -> None:
        if not self._take(bracket):
            raise self._wrong(f"{bracket} is missing")

    def _wrong(self, why: str) -> UsageError:
        return UsageError(f"--constraint {shown(self._text)}: {why}")
