"""Many tasks of `true` in one pilot, and beside it what else runs many programs on a host. Then
calls of functions.

    python bench/pilot.py [--tasks 2000] [--calls 2000] [--rounds 3] [--peers PYTHON] [--write FILE]

Every way runs the same number of `true`s, two at a time, and is timed from its first word to its
last; ways of a round come in random order. `first` is the time until the first task runs, `close`
that from the last task's end to the program's. PYTHON is the interpreter of an environment that has
any of hyperqueue, parsl, executorlib and radical.pilot; those that it lacks are left out by name.

Calls are `len("abc")` in warm workers: one at a time, each result awaited before the next call;
submitted, all at once; mapped, ten times as many in the chunks of a `map`, of fifty where the way
has no chunks of its own choice. With --calls 0 or --tasks 0 that part is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from launch import machine
from support import results

CORES = 2

OURS = """
import json, sys, time
began = time.time()
import yod.pilot as rp
first = []
with rp.Session() as session:
    pmgr, tmgr = rp.PilotManager(session), rp.TaskManager(session)
    tmgr.add_pilots(pmgr.submit_pilots({"cores": CORES, "runtime": 60}))
    probe = rp.TaskDescription({"executable": "true"})
    tmgr.submit_tasks(probe).wait(rp.AGENT_EXECUTING)
    first = time.time() - began
    at = time.time()
    tmgr.submit_tasks([rp.TaskDescription({"executable": "true"}) for _ in range(COUNT)])
    states = tmgr.wait_tasks()
    took = time.time() - at
    at = time.time()
assert set(states) == {"DONE"}
print(json.dumps({"per_s": COUNT / took, "first_s": first, "close_s": time.time() - at}))
"""
CALLS = {
    "HyperQueue": """
import json, time
began = time.time()
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=CORES))
    client = cluster.client()
    at = time.time()
    job = Job()
    for _ in range(COUNT):
        job.program(["true"])
    client.wait_for_jobs([client.submit(job)])
    took = time.time() - at
print(json.dumps({"per_s": COUNT / took}))
""",
    "Parsl": """
import json, time
import parsl
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor
parsl.load(Config(executors=[ThreadPoolExecutor(max_threads=CORES)], usage_tracking=0))
@parsl.bash_app
def one():
    return "true"
at = time.time()
for each in [one() for _ in range(COUNT)]:
    each.result()
print(json.dumps({"per_s": COUNT / (time.time() - at)}))
parsl.dfk().cleanup()
""",
    "executorlib": """
import json, subprocess, time
from executorlib import SingleNodeExecutor
with SingleNodeExecutor(max_workers=CORES, block_allocation=True) as pool:
    pool.submit(len, "a").result()
    at = time.time()
    for each in [pool.submit(subprocess.call, ["true"]) for _ in range(COUNT)]:
        each.result()
    print(json.dumps({"per_s": COUNT / (time.time() - at)}))
""",
    "RADICAL-Pilot": """
import json, time
began = time.time()
import radical.pilot as rp
session = rp.Session()
pmgr, tmgr = rp.PilotManager(session=session), rp.TaskManager(session=session)
entries = {"resource": "local.localhost", "runtime": 60, "cores": CORES}
tmgr.add_pilots(pmgr.submit_pilots(rp.PilotDescription(entries)))
first = tmgr.submit_tasks(rp.TaskDescription({"executable": "true"}))
first.wait(["AGENT_EXECUTING", "DONE"])
first_s = time.time() - began
at = time.time()
tmgr.submit_tasks([rp.TaskDescription({"executable": "true"}) for _ in range(COUNT)])
tmgr.wait_tasks()
took = time.time() - at
at = time.time()
session.close()
figures = {"per_s": COUNT / took, "first_s": first_s, "close_s": time.time() - at}
print(json.dumps(figures))
""",
}
MODULES = {
    "HyperQueue": "hyperqueue",
    "Parsl": "parsl",
    "executorlib": "executorlib",
    "RADICAL-Pilot": "radical.pilot",
}
LESS = {"RADICAL-Pilot": 20}  # so many times fewer tasks: it takes long


CALLING = """
import json, subprocess, time
CONTEXT
def main():
    with OPEN as pool:
        for each in [pool.submit(subprocess.call, ["sleep", "0.2"]) for _ in range(CORES)]:
            each.result()
        figures = {}
        at = time.time()
        for _ in range(COUNT):
            pool.submit(len, "abc").result()
        figures["one_per_s"] = COUNT / (time.time() - at)
        at = time.time()
        for each in [pool.submit(len, "abc") for _ in range(COUNT)]:
            each.result()
        figures["submitted_per_s"] = COUNT / (time.time() - at)
        many = ["abc"] * (10 * COUNT)
        at = time.time()
        assert sum(pool.map(len, many CHUNKS)) == 3 * len(many)
        figures["mapped_per_s"] = len(many) / (time.time() - at)
    print(json.dumps(figures))
if __name__ == "__main__":
    main()
"""
FUNCTION_TASKS = """
import json, time
import yod.pilot as rp
with rp.Session() as session:
    tmgr = rp.TaskManager(session)
    tmgr.add_pilots(rp.PilotManager(session).submit_pilots({"cores": CORES, "runtime": 60}))
    entries = {"mode": rp.TASK_FUNCTION, "function": len, "args": ["abc"]}
    tmgr.submit_tasks([rp.TaskDescription(entries) for _ in range(CORES)])
    tmgr.wait_tasks()
    at = time.time()
    tasks = tmgr.submit_tasks([rp.TaskDescription(entries) for _ in range(COUNT)])
    tmgr.wait_tasks()
    took = time.time() - at
    assert {task.return_value for task in tasks} == {3}
print(json.dumps({"submitted_per_s": COUNT / took}))
"""
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


class Way:
    """One way to run many programs."""

    def __init__(self, name: str, command: list[str], more: dict[str, str] | None = None) -> None:
        self.name = name
        self.command = command
        self.more = more or {}


def run(way: Way, count: int) -> dict[str, float]:
    """Figures of one run."""
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        done = subprocess.run(
            way.command,
            cwd=scratch,
            env={**os.environ, **way.more},
            input="\n".join(map(str, range(count))),
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{way.name}: {done.stderr[-2000:]}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    figures: dict[str, float] = json.loads(lines[-1]) if lines else {"per_s": count / took}
    return figures


def scripted(text: str, count: int) -> str:
    """A script, for so many tasks or calls."""
    return text.replace("CORES", str(CORES)).replace("COUNT", str(count))


def ways(count: int, peers: str) -> tuple[list[Way], list[str]]:
    """Those that are here, and the names of the others."""

    ours = [sys.executable, "-c", scripted(OURS, count)]
    found = [
        Way("yod.pilot", ours),
        Way("yod.pilot, no profiles", ours, {"YOD_PROFILE": "0"}),
        Way(f"xargs -P{CORES}", ["xargs", f"-P{CORES}", "-n1", "true"]),
    ]
    absent = []
    if shutil.which("parallel"):
        found.append(Way("GNU parallel", ["parallel", f"-j{CORES}", "true"]))
    else:
        absent.append("GNU parallel")
    for name, text in CALLS.items():
        is_here = (
            peers
            and not subprocess.run(
                [peers, "-c", f"import {MODULES[name]}"], capture_output=True, check=False
            ).returncode
        )
        if is_here:
            own = max(1, count // LESS.get(name, 1))
            found.append(Way(name, [peers, "-c", scripted(text, own)]))
        else:
            absent.append(name)
    return found, absent


def call_ways(count: int, peers: str) -> tuple[list[Way], list[str]]:
    """Ways to call functions that are here, and the names of the others."""
    found, absent = [], []
    for name, (context, opened, chunks) in POOLS.items():
        text = CALLING.replace("CONTEXT", context).replace("OPEN", opened)
        text = text.replace(" CHUNKS", chunks)
        program = sys.executable
        if name in MODULES:
            program = peers
            check = [peers, "-c", f"import {MODULES[name]}"]
            if not peers or subprocess.run(check, capture_output=True, check=False).returncode:
                absent.append(name)
                continue
        found.append(Way(name, [program, "-c", scripted(text, count)]))
    words = [sys.executable, "-c", scripted(FUNCTION_TASKS, count)]
    found.append(Way("yod.pilot, tasks of mode function", words))
    return found, absent


def measure(here: list[Way], count: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Figures of all ways, in rounds."""
    figures: dict[str, list[dict[str, float]]] = {way.name: [] for way in here}
    for _ in range(rounds):
        for way in random.sample(here, len(here)):
            figures[way.name].append(run(way, count))
    return figures


def table(
    figures: dict[str, list[dict[str, float]]], columns: dict[str, tuple[str, str]]
) -> list[str]:
    """Medians; columns are name -> (head, form)."""
    heads = " | ".join(head for head, _ in columns.values())
    lines = [f"| way | {heads} |", "| --- |" + " --- |" * len(columns)]
    for name, each in figures.items():
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
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    lines = ["# Many tasks in a pilot", "", *machine()]
    sections = (
        (
            asked.tasks,
            ways,
            "tasks of `true`, {cores} at a time",
            {
                "per_s": ("tasks/s", "{:.0f}"),
                "first_s": ("first task, s", "{:.2f}"),
                "close_s": ("close, s", "{:.2f}"),
            },
        ),
        (
            asked.calls,
            call_ways,
            "calls of a function in {cores} warm workers",
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
            f"{count} {what.format(cores=CORES)}; medians of {asked.rounds} rounds."
            f" Not here: {', '.join(absent) or 'none'}.",
            "",
            *table(measure(here, count, asked.rounds), columns),
        ]
    text = "\n".join(lines) + "\n"
    print(text)
    if asked.write:
        results.write(asked.write, text)


if __name__ == "__main__":
    main()
