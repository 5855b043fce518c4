"""A partition on 16 hosts by one command, beside a command that does nothing on them.

    python bench/hosts.py [--hosts 16] [--rounds 5] [--write FILE]

Needs root: the hosts are namespaces of this machine, with an sshd each, and the nodes of a Slurm.
`yodctl up --ssh` is taken down outside of the time; its launch server is up before. All hosts
share the processors of this machine, and so both columns.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from launch import machine, table
from support import results
from support.slurm import Slurm
from support.slurm import missing as slurm_missing

from tests.support import sshd
from tests.support.hosts import Hosts

LIMIT_S = 120.0
SSH_GOAL_S = 3.0
CLUSH_GOAL = 2.0  # times
SRUN_GOAL = 1.5
Times = dict[str, list[float]]

UP, CLUSH = "yodctl up --ssh", "clush true"
FIRST, SECOND, SRUN = "first yod in a Slurm job", "second yod there", "srun true"


def timed(call: Callable[[], object]) -> float:
    """Seconds of wall time."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def by_ssh(count: int, rounds: int, scratch: Path) -> Times:
    """A partition of other hosts, and clush on them, in turn."""
    times: Times = {UP: [], CLUSH: []}
    keys = scratch / "ssh"
    keys.mkdir()
    home = {"HOME": str(scratch), "XDG_STATE_HOME": str(scratch)}
    with Hosts(count + 1) as hosts, sshd.serving(keys, list(hosts)[1:], home) as ssh:
        head, names = hosts[0], f"node[1-{count}]"
        env = {**home, "YOD_SSH": ssh.command}

        def run(*words: str) -> None:
            done = sshd.run(head, *words, env=env)
            if done.status != 0:
                raise SystemExit(f"{words}: {done.err}")

        options = shlex.join(shlex.split(ssh.command)[1:])
        clush = ["clush", "-w", names, "-f", "64", "-S", "-o", options, "true"]
        for number in range(rounds + 1):  # the first is not counted
            run("yodctl", "up")
            up = timed(lambda: run("yodctl", "up", "--ssh", names))
            run("yodctl", "down")
            both = {UP: up, CLUSH: timed(lambda: run(*clush))}
            for name, took in both.items():
                times[name] += [took] if number else []
    return times


def by_slurm(count: int, rounds: int, scratch: Path) -> Times:
    """The nodes of a Slurm job, and an srun in it, in turn."""
    times: Times = {FIRST: [], SECOND: [], SRUN: []}
    script = (
        't() { a=$(date +%s.%N); "$@" || exit 1; b=$(date +%s.%N); echo "$a $b"; }; '
        f"t srun -N {count} -n {count} true; t yod -N {count} true; t yod -N {count} true"
    )
    with Slurm(count) as slurm:
        env = {
            **slurm.environment,
            "HOME": str(scratch),
            "XDG_RUNTIME_DIR": str(scratch),
            "YOD_RUN_DIRECTORY": "none",
            "XDG_STATE_HOME": str(scratch),
            "YOD_LAUNCH_SERVER": "cold",
        }
        for number in range(rounds + 1):
            done = subprocess.run(
                ["salloc", "-Q", "-N", str(count), "sh", "-c", script],
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
            )
            took = [float(b) - float(a) for a, b in re.findall(r"^(\S+) (\S+)$", done.stdout, re.M)]
            if len(took) != 3:
                raise SystemExit(f"in Slurm: {done.stderr}")
            for name, seconds in zip((SRUN, FIRST, SECOND), took, strict=True):
                times[name] += [seconds] if number else []
            slurm.settle()
    return times


def report(times: Times, absent: str, count: int, rounds: int) -> str:
    """The results as a section of Markdown."""
    middle = {name: statistics.median(each) for name, each in times.items()}
    rows = [
        [name, f"{min(each):.2f}", f"{middle[name]:.2f}", f"{max(each):.2f}"]
        for name, each in times.items()
    ]
    goals = [
        [f"`{UP}`", f"at most {SSH_GOAL_S:g} s", f"{middle[UP]:.2f} s"],
        [
            f"`{UP}` beside `{CLUSH}`",
            f"below {CLUSH_GOAL:g} times",
            f"{middle[UP] / middle[CLUSH]:.2f}",
        ],
    ]
    if FIRST in middle:
        ratio = middle[FIRST] / middle[SRUN]
        goals.append([f"{FIRST} beside `srun`", f"below {SRUN_GOAL:g} times", f"{ratio:.2f}"])
    lines = [
        "# Partitions of other hosts",
        "",
        f"Seconds of {rounds} rounds, {count} hosts, all on this machine, whose load, with what",
        f"else ran, was {os.getloadavg()[1]:.0f} at the end (average of 5 minutes).",
        "",
        *table(["", "minimum", "median", "maximum"], rows),
        "",
        *table(["goal", "", "measured"], goals),
    ]
    lines += [f"\nNot measured: Slurm: {absent}."] if absent else []
    command = f"python bench/hosts.py --hosts {count} --rounds {rounds}"
    lines += ["", "## Machine and command", "", *machine(), "", f"    {command}", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=16, help="how many (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    if sshd.SSHD is None or os.geteuid() != 0:
        raise SystemExit("needs root and openssh-server")
    for name in [name for name in os.environ if name.startswith(("YOD_", "SLURM_"))]:
        del os.environ[name]
    absent = slurm_missing()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
        times = by_ssh(options.hosts, options.rounds, scratch)
        times |= {} if absent else by_slurm(options.hosts, options.rounds, scratch)
    text = report(times, absent, options.hosts, options.rounds)
    print(text)
    if options.write:
        results.write(options.write, text)


if __name__ == "__main__":
    main()
