"""Many steps of `true` in one allocation: in turn, and fifty at once; how long it takes to get one.

    python bench/steps.py [--steps 1000] [--rounds 3] [--write FILE]

Each launcher holds an allocation over four nodes on this host, and a loop in a shell runs steps in
it. The ways of a round come in random order. Memory is that of the allocation's broker, before
the first step and behind the last.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from launch import IS_WARM, machine, table, up
from rate import FIFTY, IN_TURN, SLOW_SHARE, Way, amounts
from support import results
from support.slurm import Slurm
from support.slurm import missing as slurm_missing

NODES, SLOTS = 4, 16
YOD, SRUN = "yod", "srun (Slurm)"
PER_S_IN_TURN, PER_S_AT_ONCE = 100, 200
OPENINGS = 20  # of an allocation
Figures = dict[tuple[str, str], list[float]]


def hold(command: Sequence[str], environment: dict[str, str], stack: ExitStack) -> tuple[int, str]:
    """Start what holds an allocation until the end of its input; its process and first line."""
    pipe = subprocess.PIPE
    holder = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    stack.callback(holder.communicate)
    assert holder.stdout is not None
    return holder.pid, holder.stdout.readline()


def ways(stack: ExitStack, scratch: Path) -> tuple[list[Way], list[Way], int, dict[str, str]]:
    """Steps, commands that open an allocation, our broker's process, and what is absent."""
    steps: list[Way] = []
    opens: list[Way] = []
    absent: dict[str, str] = {}
    directory = Path(sys.executable).parent
    words = ("--local", str(NODES), "--slots", str(SLOTS))
    environment = up(str(directory / "yodctl"), stack, scratch / "host", *words)
    opens.append(Way("yodjob alloc", [str(directory / "yodjob"), "alloc", "-quiet"], environment))
    alloc = [str(directory / "yodjob"), "alloc", "--json", "-sz", str(NODES * (SLOTS - 1))]
    broker, said = hold(alloc, environment, stack)
    environment = environment | IS_WARM | json.loads(said)["environment"]
    yod = str(directory / "yod")
    steps += [
        Way(f"{YOD}, {size}", [yod, "-quiet", "-sz", str(size)], environment) for size in (1, 4)
    ]
    if reason := slurm_missing() or ("" if shutil.which("salloc") else "salloc is not installed"):
        absent[SRUN] = reason
        return steps, opens, broker, absent
    slurm = stack.enter_context(Slurm(NODES))
    names = "env | grep ^SLURM | tr '\\n' '\\t'; echo; cat"
    _, said = hold(["salloc", "-Q", "-N", str(NODES), "sh", "-c", names], slurm.environment, stack)
    inside = dict(entry.split("=", 1) for entry in said.strip().split("\t"))
    for size in (1, NODES):
        srun = ["srun", "-N", str(size), "-n", str(size)]
        steps.append(Way(f"{SRUN}, {size}", srun, slurm.environment | inside, is_slow=True))
    return steps, opens, broker, absent


def measure(steps: Sequence[Way], count: int, rounds: int) -> Figures:
    """Steps in a second, by way and kind, one of each a round."""
    pairs = [(way, kind) for way in steps for kind in (IN_TURN, FIFTY)]
    pairs = [(way, kind) for way, kind in pairs if kind == IN_TURN or way.name == f"{YOD}, 1"]
    figures: Figures = {(way.name, kind): [] for way, kind in pairs}
    for way in steps:
        way.measure(IN_TURN, 3)
    for number in range(rounds):
        for way, kind in random.Random(number).sample(pairs, len(pairs)):
            some = max(1, count // SLOW_SHARE) if way.is_slow else count
            figures[way.name, kind].append(way.measure(kind, some)[0])
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return figures


def opening_ms(way: Way) -> float:
    """The median time of an allocation of one node whose command is `true`."""
    times = []
    for _ in range(OPENINGS):
        began = time.perf_counter()
        subprocess.run(
            way.command, env=way.environment, check=True, stdin=subprocess.DEVNULL, timeout=60
        )
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def report(
    figures: Figures,
    openings: dict[str, float],
    memory: tuple[float, float],
    absent: dict[str, str],
    count: int,
    rounds: int,
) -> str:
    """The results as a section of Markdown."""
    middle = {pair: statistics.median(values) for pair, values in figures.items()}
    names = list(dict.fromkeys(name for name, _ in figures))
    lines = [
        "# Steps in an allocation",
        "",
        f"Medians of {rounds} rounds in one run, interleaved: {count} steps of `true` with 1 and",
        f"with {NODES} ranks, {count // SLOW_SHARE} where a step takes tens of milliseconds, by a",
        f"loop in a shell, in an allocation over {NODES} nodes of this host. At once: by",
        "`xargs -P50`, and there are slots for all.",
        "",
        *table(
            ["steps a second", IN_TURN, FIFTY],
            [
                [
                    name,
                    f"{middle[name, IN_TURN]:.0f}",
                    f"{middle[name, FIFTY]:.0f}" if (name, FIFTY) in middle else "",
                ]
                for name in names
            ],
        ),
        "",
        *table(
            ["an allocation of one slot for `true`", "ms"],
            [[name, f"{ms:.0f}"] for name, ms in openings.items()],
        ),
        "",
        *table(
            ["goal", "", "measured"],
            [
                [
                    "steps a second, in turn",
                    f"at least {PER_S_IN_TURN}",
                    f"{middle[f'{YOD}, 1', IN_TURN]:.0f}",
                ],
                [
                    "steps a second, fifty at once",
                    f"at least {PER_S_AT_ONCE}",
                    f"{middle[f'{YOD}, 1', FIFTY]:.0f}",
                ],
                ["memory of the broker, MB", "flat", f"{memory[0]:.1f}, then {memory[1]:.1f}"],
            ],
        ),
    ]
    lines += [f"\nNot measured: {name}: {reason}." for name, reason in absent.items()]
    command = f"python bench/steps.py --steps {count} --rounds {rounds}"
    lines += ["", "## Machine and command", "", *machine(), "", f"    {command}", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="each time (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    # A terminated measurement still ends the daemons that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.pop("YOD_ALLOCATION", None)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
        steps, opens, broker, absent = ways(stack, scratch)
        before = dict(amounts(broker))["Rss"] / 1024
        figures = measure(steps, options.steps, options.rounds)
        after = dict(amounts(broker))["Rss"] / 1024
        openings = {way.name: opening_ms(way) for way in opens}
        memory = before, after
        text = report(figures, openings, memory, absent, options.steps, options.rounds)
    print(text)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
