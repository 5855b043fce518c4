"""Queue policies compared: how long jobs wait, and what it costs bebopd to decide.

    python bench/queueing.py [--trace FILE.swf] [--nodes 256] [--jobs 1000] [--faults HOURS]
        [--write FILE] [--plot FILE.png]

bebopd's own machine on a clock of its own, with nodes of one slot. Jobs are submitted, begin when
they are granted slots, and end after the time that they ran in the trace; their time limits are
those of the trace. Traces are in the Standard Workload Format, or made by seeds. Waiting times and
the like are of simulated quantities: how busy this host is makes no difference to them, but to the
last column.

With --faults nodes are lost, one in so many hours on average, and are back after ten minutes. A job
on such a node has failed, and is submitted again; its wait counts from its first submission.

The yardstick is EASY, as it was published: one request has its start kept.

Fairness is Jain's index of the users' mean slowdowns, (sum x)^2 / (n * sum x^2): 1 where all users
have the same, 1/n where one of n has all. See R. Jain, D. Chiu, W. Hawe, *A quantitative measure of
fairness and discrimination for resource allocation in shared computer systems*, DEC-TR-301, 1984.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import count
from math import inf
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
REPAIR_S = 600.0
FAULTS_SEED = 1
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
        fair: of each trace that names users the fairness among them.
        passed: jobs that began before one that had been submitted earlier.
        lost: jobs that have failed because a node was lost.
        late: times that the promise to the first in the line was broken.
        decided_ms: an event at bebopd.
    """

    waits_s: list[float] = field(default_factory=list)
    slowdowns: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)
    fair: list[float] = field(default_factory=list)
    passed: list[bool] = field(default_factory=list)
    lost: int = 0
    late: int = 0
    decided_ms: list[float] = field(default_factory=list)


class Simulated(Partition):
    """A partition of one slot a node whose jobs are those of a trace."""

    def __init__(
        self, nodes: int, policy: PolicyMaker, kept: int, figures: Figures, between_s: float = 0.0
    ) -> None:
        """Begin.

        Args:
            between_s: the mean time from one fault of a node to the next; 0: there are none.
        """
        self._between_s = between_s
        self._faults = random.Random(FAULTS_SEED)
        self._fault_at = inf
        self._repairs: list[tuple[float, int]] = []
        self._incarnation = 1
        self._running: dict[int, float] = {}  # when jobs have begun
        self._nodes = nodes
        self._figures = figures
        self._ends: list[tuple[float, int]] = []
        self._jobs: dict[int, swf.TraceJob] = {}  # by id
        self._waiting: dict[int, swf.TraceJob] = {}
        self._promised: dict[int, float] = {}
        self._had: list[tuple[float, float, int]] = []  # from when until when jobs had nodes
        self._of_users: dict[int, list[float]] = {}  # slowdowns
        self._numbers = count(1)
        super().__init__(kept, policy=policy)
        for number in range(nodes):
            self._announce(number)
        figures.decided_ms.clear()

    def run(self, jobs: Sequence[swf.TraceJob]) -> None:
        """All jobs, from the first submission to the last end."""
        began, work_s = self.now, 0.0
        self._plan_fault()
        coming = sorted(jobs, key=lambda job: job.submitted_s)
        last = began + coming[-1].submitted_s
        for job in coming:
            self._until(began + job.submitted_s)
            self._submit(job)
        while self._ends or self._repairs or self._waiting:
            self._until(self._next()[0])
        for at, until, size in self._had:
            work_s += size * max(0.0, min(until, last) - at)
        self._figures.used.append(work_s / (self._nodes * (last - began)))
        if self._of_users.keys() - {-1}:
            self._figures.fair.append(fairness(map(statistics.mean, self._of_users.values())))

    def _submit(self, job: swf.TraceJob) -> None:
        number = next(self._numbers)
        token = number.to_bytes(batch.TOKEN_BYTES, "big")
        limit_s = max(job.limit_s, job.runs_s)
        message = batch.Submit(token, NodeSpec(job.size), "job", limit_s, b"task")
        self._jobs[number] = self._waiting[number] = job  # ids rise as submissions do
        self.tell(PortalId(1, 70_000 + number), message, ALICE)
        self._look_at_promise()

    def _next(self) -> tuple[float, int]:
        """When the next thing happens: a job ends, a node is back, or one is lost."""
        ends = self._ends[0][0] if self._ends else inf
        repair = self._repairs[0][0] if self._repairs else inf
        return min((ends, 0), (repair, 1), (self._fault_at, 2))

    def _until(self, at: float) -> None:
        """Let happen what does up to a time."""
        while (found := self._next())[0] <= at < inf:
            self.now = found[0]
            if found[1] == 0:
                _, job_id = heapq.heappop(self._ends)
                if job_id in self._running:
                    self._left(job_id)
                    self.ended(job_id)
            elif found[1] == 1:
                self._announce(heapq.heappop(self._repairs)[1])
            else:
                self._lose_a_node()
            self._look_at_promise()
        self.now = max(self.now, at)

    def _left(self, job_id: int) -> None:
        """A job has no nodes any more."""
        self._had.append((self._running.pop(job_id), self.now, self._jobs[job_id].size))

    def _announce(self, number: int) -> None:
        at = pct(number)
        words = (f"n{number}", 1, at.nid, at.pid, self._incarnation, ())
        self.tell(at, Announce(number, *words), DAEMON)

    def _plan_fault(self) -> None:
        if self._between_s:
            self._fault_at = self.now + self._faults.expovariate(1 / self._between_s)

    def _lose_a_node(self) -> None:
        """A node that is up is lost, and its job; the job is submitted again."""
        self._plan_fault()
        down = {number for _, number in self._repairs}
        number = self._faults.choice([each for each in range(self._nodes) if each not in down])
        self._incarnation += 1
        heapq.heappush(self._repairs, (self.now + REPAIR_S, number))
        jobs = (job for job in self.machine.jobs if job.job_id in self._running)
        there = [job for job in jobs if number in job.holdings]
        self.lost |= {job.job_id for job in there}
        self.gone(pct(number))
        for held in there:
            self._figures.lost += 1
            self._left(held.job_id)
            if held.root != number:  # else bebopd knows when it is back
                self.ended(held.job_id, but=number)
            self._submit(self._jobs[held.job_id])

    def begins(self, job_id: int) -> None:
        job = self._waiting.pop(job_id)
        self._running[job_id] = self.now
        waited_s = self.now - 1e6 - job.submitted_s
        self._figures.waits_s.append(waited_s)
        counted_s = max(job.runs_s, BOUND_S)
        slowdown = max(1.0, (waited_s + job.runs_s) / counted_s)
        self._figures.slowdowns.append(slowdown)
        self._of_users.setdefault(job.user, []).append(slowdown)
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


def fairness(shares: Iterable[float]) -> float:
    """Jain's index, from 1/n to 1."""
    found = list(shares)
    return sum(found) ** 2 / (len(found) * sum(each**2 for each in found))


def row(name: str, figures: Figures) -> list[str]:
    """The means of one policy."""
    ordered = sorted(figures.decided_ms)
    return [
        name,
        f"{statistics.mean(figures.waits_s) / 60:.1f}",
        f"{statistics.quantiles(figures.waits_s, n=20)[-1] / 60:.0f}",
        f"{statistics.mean(figures.slowdowns):.1f}",
        f"{100 * statistics.mean(figures.used):.1f} %",
        f"{statistics.mean(figures.fair):.2f}" if figures.fair else "no users",
        f"{100 * statistics.mean(figures.passed):.0f} %",
        str(figures.lost),
        str(figures.late),
        f"{statistics.mean(ordered):.2f} ({ordered[-1]:.1f})",
    ]


def compare(
    traces: Sequence[Sequence[swf.TraceJob]], nodes: int, between_s: float
) -> dict[str, Figures]:
    found = {}
    for name, (policy, kept) in POLICIES.items():
        figures = Figures()
        for jobs in traces:
            partition = Simulated(nodes, policy, kept, figures, between_s)
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
    used.bar(places, [100 * statistics.mean(each.used) for each in found.values()], 0.27)
    passed = [100 * statistics.mean(each.passed) for each in found.values()]
    used.bar([place + 0.27 for place in places], passed, 0.27)
    fair = [100 * statistics.mean(each.fair or [0.0]) for each in found.values()]
    used.bar([place + 0.54 for place in places], fair, 0.27)
    names = [name.split(":")[0].replace(" ", "\n") for name in found]
    used.set_xticks([place + 0.27 for place in places], names)
    used.set(ylabel="%", ylim=(0, 125))
    used.legend(["nodes' time used", "jobs that passed others", "fairness among users"])
    figure.savefig(path, dpi=120)


def report(rows: list[list[str]], what: str, nodes: int) -> str:
    """The results as a section of Markdown."""
    heads = ["policy", "wait, min", "95 % wait below, min", "slowdown", "used", "fairness"]
    heads += ["passed others", "lost", "promises broken", "an event, ms: mean (most)"]
    lines = [
        "# Queue policies",
        "",
        f"bebopd's machine in virtual time: {what},",
        f"on {nodes} nodes of one slot. *Slowdown*: a job's time from its submission to its end,",
        "for each second that it ran, at least ten seconds counted. *Used*: the part of the",
        "nodes' time until the last submission. *Fairness*: Jain's index of the users' mean",
        "slowdowns, 1 where all have the same (Jain, Chiu, Hawe, DEC-TR-301, 1984). *Lost*: jobs",
        "on nodes that were lost (--faults), which were submitted again. *Promises",
        "broken*: jobs that began later than the expected start that they were told when they",
        "became the first in the line.",
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
    help_text = "a node is lost in so many hours on average; 0: never (%(default)s)"
    parser.add_argument("--faults", type=float, default=0.0, metavar="HOURS", help=help_text)
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    parser.add_argument("--plot", type=Path, help="draw the distributions into this picture")
    options = parser.parse_args()
    traces, what = swf.chosen(options.trace, options.nodes, options.jobs, LOAD)
    found = compare(traces, options.nodes, options.faults * 3600)
    if options.faults:
        what += f", a node lost in {options.faults:g} h"
    rows = [row(name, figures) for name, figures in found.items()]
    text = report(rows, what, options.nodes)
    print(text)
    if options.plot:
        plot(found, options.plot)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
