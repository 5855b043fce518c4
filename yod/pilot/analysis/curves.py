"""Concurrency, rate and durations of a session's tasks."""

from __future__ import annotations

from bisect import bisect_right

from msgspec import Struct

from yod.pilot.analysis.story import Story
from yod.pilot.analysis.usage import levels, means
from yod.pilot.model import states

# The time between two of them is how long a task was in the first.
_ON_THE_WAY = states.TASK.states
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)


class Durations(Struct, frozen=True):
    """How long tasks were in a state: seconds at each of ``QUANTILES``."""

    state: str
    count: int
    quantiles: tuple[float, ...]
    total: float


def concurrency(story: Story, edges: list[float]) -> dict[str, list[float]]:
    """How many tasks wait for slots, have slots, and run, in the mean between the edges.

    Where there are executors: how many of their calls run, too.
    """
    changes: dict[str, list[tuple[float, int]]] = {
        "waiting": [],
        "holding slots": [],
        "running": [],
    }
    for task in story.tasks.values():
        came = task.states.get(states.AGENT_SCHEDULING)
        for run in task.runs:
            if came is not None and came <= run.began:
                changes["waiting"] += [(came, 1), (run.began, -1)]
            came = None  # the time between two runs is not known
            changes["holding slots"] += [(run.began, 1), (run.ended, -1)]
            since, until = run.at("exec_start"), run.at("exec_stop")
            if since is not None and until is not None:
                changes["running"] += [(since, 1), (until, -1)]
    if story.calls:
        each = ((at, n) for call in story.calls for at, n in ((call.began, 1), (call.ended, -1)))
        changes["in calls"] = list(each)
    return {what: means(levels(each), edges) for what, each in changes.items()}


def rates(story: Story, edges: list[float], together: int = 1) -> dict[str, list[float]]:
    """Tasks that start and end in a second, between the edges, and calls of executors that end.

    Args:
        together: the mean of so many bins is the rate of each.
    """
    count = len(edges) - 1
    width = (edges[-1] - edges[0]) / count
    found = {"started": [0.0] * count, "ended": [0.0] * count}

    def add(what: str, at: float) -> None:
        n = min(max(bisect_right(edges, at) - 1, 0), count - 1)
        first = n - n % together
        last = min(first + together, count)
        for bin_number in range(first, last):
            found[what][bin_number] += 1 / (width * (last - first))

    for task in story.tasks.values():
        for run in task.runs:
            for what, event in (("started", "exec_start"), ("ended", "exec_stop")):
                at = run.at(event)
                if at is not None:
                    add(what, at)
    if story.calls:
        found["calls"] = [0.0] * count
    for call in story.calls:
        add("calls", call.ended)
    return found


def durations(story: Story) -> list[Durations]:
    """How long tasks were in each state."""
    found: dict[str, list[float]] = {}
    for task in story.tasks.values():
        passed = [(at, state) for state, at in task.states.items()]
        passed.sort(key=lambda one: (one[0], states.TASK.values[one[1]]))
        for n in range(len(passed) - 1):
            found.setdefault(passed[n][1], []).append(passed[n + 1][0] - passed[n][0])
    return [
        Durations(state, len(each), _quantiles(sorted(each)), sum(each))
        for state in _ON_THE_WAY
        if (each := found.get(state))
    ]


def _quantiles(values: list[float]) -> tuple[float, ...]:
    last = len(values) - 1
    return tuple(values[round(q * last)] for q in QUANTILES)
