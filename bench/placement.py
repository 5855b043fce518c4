"""Placement policies compared: how near to one another the nodes of jobs are, and what it costs.

    python bench/placement.py [--trace FILE.swf] [--mesh 16x16x8] [--stretch 0.02] [--write FILE]

Jobs of a trace in the Standard Workload Format, or of three that are made by seeds, on a mesh of
nodes, which take one rank each. Jobs are served in their order; the first that does not fit holds
back all others, as bebopd's line does. The placements are those of bebopd. All figures are of
simulated quantities: how busy this host is makes no difference.

A job's *hops* are the mean distance of two of its nodes in the mesh. Its ranks talk over them, so
it is assumed to run longer by the stretch for each hop: that is how a placement changes how long
others wait.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from launch import machine, table
from msgspec import Struct, field
from support import results, swf

from allocator.geometry import hilbert
from allocator.nodes.placement import ArrayPlacement
from allocator.nodes.policies import POLICIES
from native.wire.placed import NodeSpan

Coordinates = tuple[int, ...]

JOBS_COUNT = 1000
LOAD = 0.6
BY_NUMBER, HILBERT = "by number", "Hilbert"


class Figures(Struct):
    """What became of the jobs of one or more traces."""

    spans: list[float] = field(default_factory=list)  # of a job, in nodes for each of its own
    hops: list[float] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)  # rows of neighbours in the line
    waits_s: list[float] = field(default_factory=list)
    free_runs: list[int] = field(default_factory=list)  # at each start


class Machine:
    """A mesh of nodes, numbered row by row.

    Args:
        line: the one-dimensional order of the nodes.
    """

    def __init__(self, sizes: Sequence[int], policy: str, line: Sequence[int]) -> None:
        self.at = np.array(list(np.ndindex(*sizes)))
        self.placement = ArrayPlacement(POLICIES[policy], line)
        self.count = len(self.at)
        self.place = np.arange(self.count)
        if line:
            self.place[np.array(line)] = np.arange(self.count)
        for node in range(self.count):
            self.placement.set_free(node, 1, True)
        self.free_at = np.ones(self.count, dtype=bool)  # by place

    def begin(self, size: int, figures: Figures) -> list[NodeSpan] | None:
        """Nodes for a job; None: too few are free."""
        spans = self.placement.anywhere(size)
        if spans is None:
            return None
        self.placement.take(spans)
        nodes = np.concatenate([np.arange(s.node, s.node + s.count) for s in spans])
        places = np.sort(self.place[nodes])
        figures.spans.append((places[-1] - places[0] + 1) / size)
        figures.pieces.append(1 + int((np.diff(places) != 1).sum()))
        figures.hops.append(self._hops(nodes))
        self.free_at[places] = False
        figures.free_runs.append(int((np.diff(self.free_at.astype(int)) == 1).sum()))
        return spans

    def end(self, spans: list[NodeSpan]) -> None:
        for span in spans:
            for node in range(span.node, span.node + span.count):
                self.placement.set_free(node, 1, True)
                self.free_at[self.place[node]] = True

    def _hops(self, nodes: np.ndarray) -> float:
        """The mean distance of two of these nodes."""
        if len(nodes) < 2:
            return 0.0
        total = 0
        for axis in self.at[nodes].T:
            ascending = np.sort(axis)
            total += int((ascending * (2 * np.arange(len(axis)) - len(axis) + 1)).sum())
        return total / (len(nodes) * (len(nodes) - 1) / 2)


def run(jobs: Sequence[swf.TraceJob], machine: Machine, stretch: float, figures: Figures) -> None:
    """All jobs of a trace, from the first submission to the last end."""
    waiting: deque[swf.TraceJob] = deque()
    ends: list[tuple[float, int, list[NodeSpan]]] = []
    coming = deque(sorted(jobs, key=lambda job: job.submitted_s))
    number = 0
    while coming or waiting:
        now = min(coming[0].submitted_s if coming else float("inf"), ends[0][0] if ends else 1e300)
        while ends and ends[0][0] <= now:
            machine.end(heapq.heappop(ends)[2])
        while coming and coming[0].submitted_s <= now:
            waiting.append(coming.popleft())
        while waiting and (spans := machine.begin(waiting[0].size, figures)) is not None:
            job = waiting.popleft()
            figures.waits_s.append(now - job.submitted_s)
            runs_s = job.runs_s * (1 + stretch * figures.hops[-1])
            number += 1
            heapq.heappush(ends, (now + runs_s, number, spans))


def row(policy: str, order: str, figures: Figures) -> list[str]:
    """The means of one policy."""
    whole = sum(pieces == 1 for pieces in figures.pieces) / len(figures.pieces)
    return [
        policy,
        order,
        f"{statistics.mean(figures.spans):.2f}",
        f"{statistics.mean(figures.hops):.2f}",
        f"{100 * whole:.0f} %",
        f"{statistics.mean(figures.free_runs):.1f}",
        f"{statistics.mean(figures.waits_s) / 60:.1f}",
        f"{statistics.quantiles(figures.waits_s, n=20)[-1] / 60:.0f}",
    ]


def compare(
    traces: Sequence[Sequence[swf.TraceJob]], sizes: Sequence[int], stretch: float
) -> list[list[str]]:
    at: dict[int, Coordinates] = dict(enumerate(np.ndindex(*sizes)))
    lines = {BY_NUMBER: [], HILBERT: hilbert.order(at)}
    rows = []
    for order, line in lines.items():
        for policy in POLICIES:
            figures = Figures()
            for jobs in traces:
                run(jobs, Machine(sizes, policy, line), stretch, figures)
            rows.append(row(policy, order, figures))
            print(rows[-1], file=sys.stderr)
    return rows


def report(rows: list[list[str]], what: str, sizes: Sequence[int], options: str) -> str:
    """The results as a section of Markdown."""
    heads = ["policy", "order of nodes", "span / size", "hops", "in one piece", "free runs"]
    heads += ["wait, min", "95 % wait below, min"]
    mesh = " x ".join(map(str, sizes))
    lines = [
        "# Placement policies",
        "",
        f"Simulated: {what}, on a mesh of {mesh} nodes, a rank on each node, served in their",
        "order. *Span / size*: the nodes of the line from a job's first to its last, for each that",
        "it has. *Hops*: the mean distance of two of its nodes in the mesh; for each a job runs",
        f"{options} longer. *Free runs*: rows of free neighbours in the line. All are means.",
        "",
        *table(heads, rows),
        "",
        "## Machine and command",
        "",
        *machine(),
        "",
        "    python bench/placement.py",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, help="a trace; default: three made by seeds")
    parser.add_argument("--mesh", default="16x16x8", help="the machine (%(default)s)")
    parser.add_argument("--stretch", type=float, default=0.02, help="for a hop (%(default)s)")
    parser.add_argument("--jobs", type=int, default=JOBS_COUNT, help="of a made trace")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    sizes = [int(word) for word in options.mesh.split("x")]
    nodes = int(np.prod(sizes))
    traces, what = swf.chosen(options.trace, nodes, options.jobs, LOAD)
    began = time.perf_counter()
    rows = compare(traces, sizes, options.stretch)
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    text = report(rows, what, sizes, f"{100 * options.stretch:g} %")
    print(text)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
