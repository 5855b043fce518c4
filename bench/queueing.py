"""Queue policies compared: how long jobs wait, and what it costs bebopd to decide.

    python bench/queueing.py [--trace FILE.swf] [--nodes 256] [--jobs 1000] [--write FILE]
        [--plot FILE.png]

bebopd's own machine on a clock of its own, with nodes of one slot. Jobs are submitted, begin when
they are granted slots, and end after the time that they ran in the trace; their time limits are
those of the trace. Traces are in the Standard Workload Format, or made by seeds. Waiting times and
the like are of simulated quantities: how busy this host is makes no difference to them, but to the
last column.

The yardstick is EASY, as it was published: one request has its start kept.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from launch import machine, table
from msgspec import Struct, field
from support import results, swf
from support.virtual import DAEMON, Partition, pct

from allocator.batch.job import SendRows
from allocator.queue.backfill import Backfill
from allocator.queue.policy import PolicyMaker, first_in_first_out
from native.ids import PortalId, Principal, PrincipalKind
from native.machine import Action, Event, MessageReceived
from native.wire import batch
from native.wire.alloc import NodeSpec
from native.wire.status import Announce

ALICE = Principal(PrincipalKind.USER, 1000)
LOAD = 0.8
BOUND_S = 10.0  # no shorter job counts for its slowdown
POLICIES: dict[str, tuple[PolicyMaker, int]] = {
    "first in, first out": (first_in_first_out, 1),
    "EASY: 1 start is kept": (Backfill, 1),
    "50 starts are kept": (Backfill, 50),
    "500 starts are kept": (Backfill, 500),
}


class Figures(Struct):
    """What became of the jobs of one or more traces.

    Attributes:
        used: of each trace the part of the nodes' time that jobs had, until the last submission.
        passed: jobs that began before one that had been submitted earlier.
        late: times that the promise to the first in the line was broken.
        decided_ms: an event at bebopd.
    """

    waits_s: list[float] = field(default_factory=list)
    slowdowns: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    passed: list[bool] = field(default_factory=list)
    late: int = 0
    decided_ms: list[float] = field(default_factory=list)


class Simulated(Partition):
    """A partition of one slot a node whose jobs are those of a trace."""

    def __init__(self, nodes: int, policy: PolicyMaker, kept: int, figures: Figures) -> None:
        self._nodes = nodes
        self._figures = figures
        self._ends: list[tuple[float, int]] = []
        self._jobs: dict[int, swf.TraceJob] = {}  # by id
        self._waiting: dict[int, swf.TraceJob] = {}
        self._promised: dict[int, float] = {}
        self._begun: list[tuple[float, swf.TraceJob]] = []
        self._numbers = count(1)
        super().__init__(kept, policy=policy)
        for number in range(nodes):
            at = pct(number)
            self.tell(at, Announce(number, f"n{number}", 1, at.nid, at.pid, 1, ()), DAEMON)
        figures.decided_ms.clear()

    def run(self, jobs: Sequence[swf.TraceJob]) -> None:
        """All jobs, from the first submission to the last end."""
        began, work_s = self.now, 0.0
        coming = sorted(jobs, key=lambda job: job.submitted_s)
        last = began + coming[-1].submitted_s
        for job in coming:
            self._until(began + job.submitted_s)
            self._submit(job)
        while self._ends:
            self._until(self._ends[0][0])
        assert not self._waiting, "a job never began"
        for at, job in self._begun:
            work_s += job.size * max(0.0, min(at + job.runs_s, last) - at)
        self._figures.used.append(work_s / (self._nodes * (last - began)))

    def _submit(self, job: swf.TraceJob) -> None:
        number = next(self._numbers)
        token = number.to_bytes(batch.TOKEN_BYTES, "big")
        limit_s = max(job.limit_s, job.runs_s)
        message = batch.Submit(token, NodeSpec(job.size), "job", limit_s, b"task")
        self._jobs[number] = self._waiting[number] = job  # ids rise as submissions do
        self.tell(PortalId(1, 70_000 + number), message, ALICE)
        self._look_at_promise()

    def _until(self, at: float) -> None:
        """Let jobs end up to a time."""
        while self._ends and self._ends[0][0] <= at:
            self.now, job_id = heapq.heappop(self._ends)
            self.ended(job_id)
            self._look_at_promise()
        self.now = max(self.now, at)

    def begins(self, job_id: int) -> None:
        job = self._waiting.pop(job_id)
        self._begun.append((self.now, job))
        waited_s = self.now - 1e6 - job.submitted_s
        self._figures.waits_s.append(waited_s)
        counted_s = max(job.runs_s, BOUND_S)
        self._figures.slowdowns.append(max(1.0, (waited_s + job.runs_s) / counted_s))
        self._figures.passed.append(bool(self._waiting) and min(self._waiting) < job_id)
        if self.now > self._promised.get(job_id, float("inf")) + 1.0:
            self._figures.late += 1
        heapq.heappush(self._ends, (self.now + job.runs_s, job_id))
        self.started(job_id)

    def _look_at_promise(self) -> None:
        """The first in the line is told when it begins at the latest."""
        first = min(self._waiting, default=0)
        if not first or first in self._promised:
            return
        asked = MessageReceived(PortalId(1, 70_000), ALICE, batch.Ask((first,)))
        for action in self.machine.handle(asked, self.now):
            if isinstance(action, SendRows):
                self._promised[first] = action.rows[0].expected or float("inf")

    def decide(self, event: Event) -> Sequence[Action]:
        began = time.perf_counter()
        actions = super().decide(event)
        self._figures.decided_ms.append((time.perf_counter() - began) * 1e3)
        return actions


def row(name: str, figures: Figures) -> list[str]:
    """The means of one policy."""
    ordered = sorted(figures.decided_ms)
    return [
        name,
        f"{statistics.mean(figures.waits_s) / 60:.1f}",
        f"{statistics.quantiles(figures.waits_s, n=20)[-1] / 60:.0f}",
        f"{statistics.mean(figures.slowdowns):.1f}",
        f"{100 * statistics.mean(figures.used):.1f} %",
        f"{100 * statistics.mean(figures.passed):.0f} %",
        str(figures.late),
        f"{statistics.mean(ordered):.2f} ({ordered[-1]:.1f})",
    ]


def compare(traces: Sequence[Sequence[swf.TraceJob]], nodes: int) -> dict[str, Figures]:
    found = {}
    for name, (policy, kept) in POLICIES.items():
        figures = Figures()
        for jobs in traces:
            partition = Simulated(nodes, policy, kept, figures)
            partition.run(jobs)
        found[name] = figures
        print(row(name, figures), file=sys.stderr)
    return found


def plot(found: dict[str, Figures], path: Path) -> None:
    """Draw for each policy how many jobs waited no longer than a time, and who waited for whom."""
    import matplotlib  # pip install 'yod[plot]'

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (waits, slowdowns, used) = pyplot.subplots(1, 3, figsize=(15, 4.5), layout="tight")
    for name, figures in found.items():
        share = [100 * (n + 1) / len(figures.waits_s) for n in range(len(figures.waits_s))]
        waits.plot([max(each, 1.0) / 60 for each in sorted(figures.waits_s)], share, label=name)
        slowdowns.plot(sorted(figures.slowdowns), share, label=name)
    waits.set(xscale="log", xlabel="waited at most, minutes", ylabel="jobs, %")
    slowdowns.set(xscale="log", xlabel="slowdown at most", ylabel="jobs, %")
    waits.legend()
    places = range(len(found))
    used.bar(places, [100 * statistics.mean(each.used) for each in found.values()], 0.4)
    passed = [100 * statistics.mean(each.passed) for each in found.values()]
    used.bar([place + 0.4 for place in places], passed, 0.4)
    names = [name.split(":")[0].replace(" ", "\n") for name in found]
    used.set_xticks([place + 0.2 for place in places], names)
    used.set(ylabel="%", ylim=(0, 125))
    used.legend(["nodes' time used", "jobs that passed others"])
    figure.savefig(path, dpi=120)


def report(rows: list[list[str]], what: str, nodes: int) -> str:
    """The results as a section of Markdown."""
    heads = ["policy", "wait, min", "95 % wait below, min", "slowdown", "used", "passed others"]
    heads += ["promises broken", "an event, ms: mean (most)"]
    lines = [
        "# Queue policies",
        "",
        f"bebopd's machine in virtual time: {what},",
        f"on {nodes} nodes of one slot. *Slowdown*: a job's time from its submission to its end,",
        "for each second that it ran, at least ten seconds counted. *Used*: the part of the",
        "nodes' time until the last submission. *Promises broken*: jobs that began later than the",
        "expected start that they were told when they became the first in the line.",
        "",
        *table(heads, rows),
        "",
        "## Machine and command",
        "",
        *machine(),
        "",
        "    python bench/queueing.py",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, help="a trace; default: three made by seeds")
    parser.add_argument("--nodes", type=int, default=256, help="of the partition (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1000, help="of a made trace (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    parser.add_argument("--plot", type=Path, help="draw the distributions into this picture")
    options = parser.parse_args()
    traces, what = swf.chosen(options.trace, options.nodes, options.jobs, LOAD)
    found = compare(traces, options.nodes)
    rows = [row(name, figures) for name, figures in found.items()]
    text = report(rows, what, options.nodes)
    print(text)
    if options.plot:
        plot(found, options.plot)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
