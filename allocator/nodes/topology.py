"""The switches between the nodes, as a tree: a job gets nodes below as few leaf switches as it can.

The file is Slurm's ``topology.conf``: ``SwitchName=s0 Nodes=n[0-3]`` is a leaf switch,
``SwitchName=s4 Switches=s[0-1]`` one above others. Nodes are named by the nodes file, or by
number (``Nodes=0..3``). Words with other keys, as ``LinkSpeed=``, say nothing here.

The line of nodes follows the tree, so that what is below a switch is a piece of the line. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from allocator.nodes.policies import Ints, lowest
from native import nodelist
from native.errors import UsageError
from native.text import shown

NODES_MAX = 1 << 20  # of one word
LEVELS_MAX = 32  # of switches above one another
_NAMES = re.compile(r"[A-Za-z0-9_.:,\[\]-]+")


class Piece(Struct, frozen=True):
    """What is below a switch.

    Attributes:
        first, behind: places of the line.
        height: switches between it and its nodes; 0: a leaf.
    """

    first: int
    behind: int
    height: int


class Topology:
    """A tree of switches over a line of nodes.

    Args:
        line: the nodes of all leaf switches, in the order of the tree.
        pieces: of all switches.
    """

    def __init__(self, line: Sequence[int], pieces: Sequence[Piece]) -> None:
        self.line = line
        rows = np.array([(p.first, p.behind, p.height) for p in pieces], dtype=np.int64)
        self._first, self._behind, self._height = rows.reshape(-1, 3).T
        is_leaf = self._height == 0
        self._leaves = self._first[is_leaf], self._behind[is_leaf]

    def leaves(self) -> list[int]:
        """The leaf switch of each place of the line, by number."""
        found = np.zeros(len(self.line), dtype=np.int64)
        for leaf, (first, behind) in enumerate(zip(*self._leaves, strict=True)):
            found[first:behind] = leaf
        numbers: list[int] = found.tolist()
        return numbers

    def choose(self, free: Ints, size: int) -> Ints:
        """Places below as few leaf switches as can be; a placement policy.

        Of the switches with enough below them it takes one of the lowest; of these the one
        where fewest leaf switches do, then the one with least free.
        """
        upto = np.concatenate(([0], np.cumsum(free)))
        below = upto[self._behind] - upto[self._first]
        able = np.flatnonzero(below >= size)
        if not len(able):
            return self._below(0, len(free), upto, free, size)
        lowest_able = able[self._height[able] == self._height[able].min()]
        by_free = lowest_able[np.argsort(below[lowest_able], kind="stable")]
        if self._height[by_free[0]] == 0:
            best = by_free[0]
        else:
            best = min(by_free, key=lambda switch: self._leaves_needed(switch, upto, size))
        return self._below(int(self._first[best]), int(self._behind[best]), upto, free, size)

    def _leaves_needed(self, switch: int, upto: Ints, size: int) -> int:
        """How many leaf switches below a switch a request needs."""
        first, behind = self._leaves
        inside = (first >= self._first[switch]) & (behind <= self._behind[switch])
        descending = np.sort(upto[behind[inside]] - upto[first[inside]])[::-1]
        return int(np.searchsorted(np.cumsum(descending), size)) + 1

    def _below(self, first: int, behind: int, upto: Ints, free: Ints, size: int) -> Ints:
        """Places of a piece of the line, of the fullest leaf switches; of the last, what is needed.

        What is below no leaf switch counts as one more.
        """
        firsts, behinds = self._leaves
        inside = (firsts >= first) & (behinds <= behind)
        firsts, behinds = firsts[inside], behinds[inside]
        if behind > len(self.line):
            firsts, behinds = np.append(firsts, len(self.line)), np.append(behinds, behind)
        below = upto[behinds] - upto[firsts]
        by_free = np.argsort(-below, kind="stable")
        sums = np.cumsum(below[by_free])
        whole = int(np.searchsorted(sums, size))  # so many are taken with all that is free
        left = size - (int(sums[whole - 1]) if whole else 0)
        smallest = whole + int((below[by_free[whole:]] >= left).sum()) - 1
        last = by_free[smallest]
        taken = by_free[:whole]
        edges = np.zeros(len(free) + 1, dtype=np.int64)
        edges[firsts[taken]] += 1
        edges[behinds[taken]] -= 1
        places = np.flatnonzero((np.cumsum(edges[:-1]) > 0) & (free > 0))
        in_last = firsts[last] + lowest(free[firsts[last] : behinds[last]], left)
        return np.sort(np.concatenate((places, in_last)))


class _Switch(Struct):
    """A line of the file.

    Attributes:
        where: the line, for errors.
    """

    where: str
    nodes: list[int] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)
    above: str = ""


def parse(text: str, path: str, numbers: Mapping[str, int]) -> Topology:
    """Read the file of a topology.

    Args:
        path: for the errors.
        numbers: the nodes by name, as a nodes file has them.

    Raises:
        UsageError: names the line.
    """
    switches: dict[str, _Switch] = {}
    known: dict[int, str] = {}  # the leaf switch of each node
    for line_number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            where = f"{path}:{line_number}"
            name, switch = _read(words, where, numbers)
            if name in switches:
                raise UsageError(f"{where}: switch {shown(name)} is there twice")
            for node in switch.nodes:
                if node in known:
                    raise UsageError(f"{where}: node {node} is below {shown(known[node])} already")
                known[node] = name
            switches[name] = switch
    for name, switch in switches.items():
        for below in switch.switches:
            if below not in switches:
                raise UsageError(f"{switch.where}: there is no switch {shown(below)}")
            if other := switches[below].above:
                at = f"{shown(below)} is below {shown(other)} already"
                raise UsageError(f"{switch.where}: switch {at}")
            switches[below].above = name
    roots = [name for name, switch in switches.items() if not switch.above]
    walk = _Walk(switches)
    for name in roots:
        walk.down(name, LEVELS_MAX)
    for name, switch in switches.items():
        if name not in walk.seen:
            raise UsageError(f"{switch.where}: above switch {shown(name)} is a loop")
    return Topology(walk.line, walk.pieces)


def _read(words: list[str], where: str, numbers: Mapping[str, int]) -> tuple[str, _Switch]:
    """The switch of a line, by its name."""
    said: dict[str, str] = {}
    for word in words:
        key, is_said, value = word.partition("=")
        if not (is_said and value) or key.lower() in said:
            raise UsageError(f"{where}: `{shown(word)}`: lines are `SwitchName=s0 Nodes=n[0-3]`")
        said[key.lower()] = value
    name = said.get("switchname", "")
    if not name or ("nodes" in said) == ("switches" in said):
        raise UsageError(f"{where}: a switch has a SwitchName= and one of Nodes= and Switches=")
    switch = _Switch(where)
    if "switches" in said:
        switch.switches = _names(said["switches"], where)
    elif not set(said["nodes"]) - set("0123456789.,"):
        switch.nodes = _numbers(said["nodes"], where)
    else:
        for node in _names(said["nodes"], where):
            if node not in numbers:
                raise UsageError(f"{where}: the nodes file has no node {shown(node)}")
            switch.nodes.append(numbers[node])
    return name, switch


def _numbers(text: str, where: str) -> list[int]:
    try:
        return list(nodelist.parse(text))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _names(text: str, where: str) -> list[str]:
    """The names of a folded list: ``n[0-3],gpu1``."""
    from ClusterShell.NodeSet import NodeSet, NodeSetException  # takes 30 ms to import

    try:
        found = NodeSet(text) if _NAMES.fullmatch(text) else NodeSet()
        if 0 < len(found) <= NODES_MAX:
            return list(found)
    except NodeSetException:
        pass
    raise UsageError(f"{where}: `{shown(text)}` is no list of names, as n[0-3],gpu1 is")


class _Walk:
    """Goes through a tree, below each switch in the order of its line."""

    def __init__(self, switches: Mapping[str, _Switch]) -> None:
        self._switches = switches
        self.seen: set[str] = set()
        self.line: list[int] = []
        self.pieces: list[Piece] = []

    def down(self, name: str, levels: int) -> int:
        """Go through a switch and all below it; its height."""
        switch = self._switches[name]
        if not levels:
            raise UsageError(f"{switch.where}: more than {LEVELS_MAX} switches above one another")
        self.seen.add(name)
        first = len(self.line)
        self.line += sorted(switch.nodes)
        heights = [self.down(each, levels - 1) for each in switch.switches]
        height = 1 + max(heights, default=-1)
        self.pieces.append(Piece(first, len(self.line), height))
        return height
