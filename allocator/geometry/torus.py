"""Nodes on a torus: a job gets those of a box as small as can be, which may lie across the edge.

A torus is a grid whose last place in each dimension is a neighbour of the first one. Two nodes are
as far apart as the shorter way round is long, in each dimension. The nodes of a box with extents
``a x b x c`` are at most the halves of these from its middle, wherever it begins: so the box that
is smallest keeps a job's ways shortest.

Boxes are tried that are as nearly cubes as can be, in every position and turned in every way; how
much is free in all positions at once is found by sums along each dimension. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import permutations
from math import prod
from operator import itemgetter

import numpy as np

from allocator.nodes.nodesfile import Coordinates
from allocator.nodes.policies import Ints, lowest
from native.errors import UsageError
from native.text import plural, shown

CELLS_MAX = 1 << 22  # places of a torus
DIMENSIONS_MAX = 6
_SIZES = re.compile(r"[1-9][0-9]{0,6}(x[1-9][0-9]{0,6})*", re.ASCII)

Sizes = tuple[int, ...]


def parse(text: str, at: Mapping[int, Coordinates]) -> Sizes:
    """The sizes of a torus, as ``8x8x4``.

    Args:
        at: coordinates by node, as a nodes file has them.

    Raises:
        UsageError: it is none, or not one of these coordinates.
    """
    said = f"--torus {shown(text)}"
    if not _SIZES.fullmatch(text):
        raise UsageError(f"{said}: sizes are numbers from 1, as in 8x8x4")
    sizes = tuple(map(int, text.split("x")))
    if len(sizes) > DIMENSIONS_MAX:
        raise UsageError(f"{said}: a torus has at most {DIMENSIONS_MAX} dimensions")
    if (cells := prod(sizes)) > CELLS_MAX:
        raise UsageError(f"{said}: {cells} places, a torus has at most {CELLS_MAX}")
    if not at:
        raise UsageError(f"{said}: the nodes file says no coordinates (at=X,Y,Z), or there is none")
    for number, coordinates in at.items():
        where = f"node {number} is at={','.join(map(str, coordinates))}"
        if len(coordinates) != len(sizes):
            raise UsageError(f"{said}: {where}, with {plural(len(coordinates), 'coordinate')}")
        if any(one >= size for one, size in zip(coordinates, sizes, strict=True)):
            raise UsageError(f"{said}: {where}, outside of it; the first place is 0")
    return sizes


def distance(one: Coordinates, other: Coordinates, sizes: Sizes) -> int:
    """The links between two places, by the shorter ways round."""
    apart = (abs(here - there) for here, there in zip(one, other, strict=True))
    return sum(min(way, size - way) for way, size in zip(apart, sizes, strict=True))


class Torus:
    """A torus over a line of nodes.

    Args:
        line: the nodes in their order; those without coordinates are on no place of the torus.
    """

    def __init__(self, sizes: Sizes, line: Sequence[int], at: Mapping[int, Coordinates]) -> None:
        self._sizes = sizes
        self._there = np.array([i for i, node in enumerate(line) if node in at], dtype=np.int64)
        rows = [at[node] for node in line if node in at]
        self._at = np.array(rows, dtype=np.int64).reshape(-1, len(sizes)).T  # by dimension
        self._cells = np.ravel_multi_index(tuple(self._at), sizes)

    def choose(self, free: Ints, size: int) -> Ints:
        """Places in a box as small as can be; a placement policy.

        Of the positions of boxes of that size it takes the one with least free. What the nodes
        of the torus lack is taken from others, and then the first free slots of the line do.
        """
        here = free[self._there]
        if int(here.sum()) < size:
            return lowest(free, size)
        cells = prod(self._sizes)
        grid = np.bincount(self._cells, here, cells).astype(np.int64).reshape(self._sizes)
        extents, first = self._smallest(grid, size)
        offsets = (self._at - np.array(first)[:, None]) % np.array(self._sizes)[:, None]
        inside = np.flatnonzero((offsets < np.array(extents)[:, None]).all(axis=0) & (here > 0))
        along = np.argsort(extents, kind="stable")  # the last key counts most: the longest way
        order = inside[np.lexsort(offsets[along][:, inside])]
        needed = int(np.searchsorted(np.cumsum(here[order]), size)) + 1
        return np.sort(self._there[order[:needed]])

    def _smallest(self, grid: Ints, size: int) -> tuple[Sizes, Sizes]:
        """The extents and the first place of the box."""
        most = int(grid.max())
        step = ahead = 0  # steps from one place to all
        while self._places(step) * most < size:
            step += 1
        low = step
        while not self._does(grid, size, step):  # it is near to the first that could do
            low, ahead = step + 1, 2 * ahead + 1
            step += ahead
        high = step
        while low < high:
            middle = (low + high) // 2
            if self._does(grid, size, middle):
                high = middle
            else:
                low = middle + 1
        return self._best(grid, size, low)

    def _extents(self, step: int) -> list[Sizes]:
        """Those of the boxes of a step, turned in every way.

        At each step one extent is longer by one, so a box of a later step has one of each before.
        """
        whole, longer = divmod(step, len(self._sizes))
        each = [whole + 2] * longer + [whole + 1] * (len(self._sizes) - longer)
        return sorted({tuple(map(min, way, self._sizes)) for way in permutations(each)})

    def _places(self, step: int) -> int:
        """How many places the largest box of a step has."""
        return max(prod(extents) for extents in self._extents(step))

    def _does(self, grid: Ints, size: int, step: int) -> bool:
        """Whether some box of a step has enough free slots."""
        return any(int(_sums(grid, extents).max()) >= size for extents in self._extents(step))

    def _best(self, grid: Ints, size: int, step: int) -> tuple[Sizes, Sizes]:
        """The box with least free that is enough, of those of a step that has any."""
        found: list[tuple[int, Sizes, Sizes]] = []
        for extents in self._extents(step):
            sums = _sums(grid, extents).ravel()
            able = np.flatnonzero(sums >= size)
            if len(able):
                place = int(able[np.argmin(sums[able])])
                first = tuple(map(int, np.unravel_index(place, self._sizes)))
                found.append((int(sums[place]), extents, first))
        _, extents, first = min(found, key=itemgetter(0))
        return extents, first


def _sums(grid: Ints, extents: Sizes) -> Ints:
    """What is in the box that begins at each place, around the edges."""
    for axis, extent in enumerate(extents):
        length = grid.shape[axis]
        if extent == length:
            grid = np.broadcast_to(grid.sum(axis=axis, keepdims=True), grid.shape)
        elif extent > 1:
            along = np.moveaxis(grid, axis, 0)
            none = np.zeros_like(along[:1])
            upto = np.cumsum(np.concatenate((none, along, along[: extent - 1])), axis=0)
            grid = np.moveaxis(upto[extent:] - upto[:length], 0, axis)
    return grid
