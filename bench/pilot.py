"""Many tasks of a program in one pilot, and beside it what else runs many programs on a host. Then
calls of functions, and what tasks cost that wait.

    python bench/pilot.py [--tasks 2000] [--program true] [--calls 2000] [--queued 100000]
        [--rounds 3] [--peers PYTHON] [--write FILE]

Every way runs the same number of programs, two at a time, and is timed from its first word to its
last; ways of a round come in random order. `first` is the time until the first task runs, `close`
that from the last task's end to the program's. PYTHON is the interpreter of an environment that has
any of hyperqueue, parsl, executorlib and radical.pilot; those that it lacks are left out by name.

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
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from launch import machine
from support import results

from yod.pilot.model.sizes import Need, NodeSize
from yod.pilot.scheduler import agent
from yod.pilot.scheduler.slots import Slots

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
    tmgr.submit_tasks([rp.TaskDescription(PROGRAM) for _ in range(COUNT)])
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
        job.program(ARGV)
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
    return " ".join(ARGV)
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
    for each in [pool.submit(subprocess.call, ARGV) for _ in range(COUNT)]:
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
tmgr.submit_tasks([rp.TaskDescription(PROGRAM) for _ in range(COUNT)])
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


WAITING = """
import json, os, time
import yod.pilot as rp
def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
with rp.Session() as session:
    tmgr = rp.TaskManager(session)
    pilot = rp.PilotManager(session).submit_pilots({"cores": 1, "runtime": 60})
    tmgr.add_pilots(pilot)
    first = tmgr.submit_tasks(rp.TaskDescription({"executable": "sleep", "arguments": ["3600"]}))
    first.wait(rp.AGENT_EXECUTING)
    pids = os.getpid(), pilot.unix_pid
    before = [resident(pid) for pid in pids]
    at = time.time()
    tmgr.submit_tasks([rp.TaskDescription({"executable": "true"}) for _ in range(COUNT)])
    came = time.time() - at
    client, agent = (resident(pid) - then for pid, then in zip(pids, before))
    at = time.time()
    tmgr.cancel_tasks()
    tmgr.wait_tasks()
    canceled = time.time() - at
print(json.dumps({"client_bytes": client / COUNT, "agent_bytes": agent / COUNT,
                  "came_us": came * 1e6 / COUNT, "canceled_us": canceled * 1e6 / COUNT}))
"""
NODES = 10000


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


def scripted(text: str, count: int, argv: Sequence[str] = ("true",)) -> str:
    """A script, for so many calls, or tasks of a program."""
    program = {"executable": argv[0], "arguments": list(argv[1:])}
    text = text.replace("PROGRAM", repr(program)).replace("ARGV", repr(list(argv)))
    return text.replace("CORES", str(CORES)).replace("COUNT", str(count))


def ways(count: int, peers: str, argv: Sequence[str]) -> tuple[list[Way], list[str]]:
    """Those that are here, and the names of the others."""

    ours = [sys.executable, "-c", scripted(OURS, count, argv)]
    found = [
        Way("yod.pilot", ours),
        Way("yod.pilot, no profiles", ours, {"YOD_PROFILE": "0"}),
        Way(f"xargs -P{CORES}", ["xargs", f"-P{CORES}", "-I{}", *argv]),
    ]
    absent = []
    if shutil.which("parallel"):
        found.append(Way("GNU parallel", ["parallel", f"-j{CORES}", "-n0", *argv]))
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
            found.append(Way(name, [peers, "-c", scripted(text, own, argv)]))
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


def queued(count: int, rounds: int) -> list[str]:
    """What tasks cost that wait, and what an agent could run on many nodes."""
    columns = {
        "client_bytes": ("client, bytes a task", "{:.0f}"),
        "agent_bytes": ("agent, bytes a task", "{:.0f}"),
        "came_us": ("submitted, µs a task", "{:.0f}"),
        "canceled_us": ("canceled, µs a task", "{:.0f}"),
    }
    lines = table(
        {
            f"{many} tasks": [
                run(Way("yod.pilot", [sys.executable, "-c", scripted(WAITING, many)]), many)
                for _ in range(rounds)
            ]
            for many in (count // 10, count)
        },
        columns,
    )
    rates = [simulated(count, NODES) for _ in range(rounds)]
    return [
        *lines,
        "",
        f"{count} tasks of one core on {NODES} nodes of 4, an end at a time: "
        f"{statistics.median(rates):.0f} tasks/s of processor time in the agent's rules.",
    ]


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
    parser.add_argument("--program", type=str.split, default=["true"])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--queued", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    lines = ["# Many tasks in a pilot", "", *machine()]
    sections = (
        (
            asked.tasks,
            partial(ways, argv=asked.program),
            f"tasks of `{' '.join(asked.program)}`, {CORES} at a time",
            {
                "per_s": ("tasks/s", "{:.0f}"),
                "first_s": ("first task, s", "{:.2f}"),
                "close_s": ("close, s", "{:.2f}"),
            },
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
            *table(measure(here, count, asked.rounds), columns),
        ]
    if asked.queued:
        lines += ["", *queued(asked.queued, asked.rounds)]
    text = "\n".join(lines) + "\n"
    print(text)
    if asked.write:
        results.write(asked.write, text)


if __name__ == "__main__":
    main()
