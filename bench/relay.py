"""Throughput of the ranks' output through the launcher, beside other launchers.

    python bench/relay.py [--rounds 9] [--ranks 4] [--megabytes 100] [--write FILE]

Each rank writes a file of lines of 80 bytes to its standard output with `cat`; the
launcher's goes to /dev/null, or through a pipe to another `cat`. The time is that of the whole
command. `yod` on this host runs cold, and warm: with the launch server that `yodctl up` starts. A
round runs every launcher once, in random order; the first round is not counted. Torn lines are
counted in one more run of each, through a pipe.

Then, of yod alone: how long a short line takes from a rank's write to the reader of yod's
output, how long it takes from an interrupt until none of 64 ranks is left, and how long
`yodjob stack` takes for 64 ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from launch import (
    IS_COLD,
    IS_WARM,
    LIMIT_S,
    Launcher,
    Times,
    machine,
    measure,
    partition,
    table,
    up,
)
from support import results
from support.slurm import Slurm
from support.slurm import missing as slurm_missing

LINE = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefg\n"
# A whole line, or what the label of a launcher has before it.
WHOLE = rf"^(\[[0-9,-]+\] | *[0-9]+: )?{LINE.decode().strip()}$"
RANKS_ENDED = 64
PIPED_TOO = {"yod, warm", "yod, cold", "mpiexec (MPICH)"}  # measured through a pipe as well
# A rank that says when, every 10 ms.
STAMPS = """
import os, time
for _ in range(200):
    time.sleep(0.01)
    os.write(1, b"%d\\n" % time.monotonic_ns())
"""
TO_NULL = ["sh", "-c", 'exec "$@" >/dev/null', "sh"]
TO_CAT = ["bash", "-c", 'set -o pipefail; "$@" | cat >/dev/null', "bash"]
PIPED = " | cat"
COUNT_TORN = ["sh", "-c", f"\"$@\" | LC_ALL=C grep -Evc '{WHOLE}'", "sh"]


def yod_command() -> str:
    """The yod of this Python, else the one of the shell."""
    return _beside("yod") or "yod"


def _beside(name: str) -> str | None:
    """A command of this Python, else of the shell; None: there is none."""
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return shutil.which(name, path=search)


def ways(
    ranks: int, text: Path, stack: ExitStack, scratch: Path
) -> tuple[list[tuple[str, list[str], Mapping[str, str]]], dict[str, str]]:
    """The command and environment of each way that can run here; and why others cannot."""
    program = ["cat", str(text)]
    found: list[tuple[str, list[str], Mapping[str, str]]] = []
    absent: dict[str, str] = {}
    if yod := _beside("yod"):
        size = ["-sz", str(ranks)]
        yodctl = str(Path(yod).with_name("yodctl"))
        host = up(yodctl, stack, scratch / "host")
        for how, place in (("warm", host | IS_WARM), ("cold", host | IS_COLD)):
            for options in ([], ["--label"], ["--merge"], ["--raw"]):
                name = " ".join(["yod", *options]) + f", {how}"
                found.append((name, [yod, *size, *options, *program], place))
        place = partition(yodctl, ranks, stack, scratch)
        for options in ([], ["--label"], ["--merge"]):
            name = " ".join(["yod", *options]) + f", {ranks} local PCTs"
            found.append((name, [yod, *size, *options, *program], place))
    else:
        absent["yod"] = "it is not installed"
    if mpiexec := _beside("mpiexec.hydra"):
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


def delays(environment: Mapping[str, str]) -> list[float]:
    """Milliseconds of each line of an idle rank, from its write to the reader of yod's output."""
    command = [yod_command(), "-sz", "1", sys.executable, "-c", STAMPS]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as yod:
        assert yod.stdout is not None
        found = []
        while line := os.read(yod.stdout.fileno(), 4096):
            found.append((time.monotonic_ns() - int(line.split()[-1])) / 1e6)
    return found


def ends(
    launcher: Sequence[str],
    environment: Mapping[str, str],
    size: int,
    scratch: Path,
    number: int = signal.SIGINT,
) -> float:
    """Milliseconds from a signal until no rank has its end of a FIFO any more."""
    fifo = scratch / "alive"
    if not fifo.exists():
        os.mkfifo(fifo)
    words = ["sh", "-c", f"exec 9>{fifo}; echo; exec sleep {LIMIT_S}"]
    command = [*launcher, str(size), *words]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as yod:
        assert yod.stdout is not None
        reader = os.open(fifo, os.O_RDONLY)
        up = 0
        while up < size:
            up += len(os.read(yod.stdout.fileno(), 4096))
        began = time.monotonic_ns()
        yod.send_signal(number)
        os.read(reader, 1)
        took = (time.monotonic_ns() - began) / 1e6
        os.close(reader)
    return took


def stacks(environment: Mapping[str, str], size: int) -> float:
    """Milliseconds of `yodjob stack` for a job of so many ranks in Python."""
    program = f"import os, time; os.write(1, b'\\n'); time.sleep({LIMIT_S})"
    command = [yod_command(), "-sz", str(size), sys.executable, "-S", "-c", program]
    yodjob = str(Path(yod_command()).with_name("yodjob"))
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as yod:
        assert yod.stdout is not None
        up = 0
        while up < size:
            up += len(os.read(yod.stdout.fileno(), 4096))
        listed = subprocess.check_output([yodjob, "list", "--json"], env=environment)
        (job,) = json.loads(listed)["jobs"]
        began = time.monotonic_ns()
        said = subprocess.check_output([yodjob, "stack", job["id"]], env=environment, text=True)
        took = (time.monotonic_ns() - began) / 1e6
        assert f"[0..{size - 1}] python" in said, said
        yod.send_signal(signal.SIGINT)
    return took


def quick(rounds: int) -> list[str]:
    """A table of what is to be quick: one print, an interrupt, stacks."""
    rows: list[list[str]] = []
    with ExitStack() as stack:
        own, scratch = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yod-bench-")))
            for _ in range(2)
        )
        # Where jobs are found by their ids: none but these.
        embedded = {**os.environ, "YOD_PARTITION": "embedded", "XDG_RUNTIME_DIR": str(own)}
        yodctl = str(Path(yod_command()).with_name("yodctl"))
        line, end = "a line to yod's reader", f"an interrupt until {RANKS_ENDED} ranks are dead"
        stack_of_all = f"stacks of {RANKS_ENDED} ranks"

        def add(what: str, where: str, values: list[float]) -> None:
            values.sort()
            middle = f"**{statistics.median(values):.2f}** ({values[0]:.2f}..{values[-1]:.2f})"
            rows.append([f"{what}, {where}", middle])

        def add_of_all(where: str, place: Mapping[str, str]) -> None:
            launcher = [yod_command(), "-sz"]
            add(end, where, [ends(launcher, place, RANKS_ENDED, scratch) for _ in range(rounds)])
            add(stack_of_all, where, [stacks(place, RANKS_ENDED) for _ in range(rounds)])

        def add_lines(where: str, place: Mapping[str, str]) -> None:
            add(line, where, [each for _ in range(rounds) for each in delays(place)])

        add_lines("embedded", embedded)
        add_of_all("embedded", embedded)
        if mpiexec := _beside("mpiexec.hydra"):
            took = [ends([mpiexec, "-n"], os.environ, RANKS_ENDED, scratch) for _ in range(rounds)]
            add(end, "mpiexec (MPICH)", took)
        # Idle daemons take processor time, too: the fewest first.
        add_lines("1 local PCT", partition(yodctl, 1, stack, scratch))
        add_of_all(f"{RANKS_ENDED} local PCTs", partition(yodctl, RANKS_ENDED, stack, scratch))
    if not slurm_missing():
        with Slurm(1) as slurm, tempfile.TemporaryDirectory(prefix="yod-bench-") as place:
            srun = ["srun", "-N", "1", "--overcommit", "-n"]
            of_srun = (srun, slurm.environment, RANKS_ENDED, Path(place), signal.SIGTERM)
            # Its first Ctrl-C shows the state of the job.
            add(
                f"SIGTERM until {RANKS_ENDED} ranks are dead",
                "srun (Slurm), 1 node",
                [ends(*of_srun) for _ in range(rounds)],
            )
    return ["", *table(["", "ms, median (min..max)"], rows)]


def report(
    times: Times,
    torn_lines: Mapping[str, int],
    absent: Mapping[str, str],
    ranks: int,
    megabytes: int,
    rounds: int,
    more: Sequence[str],
) -> str:
    """The results as a page of Markdown."""
    rows = []
    for (name, _), values in sorted(times.items(), key=lambda each: PIPED in each[0][0]):
        rates = sorted(ranks * megabytes / each for each in values)
        middle = f"**{statistics.median(rates):.0f}** ({rates[0]:.0f}..{rates[-1]:.0f})"
        rows.append([name, middle, str(torn_lines.get(name, ""))])
    lines = [
        "# Output of the ranks",
        "",
        f"{ranks} ranks write {megabytes} MB each in lines of {len(LINE)} bytes; the launcher's",
        f"output goes to /dev/null, with `{PIPED.strip()}` through a pipe. MB/s over the command:",
        f"**median** (min..max) of {rounds} rounds, in one run, interleaved. Warm: with the launch",
        "server that `yodctl up` starts. Torn lines: in one more run, through a pipe.",
        "",
        *table(["", "MB/s", "torn lines"], rows),
        *more,
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
        launchers += [
            Launcher(f"{name}{PIPED}", lambda _, c=command: [*TO_CAT, *c], lambda _, p=place: p)
            for name, command, place in found
            if name in PIPED_TOO
        ]
        times = measure(launchers, [ranks], rounds)
    more = quick(rounds) if "yod" not in absent else []  # without the daemons of the others
    page = report(times, torn_lines, absent, ranks, megabytes, rounds, more)
    print(page)
    if options.write:
        results.write(options.write, page)


if __name__ == "__main__":
    main()
