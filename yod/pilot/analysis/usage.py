"""Where the core-seconds went: each belongs to one use, and together they are what was provided.

A core that no task holds is counted as what its pilot does meanwhile: ``boot`` until it is set up,
``setup`` until it is active, ``warmup`` until its first task, ``idle``, ``drain`` behind its last
task, ``term`` once it is being ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from yod.pilot.analysis.story import USES, PilotStory, Story
from yod.pilot.model import states

OF_PILOTS = ("boot", "setup", "warmup", "idle", "drain", "term")
OF_TASKS = tuple(USES.values())
ALL = (*OF_TASKS, *OF_PILOTS)


class Stretch(Struct, frozen=True):
    """Cores that had one use for some time.

    Attributes:
        cores: how many.
    """

    use: str
    since: float
    until: float
    cores: int

    @property
    def core_s(self) -> float:
        """Their core-seconds."""
        return (self.until - self.since) * self.cores


class Usage(Struct):
    """What became of one pilot's cores.

    Attributes:
        stretches: they cover all cores for all its time, and do not overlap.
        over: core-seconds that tasks held beyond what there was. None, unless something is wrong.
    """

    pilot: str
    cores: int
    since: float
    until: float
    stretches: list[Stretch]
    over: float = 0.0

    @property
    def provided(self) -> float:
        """All core-seconds."""
        return self.cores * (self.until - self.since)

    def totals(self) -> dict[str, float]:
        """Core-seconds of each use."""
        return totals_of(self.stretches)


def totals_of(stretches: Iterable[Stretch]) -> dict[str, float]:
    """Core-seconds of each use."""
    totals: dict[str, float] = {}
    for stretch in stretches:
        totals[stretch.use] = totals.get(stretch.use, 0.0) + stretch.core_s
    return {use: totals[use] for use in ALL if use in totals}


def usage_of(story: Story) -> list[Usage]:
    """What became of the cores of each pilot that has begun."""
    held: dict[str, list[Stretch]] = {}
    for task in story.tasks.values():
        if task.cores:
            own = held.setdefault(task.pilot, [])
            for run in task.runs:
                own += [Stretch(use, t0, t1, task.cores) for use, t0, t1 in run.uses()]
    found = []
    for uid, pilot in story.pilots.items():
        if pilot.cores and "bootstrap_0_start" in pilot.marks:
            found.append(_of_pilot(pilot, held.get(uid, [])))
    return found


def _of_pilot(pilot: PilotStory, held: list[Stretch]) -> Usage:
    since, until = pilot.marks["bootstrap_0_start"], pilot.marks["bootstrap_0_stop"]
    usage = Usage(pilot.uid, pilot.cores, since, until, [])
    changes: list[tuple[float, int]] = []
    first, last = until, since
    for stretch in held:
        t0, t1 = max(stretch.since, since), min(stretch.until, until)
        if t1 > t0:
            usage.stretches.append(Stretch(stretch.use, t0, t1, stretch.cores))
            changes += [(t0, stretch.cores), (t1, -stretch.cores)]
            first, last = min(first, t0), max(last, t1)
    phases = _phases(pilot, since, until, first, last)
    changes += [(at, 0) for at in phases]
    changes.sort(key=lambda change: change[0])
    now, use, free = since, phases[since], pilot.cores
    for at, cores in changes:
        if at > now:
            if free > 0:
                usage.stretches.append(Stretch(use, now, at, free))
            elif free < 0:
                usage.over += -free * (at - now)
            now = at
        use = phases.get(at, use)
        free -= cores
    if until > now:
        usage.stretches.append(Stretch(use, now, until, free))
    return usage


def _phases(
    pilot: PilotStory, since: float, until: float, first: float, last: float
) -> dict[float, str]:
    """What the pilot does from which time on."""
    marks = pilot.marks
    ok = marks.get("bootstrap_0_ok", until)
    begins = [
        (since, "boot"),
        (ok, "setup"),
        (max(ok, marks.get(states.PMGR_ACTIVE, until)), "warmup" if first < last else "idle"),
        (first, "idle"),
        (last if first < last else until, "drain"),
        (marks.get("cmd", until), "term"),
    ]
    phases: dict[float, str] = {}
    at = since
    for told, use in begins:
        at = min(max(at, told), until)
        phases[at] = use
    return phases


def binned(usages: Iterable[Usage], edges: list[float]) -> dict[str, list[float]]:
    """The mean number of cores of each use between the edges; its integral is the core-seconds."""
    count = len(edges) - 1
    start, width = edges[0], (edges[-1] - edges[0]) / count
    totals: dict[str, list[float]] = {}
    for usage in usages:
        for stretch in usage.stretches:
            row = totals.setdefault(stretch.use, [0.0] * count)
            _spread(row, stretch, start, width)
    return {use: [n / width for n in totals[use]] for use in ALL if use in totals}


def _spread(row: list[float], stretch: Stretch, start: float, width: float) -> None:
    """Add a stretch's core-seconds to bins of one width."""
    last_bin = len(row) - 1
    first = min(max(int((stretch.since - start) / width), 0), last_bin)
    last = min(max(int((stretch.until - start) / width), 0), last_bin)
    if first == last:
        row[first] += stretch.core_s
        return
    for n in range(first, last + 1):
        t0 = stretch.since if n == first else start + n * width
        t1 = stretch.until if n == last else start + (n + 1) * width
        row[n] += (t1 - t0) * stretch.cores


def edges_of(since: float, until: float, count: int) -> list[float]:
    """The edges of so many bins."""
    width = max(until - since, 1e-6) / count
    return [since + n * width for n in range(count + 1)]


def check(usage: Usage) -> list[str]:
    """What is wrong with the sums of a pilot, in sentences; empty: nothing is."""
    wrong = []
    if usage.over > 0:
        wrong.append(f"{usage.pilot}: tasks held {usage.over:g} core-seconds more than there were")
    total = sum(usage.totals().values())
    if abs(total - usage.over - usage.provided) > 1e-6 * max(1.0, usage.provided):
        wrong.append(
            f"{usage.pilot}: {total:g} core-seconds of {usage.provided:g} are accounted for"
        )
    return wrong


def levels(changes: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """How many there are from each time on, from comings (+1) and goings (-1)."""
    found: list[tuple[float, int]] = []
    now = 0
    for at, change in sorted(changes):
        now += change
        if found and found[-1][0] == at:
            found[-1] = (at, now)
        else:
            found.append((at, now))
    return found


def means(steps: list[tuple[float, int]], edges: list[float]) -> list[float]:
    """The mean of a step function between the edges."""
    count = len(edges) - 1
    width = (edges[-1] - edges[0]) / count
    row = [0.0] * count
    for (since, level), (until, _) in pairwise(steps):
        if level and until > since:
            _spread(row, Stretch("", since, until, level), edges[0], width)
    return [n / width for n in row]
