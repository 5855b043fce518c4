"""Which free slots a request gets, on nodes that lie in a line.

The line is the one-dimensional order of a partition's nodes: by number, by a file, or along a
space-filling curve. Nodes near one another in it are near one another in the machine, so a job
with a small *span* (from its first node to its last, in the line) talks over short ways. A *run*
is a row of neighbours that all have a free slot.

A policy takes the free slots of each place of the line, and gives the places to fill, in the
order of the line; it is told a size that they have. It is pure, and looks at whole arrays: a
hundred thousand nodes take some milliseconds at most.

Source: "Processor allocation on Cplant" (Cluster 2002), which compares these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Policy = Callable[[Ints, int], Ints]


def lowest(free: Ints, size: int) -> Ints:
    """The first free slots of the line, wherever they are: nothing is left over in front."""
    places = np.flatnonzero(free != 0)  # much faster than without
    return places[: int(np.searchsorted(np.cumsum(free[places]), size)) + 1]


def first_fit(free: Ints, size: int) -> Ints:
    """The first run that is large enough; if there is none, as :func:`minimal_span`."""
    runs = _Runs(free)
    large = np.flatnonzero(runs.slots >= size)
    return runs.places(int(large[0])) if len(large) else minimal_span(free, size)


def best_fit(free: Ints, size: int) -> Ints:
    """The smallest run that is large enough; if there is none, as :func:`minimal_span`."""
    runs = _Runs(free)
    large = np.flatnonzero(runs.slots >= size)
    if not len(large):
        return minimal_span(free, size)
    return runs.places(int(large[np.argmin(runs.slots[large])]))


def sum_of_squares(free: Ints, size: int) -> Ints:
    """The run that leaves runs of as many different lengths as can be; else :func:`minimal_span`.

    With N(g) runs of g slots the sum of N(g)^2 is least when no length is frequent: then one is
    likely to be there that a later request fits.
    """
    runs = _Runs(free)
    lengths, counts = np.unique(runs.slots, return_counts=True)
    large = np.flatnonzero(lengths >= size)
    if not len(large):
        return minimal_span(free, size)
    left = lengths[large] - size
    at = np.minimum(np.searchsorted(lengths, left), len(lengths) - 1)
    as_left = np.where(lengths[at] == left, counts[at], 0)  # runs of the length that is left
    change = -2 * counts[large] + np.where(left > 0, 2 * as_left + 1, 0)
    length = lengths[large[np.argmin(change)]]
    return runs.places(int(np.argmax(runs.slots == length)))


def minimal_span(free: Ints, size: int) -> Ints:
    """The slots with the smallest distance from the first to the last; of these, the first."""
    places = np.flatnonzero(free != 0)
    upto = np.cumsum(free[places])
    before = upto - free[places]
    starts = int(np.searchsorted(before, upto[-1] - size, side="right"))  # the others have less
    each = int(free[places[0]])
    if upto[-1] == each * len(places) and (free[places] == each).all():  # found without a search
        ends = np.arange(starts) - (-size // each) - 1
    else:
        ends = np.searchsorted(upto, before[:starts] + size)
    first = int(np.argmin(places[ends] - places[:starts]))
    return places[first : int(ends[first]) + 1]


POLICIES: Mapping[str, Policy] = {
    "lowest": lowest,
    "first-fit": first_fit,
    "best-fit": best_fit,
    "minimal-span": minimal_span,
    "sum-of-squares": sum_of_squares,
}


class _Runs:
    """The runs of a line.

    Attributes:
        slots: free ones of each run.
    """

    def __init__(self, free: Ints) -> None:
        is_free = np.concatenate(([False], free > 0, [False]))
        edges = np.flatnonzero(is_free[1:] != is_free[:-1])
        self._first, self._behind = edges[::2], edges[1::2]
        upto = np.concatenate(([0], np.cumsum(free)))
        self.slots: Ints = upto[self._behind] - upto[self._first]

    def places(self, run: int) -> Ints:
        """All places of a run."""
        return np.arange(self._first[run], self._behind[run])
