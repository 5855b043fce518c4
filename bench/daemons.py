"""Processor time that a launch costs the daemons of a partition.

    python bench/daemons.py [--launches 100] [--sizes 1,4,16,64] [--living] [--write FILE]

For each N a partition of N PCTs is brought up on this host, and N ranks of `true` are launched
again and again: by the command `yod`, or by one living process (``--living``), which empties
the processors' caches less than the start of a command. What the kernel has counted for bebopd
and for each PCT (user and system time of the process, without its children) is divided by the
launches. Of the PCTs the table has the median, the least and the most, and the root alone. The
first launches are not counted. A wake-up is one turn on a processor.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from launch import LIMIT_S, machine, ms, partition, table
from support import results

FIRST = 10  # launches that are not counted
BEBOPD = -1  # as the node of a daemon
LIVING = """
import sys
from yod import api
for line in sys.stdin:
    assert api.run(["true"], size=int(sys.argv[1]), stdin=b"").exit_status == 0
    print(flush=True)
"""
ROOT = 0  # the node whose PCT is the root of every launch: nodes are given out in their order


class Usage(NamedTuple):
    """What the scheduler has counted for a process, without its children.

    Attributes:
        busy_s: on a processor.
        turns: how often it was given a processor.
    """

    busy_s: float
    turns: int

    def since(self, before: Usage, launches: int) -> Usage:
        """The difference of a launch."""
        busy_s = (self.busy_s - before.busy_s) / launches
        return Usage(busy_s, round((self.turns - before.turns) / launches))


class Cost(NamedTuple):
    """What launches over one partition cost, each."""

    elapsed_s: list[float]
    daemons: dict[int, Usage]  # by node

    @property
    def pcts(self) -> list[Usage]:
        """Of all nodes."""
        return [usage for node, usage in self.daemons.items() if node != BEBOPD]


def usage_of(unix_pid: int) -> Usage:
    """What a process has used so far: all of its threads."""
    busy_ns = turns = 0
    for thread in Path(f"/proc/{unix_pid}/task").iterdir():
        on, _, count = (thread / "schedstat").read_text().split()
        busy_ns, turns = busy_ns + int(on), turns + int(count)
    return Usage(busy_ns / 1e9, turns)


def daemons_of(environment: dict[str, str]) -> dict[int, int]:
    """Process ids of the daemons of a partition, by node."""
    state = Path(environment["XDG_RUNTIME_DIR"], "yod", "partition.json")
    found = json.loads(state.read_text())["daemons"]
    return {daemon.get("node", BEBOPD): daemon["unix_pid"] for daemon in found}


class Command:
    """Launches by the command, a process each."""

    def __init__(self, yod: str, size: int, environment: dict[str, str]) -> None:
        self._words = [yod, "-sz", str(size), "true"]
        self._environment = environment

    def launch(self) -> None:
        """Launch, and wait for the end."""
        subprocess.run(
            self._words,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=LIMIT_S,
        )

    def close(self) -> None:
        """Nothing is left."""


class Living:
    """Launches by one process, which lives until it is closed."""

    def __init__(self, yod: str, size: int, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(Path(yod).with_name("python")), "-c", LIVING, str(size)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def launch(self) -> None:
        """Have it launch, and wait for the end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"\n")
        if not self._process.stdout.readline():
            sys.exit("a launch has failed")

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def measure(
    front: type[Command] | type[Living], yod: str, size: int, launches: int, scratch: Path
) -> Cost:
    """Bring up a partition, launch, and take it down."""
    with ExitStack() as stack:
        environment = partition(str(Path(yod).with_name("yodctl")), size, stack, scratch)
        daemons = daemons_of(environment)
        launcher = front(yod, size, environment)
        stack.callback(launcher.close)
        before: dict[int, Usage] = {}
        elapsed_s = []
        for number in range(FIRST + launches):
            if number == FIRST:
                before = {node: usage_of(unix_pid) for node, unix_pid in daemons.items()}
            began = time.perf_counter()
            launcher.launch()
            elapsed_s.append(time.perf_counter() - began)
        return Cost(
            elapsed_s[FIRST:],
            {
                node: usage_of(unix_pid).since(before[node], launches)
                for node, unix_pid in daemons.items()
            },
        )


def report(costs: dict[int, Cost], launches: int, is_living: bool) -> str:
    """The results as a page of Markdown."""

    def pcts(cost: Cost) -> str:
        busy = sorted(usage.busy_s for usage in cost.pcts)
        return f"**{ms(statistics.median(busy))}** ({ms(busy[0])}..{ms(busy[-1])})"

    def turns(cost: Cost) -> str:
        return f"{statistics.median(usage.turns for usage in cost.pcts):.0f}"

    rows = [
        ["bebopd, ms", *(f"**{ms(cost.daemons[BEBOPD].busy_s)}**" for cost in costs.values())],
        ["a PCT, ms", *(pcts(cost) for cost in costs.values())],
        ["the root PCT, ms", *(ms(cost.daemons[ROOT].busy_s) for cost in costs.values())],
        ["wake-ups of bebopd", *(str(cost.daemons[BEBOPD].turns) for cost in costs.values())],
        ["wake-ups of a PCT", *(turns(cost) for cost in costs.values())],
        ["the whole launch, ms", *(ms(statistics.median(c.elapsed_s)) for c in costs.values())],
    ]
    who = "one living process" if is_living else "the command `yod`"
    lines = [
        f"# Processor time of the daemons: launches by {who}",
        "",
        f"Of one launch of N ranks of `true` over N PCTs on one host: mean of {launches} launches,",
        "one after the other. Of the PCTs the **median** (least..most), of the launch the median.",
        "",
        *table(["", *(f"N = {size}" for size in costs)], rows),
        "",
        "Aims: 1 ms for bebopd, 1.5 ms for a PCT.",
        "",
        "## Machine",
        "",
        *machine(),
        "",
        "## Command",
        "",
        f"    python bench/daemons.py --launches {launches}" + " --living" * is_living,
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=100, help="counted ones (%(default)s)")
    parser.add_argument("--sizes", default="1,4,16,64", help="values of N (%(default)s)")
    parser.add_argument("--living", action="store_true", help="launch by one living process")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    # Beside this interpreter first: what is measured is what is installed with it.
    yod = shutil.which("yod", path=str(Path(sys.executable).parent)) or shutil.which("yod")
    if yod is None:
        sys.exit("yod is not installed")
    # A terminated measurement still ends the daemons that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    front = Living if options.living else Command
    costs = {}
    with tempfile.TemporaryDirectory(prefix="yod-bench-") as scratch:
        for size in map(int, options.sizes.split(",")):
            costs[size] = measure(front, yod, size, options.launches, Path(scratch))
            print(f"N = {size}", file=sys.stderr)
    page = report(costs, options.launches, options.living)
    print(page)
    if options.write:
        results.write(options.write, page)


if __name__ == "__main__":
    main()
