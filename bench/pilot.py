"""Many tasks of `true` in one pilot, and beside it what else runs many programs on a host.

    python bench/pilot.py [--tasks 2000] [--rounds 3] [--peers PYTHON] [--write FILE]

Every way runs the same number of `true`s, two at a time, and is timed from its first word to its
last; ways of a round come in random order. `first` is the time until the first task runs, `close`
that from the last task's end to the program's. PYTHON is the interpreter of an environment that has
any of hyperqueue, parsl, executorlib and radical.pilot; those that it lacks are left out by name.
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

import results
from launch import machine

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


def ways(count: int, peers: str) -> tuple[list[Way], list[str]]:
    """Those that are here, and the names of the others."""

    def script(text: str, count: int) -> str:
        return text.replace("CORES", str(CORES)).replace("COUNT", str(count))

    ours = [sys.executable, "-c", script(OURS, count)]
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
            found.append(Way(name, [peers, "-c", script(text, own)]))
        else:
            absent.append(name)
    return found, absent


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    here, absent = ways(asked.tasks, asked.peers)
    figures: dict[str, list[dict[str, float]]] = {way.name: [] for way in here}
    for _ in range(asked.rounds):
        for way in random.sample(here, len(here)):
            figures[way.name].append(run(way, asked.tasks))
    lines = [
        "# Many tasks in a pilot",
        "",
        *machine(),
        "",
        f"{asked.tasks} tasks of `true`, {CORES} at a time; medians of"
        f" {asked.rounds} rounds. Not here: {', '.join(absent) or 'none'}.",
        "",
        "| way | tasks/s | first task, s | close, s |",
        "| --- | --- | --- | --- |",
    ]
    for name, each in figures.items():
        cells = []
        for what, form in (("per_s", "{:.0f}"), ("first_s", "{:.2f}"), ("close_s", "{:.2f}")):
            values = [one[what] for one in each if what in one]
            cells.append(form.format(statistics.median(values)) if values else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if asked.write:
        results.write(asked.write, text)


if __name__ == "__main__":
    main()
