"""Throughput of the ranks' output through the launcher, beside other launchers.

    python bench/relay.py [--rounds 9] [--ranks 4] [--megabytes 100] [--write FILE]

Each rank writes a file of lines of 80 bytes to its standard output with `cat`; the
launcher's goes to /dev/null. The time is that of the whole command. A round runs every
launcher once, in random order; the first round is not counted. Torn lines are counted in one
more run of each, through a pipe.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import results
from launch import LIMIT_S, Launcher, Times, machine, measure, partition, table
from slurm import Slurm
from slurm import missing as slurm_missing

LINE = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefg\n"
# A whole line, or what the label of a launcher has before it.
WHOLE = rf"^(\[[0-9,-]+\] | *[0-9]+: )?{LINE.decode().strip()}$"
TO_NULL = ["sh", "-c", 'exec "$@" >/dev/null', "sh"]
COUNT_TORN = ["sh", "-c", f"\"$@\" | LC_ALL=C grep -Evc '{WHOLE}'", "sh"]


def ways(
    ranks: int, text: Path, stack: ExitStack, scratch: Path
) -> tuple[list[tuple[str, list[str], Mapping[str, str]]], dict[str, str]]:
    """The command and environment of each way that can run here; and why others cannot."""
    program = ["cat", str(text)]
    found: list[tuple[str, list[str], Mapping[str, str]]] = []
    absent: dict[str, str] = {}
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if yod := shutil.which("yod", path=search):
        size = ["-sz", str(ranks)]
        embedded = [yod, "--partition", "embedded", *size]
        for options in ([], ["--label"], ["--merge"], ["--raw"]):
            name = " ".join(["yod", *options])
            found.append((name, [*embedded, *options, *program], os.environ))
        place = partition(str(Path(yod).with_name("yodctl")), ranks, stack, scratch)
        for options in ([], ["--label"], ["--merge"]):
            name = " ".join(["yod", *options]) + f", {ranks} local PCTs"
            found.append((name, [yod, *size, *options, *program], place))
    else:
        absent["yod"] = "it is not installed"
    if mpiexec := shutil.which("mpiexec.hydra", path=search):
        for options in ([], ["-l"]):
            name = " ".join(["mpiexec", *options]) + " (MPICH)"
            found.append((name, [mpiexec, *options, "-n", str(ranks), *program], os.environ))
    else:
        absent["mpiexec (MPICH)"] = "mpiexec.hydra is not installed"
    if reason := slurm_missing():
        absent["srun"] = reason
    else:
        slurm = stack.enter_context(Slurm(ranks))
        for options in ([], ["--label"]):
            name = " ".join(["srun", *options]) + f" (Slurm), {ranks} nodes"
            found.append((name, ["srun", *options, "-N", str(ranks), *program], slurm.environment))
    return found, absent


def torn(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Lines of one run that are not whole."""
    done = subprocess.run(
        [*COUNT_TORN, *command],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=LIMIT_S,
    )
    return int(done.stdout)


def report(
    times: Times,
    torn_lines: Mapping[str, int],
    absent: Mapping[str, str],
    ranks: int,
    megabytes: int,
    rounds: int,
) -> str:
    """The results as a page of Markdown."""
    rows = []
    for (name, _), values in times.items():
        rates = sorted(ranks * megabytes / each for each in values)
        middle = f"**{statistics.median(rates):.0f}** ({rates[0]:.0f}..{rates[-1]:.0f})"
        rows.append([name, middle, str(torn_lines[name])])
    lines = [
        "# Output of the ranks",
        "",
        f"{ranks} ranks write {megabytes} MB each in lines of {len(LINE)} bytes; the launcher's",
        f"output goes to /dev/null. MB/s over the whole command: **median** (min..max) of {rounds}",
        "rounds, in one run, interleaved. Torn lines: in one more run, through a pipe.",
        "",
        *table(["", "MB/s", "torn lines"], rows),
    ]
    lines += [f"\nNot measured: {name}: {reason}." for name, reason in absent.items()]
    lines += ["", "## Machine", "", *machine(), ""]
    lines += ["## Command", "", f"    python bench/relay.py --rounds {rounds}", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="counted rounds (%(default)s)")
    parser.add_argument("--ranks", type=int, default=4, help="(%(default)s)")
    parser.add_argument("--megabytes", type=int, default=100, help="of each rank (%(default)s)")
    parser.add_argument("--write", type=Path, help="also write the result into this file")
    options = parser.parse_args()
    ranks, megabytes, rounds = options.ranks, options.megabytes, options.rounds
    # A terminated measurement still ends the daemons that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
        text = scratch / "text"
        text.write_bytes(LINE * (megabytes * 10**6 // len(LINE)))
        found, absent = ways(ranks, text, stack, scratch)
        torn_lines = {name: torn(command, place) for name, command, place in found}
        launchers = [
            Launcher(name, lambda _, c=command: [*TO_NULL, *c], lambda _, p=place: p)
            for name, command, place in found
        ]
        times = measure(launchers, [ranks], rounds)
    page = report(times, torn_lines, absent, ranks, megabytes, rounds)
    print(page)
    if options.write:
        results.write(options.write, page)


if __name__ == "__main__":
    main()
