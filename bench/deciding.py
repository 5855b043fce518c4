"""What a decision costs bebopd: many nodes, a long queue, features, memory and three queues.

    python bench/deciding.py [--nodes 10000] [--jobs 10000] [--events 500] [--write FILE]

bebopd's own machine on a clock of its own. All slots are taken by jobs, and so many more wait.
Then jobs end and others are submitted in turn; each time the processor time of all that bebopd does
for it is taken, up to the starts of the jobs that begin. It waits for nothing, so that is the time
that passes on a host which has nothing else to do.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from itertools import count
from pathlib import Path

from launch import machine, table
from support import results
from support.virtual import DAEMON, Partition, pct

from allocator.queue import file
from allocator.queue.backfill import Backfill
from allocator.queue.ranking import Ranking
from allocator.queue.table import QueueTable
from native.ids import PortalId, Principal, PrincipalKind
from native.wire import batch
from native.wire.alloc import Needs, NodeSpec
from native.wire.base import Terms
from native.wire.status import Announce

USERS = [Principal(PrincipalKind.USER, 1000 + number) for number in range(10)]
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


class Site(Partition):
    """A partition whose nodes have memory and features, and whose jobs wait in three queues."""

    def __init__(self, nodes: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._numbers = count(1)
        self._running: list[int] = []
        queues = QueueTable(
            file.parse(QUEUES, "queues"), lambda uid, group: False, {}, lambda uid: None
        )
        super().__init__(
            KEPT,
            policy=Backfill,
            admission=queues,
            ranking=lambda slots: Ranking(queues, slots),
        )
        halves = frozenset(range(0, nodes, 2)), frozenset(range(1, nodes, 2))
        self.machine.nodes.features = dict(zip(("fast", "big"), halves, strict=True))
        for number in range(nodes):
            at = pct(number)
            told = Announce(number, f"n{number}", SLOTS, at.nid, at.pid, 1, memory=64 * GIB)
            self.tell(at, told, DAEMON)

    @property
    def waiting(self) -> int:
        return len(self.machine.batch) - len(self._running)

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
        self.tell(PortalId(1, 70_000 + number), message, draw.choice(USERS))

    def end(self) -> None:
        """One that runs ends."""
        self.now += 1.0
        place = self._random.randrange(len(self._running))
        self._running[place], self._running[-1] = self._running[-1], self._running[place]
        self.ended(self._running.pop())

    def begins(self, job_id: int) -> None:
        self._running.append(job_id)
        self.started(job_id)


def measured(nodes: int, jobs: int, events: int) -> tuple[list[float], Site]:
    """The milliseconds of each end or submission, when the line is as long as it is to be."""
    partition = Site(nodes, seed=1)
    while partition.waiting < jobs:
        partition.submit()
    took_ms = []
    for number in range(events):
        began = time.process_time()
        partition.submit() if number % 2 else partition.end()
        took_ms.append((time.process_time() - began) * 1e3)
    return took_ms, partition


def report(took_ms: list[float], partition: Site, nodes: int, events: int) -> str:
    """The results as a section of Markdown."""
    lines = [
        "# Decisions with a long queue",
        "",
        f"bebopd's machine in virtual time: {nodes} nodes of {SLOTS} slots with memory and two",
        f"features, three queues, {partition.running} jobs run, {partition.waiting} wait,",
        f"expected starts for {KEPT}. {events} ends and submissions in turn, with all that begins.",
        "",
        *table(
            ["an event, ms of a processor", "goal", "measured"],
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
