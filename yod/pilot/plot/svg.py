"""Charts as SVG, written by hand: steps by time, stacked or as lines, and bars of durations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 920, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 12, 34


class Axes:
    """A frame with two axes.

    Args:
        right: the highest time, in seconds; top: the highest value.
    """

    def __init__(self, right: float, top: float, unit: str) -> None:
        self._right = right or 1.0
        self._top = (top or 1.0) * 1.04
        self._unit = unit

    def x(self, at: float) -> float:
        """Where a time is."""
        return round(_LEFT + at / self._right * (WIDTH - _LEFT - _RIGHT), 2)

    def y(self, value: float) -> float:
        """Where a value is."""
        return round(HEIGHT - _BOTTOM - value / self._top * (HEIGHT - _TOP - _BOTTOM), 2)

    def frame(self, inside: str, kind: str) -> str:
        """The chart."""
        parts = [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" class="chart" data-chart="{kind}"'
            f' data-left="{_LEFT}" data-right="{WIDTH - _RIGHT}">'
        ]
        for value in ticks(self._top):
            y = self.y(value)
            parts.append(
                f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
            )
            parts.append(
                f'<text class="tick" x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">'
                f"{number(value)}</text>"
            )
        for value in ticks(self._right, 8):
            x = self.x(value)
            parts.append(
                f'<text class="tick" x="{x}" y="{HEIGHT - 16}" text-anchor="middle">'
                f"{number(value)}</text>"
            )
        parts.append(inside)
        parts.append(
            f'<text class="tick" x="{WIDTH - _RIGHT}" y="{HEIGHT - 2}" text-anchor="end">'
            "seconds</text>"
        )
        parts.append(f'<text class="tick" x="4" y="{_TOP + 2}">{escape(self._unit)}</text>')
        parts.append(f'<line class="cross" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}" x1="-9" x2="-9"/>')
        return "".join(parts) + "</svg>"


def stacked(
    edges: Sequence[float],
    rows: Mapping[str, Sequence[float]],
    colours: Mapping[str, str],
    unit: str,
    kind: str,
) -> str:
    """Rows on top of one another."""
    count = len(edges) - 1
    base = [0.0] * count
    areas: list[tuple[str, list[float], list[float]]] = []
    for name, row in rows.items():
        upper = [low + value for low, value in zip(base, row, strict=True)]
        areas.append((name, base, upper))
        base = upper
    axes = Axes(edges[-1], max(base, default=0.0), unit)
    inside = []
    for name, low, high in areas:
        path = _steps(axes, edges, high) + "L" + _steps(axes, edges, low, backwards=True)[1:] + "Z"
        inside.append(
            f'<path d="{path}" fill="{colours[name]}"><title>{escape(name)}</title></path>'
        )
    return axes.frame("".join(inside), kind)


def lines(
    edges: Sequence[float],
    rows: Mapping[str, Sequence[float]],
    colours: Mapping[str, str],
    unit: str,
    kind: str,
) -> str:
    """Rows as lines of steps."""
    axes = Axes(edges[-1], max((max(row) for row in rows.values()), default=0.0), unit)
    inside = [
        f'<path d="{_steps(axes, edges, row)}" fill="none" stroke="{colours[name]}"'
        f' stroke-width="1.6"><title>{escape(name)}</title></path>'
        for name, row in rows.items()
    ]
    return axes.frame("".join(inside), kind)


def _steps(
    axes: Axes, edges: Sequence[float], row: Sequence[float], *, backwards: bool = False
) -> str:
    points: list[tuple[float, float]] = []
    for n, value in enumerate(row):
        points += [(axes.x(edges[n]), axes.y(value)), (axes.x(edges[n + 1]), axes.y(value))]
    if backwards:
        points.reverse()
    kept = [p for n, p in enumerate(points) if n in (0, len(points) - 1) or _turns(points, n)]
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in kept)


def _turns(points: Sequence[tuple[float, float]], n: int) -> bool:
    """A point that is not on the straight line between those beside it."""
    return not (points[n - 1][1] == points[n][1] == points[n + 1][1])


def ticks(top: float, most: int = 5) -> list[float]:
    """Round numbers from 0 up to a value."""
    step = 10.0 ** math.floor(math.log10(top / most)) if top > 0 else 1.0
    for factor in (1, 2, 5, 10):
        if top / (step * factor) <= most:
            step *= factor
            break
    return [n * step for n in range(int(top / step) + 1)]


def seconds(value: float) -> str:
    """A time for people."""
    text = number(value)
    return f"{text}s" if text.endswith("µ") else f"{text} s"


def number(value: float) -> str:
    """A number for people."""
    if value and abs(value) < 0.001:
        return f"{value * 1e6:.3g} µ"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
