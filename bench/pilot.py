"""Many tasks of a program in one pilot, and beside it what else runs many programs on a host. Then
calls of functions, and what tasks cost that wait.

    python bench/pilot.py [--tasks 2000] [--program true --program 'python3 -c pass']
        [--calls 3000] [--queued 100000] [--rounds 3] [--deadline 300] [--peers PYTHON]...
        [--write FILE]

Every way runs the same number of programs, two at a time, and is timed from its first word to its
last; ways of a round come in random order. `first` is the time until the first task runs, `close`
that from the last task's end to the program's. Processor time of client and agent is that of their
processes from the first task's submission to the last one's end. PYTHON is the interpreter of an
environment that has any of hyperqueue, parsl, executorlib and radical.pilot, and may be given
several times; what none of them has is left out by name. A way that takes longer than the
deadline, in seconds, is ended with all that it has started, and is not tried again. RADICAL-Pilot
runs 200 programs at most. Modules are compiled by the first round, as they are where yod is
installed.

Calls are `len("abc")` in warm workers: one at a time, each result awaited before the next call;
submitted, all at once; mapped, ten times as many in the chunks of a `map`, of fifty where the way
has no chunks of its own choice.

A tenth of the queued tasks, and then all, wait behind one that has the pilot's only core: memory of
client and agent for a task, and the time in which each is submitted, and canceled. Then as many run
in an agent's machine with 10000 nodes, by itself. A part whose number is 0 is left out.
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
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from launch import machine
from support import results
from support.pilots import CALLING, CALLS, FUNCTION_TASKS, OURS, WAITING

from yod.pilot.model.sizes import Need, NodeSize
from yod.pilot.scheduler import agent
from yod.pilot.scheduler.slots import Slots

CORES = 2

MODULES = {
    "HyperQueue": "hyperqueue",
    "Parsl": "parsl",
    "executorlib": "executorlib",
    "RADICAL-Pilot": "radical.pilot",
}
MOST = {"RADICAL-Pilot": 200}  # tasks: it takes long
MARK = "YOD_BENCH_RUN"  # a variable by which all processes of a run are found
POOLS = {  # what is imported, what is opened, how a map is told its chunks
    "yod.pilot.Executor": ("import yod.pilot", "yod.pilot.Executor(CORES)", ""),
    "ProcessPoolExecutor": (
        "from concurrent.futures import ProcessPoolExecutor",
        "ProcessPoolExecutor(CORES)",
        ", chunksize=50",
    ),
    "executorlib": (
        "from executorlib import SingleNodeExecutor",
        "SingleNodeExecutor(max_workers=CORES, block_allocation=True)",
        ", chunksize=50",
    ),
}
NODES = 10000


class Way:
    """One way to run many programs.

    Attributes:
        failure: why it has no figures; empty: it has.
    """

    def __init__(self, name: str, command: list[str], more: dict[str, str] | None = None) -> None:
        self.name = name
        self.command = command
        self.more = more or {}
        self.failure = ""


def run(way: Way, count: int, deadline_s: float) -> dict[str, float]:
    """Figures of one run; none where it has failed."""
    mark = os.urandom(8).hex()
    environment = {**os.environ, **way.more, MARK: mark}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        words, output, errors = (Path(scratch, name) for name in ("input", "out", "err"))
        words.write_text("\n".join(map(str, range(count))))
        with open(words) as stdin, open(output, "w") as out, open(errors, "w") as err:
            began = time.perf_counter()
            process = subprocess.Popen(
                way.command,
                cwd=scratch,
                env={**environment, "HOME": scratch, "PWD": scratch},
                stdin=stdin,
                stdout=out,
                stderr=err,
            )
            try:
                status = process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                way.failure = f"not ended after {deadline_s:g} s"
                return {}
            finally:
                took = time.perf_counter() - began
                end(mark)
                process.wait()
        if status:
            last = (errors.read_text().strip().splitlines() or ["no word"])[-1]
            way.failure = f"failed: {last}"
            return {}
        lines = [line for line in output.read_text().splitlines() if line.startswith("{")]
    figures: dict[str, float] = json.loads(lines[-1]) if lines else {"per_s": count / took}
    return figures


def end(mark: str) -> None:
    """End all processes that have a mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    while True:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                if wanted in Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                    found.append(int(pid))
        for unix_pid in found:
            with suppress(ProcessLookupError):
                os.kill(unix_pid, signal.SIGKILL)
        if not found:
            return


def scripted(text: str, count: int, argv: Sequence[str] = ("true",)) -> str:
    """A script, for so many calls, or tasks of a program."""
    program = {"executable": argv[0], "arguments": list(argv[1:])}
    text = text.replace("PROGRAM", repr(program)).replace("ARGV", repr(list(argv)))
    return text.replace("CORES", str(CORES)).replace("COUNT", str(count))


def who_has(peers: Sequence[str], name: str) -> tuple[str, str]:
    """The interpreter that has a peer, and the peer's version; empty: none has it."""
    for python in peers:
        text = f"import {MODULES[name]}; from importlib.metadata import version; "
        text += f"print(version({MODULES[name]!r}))"
        asked = subprocess.run([python, "-c", text], capture_output=True, text=True, check=False)
        if not asked.returncode:
            return python, asked.stdout.split()[-1]
    return "", ""


def ways(count: int, peers: Sequence[str], argv: Sequence[str]) -> tuple[list[Way], list[str]]:
    """Those that are here, and the names of the others."""

    ours = [sys.executable, "-c", scripted(OURS, count, argv)]
    found = [
        Way("yod.pilot", ours),
        Way("yod.pilot, no profiles", ours, {"YOD_PROFILE": "0"}),
        Way(f"xargs -P{CORES}", ["xargs", f"-P{CORES}", "-I{}", *argv]),
    ]
    absent = []
    if shutil.which("parallel"):
        told = subprocess.run(["parallel", "--version"], capture_output=True, text=True, check=True)
        name = f"GNU parallel {told.stdout.split()[2]}"
        found.append(Way(name, ["parallel", f"-j{CORES}", "-n0", *argv]))
    else:
        absent.append("GNU parallel")
    for name, text in CALLS.items():
        python, version = who_has(peers, name)
        if python:
            own = min(count, MOST.get(name, count))
            fewer = f", {own} tasks" if own < count else ""
            title = f"{name} {version}{fewer}"
            own_bin = os.path.dirname(python)
            path = os.pathsep.join((own_bin, os.environ["PATH"]))
            words = [python, "-c", scripted(text, own, argv)]
            environment = {"PATH": path, "VIRTUAL_ENV": os.path.dirname(own_bin)}
            found.append(Way(title, words, environment))
        else:
            absent.append(name)
    return found, absent


def call_ways(count: int, peers: Sequence[str]) -> tuple[list[Way], list[str]]:
    """Ways to call functions that are here, and the names of the others."""
    found, absent = [], []
    for name, (context, opened, chunks) in POOLS.items():
        text = CALLING.replace("CONTEXT", context).replace("OPEN", opened)
        text = text.replace(" CHUNKS", chunks)
        program = sys.executable
        title = name
        if name in MODULES:
            program, version = who_has(peers, name)
            if not program:
                absent.append(name)
                continue
            title = f"{name} {version}"
        found.append(Way(title, [program, "-c", scripted(text, count)]))
    words = [sys.executable, "-c", scripted(FUNCTION_TASKS, count)]
    found.append(Way("yod.pilot, tasks of mode function", words))
    return found, absent


Figures = dict[str, list[dict[str, float]] | str]  # of each way, or why there are none


def measure(here: list[Way], count: int, rounds: int, deadline_s: float) -> Figures:
    """Figures of all ways, in rounds."""
    figures: dict[str, list[dict[str, float]]] = {way.name: [] for way in here}
    for _ in range(rounds):
        for way in random.sample(here, len(here)):
            if not way.failure:
                figures[way.name].append(run(way, count, deadline_s))
    return {way.name: way.failure or figures[way.name] for way in here}


def simulated(count: int, nodes: int) -> float:
    """Tasks/s of processor time that an agent's rules take on so many nodes of 4 cores."""
    machine = agent.AgentMachine(Slots([NodeSize(f"n{i}", 4) for i in range(nodes)]), 1.0)
    need = Need()
    began = time.process_time()
    for n in range(count):
        machine.handle(agent.Came(str(n), need), 0.0)
    running = deque(action.uid for action in machine.start(0.0))
    over = 0
    while running:
        machine.handle(agent.Ended(running.popleft()), 0.0)
        running += [action.uid for action in machine.start(0.0)]
        over += 1
    assert over == count
    return count / (time.process_time() - began)


def queued(count: int, rounds: int, deadline_s: float) -> list[str]:
    """What tasks cost that wait, and what an agent could run on many nodes."""
    columns = {
        "client_bytes": ("client, bytes a task", "{:.0f}"),
        "agent_bytes": ("agent, bytes a task", "{:.0f}"),
        "came_us": ("submitted, µs a task", "{:.0f}"),
        "canceled_us": ("canceled, µs a task", "{:.0f}"),
    }
    figures: Figures = {}
    for many in (count // 10, count):
        way = Way(f"{many} tasks", [sys.executable, "-c", scripted(WAITING, many)])
        figures |= measure([way], many, rounds, deadline_s)
    lines = table(figures, columns)
    rates = [simulated(count, NODES) for _ in range(rounds)]
    return [
        *lines,
        "",
        f"{count} tasks of one core on {NODES} nodes of 4, an end at a time: "
        f"{statistics.median(rates):.0f} tasks/s of processor time in the agent's rules.",
    ]


def table(figures: Figures, columns: dict[str, tuple[str, str]]) -> list[str]:
    """Medians; columns are name -> (head, form)."""
    heads = " | ".join(head for head, _ in columns.values())
    lines = [f"| way | {heads} |", "| --- |" + " --- |" * len(columns)]
    for name, each in figures.items():
        if isinstance(each, str):
            lines.append(f"| {name} | {each} |" + " |" * (len(columns) - 1))
            continue
        cells = []
        for what, (_, form) in columns.items():
            values = [one[what] for one in each if what in one]
            cells.append(form.format(statistics.median(values)) if values else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--program", type=str.split, action="append")
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--queued", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=300.0)
    parser.add_argument("--peers", action="append", default=[])
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    lines = ["# Many tasks in a pilot", "", *machine()]
    sections = (
        *(
            (
                asked.tasks,
                partial(ways, argv=[shutil.which(argv[0]) or argv[0], *argv[1:]]),
                f"tasks of `{' '.join(argv)}`, {CORES} at a time",
                {
                    "per_s": ("tasks/s", "{:.0f}"),
                    "first_s": ("first task, s", "{:.2f}"),
                    "close_s": ("close, s", "{:.2f}"),
                    "client_ms": ("processor time of the client, ms a task", "{:.2f}"),
                    "agent_ms": ("of the agent, ms a task", "{:.2f}"),
                },
            )
            for argv in asked.program or (["true"], ["python3", "-c", "pass"])
        ),
        (
            asked.calls,
            call_ways,
            f"calls of a function in {CORES} warm workers",
            {
                "one_per_s": ("one at a time, calls/s", "{:.0f}"),
                "submitted_per_s": ("submitted, calls/s", "{:.0f}"),
                "mapped_per_s": ("mapped, calls/s", "{:.0f}"),
            },
        ),
    )
    for count, ways_of, what, columns in sections:
        if not count:
            continue
        here, absent = ways_of(count, asked.peers)
        lines += [
            "",
            f"{count} {what}; medians of {asked.rounds} rounds."
            f" Not here: {', '.join(absent) or 'none'}.",
            "",
            *table(measure(here, count, asked.rounds, asked.deadline), columns),
        ]
    if asked.queued:
        lines += ["", *queued(asked.queued, asked.rounds, asked.deadline)]
    text = "\n".join(lines) + "\n"
    print(text)
    if asked.write:
        results.write(asked.write, text)


if __name__ == "__main__":
    main()
