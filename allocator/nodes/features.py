"""Features of nodes, and which nodes an expression of them means, as in Slurm's ``--constraint``::

    gpu&ib          both            (a|b)&c         one of the first two, and the third
    rack1|rack2     one of them     [rack1|rack2]   all nodes of the job the same one of them
    ib*4&gpu*1      at least four of the job's nodes have the first, at least one the second

``&`` binds more than ``|``. Square brackets stand once, and with ``&`` only; so do counts, but for
those in square brackets. A node may be one of several counts. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from allocator.nodes.access import NOWHERE, Choice, Least, Where
from native.errors import UsageError
from native.text import shown
from native.wire.status import Feature

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]*", re.ASCII)
DEPTH_MAX = 16  # of parentheses
COUNTS_MAX = 8  # of one expression, or of one part in square brackets
_TOKEN = re.compile(rf"\s*({NAME.pattern}|[&|()\[\]*])")
_CAN = {  # what PCTs announce, and what it takes
    Feature.CRIU.value: "CRIU works on none, or its pct is not root's (`yodctl doctor` there)",
    Feature.CRIU_USERS.value: "CRIU works on none for users (`yodctl doctor` there)",
}
_COUNT = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)

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
    here = _Found(among or None).both(found)
    one_of = tuple(here.both(each) for each in found.one_of)
    choices = tuple(each.choice() for each in one_of if each.nodes is None or each.nodes)
    return Where(here.choice().nodes, choices, constraint, here.choice().least)


class _Found(Struct, frozen=True):
    """What a part of an expression means.

    Attributes:
        nodes: that the job may have; None: all.
        one_of, least: as in :class:`Where`.
    """

    nodes: Nodes | None
    one_of: tuple[_Found, ...] = ()
    least: tuple[Least, ...] = ()

    def both(self, other: _Found) -> _Found:
        """What holds if this and the other hold; of ``one_of`` that of the one that has any."""
        nodes = other.nodes if self.nodes is None else self.nodes
        if self.nodes is not None and other.nodes is not None:
            nodes = self.nodes & other.nodes
        return _Found(nodes, self.one_of or other.one_of, self.least + other.least)

    def choice(self) -> Choice:
        """The nodes to choose from."""
        if self.nodes is None:
            return Choice(least=self.least)
        least = tuple(Least(each.nodes & self.nodes, each.count, each.name) for each in self.least)
        return Choice(self.nodes or NOWHERE, least)


class _Reader:
    """Reads one expression, and finds its nodes meanwhile."""

    def __init__(self, text: str, of: Mapping[str, Nodes]) -> None:
        self._text = text
        self._of = of
        self._tokens = self._split()
        self._began = 0  # place of the next token
        self._next = next(self._tokens)
        self._depth = 0

    def read(self) -> _Found:
        found = self._either()
        if self._next:
            raise self._wrong(f"what is {shown(self._next)} for?")
        return found

    def _split(self) -> Iterator[str]:
        at, text = 0, self._text.rstrip()
        while at < len(text):
            if (match := _TOKEN.match(text, at)) is None:
                raise self._wrong(f"{shown(text[at:].strip()[:1])} is no part of one")
            self._began, at = match.start(1), match.end()
            yield match[1]
        self._began = len(text)
        yield ""

    def _take(self, *expected: str) -> bool:
        if self._next not in expected:
            return False
        self._next = next(self._tokens)
        return True

    def _either(self) -> _Found:
        found = self._both()
        while self._take("|"):
            other = self._both()
            if found.one_of or other.one_of:
                raise self._wrong("[...] goes with & only")
            if found.nodes is None or other.nodes is None or found.least or other.least:
                raise self._wrong("a count goes with & only, and with | in [...]")
            found = _Found(found.nodes | other.nodes)
        return found

    def _both(self) -> _Found:
        found = self._one()
        while self._take("&"):
            other = self._one()
            if found.one_of and other.one_of:
                raise self._wrong("there is one [...] at most")
            found = found.both(other)
            if len(found.least) > COUNTS_MAX:
                raise self._wrong(f"more than {COUNTS_MAX} counts")
        return found

    def _one(self) -> _Found:
        if self._take("["):
            return self._one_of()
        began = self._began
        found, name = self._named(), self._text[began : self._began].strip()
        if not self._take("*"):
            return found
        count = self._next
        if not _COUNT.fullmatch(count):
            raise self._wrong(f"behind {name}* there is to be a count of nodes, from 1")
        self._take(count)
        if found.nodes is None or found.least or found.one_of:
            raise self._wrong(f"a count of {name}, which has one or [...] inside")
        return _Found(None, least=(Least(found.nodes, int(count), name),))

    def _one_of(self) -> _Found:
        """What is in square brackets."""
        each = [self._both()]
        while self._take("|"):
            each.append(self._both())
        self._close("]")
        if any(one.one_of for one in each):
            raise self._wrong("there is one [...] at most")
        nodes: Nodes | None = frozenset()
        for one in each:
            nodes = None if nodes is None or one.nodes is None else nodes | one.nodes
        return _Found(nodes, tuple(each))

    def _named(self) -> _Found:
        name = self._next
        if self._take("("):
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise self._wrong(f"more than {DEPTH_MAX} parentheses in one another")
            found = self._either()
            self._close(")")
            self._depth -= 1
            return found
        if not NAME.fullmatch(name):
            before = f"before {shown(name)}" if name else "at its end"
            raise self._wrong(f"a feature is missing {before}")
        self._take(name)
        if name not in self._of:
            if name in _CAN:
                raise self._wrong(f"no node has the feature {name}; {_CAN[name]}")
            there = ", ".join(sorted(self._of))
            known = f"there are {there}" if there else "the nodes file of bebopd names none"
            raise self._wrong(f"no node has the feature {name}; {known}")
        return _Found(self._of[name])

    def _close(self, bracket: str) -> None:
        if not self._take(bracket):
            raise self._wrong(f"{bracket} is missing")

    def _wrong(self, why: str) -> UsageError:
        return UsageError(f"--constraint {shown(self._text)}: {why}")
