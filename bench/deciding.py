"""What a decision costs bebopd: many nodes, a long queue, features, memory and three queues.

    python bench/deciding.py [--nodes 10000] [--jobs 10000] [--events 500] [--write FILE]

bebopd's own machine on a clock of its own. All slots are taken by jobs, and so many more wait.
Then jobs end and others are submitted in turn; each time all that bebopd does for it is timed, up
to the starts of the jobs that begin.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from itertools import count
from pathlib import Path

import results
from launch import machine, table

from allocator.batch.job import BatchRecorded, Earlier, RecordBatchJob, StartBroker
from allocator.bebopd import Bebopd
from allocator.jobs.grants import Owner
from allocator.nodes.placement import ArrayPlacement
from allocator.queue import file
from allocator.queue.backfill import Backfill
from allocator.queue.ranking import Ranking
from allocator.queue.table import QueueTable
from native.ids import PortalId, Principal, PrincipalKind
from native.limits import Limits
from native.machine import Event, MessageReceived
from native.wire import batch
from native.wire.alloc import Freed, Needs, NodeSpec
from native.wire.base import Terms
from native.wire.status import Announce

DAEMON = Principal(PrincipalKind.PARTITION, 0)
USERS = [Principal(PrincipalKind.USER, 1000 + number) for number in range(10)]
FOREVER_S = 1e12
KEPT = 50  # expected starts
SLOTS, GIB = 4, 1 << 30
MEAN_MS, MOST_MS = 20, 200
QUEUES = """
default = "normal"

[[queue]]
name = "short"
priority = 30
max_time = "1:00:00"

[[queue]]
name = "normal"
priority = 20

[[queue]]
name = "long"
priority = 10

[priority]
age = 1000
queue = 1000
"""


class Partition:
    """A bebopd with its nodes and its jobs, in virtual time."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.now = 1e6
        self._random = random.Random(seed)
        self._numbers = count(1)
        self._running: list[int] = []
        self._began = 0
        queues = QueueTable(
            file.parse(QUEUES, "queues"), lambda uid, group: False, {}, lambda uid: None
        )
        limits = Limits(
            silent_s=FOREVER_S,
            pending_s=FOREVER_S,
            submitted_count=1 << 30,
            submitted_each_count=1 << 30,
            backfill_count=KEPT,
        )
        self._machine = Bebopd(
            ArrayPlacement(),
            policy=Backfill,
            admission=queues,
            ranking=lambda slots: Ranking(queues, slots),
            epoch=1,
            next_job_id=1,
            sign=lambda data: bytes(16),
            job_key=lambda job_id, uid, expires: bytes(32),
            owner_of=lambda uid: Owner(uid, f"user{uid}", uid),
            wall_clock=lambda: self.now,
            limits=limits,
            earlier=Earlier(),
        )
        halves = frozenset(range(0, nodes, 2)), frozenset(range(1, nodes, 2))
        self._machine.nodes.features = dict(zip(("fast", "big"), halves, strict=True))
        for number in range(nodes):
            at = _pct(number)
            told = Announce(number, f"n{number}", SLOTS, at.nid, at.pid, 1, memory=64 * GIB)
            self._handle(MessageReceived(at, DAEMON, told))

    @property
    def waiting(self) -> int:
        return len(self._machine.batch) - len(self._running)

    @property
    def running(self) -> int:
        return len(self._running)

    def submit(self) -> None:
        """One more job, of the kinds that a site has."""
        draw = self._random
        number = next(self._numbers)
        size = draw.choice((1, 4, 16, 64, 256))
        needs = Needs(rank_memory=draw.choice((1, 8, 24)) * GIB) if draw.random() < 0.5 else None
        queue = draw.choice(("short", "normal", "long"))
        time_s = (
            draw.choice((600.0, 3600.0)) if queue == "short" else draw.choice((7200.0, 86400.0))
        )
        terms = Terms(queue, constraint=draw.choice(("", "", "fast", "big", "fast|big")))
        token = number.to_bytes(batch.TOKEN_BYTES, "big")
        spec = NodeSpec(size, needs=needs)
        message = batch.Submit(token, spec, "job", time_s, b"task", terms=terms)
        by = draw.choice(USERS)
        self._handle(MessageReceived(PortalId(1, 70_000 + number), by, message))

    def end(self) -> None:
        """One that runs ends."""
        self.now += 1.0
        place = self._random.randrange(len(self._running))
        self._running[place], self._running[-1] = self._running[-1], self._running[place]
        job_id = self._running.pop()
        held = self._machine.jobs[job_id]
        root, numbers = _pct(held.root), sorted(held.holdings)
        self._handle(MessageReceived(root, DAEMON, batch.BrokerEnded(job_id, 0, b"")))
        self._handle(MessageReceived(root, DAEMON, Freed.of(job_id, numbers)))

    def _handle(self, event: Event) -> None:
        actions = self._machine.handle(event, self.now)
        recorded = [action.job.job_id for action in actions if isinstance(action, RecordBatchJob)]
        if recorded:
            self._handle(BatchRecorded(tuple(dict.fromkeys(recorded))))
        for action in actions:
            if isinstance(action, StartBroker):
                job_id = action.job.job_id
                self._running.append(job_id)
                root = _pct(self._machine.jobs[job_id].root)
                self._handle(MessageReceived(root, DAEMON, batch.Started(job_id)))


def _pct(number: int) -> PortalId:
    return PortalId((10 << 24) + number, 7117)


def measured(nodes: int, jobs: int, events: int) -> tuple[list[float], Partition]:
    """The milliseconds of each end or submission, when the line is as long as it is to be."""
    partition = Partition(nodes, seed=1)
    while partition.waiting < jobs:
        partition.submit()
    took_ms = []
    for number in range(events):
        began = time.perf_counter()
        partition.submit() if number % 2 else partition.end()
        took_ms.append((time.perf_counter() - began) * 1e3)
    return took_ms, partition


def report(took_ms: list[float], partition: Partition, nodes: int, events: int) -> str:
    """The results as a section of Markdown."""
    lines = [
        "# Decisions with a long queue",
        "",
        f"bebopd's machine in virtual time: {nodes} nodes of {SLOTS} slots with memory and two",
        f"features, three queues, {partition.running} jobs run, {partition.waiting} wait,",
        f"expected starts for {KEPT}. {events} ends and submissions in turn, with all that begins.",
        "",
        *table(
            ["an event, ms", "goal", "measured"],
            [
                ["mean", f"at most {MEAN_MS}", f"{statistics.mean(took_ms):.1f}"],
                ["most", f"at most {MOST_MS}", f"{max(took_ms):.0f}"],
            ],
        ),
        "",
        "## Machine and command",
        "",
        *machine(),
        "",
        "    python bench/deciding.py",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000, help="(%(default)s)")
    parser.add_argument("--jobs", type=int, default=10_000, help="that wait (%(default)s)")
    parser.add_argument("--events", type=int, default=500, help="that are timed (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    took_ms, partition = measured(options.nodes, options.jobs, options.events)
    text = report(took_ms, partition, options.nodes, options.events)
    print(text)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
