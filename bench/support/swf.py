"""Traces of batch systems in the Standard Workload Format: read, and made by a seed.

The format is that of the Parallel Workloads Archive: a line for each job with 18 numbers, -1 for
what is not known; comments begin with ``;``. Of these we need six: when the job was submitted, how
long it ran, how many processors it got, or asked for, the time that it asked for, and its user.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

FIELDS_COUNT = 18
SEEDS = (1, 2, 3)  # of the traces of a benchmark
_SUBMITTED, _RUNS, _ALLOCATED, _REQUESTED, _LIMIT, _USER = 1, 3, 4, 7, 8, 11  # places in a line
USERS_COUNT = 24  # of a trace that is made


class TraceJob(Struct, frozen=True):
    """One job.

    Attributes:
        submitted_s: since the trace begins.
        limit_s: that it asked for; 0: not known.
        user: whose it is; -1: not known.
    """

    submitted_s: float
    runs_s: float
    size: int
    limit_s: float = 0.0
    user: int = -1


def read(lines: Iterable[str]) -> Iterator[TraceJob]:
    """The jobs that have run, in the order of the trace.

    Raises:
        ValueError: names the line.
    """
    for number, line in enumerate(lines, 1):
        words = line.partition(";")[0].split()
        if not words:
            continue
        try:
            values = [float(word) for word in words]
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if len(values) < FIELDS_COUNT:
            raise ValueError(f"line {number}: {len(values)} numbers, there are {FIELDS_COUNT}")
        size = int(values[_ALLOCATED] if values[_ALLOCATED] > 0 else values[_REQUESTED])
        if size > 0 and values[_RUNS] > 0:
            limit_s = max(0.0, values[_LIMIT])
            submitted_s, user = max(0.0, values[_SUBMITTED]), int(values[_USER])
            yield TraceJob(submitted_s, values[_RUNS], size, limit_s, user)


def chosen(
    path: Path | None, nodes: int, jobs: int, load: float
) -> tuple[list[list[TraceJob]], str]:
    """The traces of a benchmark, and what they are in words.

    Args:
        path: a trace; jobs that are too large are left out. None: ``SEEDS`` make them.
        jobs, load: of each that is made.
    """
    if path is not None:
        with path.open(encoding="latin-1") as lines:
            found = [job for job in read(lines) if job.size <= nodes]
        return [found], f"{len(found)} jobs of {path.name}"
    traces = [list(read(made(nodes, jobs, load, seed))) for seed in SEEDS]
    return traces, f"{jobs} jobs of each of {len(SEEDS)} made traces with a load of {load:g}"


def made(nodes: int, jobs: int, load: float, seed: int) -> Iterator[str]:
    """A trace as those of real machines are: most sizes powers of two, times from minutes to hours.

    Few users have most jobs: the nth of them one for n of the first.

    Args:
        nodes: of the machine; no job is larger than half of it.
        load: the part of the machine that is asked for on average.
    """
    draw, draw_limit = random.Random(seed), random.Random(-seed)
    draw_user, users = random.Random(f"users {seed}"), range(1, USERS_COUNT + 1)
    yield f"; MaxNodes: {nodes}"
    yield f"; Note: made by seed {seed}, load {load:g}"
    largest = math.log2(nodes / 2)
    sizes, times = [], []
    for _ in range(jobs):
        power = draw.uniform(0, largest)
        is_power = draw.random() < 0.75
        sizes.append(max(1, round(2 ** (round(power) if is_power else power))))
        times.append(min(36_000.0, max(60.0, draw.lognormvariate(math.log(1800), 1.2))))
    work = sum(size * time_s for size, time_s in zip(sizes, times, strict=True))
    between_s = work / (nodes * load) / jobs
    at = 0.0
    for number, (size, time_s) in enumerate(zip(sizes, times, strict=True), 1):
        at += draw.expovariate(1 / between_s)
        limit_s = round(time_s * draw_limit.uniform(1, 5))  # users ask for too much
        (user,) = draw_user.choices(users, [1 / each for each in users])
        known = [number, round(at), -1, round(time_s), size, -1, -1, size, limit_s, -1, -1, user]
        yield " ".join(map(str, known + [-1] * (FIELDS_COUNT - len(known))))
