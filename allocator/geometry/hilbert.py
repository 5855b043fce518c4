"""The order of nodes along a Hilbert curve through their coordinates.

The curve passes every place of a grid once and goes from each to a neighbour, so nodes that are
near one another along it are near one another in the machine, too. How a point's place on the
curve is found: J. Skilling, "Programming the Hilbert curve" (2004). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from allocator.nodes.nodesfile import Coordinates


def order(at: Mapping[int, Coordinates]) -> list[int]:
    """The nodes along the curve.

    Args:
        at: coordinates by node, as a nodes file has them.
    """
    if not at:
        return []
    nodes = np.array(sorted(at), dtype=np.int64)
    axes = np.array([at[number] for number in nodes.tolist()], dtype=np.int64).T
    line: list[int] = nodes[np.argsort(_places(axes), kind="stable")].tolist()
    return line


def _places(axes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Places on the curve.

    Args:
        axes: shape (dimensions, nodes); it is changed.
    """
    bits = max(1, int(axes.max()).bit_length())
    for bit in range(bits - 1, 0, -1):  # undo what the curve turns and mirrors
        low = (1 << bit) - 1
        for axis in axes:
            is_set = (axis >> bit) & 1 == 1
            swapped = np.where(is_set, 0, (axes[0] ^ axis) & low)
            axes[0] ^= np.where(is_set, low, swapped)
            axis ^= swapped
    for axis, before in zip(axes[1:], axes[:-1], strict=True):  # Gray code
        axis ^= before
    flips = np.zeros_like(axes[0])
    for bit in range(bits - 1, 0, -1):
        flips ^= np.where((axes[-1] >> bit) & 1 == 1, (1 << bit) - 1, 0)
    axes ^= flips
    place: npt.NDArray[np.int64] = np.zeros_like(axes[0])
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            place = place << 1 | (axis >> bit) & 1
    return place
